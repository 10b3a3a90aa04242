package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestScriptsCanFail: an expectation that is wrong is reported with its line. Each of these scripts differs from the one
// that passes in one thing.
func TestScriptsCanFail(t *testing.T) {
	const right = `# "A sentence."
# https://modelcontextprotocol.io/specification/2025-06-18
-- client 2025-06-18 over http,sse,stdio --
-- server 2025-06-18 over http,sse,stdio --
-- steps --
client sends {"jsonrpc":"2.0","id":1,"method":"x/y","params":{"a":1.0}}
server gets {"jsonrpc":"2.0","id":"<call>","method":"x/y","params":{"a":1.0}}
server sends {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
server sends {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":2}}
server sends {"jsonrpc":"2.0","id":"<call>","result":{"b":[]}}
client gets {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":2}}
and {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
client gets 200 {"jsonrpc":"2.0","id":1,"result":{"b":[]}}
`
	for _, c := range []struct{ what, old, new, want string }{
		{"the right one", "", "", ""},
		{"another param", `"<call>","method":"x/y","params":{"a":1.0}`, `"<call>","method":"x/y","params":{"a":1.1}`, "a.txt:7: server gets\n got "},
		{"another digit", `"<call>","method":"x/y","params":{"a":1.0}`, `"<call>","method":"x/y","params":{"a":1}`, "a.txt:7: server gets\n got "},
		{"a member less", `"<call>","method":"x/y","params":{"a":1.0}`, `"<call>","method":"x/y","params":{}`, "a.txt:7: server gets\n got "},
		{"an element more", "id\":1,\"result\":{\"b\":[]}", "id\":1,\"result\":{\"b\":[0]}", "a.txt:13: client gets\n got "},
		{"another order", "and {", "client gets {", "a.txt:11: client gets\n got "},
		{"a message that never comes", "client gets 200 {", "client gets {\"no\":1}\nclient gets 200 {", "a.txt:13: client gets\n got "},
		{"one message too few expected", "\nclient gets 200 {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"b\":[]}}", "", "a.txt:11: after the last step: client gets\n got "},
		{"the server gets more", "\nserver gets {\"jsonrpc\":\"2.0\",\"id\":\"<call>\",", "\nserver gets {\"jsonrpc\":\"2.0\",\"id\":\"<call>\",\"more\":1,", "a.txt:7: server gets\n got "},
		{"a placeholder without a value", `"id":"<call>","result"`, `"id":"<other>","result"`, `a.txt:10: "<other>" has no value yet`},
		{"no such request", `"id":"<call>","result"`, `"id":"other","result"`, "a.txt:10: server sends "},
		{"nothing comes", "client gets 200 {", "server gets {", "a.txt:13: server gets nothing, want "},
		{"not a step", "client gets 200", "client hears 200", `a.txt:13: want [client http`},
		{"not a section", "-- steps --", "-- stops --", `a.txt:5: want -- client`},
		{"no such transport", "over http,sse,stdio --\n-- steps", "over carrier --\n-- steps", `a.txt:4: want transports`},
		{"a client that leaves without a request", "client sends {", "client leaves\nclient sends {", "a.txt:6: client leaves, but has no request"},
		{"a server that leaves", "client sends {", "server leaves\nclient sends {", `a.txt:6: want [client http`},
		{"a header of what the server sends", "\nclient gets {", "\nwith X-Y: z\nclient gets {", `a.txt:11: want [client http`},
		{"the stream of no request", `server sends {"jsonrpc":"2.0","method"`, `server sends for "<other>" {"jsonrpc":"2.0","method"`, `a.txt:8: "<other>" has no value yet`},
		{"the stream of the call", `server sends {"jsonrpc":"2.0","method"`, `server sends for "<call>" {"jsonrpc":"2.0","method"`, ""},
		{"the response of the call", `server sends {"jsonrpc":"2.0","id":"<call>","result"`, `server sends for "<call>" {"jsonrpc":"2.0","id":"<call>","result"`, ""},
		{"a text without a status", `server sends {"jsonrpc":"2.0","id"`, `server sends for "<call>" text {"jsonrpc":"2.0","id"`, `a.txt:10: want [client http`},
		{"a value that is a name", "-- steps --", "-- names --\ncall text\n-- steps --", "a.txt:9: want no value with a name"},
		{"byte by byte", "server gets {", "server gets exactly {", ""},
		{"other bytes", `server gets {"jsonrpc":"2.0","id":"<call>",`, `server gets exactly {"id":"<call>","jsonrpc":"2.0",`, "a.txt:7: server gets\n got "},
		{"other bytes than the known ones", `client gets 200 {"jsonrpc":"2.0","id":1`, `client gets exactly 200 {"jsonrpc":"2.0","id":1.0`, "a.txt:13: "},
		{"a text that begins so", `client gets {"jsonrpc":"2.0","method":"notifications/message"`, `client gets {"jsonrpc":"2.0","method":"notifications…"`, ""},
		{"a text that does not", `client gets {"jsonrpc":"2.0","method":"notifications/message"`, `client gets {"jsonrpc":"2.0","method":"notifications/p…"`, "a.txt:11: client gets\n got "},
		{"a value that is not new", `"info","data":2}}` + "\nand " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"`,
			`"<new-a>","data":2}}` + "\nand " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"<b>"`, "a.txt:11: client gets\n got "},
		{"a wait that is none", "-- steps --", "-- waits --\nnap 1s\n-- steps --", "a.txt:6: want the name of a wait"},
		{"nothing closes", "server sends {", "proxy leaves for \"<call>\"\nserver sends {", `a.txt:8: the proxy does not close`},
		{"steps elsewhere", "server gets {", "[client http,carrier] server gets {", `a.txt:7: want transports`},
		{"steps elsewhere, all of them", "-- steps --", "-- steps [server carrier] --", `a.txt:5: want transports`},
		{"settings that are none", "-- steps --", "-- config a --\nno: 1\n-- config b --\nlimits: {none: 1}\n-- steps --", `a.txt: config: `},
		{"no such revision", "-- client 2025-06-18", "-- client 2025-06-19", `a.txt:3: want a revision`},
		{"no sentence", "# \"A sentence.\"\n# https", "# http", `a.txt:1: a script begins with`},
	} {
		inBubble(t, c.what, func(t *testing.T) {
			s, err := readScript("a.txt", strings.Replace(right, c.old, c.new, 1))
			if err != nil {
				if c.want == "" || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			s.each(func(play scriptPlay, client, server scriptPeer, from, to string) {
				if c.want != "" && from != to || testing.Short() && to == "stdio" {
					return
				}
				fails := func(wait time.Duration) error {
					err := s.play(t, play, client, server, from, to, wait)
					if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
						return fmt.Errorf("%s to %s: got %v, want %q", from, to, err, c.want)
					}
					return nil
				}
				if strings.HasPrefix(c.what, "nothing ") {
					peertest.Within(t, 50*time.Millisecond, fails) // what comes before the line comes within it
				} else if err := fails(patience); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestScriptsCompareStatus: an HTTP status that differs is an error over HTTP only.
func TestScriptsCompareStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := readScript("a.txt", `# "A sentence." https://modelcontextprotocol.io/specification/2025-06-18
-- client 2025-06-18 over http,stdio --
-- server 2025-06-18 over http --
-- steps --
client sends {"jsonrpc":"2.0","id":1,"method":"ping"}
server gets {"jsonrpc":"2.0","id":"<call>","method":"ping"}
server sends {"jsonrpc":"2.0","id":"<call>","result":{}}
client gets 404 {"jsonrpc":"2.0","id":1,"result":{}}
`)
		if err != nil {
			t.Fatal(err)
		}
		s.each(func(play scriptPlay, client, server scriptPeer, from, to string) {
			if err := s.play(t, play, client, server, from, to, patience); (err != nil) != (from == "http") {
				t.Errorf("%s: %v", from, err)
			}
		})
	})
}

// TestScriptsCompareHeaders: an HTTP header that differs is an error over HTTP only, in both directions.
func TestScriptsCompareHeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const right = `# "A sentence." https://modelcontextprotocol.io/specification/2025-06-18
-- client 2025-06-18 over http,stdio --
-- server 2025-06-18 over http,stdio --
-- steps --
client sends {"jsonrpc":"2.0","id":1,"method":"ping"}
with Authorization: Bearer a
server gets {"jsonrpc":"2.0","id":"<call>","method":"ping"}
with Mcp-Name:
server sends {"jsonrpc":"2.0","id":"<call>","result":{}}
client gets {"jsonrpc":"2.0","id":1,"result":{}}
with Content-Type: application/json
`
		for _, c := range []struct{ old, new, who, want string }{
			{"", "", "", ""},
			{"Mcp-Name:", "Mcp-Name: x", "server", `a.txt:7: server gets header Mcp-Name: "", want "x"`},
			{"Mcp-Name:", "Content-Type:", "server", `a.txt:7: server gets header Content-Type: "application/json", want ""`},
			{"with Mcp-Name:", "with Mcp-Name: <any>", "server", `a.txt:7: server gets header Mcp-Name: "", want "<any>"`},
			{"application/json", "<any>", "", ""},
			{"application/json", "text/event-stream", "client", `a.txt:10: client gets header Content-Type: "application/json", want "text/event-stream"`},
		} {
			s, err := readScript("a.txt", strings.Replace(right, c.old, c.new, 1))
			if err != nil {
				t.Fatal(err)
			}
			s.each(func(play scriptPlay, client, server scriptPeer, from, to string) {
				fails := c.who == "server" && to == "http" || c.who == "client" && from == "http"
				err := s.play(t, play, client, server, from, to, patience)
				if (err != nil) != fails || fails && !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("%s to %s: got %v, want %s", from, to, err, c.want)
				}
			})
		}
	})
}
