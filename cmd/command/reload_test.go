package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// patience is how long a test waits for what must come, also on a machine with many other things to do.
const patience = peertest.Patience

// reloading starts a reloader of a file. The configurations that it reads are sent on used.
func reloading(t *testing.T, fault error) (file string, used chan config.Config, logs *observer.ObservedLogs) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "session: {max: 1}")
	used = make(chan config.Config, 10)
	core, logs := observer.New(zap.InfoLevel)
	r := &reloader{
		log: zap.New(core), files: []string{file},
		load: config.Sources{File: file}.Read,
		use: func(cfg config.Config) error {
			used <- cfg
			return fault
		},
	}
	w := &watcher{log: r.log, concerns: []*concern{r.concern()}}
	t.Cleanup(w.start(context.Background()))
	return file, used, logs
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits for a configuration with this limit. It skips others: a file may be read while it is
// still empty.
func until(t *testing.T, used chan config.Config, max int) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case cfg := <-used:
			if cfg.Session.Max == max {
				return
			}
		case <-late:
			t.Fatalf("a greatest number of %d sessions was not used", max)
		}
	}
}

func TestChangedFileIsUsed(t *testing.T) {
	file, used, _ := reloading(t, nil)
	write(t, file, "session: {max: 2}")
	until(t, used, 2)
	// The file is replaced, as editors and mounted volumes do it.
	other := filepath.Join(filepath.Dir(file), "new")
	write(t, other, "session: {max: 3}")
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	until(t, used, 3)
}

func TestInvalidConfigurationIsLoggedAndNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		fault error
	}{
		"cannot be read": {"limits: {bach: 2}", nil},
		"cannot be used": {"session: {max: 2}", errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			file, _, logs := reloading(t, c.fault)
			write(t, file, c.text)
			peertest.Eventually(t, "the log says so", func() bool {
				return logs.FilterMessage("configuration is invalid: the last valid one stays in use").Len() > 0
			})
		})
	}
}

func TestAllFilesOfTheConfigurationAreWatched(t *testing.T) {
	var cfg config.Config
	cfg.Session.KeyFile, cfg.Auth.TokenFile, cfg.TLS.Key, cfg.Upstream.CAFile = "key", "tokens", "tls", "ca"
	got := filesOf("config", cfg)
	for _, want := range []string{"config", "key", "tokens", "tls", "ca"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
}
