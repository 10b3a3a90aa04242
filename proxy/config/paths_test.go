package config

import "testing"

// TestWhereClientsPostMessages: a gateway that puts a path before those of dragoman does so for messages, too.
func TestWhereClientsPostMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ public, path, want string }{
		{"", "/mcp", "/messages"},
		{"https://gw.example/mcp", "/mcp", "/messages"},
		{"https://gw.example/team/mcp", "/mcp", "/team/messages"},
		{"https://gw.example/team/mcp/", "/mcp", "/team/messages"},
		{"https://gw.example/team%20a/mcp", "/mcp/", "/team%20a/messages"},
		{"https://gw.example/team", "/", "/team/messages"},
		{"https://gw.example/", "/", "/messages"},
		{"https://gw.example/github", "/mcp", "/messages"}, // which other paths lead here is not known
		{"https://gw.example:x/mcp", "/mcp", "/messages"},
	} {
		cfg := Default()
		cfg.OAuth.PublicURL, cfg.Path = c.public, c.path
		if got := cfg.MessagesURI(); got != c.want {
			t.Errorf("%s behind %s: %s, want %s", c.path, c.public, got, c.want)
		}
	}
}
