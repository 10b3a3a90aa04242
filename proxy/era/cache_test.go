package era

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
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
	p := New(Env{
		Config: func() *config.Config { return &cfg },
		Open: func() func(context.Context) (*upstream.Begun, error) {
			return func(context.Context) (*upstream.Begun, error) { return nil, ErrHandshakeOnly }
		},
		Log: zap.NewNop(), Spawn: func(task func()) { go task() }, Draining: t.Context(),
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
