package tests

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

func TestOwnToolsThatAreTooLargeAreRefused(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Footprint.MaxBytes = 1000
	srv, err := proxy.NewWith(cfg, zap.NewNop(), origin.None())
	if err != nil {
		t.Fatal("they are refused without enforce: ", err)
	}
	strict := cfg
	strict.Footprint.Enforce = true
	for name, err := range map[string]error{
		"at start":  func() error { _, err := proxy.NewWith(strict, zap.NewNop(), origin.None()); return err }(),
		"on reload": srv.Reload(strict),
	} {
		if err == nil || !strings.Contains(err.Error(), "footprint.enforce: adapter tools take ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	strict.Footprint.MaxBytes = 45 << 10
	if err := srv.Reload(strict); err != nil {
		t.Error(err)
	}
}
