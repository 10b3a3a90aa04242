package command

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// patience is how long a test waits for what must come, also on a machine with many other things to do.
const patience = peertest.Patience

// reloading starts a reloader of a file. The configurations that it reads are sent on used.
func reloading(t *testing.T, fault error) (file string, used chan config.Config, logs *observer.ObservedLogs) {
	t.Helper()
	return reloadingWith(t, func(config.Config) error { return fault })
}

// reloadingWith is reloading for a reloader that uses configurations with this function.
func reloadingWith(t *testing.T, use func(config.Config) error) (file string, used chan config.Config, logs *observer.ObservedLogs) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "session: {max: 1}")
	used = make(chan config.Config, 10)
	core, logs := observer.New(zap.InfoLevel)
	r := &reloader{
		log: zap.New(core), file: file,
		load: config.Sources{File: file}.Read,
		use: func(cfg config.Config) error {
			used <- cfg
			return use(cfg)
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

// TestOnlyFilesOfTheConfigurationOfNowAreWatched checks which files are watched after a configuration was used, and after one was
// rejected.
func TestOnlyFilesOfTheConfigurationOfNowAreWatched(t *testing.T) {
	var next config.Config
	var fault error
	r := &reloader{
		log: zap.NewNop(), file: "c.yaml", inUse: []string{"first"},
		load: func() (config.Config, error) { return next, nil },
		use:  func(config.Config) error { return fault },
	}
	for _, step := range []struct {
		tokens string
		fault  error
		want   []string
	}{
		{"second", nil, []string{"c.yaml", "second"}},
		{"wrong", errors.New("no"), []string{"c.yaml", "second", "wrong"}},
		{"wrong too", errors.New("no"), []string{"c.yaml", "second", "wrong too"}},
		{"", nil, []string{"c.yaml"}},
	} {
		next.Auth.TokenFile, fault = step.tokens, step.fault
		r.reload(becauseFile)
		if got := r.files(); !slices.Equal(got, step.want) {
			t.Errorf("%q: watches %q, want %q", step.tokens, got, step.want)
		}
		if r.changed() {
			t.Errorf("%q: counts as changed", step.tokens)
		}
	}
}

// TestFilesOfAReloadedConfigurationAreWatched checks that changes of a file that only a reloaded configuration names are noticed, also
// when it did not exist.
func TestFilesOfAReloadedConfigurationAreWatched(t *testing.T) {
	file, used, _ := reloading(t, nil)
	dir := filepath.Join(filepath.Dir(file), "of", "tokens")
	tokens := filepath.Join(dir, "tokens")
	write(t, file, "session: {max: 2}\nauth: {token_file: "+tokens+"}")
	until(t, used, 2)
	write(t, filepath.Join(mkdir(t, dir), "tokens"), "one")
	until(t, used, 2)
	replace(t, tokens, "two")
	until(t, used, 2)
}

// TestARejectedConfigurationIsTriedAgain checks that a configuration which could not be used, since a file that it names was wrong,
// is used when this file becomes right.
func TestARejectedConfigurationIsTriedAgain(t *testing.T) {
	var right atomic.Bool
	file, used, logs := reloadingWith(t, func(cfg config.Config) error {
		if cfg.Auth.TokenFile != "" && !right.Load() {
			return errors.New("no token")
		}
		return nil
	})
	tokens := filepath.Join(t.TempDir(), "tokens")
	write(t, file, "session: {max: 2}\nauth: {token_file: "+tokens+"}")
	until(t, used, 2)
	peertest.Eventually(t, "the log says so", func() bool {
		return logs.FilterMessage("configuration is invalid: the last valid one stays in use").Len() > 0
	})
	right.Store(true)
	write(t, tokens, "one")
	until(t, used, 2)
}

// TestARevokedTokenOfAReloadedConfigurationIsRefused checks that a token is refused after it was removed from a file that only a
// reloaded configuration names.
func TestARevokedTokenOfAReloadedConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "c.yaml"), filepath.Join(mkdir(t, filepath.Join(dir, "secrets")), "tokens")
	write(t, file, "listen: 127.0.0.1:0\nupstream: {url: http://127.0.0.1:1/mcp}\nauth: {tokens: [first]}")
	p := startProcess(t, nil, "serve", "--config", file)
	at := p.runs(t)
	status := func(token string) int {
		req, _ := http.NewRequest("DELETE", at, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	write(t, tokens, "kept\nrevoked")
	write(t, file, "listen: 127.0.0.1:0\nupstream: {url: http://127.0.0.1:1/mcp}\nauth: {tokens: [first], token_file: "+tokens+"}")
	peertest.Eventually(t, "the file's token is valid", func() bool { return status("revoked") != http.StatusUnauthorized })
	replace(t, tokens, "kept")
	peertest.Eventually(t, "the revoked token is refused", func() bool { return status("revoked") == http.StatusUnauthorized })
	if status("kept") == http.StatusUnauthorized {
		t.Error("the other token is refused")
	}
}
