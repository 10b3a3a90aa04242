package tests

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// choosy is a server whose response depends on the proposed revision, with a new connection each
// time: react returns its response to initialize, or an error.
type choosy struct {
	piped bool
	react func(revision string) (string, error)

	mu       sync.Mutex
	opened   int
	proposed []string
}

func (c *choosy) origin() origin.Origin {
	return origin.Opened(c.piped, func(context.Context) (upstream.Conn, error) {
		c.mu.Lock()
		c.opened++
		c.mu.Unlock()
		f := newFake(nil)
		f.piped = c.piped
		f.Script = replies(func(m string) ([]string, error) {
			id := gjson.Get(m, "id").Raw
			switch gjson.Get(m, "method").String() {
			case "initialize":
			case "server/discover":
				return one(rpcError(id, `"code":-32601,"message":"Method not found"`))
			case "tools/list":
				return one(result(id, `"tools":[]`))
			default:
				return nil, nil
			}
			revision := gjson.Get(m, "params.protocolVersion").String()
			c.mu.Lock()
			c.proposed = append(c.proposed, revision)
			react := c.react
			c.mu.Unlock()
			answer, err := react(revision)
			if err != nil && c.piped {
				f.lose(err)
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return one(`{"jsonrpc":"2.0","id":` + id + `,` + answer + `}`)
		})
		return f.conn(), nil
	})
}

// took returns the revisions that were proposed since the last call.
func (c *choosy) took() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.proposed, " ")
	c.proposed = nil
	return all
}

