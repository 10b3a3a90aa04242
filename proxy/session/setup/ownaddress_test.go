package setup

import (
	"net"
	"testing"
)

// TestAServersURLThatIsOurs knows dragoman's own address by each of its names, and no other.
func TestAServersURLThatIsOurs(t *testing.T) {
	for _, c := range []struct {
		listen, server string
		own            bool
	}{
		{"127.0.0.1:8808", "http://127.0.0.1:8808/mcp", true},
		{"127.0.0.1:8808", "http://localhost:8808/other", true},
		{"127.0.0.1:8808", "https://LOCALHOST:8808/mcp", true},
		{"127.0.0.1:80", "http://127.0.0.1/mcp", true},
		{"[::1]:8808", "http://[::1]:8808/sse", true},
		{"0.0.0.0:8808", "http://127.0.0.1:8808/mcp", true},
		{"[::]:8808", "http://localhost:8808/mcp", true},
		{":8808", "http://0.0.0.0:8808/mcp", true},
		{"10.1.2.3:8808", "http://10.1.2.3:8808/mcp", true},
		{"127.0.0.1:8808", "http://127.0.0.1:8809/mcp", false},
		{"127.0.0.1:8808", "http://127.0.0.2:8808/mcp", false},
		{"127.0.0.1:8808", "http://10.1.2.3:8808/mcp", false},
		{"127.0.0.1:8808", "http://mcp.example.com:8808/mcp", false},
		{"0.0.0.0:8808", "http://mcp:8808/mcp", false},
		{"10.1.2.3:8808", "http://localhost:8808/mcp", false},
		{"127.0.0.1:8808", "unix:/run/mcp.sock:/mcp", false},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := isOwn(c.server, at); got != c.own {
			t.Errorf("%s at %s: %v", c.server, c.listen, got)
		}
	}
	at := &net.UnixAddr{Name: "/run/dragoman.sock", Net: "unix"}
	if !isOwn("unix:/run/dragoman.sock:/mcp", at) || isOwn("unix:/run/other.sock:/mcp", at) || isOwn("http://localhost/mcp", at) {
		t.Error("unix sockets")
	}
}
