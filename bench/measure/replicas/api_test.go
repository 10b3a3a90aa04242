package replicas

import (
	"testing"
	"time"
)

// TestAPINoticesALimitThatIsExceeded checks the judge of limits: it accepts what a bucket of the limit lets through, and
// nothing of what two such buckets do.
func TestAPINoticesALimitThatIsExceeded(t *testing.T) {
	for buckets, over := range map[int]bool{1: false, 2: true} {
		a := &api{room: limitBurst + limitSlack}
		now := time.Now()
		for range limitBurst * buckets {
			a.count(now)
		}
		for range 200 {
			now = now.Add(time.Minute / limitPerMinute)
			for range buckets {
				a.count(now)
			}
		}
		if (a.over > 0) != over {
			t.Errorf("%d buckets: %d requests are over the limit", buckets, a.over)
		}
	}
}
