package tests

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// discoveredModern is the DiscoverResult of @modelcontextprotocol/server 2.x. It names no revision that initialize negotiates.
const discoveredModern = `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`

// newBothEras returns a server that serves each client in its own era, as those on @modelcontextprotocol/server 2.x do. Its tool asks
// its client, but only clients in a session.
func newBothEras(t *testing.T, over peertest.Over, sessions bool) *peertest.Server {
	script := func(u *peertest.Turn) {
		modern := strings.Contains(u.Text, mcp.MetaVersion)
		switch {
		case u.ID == "":
		case u.Method == "server/discover":
			u.Answer(200, result(u.ID, discoveredModern))
		case u.Method == "initialize":
			if over == peertest.HTTP && sessions {
				u.Open()
			}
			u.Answer(200, result(u.ID, fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`, gjson.Get(u.Text, "params.protocolVersion").String())))
		case u.Method == "ping" && !modern:
			u.Answer(200, result(u.ID, ""))
		case u.Method == "tools/list" && modern:
			u.Answer(200, result(u.ID, `"resultType":"complete","tools":[{"name":"ask","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"`))
		case u.Method == "tools/list":
			u.Answer(200, result(u.ID, `"tools":[{"name":"ask","inputSchema":{"type":"object"}}]`))
		case u.Method == "tools/call" && (modern || !sessions):
			u.Answer(200, result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":"modern: %v"}]`, modern)))
		case u.Method == "tools/call":
			said := u.Asks(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Drop it?","requestedSchema":{"type":"object","properties":{}}}}`)
			u.Say(result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":"the user says %s"}]`, gjson.Get(said, "result.action").String())))
		default:
			u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"no such method"`))
		}
	}
	s := peertest.NewServer(t, over, script)
	s.Sessions, s.Unknown = sessions, script // clients without a session name none
	return s
}

// calls returns how often the server got a method.
func calls(s *peertest.Server, method string) (n int) {
	for _, m := range s.Heard() {
		if gjson.Get(m.Text, "method").String() == method {
			n++
		}
	}
	return n
}

// TestEachClientIsServedInItsOwnEra: that a server names only 2026-07-28 in server/discover says nothing of initialize. After a
// client of that revision, clients with a handshake get a handshake, and what the server asks reaches their users.
func TestEachClientIsServedInItsOwnEra(t *testing.T) {
	const call = `"name":"ask","arguments":{}`
	for _, c := range []struct {
		name     string
		over     peertest.Over
		sessions bool
		shared   bool
	}{
		{"sessions over HTTP", peertest.HTTP, true, false},
		{"no sessions over HTTP", peertest.HTTP, false, false},
		{"processes", peertest.Stdio, true, false},
		{"a shared process", peertest.Stdio, false, true}, // it asks nothing: dragoman declares nothing to it
	} {
		for _, modernFirst := range []bool{true, false} {
			runTogether(t, fmt.Sprintf("%s, modern client first %v", c.name, modernFirst), func(t *testing.T) {
				s := newBothEras(t, c.over, c.sessions)
				p := through(t, s.At(), func(cfg *config.Config) { cfg.Upstream.ShareChild = c.shared })
				modern := func() {
					t.Helper()
					got := p.client(t, false).Say(modernRequestOf("1", "tools/call", call+","+meta(`{"elicitation":{}}`))).Next()
					if text := gjson.Get(got, "result.content.0.text").String(); text != "modern: true" {
						t.Errorf("a modern client gets %s", got)
					}
				}
				if modernFirst {
					modern()
				}
				for n := range 3 {
					client := p.client(t, false)
					if got := client.Initialize("2025-06-18", `{"elicitation":{}}`); gjson.Get(got, "result.protocolVersion").String() != "2025-06-18" {
						t.Fatal(got)
					}
					client.Say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).HasStatus(202)
					answer := client.Say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + call + `}}`)
					want := "modern: false"
					if c.sessions {
						question := answer.Next()
						if gjson.Get(question, "method").String() != "elicitation/create" {
							t.Fatalf("client %d is not asked: %s", n, question)
						}
						client.Say(`{"jsonrpc":"2.0","id":` + gjson.Get(question, "id").Raw + `,"result":{"action":"decline"}}`).HasStatus(202)
						want = "the user says decline"
					}
					if got := answer.Next(); gjson.Get(got, "result.content.0.text").String() != want {
						t.Errorf("client %d gets %s, want %q", n, got, want)
					}
				}
				if !modernFirst {
					modern()
				}
				pings := 0
				if c.over == peertest.HTTP && !c.sessions {
					pings = 1
				}
				if n := calls(s, "ping"); n != pings {
					t.Errorf("the server got %d pings, want %d", n, pings)
				}
				if n := calls(s, "server/discover"); c.over == peertest.HTTP && n != 1 {
					t.Errorf("the server was asked %d times for its era", n)
				}
			})
		}
	}
}

// TestARefusedHandshakeIsProof: a server without a handshake is sent initialize once, and the process that refused it is used.
func TestARefusedHandshakeIsProof(t *testing.T) {
	for name, refusal := range map[string]string{
		"by its revisions": `"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}`,
		"by its method":    `"code":-32601,"message":"Method not found"`,
	} {
		for _, over := range []peertest.Over{peertest.HTTP, peertest.Stdio} {
			inBubble(t, name+" over "+string(over), func(t *testing.T) {
				s := peertest.NewServer(t, over, func(u *peertest.Turn) {
					switch {
					case u.ID == "":
					case u.Method == "server/discover":
						u.Answer(200, result(u.ID, discoveredModern))
					case u.Method == "initialize":
						u.Answer(400, rpcError(u.ID, refusal))
					default:
						u.Answer(200, result(u.ID, `"resultType":"complete","content":[]`))
					}
				})
				s.Sessions = over == peertest.Stdio
				p := through(t, s.At())
				p.client(t, false).Say(modernRequestOf("1", "tools/call", `"name":"x","arguments":{},`+meta(`{}`))).HasStatus(200)
				for range 3 {
					client := p.client(t, false)
					if got := client.Initialize("2025-06-18", `{}`); !gjson.Get(got, "result.capabilities.tools").Exists() {
						t.Fatal(got)
					}
					got := client.Say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{}}}`).Next()
					if !gjson.Get(got, "result.content").IsArray() {
						t.Error(got)
					}
				}
				if n := calls(s, "initialize"); n != 1 {
					t.Errorf("the server got initialize %d times", n)
				}
				if over == peertest.Stdio {
					for _, in := range s.Opened() {
						if len(s.In(in.ID)) < 2 {
							t.Errorf("a process got only %v", s.In(in.ID))
						}
					}
				}
			})
		}
	}
}

// TestANewVersionOfTheServerIsTriedAgain: what was proved of a server's handshake need not hold for its next version.
func TestANewVersionOfTheServerIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var upgraded atomic.Bool
		s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
			version := "1"
			if upgraded.Load() {
				version = "2"
			}
			switch {
			case u.ID == "":
			case u.Method == "server/discover":
				u.Answer(200, result(u.ID, fmt.Sprintf(`"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":%q}}`, version)))
			case u.Method == "initialize" && upgraded.Load():
				u.Answer(200, result(u.ID, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`))
			case u.Method == "ping" && upgraded.Load():
				u.Answer(200, result(u.ID, ""))
			default:
				u.Answer(400, rpcError(u.ID, `"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}`))
			}
		})
		p := through(t, s.At())
		begin := func() { p.client(t, false).Initialize("2025-06-18", `{}`) }
		begin()
		begin()
		if n := calls(s, "initialize"); n != 1 {
			t.Errorf("the first version got initialize %d times", n)
		}
		upgraded.Store(true)
		begin() // it sees the new version
		begin()
		if n := calls(s, "initialize"); n != 2 {
			t.Errorf("both versions got initialize %d times", n)
		}
	})
}
