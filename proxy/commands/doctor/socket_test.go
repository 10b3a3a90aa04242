//go:build linux || darwin

package doctor

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestListenAtSocket: what doctor says of a unix socket in listen. It leaves no file.
func TestListenAtSocket(t *testing.T) {
	dir := peertest.ShortDir(t)
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

// TestServerAtSocket: a server at a unix socket that is there, one at another HTTP path, and sockets where nothing listens.
func TestServerAtSocket(t *testing.T) {
	dir := peertest.ShortDir(t)
	there, stale := filepath.Join(dir, "there"), filepath.Join(dir, "stale")
	for _, path := range []string{there, stale} {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if path == stale {
			ln.SetUnlinkOnClose(false)
			ln.Close()
			continue
		}
		at := http.NewServeMux()
		at.Handle("/mcp", newFake(t))
		s := &http.Server{Handler: at}
		go s.Serve(ln)
		t.Cleanup(func() { s.Close() })
	}
	want(t, examine(t, atURL("unix:"+there+":/mcp"), "network"), "ok "+there+": connects")
	want(t, examine(t, atURL("unix:"+stale+":/mcp"), "network"), "FAIL "+stale+": nothing listens at this socket → is the server running? its file is left from before")
	want(t, examine(t, atURL("unix:"+dir+"/no:/mcp"), "network"), "FAIL "+dir+"/no: there is no such file → *")
	want(t, examine(t, atURL("unix:"+there+":/mcp"), "network", "http"), "ok unix:"+there+":/mcp: answers over Streamable HTTP")
	want(t, examine(t, atURL("unix:"+there+":/other"), "network", "http"),
		"FAIL unix:"+there+":/other: 404 Not Found: no MCP endpoint at this path → there is an endpoint at unix:"+there+":/mcp: use it as the URL (upstream.url)")
}
