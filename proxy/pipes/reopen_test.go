package pipes

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestReopening: the wait grows while streams break off soon and nothing comes on them. It is short again after a stream that was
// open for a while, however quiet: what ends each stream after a minute must not make the server wait for half of the next one.
func TestReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reopening
		var waits []time.Duration
		broken := func(after time.Duration) {
			r.Opened()
			time.Sleep(after)
			waits = append(waits, r.Next()/time.Second)
		}
		for range 7 {
			broken(time.Second)
		}
		for range 3 {
			broken(time.Minute)
		}
		broken(time.Second)
		time.Sleep(time.Hour)
		waits = append(waits, r.Next()/time.Second) // it could not be opened
		r.Heard()
		broken(0)
		if want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 1, 1, 1, 2, 4, 1}; !slices.Equal(waits, want) {
			t.Errorf("waits of %v seconds, want %v", waits, want)
		}
	})
}
