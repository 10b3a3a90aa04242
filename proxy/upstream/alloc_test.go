//go:build !race

package upstream

import (
	"context"
	"testing"
)

func TestSmallCallAllocatesLittle(t *testing.T) {
	for name, reply := range replies {
		c := newAgain(t, reply)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		oneCall(t, ctx, c, &call1)
		if n := testing.AllocsPerRun(1000, func() { oneCall(t, ctx, c, &call1) }); n > 4 {
			t.Errorf("%s: %v allocations", name, n)
		} else {
			t.Logf("%s: %v allocations", name, n)
		}
	}
}
