package tests

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// tokenless are progress notifications that name no request: the token is neither text nor a number.
var tokenless = func() (list []string) {
	for _, params := range []string{
		"", `,"params":{}`, `,"params":{"progress":1}`, `,"params":{"progressToken":null,"progress":1}`,
		`,"params":{"progressToken":true,"progress":1}`, `,"params":{"progressToken":{},"progress":1}`, `,"params":{"progressToken":["TOKEN"],"progress":1}`,
		`,"params":{"ProgressToken":TOKEN,"progress":1}`, `,"params":{"_meta":{"progressToken":TOKEN},"progress":1}`,
	} {
		list = append(list, `{"jsonrpc":"2.0","method":"notifications/progress"`+params+`}`)
	}
	return list
}()

// doubled are progress notifications with two tokens, which are no messages: TestRepeatedMembersOfNotifications.
var doubled = []string{
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progressToken":null,"progress":1}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null,"progress\u0054oken":TOKEN,"progress":1}}`,
}

// TestProgressWithoutATokenIsDropped on its way to the client: over each transport, between clients and servers of each era.
func TestProgressWithoutATokenIsDropped(t *testing.T) {
	for _, at := range []peertest.Over{peertest.HTTP, peertest.SSE, peertest.Stdio} {
		for _, server := range []string{"2025-06-18", modernOnly} {
			if at == peertest.SSE && server == modernOnly {
				continue // there is no such transport any more
			}
			for _, client := range []string{"2025-06-18", modernOnly} {
				for _, piped := range []bool{false, true} {
					inBubble(t, fmt.Sprintf("%s server of %s, client of %s, on a pipe: %v", at, server, client, piped), func(t *testing.T) {
						unknown := 0 // of a token that no call has: where tokens are dragoman's own
						if at != peertest.HTTP || client == modernOnly && server != modernOnly {
							unknown = 1
						}
						s := peertest.NewServer(t, at, func(u *peertest.Turn) {
							switch u.Method {
							case "initialize":
								if server == modernOnly {
									u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
									return
								}
								u.Answer(200, initialized(u.ID))
							case "server/discover":
								if server != modernOnly {
									u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
									return
								}
								u.Answer(200, result(u.ID, discoveredModern))
							case "tools/call":
								token := gjson.Get(u.Text, "params._meta.progressToken").Raw
								for _, m := range append(slices.Clone(tokenless), doubled...) {
									u.Say(withToken(m, token))
								}
								if unknown > 0 {
									u.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":6}}`)
								}
								u.Say(withToken(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":7}}`, token))
								u.Say(result(u.ID, `"content":[],"resultType":"complete"`))
							case "ping":
								u.Answer(200, result(u.ID, ""))
							}
						})
						s.NoGet = true
						m := new(atomic.Pointer[metrics.Metrics])
						p := throughMade(t, s.At(), func(srv *proxy.Server) { m.Store(srv.Metrics) }, func(cfg *config.Config) {
							if at == peertest.SSE {
								cfg.Upstream.Transport = "sse"
							}
						})
						c := p.client(t, piped)
						call := modernRequestOf("1", "tools/call", `"name":"t",`+meta(`{}`, `"progressToken":"tk"`))
						if client != modernOnly {
							c.Initialize(client, `{}`)
							call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"tk"}}}`
						}
						r := c.Say(call)
						if got := r.Next(); gjson.Get(got, "params.progressToken").Raw != `"tk"` || gjson.Get(got, "params.progress").Raw != "7" {
							t.Fatalf("%s", got)
						}
						if got := r.Next(); !gjson.Get(got, "result.content").Exists() {
							t.Fatalf("%s", got)
						}
						if !piped {
							m.Store(p.Metrics)
						}
						if n := counted(t, m.Load(), "dragoman_messages_dropped_total", "reason=unattributed"); n != len(tokenless)+unknown {
							t.Errorf("%d are counted of %d", n, len(tokenless)+unknown)
						}
					})
				}
			}
		}
	}
}

func withToken(m, token string) string {
	if token == "" {
		token = `"none"`
	}
	return strings.ReplaceAll(strings.ReplaceAll(m, `"TOKEN"`, token), "TOKEN", token)
}

// TestProgressOfAClientWithoutATokenIsDropped: what a client tells the server of its work on a question.
func TestProgressOfAClientWithoutATokenIsDropped(t *testing.T) {
	const (
		question = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[],"_meta":{"progressToken":5}}}`
		good     = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":7}}`
	)
	for _, at := range []peertest.Over{peertest.HTTP, peertest.SSE, peertest.Stdio} {
		for _, piped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s server, client on a pipe: %v", at, piped), func(t *testing.T) {
				s := peertest.NewServer(t, at, func(u *peertest.Turn) {
					switch u.Method {
					case "initialize":
						u.Answer(200, initialized(u.ID))
					case "server/discover":
						u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
					case "tools/call":
						u.Asks(question)
						u.Say(result(u.ID, `"content":[]`))
					}
				})
				s.NoGet = true
				m := new(atomic.Pointer[metrics.Metrics])
				p := throughMade(t, s.At(), func(srv *proxy.Server) { m.Store(srv.Metrics) }, func(cfg *config.Config) {
					if at == peertest.SSE {
						cfg.Upstream.Transport = "sse"
					}
				})
				c := p.client(t, piped)
				c.Initialize("2025-06-18", `{"sampling":{}}`)
				r := c.Say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
				asked := r.Next()
				for _, m := range append(slices.Clone(tokenless), good) {
					c.Say(withToken(m, "5")).HasStatus(202)
				}
				c.Say(`{"jsonrpc":"2.0","id":` + gjson.Get(asked, "id").Raw + `,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}`)
				if got := r.Next(); !gjson.Get(got, "result.content").Exists() {
					t.Fatalf("%s", got)
				}
				eventually(t, "the good one", func() bool { return len(s.Of("notifications/progress")) > 0 })
				for _, got := range s.Of("notifications/progress") {
					sameJSON(t, got.Text, good)
				}
				if !piped {
					m.Store(p.Metrics)
				}
				if n := counted(t, m.Load(), "dragoman_messages_dropped_total", "reason=unattributed"); n != len(tokenless) {
					t.Errorf("%d are counted of %d", n, len(tokenless))
				}
			})
		}
	}
}
