package changes

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

// TestChangesReachTheOtherReplicas that watch the session, and when some may have been missed, all sessions that are watched.
func TestChangesReachTheOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, _ := storetest.Memory(t, 2)
		var mu sync.Mutex
		var told []string
		note := func(what string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, what)
			}
		}
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(told)
			if !slices.Equal(told, all) {
				t.Errorf("told %q, want %q", told, all)
			}
			told = nil
		}
		one := Open(stores[0], note("one missed"))
		defer one.Close()
		one.Watch("a", note("one a"))
		two := Open(stores[1], note("two missed"))
		defer two.Close()
		want("one a", "one missed", "two missed")
		stop := two.Watch("a", note("two a"))
		two.Watch("b", note("two b"))
		tell := func(c *Channel, session string) {
			if err := c.Tell(t.Context(), session); err != nil {
				t.Error(err)
			}
		}
		tell(one, "a")
		want("two a")
		tell(two, "b")
		tell(two, "")
		want()
		two.Watch("a", note("two a again"))
		stop() // of the one before
		tell(one, "a")
		want("two a again")
	})
}
