//go:build !race

package upstream

import (
	"context"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
)

func TestSmallCallAllocatesLittle(t *testing.T) {
	for name, reply := range replies {
		for what, by := range map[string]Credential{"": nil, ", no token yet": fixed(""), ", a token": fixed("Bearer t")} {
			c := newAgain(t, reply).(*HTTPSession)
			c.http.credential = by
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			oneCall(t, ctx, c, &call1)
			if n := testing.AllocsPerRun(1000, func() { oneCall(t, ctx, c, &call1) }); n > 4 {
				t.Errorf("%s%s: %v allocations", name, what, n)
			} else {
				t.Logf("%s%s: %v allocations", name, what, n)
			}
		}
	}
}

// TestCallInARequestOfAClientAllocatesOnce, for the exchange.
func TestCallInARequestOfAClientAllocatesOnce(t *testing.T) {
	for name, reply := range replies {
		c := newAgain(t, reply)
		ctx := callctx.New()
		oneCall(t, ctx, c, &call1)
		if n := testing.AllocsPerRun(1000, func() { oneCall(t, ctx, c, &call1) }); n != 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
		ctx.End(nil)
	}
}

// fixed is a credential that stays the same.
type fixed string

func (f fixed) Header(context.Context) (string, error)                   { return string(f), nil }
func (f fixed) Refused(context.Context, string, *StatusError, int) error { return nil }
