//go:build unix

package command

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPipesAreNotWatched: a configuration or headers in a named pipe are read once; nothing waits for another writer.
func TestPipesAreNotWatched(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	looked := make(chan bool, 1)
	go func() { looked <- (&reloader{inUse: []string{pipe}}).changed() }()
	select {
	case <-looked:
	case <-time.After(10 * time.Second):
		t.Fatal("the look at a pipe waits")
	}
}
