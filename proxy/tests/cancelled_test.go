package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// TestClientCancelsWhileItsRequestIsSent: a request that reaches the server is followed by its cancellation, and one that
// does not reach it is not. The client that has cancelled it gets no response. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements.
func TestClientCancelsWhileItsRequestIsSent(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`
	handshake := `{"jsonrpc":"2.0","id":"x","method":"prompts/get","params":{"name":"p"}}`
	modern := modernRequestOf(`"x"`, "prompts/get", `"name":"p",`+meta(`{}`))
	// Each client sends its request, and cancels it when the request is on its way. It returns how to get the response, which is
	// "" for none.
	clients := map[string]func(testServer) (send, leave func(), response func() string){
		"handshake http": func(srv testServer) (send, leave func(), response func() string) {
			session := srv.initialize("2025-11-25")
			var events <-chan string
			return func() { events = srv.reads(session, handshake) },
				func() { srv.post(session, cancel) }, func() string { return <-events }
		},
		"modern http": func(srv testServer) (send, leave func(), response func() string) {
			ctx, stop := context.WithCancelCause(context.Background())
			got := make(chan string, 1)
			return func() {
				go func() {
					req, resp := srv.begin(ctx, "POST", "", modern, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "prompts/get", "Mcp-Name", "p")
					srv.read(req, resp)
					got <- ""
				}()
			}, func() { stop(downstream.ErrClientLeft) }, func() string { return <-got }
		},
		"modern pipe": func(srv testServer) (send, leave func(), response func() string) {
			c := srv.pipe()
			return func() { c.say(modern) }, func() { c.say(cancel) }, func() string {
				c.say(modernRequestOf(`"later"`, "subscriptions/x", meta(`{}`)))
				if got := c.hear(); gjson.Get(got, "id").String() != "later" {
					return got
				}
				return ""
			}
		},
	}
	for server, modern := range map[string]bool{"handshake server": false, "modern server": true} {
		for client, begin := range clients {
			for _, written := range []bool{true, false} {
				if modern && client == "modern pipe" && !written {
					continue // the cancellation is read when the request was sent
				}
				t.Run(fmt.Sprintf("%s/%s/written %t", server, client, written), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						f := newFake(nil)
						f.Script = initializing("2025-11-25", nil)
						if modern {
							f = plainFake(true, nil)
						}
						f.piped = true
						gate := make(chan error, 1)
						f.First = failing(func(m string) error {
							switch gjson.Get(m, "method").String() {
							case "prompts/get":
								return <-gate
							case "subscriptions/x":
								return context.Canceled
							}
							return nil
						})
						srv := front(t, f)
						send, leave, response := begin(srv)
						send()
						synctest.Wait()
						go leave()
						synctest.Wait()
						if written {
							gate <- nil
						} else {
							gate <- context.Canceled
						}
						synctest.Wait()
						if got := response(); got != "" {
							t.Errorf("the client gets %s", got)
						}
						synctest.Wait()
						got, want := len(f.said("notifications/cancelled")), 0
						if written {
							want = 1
						}
						if got != want {
							t.Fatalf("the server gets %d cancellations, want %d", got, want)
						}
						if written && gjson.Get(f.said("notifications/cancelled")[0], "params.requestId").Raw != gjson.Get(f.said("prompts/get")[0], "id").Raw {
							t.Errorf("the server gets %s after %s", f.said("notifications/cancelled")[0], f.said("prompts/get")[0])
						}
					})
				})
			}
		}
	}
}

// TestCancellationsOfManyCalls: of many calls that are cancelled at once, each that has reached the server is followed by one
// cancellation, and none is answered.
func TestCancellationsOfManyCalls(t *testing.T) {
	const calls = 100
	for _, is := range []scriptPeer{{revision: "2025-11-25"}, {revision: "2026-07-28"}} {
		t.Run(is.revision, func(t *testing.T) {
			is.capabilities = `{"prompts":{}}`
			s := serveScript(t, is, "stdio")
			c := through(t, s.At()).client(t, false)
			c.Initialize("2025-06-18", `{}`)
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() {
					r := c.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"prompts/get","params":{"name":"c%d"}}`, i, i))
					for {
						select {
						case <-r.Begun:
							for m := range r.Events {
								t.Errorf("call %d gets %s", i, m)
							}
							return
						default: // it may come before the call, and cancels nothing then
							cancel := c.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c%d"}}`, i))
							<-cancel.Begun
						}
					}
				})
			}
			all.Wait()
			eventually(t, "each call is followed by its cancellation", func() bool {
				return s.Count("prompts/get") == s.Count("notifications/cancelled")
			})
			open := map[string]bool{}
			for _, m := range s.Heard() {
				switch id := gjson.Get(m.Text, "params.requestId").Raw; {
				case strings.Contains(m.Text, `"prompts/get"`):
					open[gjson.Get(m.Text, "id").Raw] = true
				case id != "" && !open[id]:
					t.Errorf("the server gets %s before its call, or twice", m.Text)
				default:
					delete(open, id)
				}
			}
			t.Logf("%d calls have reached the server", s.Count("prompts/get"))
		})
	}
}

// TestCancellationIsForTheCallBeforeIt: the server reads the cancellation slowly, and the client
// has already begun another call with the same id.
func TestCancellationIsForTheCallBeforeIt(t *testing.T) {
	taken, read, calls := make(chan struct{}), make(chan struct{}), atomic.Int32{}
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		switch method := gjson.Get(m, "method").String(); {
		case method == "notifications/cancelled":
			<-taken
		case method == "tools/call" && calls.Add(1) == 1:
			return one(hang)
		case method == "tools/call":
			<-read
			return one(answer(`1`))
		}
		return nil, nil
	}))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	first := srv.call(f, s, callOne)
	cancellation := srv.call(f, s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	second := srv.call(f, s, callOne)
	close(taken)
	if r := <-cancellation.reply; r.status != 202 {
		t.Errorf("the cancellation gets %+v", r)
	}
	if r := <-first.reply; r.status != 202 || r.body != "" {
		t.Errorf("the first call gets %+v", r)
	}
	close(read)
	if r := <-second.reply; r.body != answer(`1`) {
		t.Errorf("the second call gets %+v", r)
	}
}
