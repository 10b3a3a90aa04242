package adapters

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// TestAnEmptyDirectoryIsLogged checks that a directory whose files have other names is not served in silence.
func TestAnEmptyDirectoryIsLogged(t *testing.T) {
	cfg := config.Default().Adapters
	cfg.Sources = []string{t.TempDir()}
	core, logs := observer.New(zap.WarnLevel)
	a, err := New(origin.World{}, cfg, nil, nil, nil, secret.Known{}, nil, nil, nil, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if all := logs.All(); len(all) != 1 || all[0].Message != "there are no adapter files, which are called NAME-adapter.md" || all[0].ContextMap()["sources"] == nil {
		t.Errorf("%+v", all)
	}
}
