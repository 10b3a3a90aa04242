package proxy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
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
			do    func(s *scripted, client *talker, retry func() *told) *told
		}{
			{"the server first", time.Hour, func(s *scripted, client *talker, retry func() *told) *told {
				s.unasked(complete)
				return retry()
			}},
			{"the client first", time.Hour, func(s *scripted, client *talker, retry func() *told) *told {
				r := retry()
				s.unasked(other)
				client.say(modernRequestOf("20", "prompts/list", meta(url))).next() // the response shows that the proxy has read the earlier messages
				if n := s.count("tools/call"); n != 1 {
					s.t.Errorf("%d calls before the server has said that the page was seen", n)
				}
				s.unasked(complete)
				return r
			}},
			{"on the stream of another request", time.Hour, func(s *scripted, client *talker, retry func() *told) *told {
				client.say(modernRequestOf("20", "prompts/get", `"name":"says",`+meta(url))).next()
				return retry()
			}},
			{"the server never", 20 * time.Millisecond, func(s *scripted, client *talker, retry func() *told) *told { return retry() }},
		} {
			t.Run(c.what, func(t *testing.T) {
				s := script(t, piped, nil)
				s.session = "session-1"
				s.script = func(u *turn) {
					switch {
					case u.method == "initialize":
						u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"2"}}}`)
					case u.method == "prompts/get":
						u.say(complete, result(u.id, `"messages":[]`))
					case u.method == "prompts/list":
						u.answer(200, result(u.id, `"prompts":[]`))
					case u.method == "tools/call" && u.count("tools/call") == 1:
						u.answer(200, rpcError(u.id, `"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}`))
					case u.method == "tools/call":
						u.answer(200, result(u.id, `"content":[]`))
					case u.id != "" && u.method != "":
						u.answer(400, rpcError(u.id, `"code":-32601,"message":"Method not found"`))
					}
				}
				p := through(t, s.at(), func(cfg *config.Config) { cfg.Bridge.OpenedTimeout = c.limit })
				client := p.client(t, false)
				state := gjson.Get(client.say(asCall("7", url, "")).next(), "result.requestState").Raw
				if state == "" {
					t.Fatal("no requestState")
				}
				r := c.do(s, client, func() *told {
					return client.say(asCall("8", url, `"inputResponses":{"elicitation-1":{"action":"accept"}},"requestState":`+state+`,`))
				})
				if got := r.next(); !strings.Contains(got, `"complete"`) || gjson.Get(got, "id").Raw != "8" {
					t.Error(got)
				}
				if n := s.count("tools/call"); n != 2 {
					t.Errorf("%d calls", n)
				}
				if strings.Contains(s.gets(2, "tools/call").text, "requestState") {
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
	f.noGet = true
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
