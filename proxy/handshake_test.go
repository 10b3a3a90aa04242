package proxy

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// TestHandshake has the cases of the handshake in the protocol's translation matrix.
func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		name            string
		upstreamVersion string
		in, sent        string
		said, out       string
	}{
		{
			name:            "24 an 11 client to an 03 server",
			upstreamVersion: "2025-03-26",
			in:              `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"experimental":{"x":{}}},"clientInfo":{"name":"c","title":"C","version":"1","description":"d","websiteUrl":"https://c.example"}}}`,
			sent:            `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{"listChanged":true},"sampling":{},"experimental":{"x":{}}},"clientInfo":{"name":"c","version":"1"}}}`,
			said:            `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
			out:             `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name: "24 without a configured version nothing is taken away",
			in:   `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`,
			sent: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`,
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"serverInfo":{"name":"s","version":"2"}}}`,
			out:  `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name:            "25 url-only elicitation to an 06 server",
			upstreamVersion: "2025-06-18",
			in:              `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"c","version":"1"}}}`,
			sent:            `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			said:            `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
			out:             `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name: "26 the answer keeps the client's version",
			in:   initialize("2024-11-05", `{}`),
			sent: initialize("2025-11-25", `{}`),
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"completions":{}},"serverInfo":{"name":"s","title":"S","version":"2"},"instructions":"hi"}}`,
			out:  `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"2"},"instructions":"hi"}}`,
		},
		{
			name: "27 completions for an old server",
			in:   initialize("2025-06-18", `{}`),
			sent: initialize("2025-11-25", `{}`),
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05","capabilities":{"prompts":{}},"serverInfo":{"name":"s","version":"2"}}}`,
			out:  `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{},"completions":{}},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name: "28 an unknown version gets the latest",
			in:   initialize("2027-01-01", `{}`),
			sent: initialize("2025-11-25", `{}`),
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
			out:  `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name: "28 so does the revision without a handshake",
			in:   initialize("2026-07-28", `{}`),
			sent: initialize("2025-11-25", `{}`),
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
			out:  `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
		},
		{
			name: "29 the server answers an unknown version",
			in:   initialize("2025-06-18", `{}`),
			sent: initialize("2025-11-25", `{}`),
			said: `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
			out:  `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2023-01-01"}}}`,
		},
		{
			name:            "the server's own error passes",
			upstreamVersion: "2025-06-18",
			in:              initialize("2025-06-18", `{}`),
			sent:            initialize("2025-06-18", `{}`),
			said:            `{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"not today"}}`,
			out:             `{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"not today"}}`,
		},
		{
			name: "initialize without params",
			in:   `{"jsonrpc":"2.0","id":"a","method":"initialize"}`,
			out:  `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"initialize needs an object of params"}}`,
		},
	} {
		for _, piped := range []bool{false, true} {
			name := c.name + ", http"
			if piped {
				name = c.name + ", pipe"
			}
			t.Run(name, func(t *testing.T) {
				f := newFake(func(string) ([]string, error) { return one(c.said) })
				f.piped = piped
				srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = c.upstreamVersion })
				r := srv.post("", c.in)
				if c.sent == "" {
					sameList(t, "sent", f.sent(), nil)
				} else {
					sameList(t, "sent", f.sent(), []string{c.sent})
				}
				sameJSON(t, r.body, c.out)
				if ok := gjson.Get(c.out, "result").Exists(); ok != (r.header["Mcp-Session-Id"] != "") {
					t.Errorf("session id: %v", r.header)
				}
				if !gjson.Get(c.out, "result").Exists() && c.sent != "" {
					eventually(t, "upstream closed", func() bool {
						f.mu.Lock()
						defer f.mu.Unlock()
						return f.closed == 1
					})
				}
			})
		}
	}
}

func TestAnotherVersionIsProposedAfterARejection(t *testing.T) {
	refusal := `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05","2025-03-26","1999-01-01"]}}}`
	for name, asStatus := range map[string]bool{"error": false, "HTTP 400": true} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			f := newFake(func(m string) ([]string, error) {
				if asked++; asked > 1 {
					return initializing("2025-03-26", nil)(m)
				}
				if asStatus {
					return nil, &upstream.StatusError{Code: 400, Body: []byte(refusal)}
				}
				return one(refusal)
			})
			srv := front(t, f)
			srv.initialize("2025-11-25")
			sameList(t, "sent", f.sent(), []string{initialize("2025-11-25", `{}`), initialize("2025-03-26", `{}`)})
		})
	}
}

