//go:build !race

package callctx

import "testing"

// TestQuietContextIsOneAllocation, also if a function waits for its end.
func TestQuietContextIsOneAllocation(t *testing.T) {
	w := make(waiter, 1)
	if n := testing.AllocsPerRun(1000, func() {
		c := New()
		c.Await(w)
		if c.Err() != nil || c.Value(valueKey{}) != nil {
			t.Error("it has ended")
		}
		c.Forget(w)
		c.End(errWhy)
	}); n != 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestValueIsOneAllocation, also if a function waits for the end.
func TestValueIsOneAllocation(t *testing.T) {
	c, w := New(), make(waiter, 1)
	if n := testing.AllocsPerRun(1000, func() {
		under := WithValue(c, valueKey{}, w)
		stop := Notify(under, w)
		if under.Value(valueKey{}) != w || under.Value("") != nil {
			t.Error("another value")
		}
		stop.Stop()
	}); n != 1 {
		t.Errorf("%v allocations", n)
	}
}