func (c *choosy) now(react func(revision string) (string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.react = react
}

// settling returns an InitializeResult of this server, in this revision.
func settling(revision, server string) (string, error) {
	return fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":%q,"version":"2"}}`, revision, server), nil
}

// takesOnly is a server that accepts these revisions, and refuses others with this function.
func takesOnly(refuse func() (string, error), takes ...string) func(string) (string, error) {
	return func(revision string) (string, error) {
		if slices.Contains(takes, revision) {
			return settling(revision, "s")
		}
		return refuse()
	}
}

func refusesPlainly() (string, error) {
	return `"error":{"code":-32000,"message":"unsupported protocol version"}`, nil
}

// hangsUp ends the connection, or the process.
func (c *choosy) hangsUp() (string, error) {
	if c.piped {
		return "", exited
	}
	return "", &upstream.Error{Op: "read", Addr: "a", Err: io.ErrUnexpectedEOF}
}

// TestProposedRevisions has a case for each row of the negotiation table in the matrix.
func TestProposedRevisions(t *testing.T) {
	const modern = "2026-07-28"
	whatever := func(revision string) (string, error) { return settling(revision, "s") }
	plainly := func(takes ...string) func(*choosy) func(string) (string, error) {
		return func(*choosy) func(string) (string, error) { return takesOnly(refusesPlainly, takes...) }
	}
	byHangingUp := func(takes ...string) func(*choosy) func(string) (string, error) {
		return func(c *choosy) func(string) (string, error) { return takesOnly(c.hangsUp, takes...) }
	}
	always := func(react func(string) (string, error)) func(*choosy) func(string) (string, error) {
		return func(*choosy) func(string) (string, error) { return react }
	}
	naming := func(supported string) func(string) (string, error) {
		return func(revision string) (string, error) {
			if strings.Contains(supported, revision) {
				return settling(revision, "s")
			}
			return `"error":{"code":-32602,"message":"no","data":{"supported":` + supported + `}}`, nil
		}
	}
	type visit struct{ client, proposed, agreed string } // agreed is "" if the client is refused
	for _, c := range []struct {
		name       string
		configured string
		react      func(*choosy) func(string) (string, error)
		visits     []visit
	}{
		{"the newest is proposed to a server that would take the client's", "", always(whatever), []visit{
			{"2024-11-05", "2025-11-25", "2025-11-25"}, {"2025-03-26", "2025-11-25", "2025-11-25"},
			{"2025-06-18", "2025-11-25", "2025-11-25"}, {"2025-11-25", "2025-11-25", "2025-11-25"},
		}},
		{"so it is for a client without a handshake", "", always(whatever), []visit{{modern, "2025-11-25", "2025-11-25"}}},
		{"and for one that asks for what is unknown, or has no handshake", "", always(whatever), []visit{
			{"2027-01-01", "2025-11-25", "2025-11-25"}, {"1.0", "2025-11-25", "2025-11-25"}, {"initialize " + modern, "2025-11-25", "2025-11-25"},
		}},
		{"the configured one", "2025-03-26", always(whatever), []visit{
			{"2024-11-05", "2025-03-26", "2025-03-26"}, {"2025-11-25", "2025-03-26", "2025-03-26"}, {modern, "2025-03-26", "2025-03-26"},
		}},
		{"the configured one only", "2025-03-26", plainly("2025-11-25"), []visit{{"2025-11-25", "2025-03-26", ""}}},
		{"the server answers another", "", always(func(string) (string, error) { return settling("2025-03-26", "s") }), []visit{
			{"2024-11-05", "2025-11-25", "2025-03-26"}, {"2025-06-18", "2025-11-25", "2025-03-26"}, {modern, "2025-11-25", "2025-03-26"},
		}},
		{"the server answers an unknown revision", "", always(func(string) (string, error) { return settling("2023-01-01", "s") }), []visit{
			{"2024-11-05", "2025-11-25", ""},
		}},
		{"refused without a list, then the client's own, remembered", "", plainly("2025-06-18", "2024-11-05"), []visit{
			{"2024-11-05", "2025-11-25 2024-11-05", "2024-11-05"},
			{"2024-11-05", "2024-11-05", "2024-11-05"},
			{"2025-06-18", "2025-06-18", "2025-06-18"},
			{"2025-11-25", "2025-06-18", "2025-06-18"}, // the newest revision that it is known to accept
			{modern, "2025-06-18", "2025-06-18"},
		}},
		{"refused without a list, and so is the client's own: the others", "", plainly("2024-11-05"), []visit{
			{"2025-03-26", "2025-11-25 2025-03-26 2025-06-18 2024-11-05", "2024-11-05"},
			{"2025-03-26", "2025-03-26 2024-11-05", "2024-11-05"},
		}},
		{"the connection closed on the client's own, too", "", byHangingUp("2024-11-05"), []visit{
			{"2025-06-18", "2025-11-25 2025-06-18", ""}, {"2025-06-18", "2025-11-25 2025-06-18", ""},
		}},
		{"refused for a client without a handshake: each once", "", plainly("2024-11-05"), []visit{
			{modern, "2025-11-25 2025-06-18 2025-03-26 2024-11-05", "2024-11-05"},
			{modern, "2024-11-05", "2024-11-05"},
		}},
		{"refused for a client of the newest one: each once", "", plainly("2025-03-26"), []visit{
			{"2025-11-25", "2025-11-25 2025-06-18 2025-03-26", "2025-03-26"},
		}},
		{"the connection closed, then the client's own, remembered", "", byHangingUp("2025-03-26"), []visit{
			{"2025-03-26", "2025-11-25 2025-03-26", "2025-03-26"}, {"2025-03-26", "2025-03-26", "2025-03-26"},
		}},
		{"the connection closed for a client without a handshake: each once", "", byHangingUp("2024-11-05"), []visit{
			{modern, "2025-11-25 2025-06-18 2025-03-26 2024-11-05", "2024-11-05"},
		}},
		{"the connection closed for a client of the newest one", "", byHangingUp("2024-11-05"), []visit{{"2025-11-25", "2025-11-25", ""}}},
		{"refused with a list: the newest of it", "", always(naming(`["2024-11-05","2025-03-26","1999-01-01"]`)), []visit{
			{"2024-11-05", "2025-11-25 2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-11-25 2025-03-26", "2025-03-26"},
		}},
		{"refused with a list of unknown revisions", "", always(naming(`["1999-01-01"]`)), []visit{{"2025-11-25", "2025-11-25 2025-06-18 2025-03-26 2024-11-05", ""}}},
	} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			server := &choosy{piped: piped}
			server.react = c.react(server)
			srv := frontOf(t, server.origin(), func(cfg *config.Config) { cfg.Upstream.Version = c.configured })
			for i, v := range c.visits {
				var r reply
				before := srv.logs.FilterMessage("session begins").Len()
				if v.client == modern {
					r = srv.modernly(modernRequestOf("1", "tools/list", meta("{}")), "Authorization", fmt.Sprint("Bearer ", c.name))
				} else {
					client := strings.TrimPrefix(v.client, "initialize ")
					r = srv.post("", initialize(client, `{}`), "Authorization", fmt.Sprint("Bearer ", c.name))
					if s := srv.Table.Held(r.header["Mcp-Session-Id"]); s != nil {
						if want := s.ClientRevision.Name; gjson.Get(r.body, "result.protocolVersion").String() != want {
							t.Errorf("%s, visit %d: answered %s, want %s", c.name, i, r.body, want)
						}
					}
				}
				agreed := ""
				if all := srv.logs.FilterMessage("session begins").All(); len(all) > before {
					agreed = all[before].ContextMap()["server"].(string)
				}
				if agreed != v.agreed {
					t.Errorf("%s, visit %d: agreed on %q, want %q: %+v", c.name, i, agreed, v.agreed, r)
				}
				if got := server.took(); got != v.proposed {
					t.Errorf("%s, visit %d: proposed %s, want %s", c.name, i, got, v.proposed)
				}
				srv.Modern.Retire()
			}
		})
	}
}

