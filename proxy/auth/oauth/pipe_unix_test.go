//go:build unix

package oauth

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestNamedPipesAreNotWaitedFor: opening one would block every call of the account.
func TestNamedPipesAreNotWaitedFor(t *testing.T) {
	withoutKeyring(t)
	dir := t.TempDir()
	s, _ := stored(dir, Auto)
	put(t, s, token)
	path := theFile(t, dir)
	replace := func(path string) {
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(path)
	if _, err := get(t, s); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	put(t, s, token) // takes its place
	if got, err := get(t, s); got != token || err != nil {
		t.Error(got, err)
	}
	replace(path + ".lock")
	if err := s.Locked(context.Background(), id, func(Entry) { t.Error("ran") }); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
