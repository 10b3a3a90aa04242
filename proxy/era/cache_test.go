package era

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

func TestServerIsLoggedOnceForAllCredentials(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := &Cache{}
	log := zap.New(core)
	handshake, both := &Era{Handshake: true}, &Era{Handshake: true, Revision: translate.Lookup(translate.Modern())}
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
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), nil, "v0", func() host.Setup { return host.Setup{Config: &cfg} })
	p := New(h, func() func(context.Context) (*upstream.Begun, error) {
		return func(context.Context) (*upstream.Begun, error) { return nil, ErrHandshakeOnly }
	})
	for i := range maxEras + 10 {
		e, err := p.Of(t.Context(), []upstream.Header{{Name: "Authorization", Value: fmt.Sprint(i)}})
		if err != nil || !e.Handshake {
			t.Fatalf("%+v %v", e, err)
		}
	}
	if n := len(p.known); n != maxEras {
		t.Errorf("%d remembered", n)
	}
}