// TestAProcessThatRefusedARevisionIsNotAskedAgain: it may not accept a second initialize.
func TestAProcessThatRefusedARevisionIsNotAskedAgain(t *testing.T) {
	server := &choosy{piped: true, react: takesOnly(refusesPlainly, "2025-06-18")}
	srv := frontOf(t, server.origin())
	srv.initialize("2025-06-18")
	if server.opened != 2 {
		t.Errorf("%d processes", server.opened)
	}
}

// TestAnotherServerIsProposedTheNewestAgain: what one server has refused says nothing about its
// replacement.
func TestAnotherServerIsProposedTheNewestAgain(t *testing.T) {
	server := &choosy{react: takesOnly(refusesPlainly, "2025-06-18")}
	srv := frontOf(t, server.origin())
	visit := func(want string) {
		t.Helper()
		srv.initialize("2025-06-18")
		if got := server.took(); got != want {
			t.Errorf("proposed %s, want %s", got, want)
		}
	}
	visit("2025-11-25 2025-06-18")
	visit("2025-06-18")
	server.now(func(revision string) (string, error) { return settling(revision, "another") })
	visit("2025-06-18") // this session shows that the server was replaced
	visit("2025-11-25")

	server.now(takesOnly(refusesPlainly, "2025-06-18"))
	visit("2025-11-25 2025-06-18")
	visit("2025-06-18")
	server.now(takesOnly(refusesPlainly, "2025-11-25"))
	visit("2025-06-18 2025-11-25")
	visit("2025-11-25")
}

// TestProbeOfAServerThatRefusesTheNewestRevision: the report says what each client gets.
func TestProbeOfAServerThatRefusesTheNewestRevision(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL = lister(t, map[string]string{
		"initialize2025-06-18": `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`,
		"initialize2024-11-05": `"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`,
		"initialize":           `"error":{"code":-32000,"message":"no"}`,
		"tools/list":           `"result":{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"}}]}`,
	})
	r, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if r.Handshake != "2025-06-18" {
		t.Errorf("handshake %s", r.Handshake)
	}
	ways := map[string]string{}
	for _, c := range r.Clients {
		ways[c.Revision] = c.Way
	}
	for revision, want := range map[string]string{
		"2026-07-28": "bridged", "2025-11-25": "translated", "2025-06-18": "same", "2025-03-26": "translated", "2024-11-05": "same",
	} {
		if ways[revision] != want {
			t.Errorf("%s: %q, want %q", revision, ways[revision], want)
		}
	}
}
