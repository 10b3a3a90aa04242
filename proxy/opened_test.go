package proxy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// TestCallsWaitForTheirURLsToBeOpened: the call is repeated when both the client and the server
// have said that the URLs were opened, in either order.
func TestCallsWaitForTheirURLsToBeOpened(t *testing.T) {
	const (
		complete = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`
		other    = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e2"}}`
		url      = `{"elicitation":{"url":{}}}`
	)
	bothOutside(t, func(t *testing.T, piped bool) {
		for _, c := range []struct {
			what  string
			limit time.Duration
			do    func(s *peertest.Server, client *peertest.Client, retry func() *peertest.Reply) *peertest.Reply
		}{
			{"the server first", time.Hour, func(s *peertest.Server, client *peertest.Client, retry func() *peertest.Reply) *peertest.Reply {
				s.Unasked(complete)
				return retry()
			}},
			{"the client first", time.Hour, func(s *peertest.Server, client *peertest.Client, retry func() *peertest.Reply) *peertest.Reply {
				r := retry()
				s.Unasked(other)
				client.Say(modernRequestOf("20", "prompts/list", meta(url))).Next() // the response shows that the proxy has read the earlier messages
				if n := s.Count("tools/call"); n != 1 {
					s.T.Errorf("%d calls before the server has said that the page was seen", n)
				}
				s.Unasked(complete)
				return r
			}},
			{"on the stream of another request", time.Hour, func(s *peertest.Server, client *peertest.Client, retry func() *peertest.Reply) *peertest.Reply {
				client.Say(modernRequestOf("20", "prompts/get", `"name":"says",`+meta(url))).Next()
				return retry()
			}},
			{"the server never", 20 * time.Millisecond, func(s *peertest.Server, client *peertest.Client, retry func() *peertest.Reply) *peertest.Reply {
				return retry()
			}},
		} {
			t.Run(c.what, func(t *testing.T) {
				s := script(t, piped, nil)
				s.SessionID = "session-1"
				s.Script = func(u *peertest.Turn) {
					switch {
					case u.Method == "initialize":
						u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"2"}}}`)
					case u.Method == "prompts/get":
						u.Say(complete, result(u.ID, `"messages":[]`))
					case u.Method == "prompts/list":
						u.Answer(200, result(u.ID, `"prompts":[]`))
					case u.Method == "tools/call" && u.Count("tools/call") == 1:
						u.Answer(200, rpcError(u.ID, `"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}`))
					case u.Method == "tools/call":
						u.Answer(200, result(u.ID, `"content":[]`))
					case u.ID != "" && u.Method != "":
						u.Answer(400, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
					}
				}
				p := through(t, s.At(), func(cfg *config.Config) { cfg.Bridge.OpenedTimeout = c.limit })
				client := p.client(t, false)
				state := gjson.Get(client.Say(asCall("7", url, "")).Next(), "result.requestState").Raw
				if state == "" {
					t.Fatal("no requestState")
				}
				r := c.do(s, client, func() *peertest.Reply {
					return client.Say(asCall("8", url, `"inputResponses":{"elicitation-1":{"action":"accept"}},"requestState":`+state+`,`))
				})
				if got := r.Next(); !strings.Contains(got, `"complete"`) || gjson.Get(got, "id").Raw != "8" {
					t.Error(got)
				}
				if n := s.Count("tools/call"); n != 2 {
					t.Errorf("%d calls", n)
				}
				if strings.Contains(s.Gets(2, "tools/call").Text, "requestState") {
					t.Error("the server got what is ours")
				}
				if n := p.Modern.Counts().Opening; n > 0 {
					t.Errorf("%d calls wait for ever", n)
				}
			})
		}
	})
}

// TestClientThatLeavesWhileItsURLsAreWaitedFor: the call is not repeated.
func TestClientThatLeavesWhileItsURLsAreWaitedFor(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
		if method == "tools/call" {
			return one(rpcError(id, `"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}`))
		}
		return one(result(id, ""))
	})
	f.NoGet = true
	srv := front(t, f, func(c *config.Config) { c.Bridge.OpenedTimeout = time.Hour })
	const url = `{"elicitation":{"url":{}}}`
	r := srv.modernly(asCall("7", url, ""))
	ctx, leave := context.WithCancel(context.Background())
	body := asCall("8", url, `"inputResponses":{"elicitation-1":{"action":"accept"}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		resp.Done()
	}()
	eventually(t, "the retry waits", func() bool { return srv.Modern.Counts().Parked == 0 })
	leave()
	<-done
	if n := len(f.said("tools/call")); n != 1 {
		t.Errorf("%d calls", n)
	}
}
