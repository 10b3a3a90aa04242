package quota

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNoHolderHasMoreThanIsLeft checks this after each Acquire, for any sequence of
// calls.
func TestNoHolderHasMoreThanIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Fair
		most := rapid.IntRange(1, 40).Draw(t, "most")
		has, taken := map[string]int{}, 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}).Draw(t, "who")
			if has[who] > 0 && rapid.Bool().Draw(t, "give") {
				s.Release(Holder{Principal: who})
				has[who]--
				taken--
				continue
			}
			may := taken < most && has[who] <= most-taken
			if got := s.Acquire(Holder{Principal: who}, most); got != may {
				t.Fatalf("%q has %d, %d of %d are taken: %v", who, has[who], taken, most, got)
			}
			if may {
				has[who]++
				taken++
			}
		}
		if len(s.of) > taken || s.taken != taken {
			t.Fatalf("%d are remembered, and %d taken, of %d", len(s.of), s.taken, taken)
		}
	})
}
