//go:build !race

package tokens

import (
	"bytes"
	"testing"
)

func TestWarmCountsAllocateNothing(t *testing.T) {
	for name, e := range exact(t) {
		texts := samples(t)
		texts = append(texts, sample{"long run", bytes.Repeat([]byte("="), 100_000)}, sample{"not UTF-8", bytes.Repeat([]byte("a\xffb "), 1000)})
		for _, s := range texts {
			for what, f := range map[string]func(){
				"Count":     func() { e.Count(s.text) },
				"CountUpTo": func() { e.CountUpTo(s.text, 4000) },
				"Fits":      func() { e.Fits(s.text[:4000], 4000) },
				"Counter": func() {
					c := e.Counter()
					for part := range bytesIn(s.text[:2000], 100) {
						c.Write(part)
					}
					c.Sum()
					c.Release()
				},
			} {
				f()
				if n := testing.AllocsPerRun(20, f); n >= 1 {
					t.Errorf("%s, %s of %s: %v allocations", name, what, s.name, n)
				}
			}
		}
	}
}