func TestRejectedTwicePasses(t *testing.T) {
	refusal := `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}}`
	f := newFake(func(string) ([]string, error) { return one(refusal) })
	srv := front(t, f)
	r := srv.post("", initialize("2025-11-25", `{}`))
	sameJSON(t, r.body, refusal)
	if n := len(f.sent()); n != 2 {
		t.Errorf("%d proposals", n)
	}
}

func TestServerWithoutHandshakeIsNamed(t *testing.T) {
	for name, answer := range map[string]func(string) ([]string, error){
		"version list": func(string) ([]string, error) {
			return one(`{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"x"}}}`)
		},
		"status 400": func(string) ([]string, error) {
			return nil, &upstream.StatusError{Code: 400, Body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"missing _meta key io.modelcontextprotocol/protocolVersion"}}`)}
		},
		"status 400 and versions": func(string) ([]string, error) {
			return nil, &upstream.StatusError{Code: 400, Body: []byte(`{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := front(t, newFake(answer)).post("", initialize("2025-11-25", `{}`))
			if gjson.Get(r.body, "error.code").Int() != -32603 || !strings.Contains(r.body, "2026-07-28") ||
				gjson.Get(r.body, "id").Raw != "0" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestSecondInitializeIsRefused(t *testing.T) {
	f := newFake(initializing("2025-06-18", nil))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	r := srv.post(s, initialize("2025-06-18", `{}`))
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"Already initialized"}}`)
	if len(f.sent()) != 1 {
		t.Errorf("forwarded: %q", f.sent())
	}
}

func TestWhatComesBeforeTheAnswerIsDelivered(t *testing.T) {
	f := newFake(func(m string) ([]string, error) {
		answer, _ := initializing("2025-06-18", nil)(m)
		return append([]string{
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}`,
			`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
		}, answer...), nil
	})
	f.answer, f.id = func(inner func(string) ([]string, error)) func(string) ([]string, error) {
		return func(m string) ([]string, error) {
			if gjson.Get(m, "method").Exists() {
				return inner(m)
			}
			return nil, nil
		}
	}(f.answer), "theirs"
	srv := front(t, f)
	r := srv.post("", initialize("2025-06-18", `{}`))
	sameList(t, "events", r.events, []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}`,
		`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
	})
	if r.header["Mcp-Session-Id"] == "" || r.header["Mcp-Session-Id"] == "theirs" {
		t.Errorf("headers %v", r.header)
	}
	if got := f.sent(); len(got) != 2 || got[1] != `{"jsonrpc":"2.0","id":"p","result":{}}` {
		t.Errorf("ping was not answered: %q", got)
	}
}

func TestUnreachableServerAtInitialize(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{&upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: errors.New("connection refused")}, 502, "upstream request failed: connection refused"},
		{&upstream.StatusError{Code: 401, Header: []upstream.Header{{Name: "WWW-Authenticate", Value: "Bearer"}}}, 401, "upstream answered 401 Unauthorized"},
	} {
		f := newFake(func(string) ([]string, error) { return nil, c.err })
		r := front(t, f).post("", initialize("2025-06-18", `{}`))
		if r.status != c.status || gjson.Get(r.body, "error.message").String() != c.text || gjson.Get(r.body, "id").Raw != "0" {
			t.Errorf("%v: %+v", c.err, r)
		}
		if c.status == 401 && r.header["WWW-Authenticate"] != "Bearer" {
			t.Errorf("%v", r.header)
		}
	}
}

// TestModernRequestsHaveNoPlaceInASession: a modern request in a handshake client's session gets
// the same error as a request without a session.
func TestModernRequestsHaveNoPlaceInASession(t *testing.T) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}`
	const legacyKey = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	}))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Not initialized; supported: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"}}`
	for _, c := range []struct{ session, body, version string }{
		{s, modern, ""},
		{"", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ""},
	} {
		r := srv.post(c.session, c.body, "MCP-Protocol-Version", c.version)
		if r.status != 400 {
			t.Errorf("%+v: status %d", c, r.status)
		}
		sameJSON(t, r.body, want)
	}
	if r := srv.post(s, modern, "MCP-Protocol-Version", "2026-07-28"); r.status != 400 {
		t.Errorf("%+v", r)
	}
	sameJSON(t, srv.post(s, legacyKey).body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	if n := len(f.sent()); n != 2 {
		t.Errorf("%d messages went upstream: %q", n, f.sent())
	}
}
