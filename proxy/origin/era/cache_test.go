package era

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

func TestServerIsLoggedOnceForAllCredentials(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := &Cache{}
	log := zap.New(core)
	handshake, both := &Era{Handshake: Accepted}, &Era{Handshake: Accepted, Revision: translate.Lookup(translate.Modern())}
	for _, e := range []*Era{handshake, handshake, both, both, handshake} {
		log.Log(p.logLevel(e), "server identified", e.fields()...)
	}
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines: %v", n, logs.All())
	}
}

func TestErasAreBounded(t *testing.T) {
	cfg := config.Default()
	none := func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), nil, "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	p := New(h, func() func(context.Context) (*upstream.Begun, error) {
		return func(context.Context) (*upstream.Begun, error) { return nil, ErrHandshakeOnly }
	})
	for i := range maxEras + 10 {
		e, err := p.Of(t.Context(), []mcp.Header{{Name: "Authorization", Value: fmt.Sprint(i)}})
		if err != nil || e.Handshake != Accepted {
			t.Fatalf("%+v %v", e, err)
		}
	}
	if n := len(p.known); n != maxEras {
		t.Errorf("%d remembered", n)
	}
}

// TestFixedEraAllocatesNothing: each request of a modern client asks for the era.
func TestFixedEraAllocatesNothing(t *testing.T) {
	cfg := config.Default()
	h := host.New(zap.NewNop(), metrics.New("v0", nil, nil), nil, "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	p := New(h, func() func(context.Context) (*upstream.Begun, error) { return nil })
	for _, version := range []string{"", "2024-11-05", "2025-11-25", "2026-07-28"} {
		cfg.Upstream.Version = version
		var e *Era
		if n := testing.AllocsPerRun(100, func() { e = p.Fixed() }); n != 0 {
			t.Errorf("%q: %v allocations", version, n)
		}
		switch v := translate.Lookup(version); {
		case v == nil:
			if e.Modern() || e.Handshake != Accepted || e.Newest != nil {
				t.Errorf("%q: %+v", version, e)
			}
		case v.Modern && (e.Revision != v || e.Handshake != Refused), !v.Modern && (e.Newest != v || e.Handshake != Accepted || e.Modern()):
			t.Errorf("%q: %+v", version, e)
		}
	}
}
