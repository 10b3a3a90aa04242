//go:build linux || darwin

package doctor

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// socketFolder returns a new folder for sockets, whose path is short.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestListenAtSocket: what doctor says of a unix socket in listen. It leaves no file.
func TestListenAtSocket(t *testing.T) {
	dir := socketFolder(t)
	free, busy, file := filepath.Join(dir, "free"), filepath.Join(dir, "busy"), filepath.Join(dir, "file")
	ln, err := net.Listen("unix", busy)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lends := map[string]string{"Authorization": "x"} // to every client of this machine, as on loopback
	for path, line := range map[string]string{
		free:          "ok listen: unix:" + free + " is free",
		busy:          "warn listen: a process listens at " + busy + " already: is it the dragoman that this configuration is for? → for a second one, another path in listen",
		file:          "FAIL listen: cannot listen at unix:" + file + ": " + file + " is there and is not a socket: it is left alone → *",
		dir + "/no/s": "FAIL listen: cannot listen at unix:" + dir + "/no/s: write to " + dir + "/no: no such file or directory → *",
	} {
		want(t, examine(t, with(func(c *config.Config) { c.Listen, c.Upstream.Headers = "unix:"+path, lends }), "listeners"), line)
	}
	if _, err := os.Lstat(free); !os.IsNotExist(err) {
		t.Errorf("doctor has made the socket: %v", err)
	}
}
