package unixsocket

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	if !supported {
		t.Skip("no unix sockets on this system")
	}
	long := strings.Repeat("x", longest)
	for address, want := range map[string]string{
		"unix:/run/x.sock":        "/run/x.sock",
		"unix:///run/x.sock":      "/run/x.sock",
		"unix:/run//a:b c.sock":   "/run/a:b c.sock",
		"unix:":                   "error: has no absolute path",
		"unix:x.sock":             "error: has no absolute path",
		"unix://run/x.sock":       "error: has no absolute path",
		"unix:@x":                 "error: has no absolute path",
		"unix:/run/x.sock:/mcp":   "error: has a second path",
		"unix:/" + long[1:]:       "/" + long[1:],
		"unix:/" + long:           "error: has a path of",
		"unix:/run/x\x00y":        "error: has a NUL byte",
		"unix:///run/x.sock:/mcp": "error: has a second path",
	} {
		got, err := Path(address)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("%.40q: %q, want %q", address, got, want)
		}
	}
}

func TestServers(t *testing.T) {
	if !supported {
		t.Skip("no unix sockets on this system")
	}
	for url, want := range map[string]string{
		"unix:/run/x.sock:/mcp":          "/run/x.sock /mcp",
		"unix:///run/x.sock:/":           "/run/x.sock /",
		"unix:/run/a:b.sock:/mcp:/x?y=1": "/run/a:b.sock /mcp:/x?y=1",
		"unix:/run/x.sock":               "error: has no HTTP path",
		"unix:/run/x.sock:mcp":           "error: has no HTTP path",
		"unix:x.sock:/mcp":               "error: has no absolute path",
	} {
		path, target, err := Server(url)
		got := path + " " + target
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

func TestIs(t *testing.T) {
	for address, want := range map[string]bool{
		"unix:/run/x": true, "unix:x": true, "unix:": true, "unix:8808": false, "127.0.0.1:1": false, "unixx:/a": false, "http://unix:1/": false,
	} {
		if Is(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}

func TestCurl(t *testing.T) {
	if !supported {
		t.Skip("no unix sockets on this system")
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:8808/mcp": "http://127.0.0.1:8808/mcp",
		"unix:/run/x.sock:/mcp":     "--unix-socket /run/x.sock http://localhost/mcp",
		"unix:/run/it's.sock:/a?b":  `--unix-socket '/run/it'\''s.sock' 'http://localhost/a?b'`,
	} {
		if got := Curl(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
