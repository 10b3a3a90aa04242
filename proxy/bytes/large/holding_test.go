package large

import (
	"errors"
	"runtime"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestHoldingsHaveAQuarterOfTheBudget together, and give it back when they are closed, or forgotten.
func TestHoldingsHaveAQuarterOfTheBudget(t *testing.T) {
	m := NewMemory(4 << 10)
	a, b := m.Holding(), m.Holding()
	if err := a.Keep(1000); err != nil {
		t.Fatal(err)
	}
	var full *NoRoomError
	if err := b.Keep(25); !errors.As(err, &full) || full.Bytes != 25 || m.Kept() != 1000 {
		t.Errorf("%v, %d bytes are kept", err, m.Kept())
	}
	if err := b.Keep(24); err != nil {
		t.Error(err)
	}
	a.Drop(400)
	if m.Kept() != 624 {
		t.Errorf("%d bytes are kept", m.Kept())
	}
	a.Close()
	a.Close()
	a.Drop(10)
	if m.Kept() != 24 || a.Keep(1) == nil {
		t.Errorf("%d bytes are kept after Close", m.Kept())
	}
	runtime.KeepAlive(b)
	b = nil
	peertest.Eventually(t, "nothing is kept for a Holding that nothing refers to", func() bool {
		runtime.GC()
		return m.Kept() == 0
	})
	var none *Holding
	if none.Drop(1); none.Keep(1<<30) != nil {
		t.Error("a nil Holding counts")
	}
	none.Close()
}
