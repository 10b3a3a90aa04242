package peertest

import (
	"os"
	"testing"
)

// ShortDir returns a new directory with a short path, for unix sockets: systems allow about 104 bytes.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
