//go:build !race

package adapterrt

import (
	"context"
	"testing"
)

func TestDispatchAllocatesLittle(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com/v1", tenParams)
	quick(rt, []byte(`{"id":1}`))
	ctx, req := context.Background(), &Request{Body: []byte(tenValues)}
	if n := testing.AllocsPerRun(100, func() { rt.Dispatch(ctx, Endpoint{}, req) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
