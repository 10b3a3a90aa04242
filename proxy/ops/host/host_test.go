package host

import (
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
)

// TestTasksMayBeginWhileTheLastOnesEnd: what ends with a connection or a context may begin a task at any time, also while the
// proxy shuts down. Wait then waits for that task, too, or has returned before it began.
func TestTasksMayBeginWhileTheLastOnesEnd(t *testing.T) {
	none := func() float64 { return 0 }
	h := New(zap.NewNop(), metrics.New("v0", none, none), nil, "v0", func() report.Setup { return report.Setup{} })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20000 {
				h.Spawn(func() {})
			}
		})
		all.Go(func() {
			for range 20000 {
				h.Wait()
			}
		})
	}
	all.Wait()
	ended := false
	h.Spawn(func() { ended = true })
	h.Wait()
	if !ended {
		t.Error("Wait returned before the task had ended")
	}
}
