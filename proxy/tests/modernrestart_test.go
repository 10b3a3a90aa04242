package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestProcessWithoutAHandshakeIsStartedAgain: open requests are lost, the session continues, and
// its subscriptions are requested again.
func TestProcessWithoutAHandshakeIsStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kids := newFamily(func(nth int) *fakeServer {
			return modernServer(true, `"capabilities":{"tools":{},"resources":{"subscribe":true}}`, func(id, method, _ string) ([]string, error) {
				switch {
				case method == "subscriptions/listen":
					return one(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":{"resourceSubscriptions":["a:b"]}}}`)
				case nth == 1:
					return nil, nil
				}
				return one(result(id, `"resultType":"complete","content":[]`))
			})
		})
		srv := frontOf(t, kids.origin(), quickly)
		s := srv.initialize("2025-06-18")
		first := kids.child(t, 0)
		sameJSON(t, srv.post(s, `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:b"}}`).body, result("4", ""))
		lost := srv.call(first, s, callOne)
		got(t, first, `"tools/call"`)
		first.lose(exited)
		if r := <-lost.reply; r.status != 200 || !strings.Contains(r.body, "being restarted") || gjson.Get(r.body, "id").Raw != "1" {
			t.Errorf("%+v", r)
		}
		second := kids.child(t, 1)
		sameJSON(t, srv.post(s, callOne).body, result("1", `"content":[]`))
		got(t, second, `"subscriptions/listen"`)
		if list := second.said("initialize"); len(list) > 0 {
			t.Errorf("told %q", list)
		}
		if n := counted(t, srv.Metrics, "dragoman_upstream_restarts_total"); n != 1 {
			t.Errorf("%d restarts counted", n)
		}
		if srv.Table.Len() != 1 {
			t.Error("the session is gone")
		}
	})
}

// TestProcessThatComesBackWithAHandshake: the session ends, and the next one is of the new era.
func TestProcessThatComesBackWithAHandshake(t *testing.T) {
	kids := newFamily(func(nth int) *fakeServer {
		if nth == 1 {
			return modernServer(true, `"capabilities":{"tools":{}}`, nil)
		}
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			return one(rpcError(gjson.Get(m, "id").Raw, `"code":-32601,"message":"m"`))
		}))
		f.piped = true
		return f
	})
	srv := frontOf(t, kids.origin(), quickly, func(cfg *config.Config) { cfg.Upstream.Restart.Max = 1 })
	s := srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	eventually(t, "session ended", func() bool { return srv.Table.Len() == 0 })
	if r := srv.post(s, callOne); r.status != 404 {
		t.Errorf("%+v", r)
	}
	srv.initialize("2025-06-18")
}

// TestProcessIsStartedAgainForClientsWithoutASession: the same for modern clients.
func TestProcessIsStartedAgainForClientsWithoutASession(t *testing.T) {
	kids := newFamily(func(int) *fakeServer {
		return modernServer(true, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			return one(result(id, `"resultType":"complete","content":[]`))
		})
	})
	o := kids.origin()
	o.Open = func(ctx context.Context) (*upstream.Begun, error) {
		kids.mu.Lock()
		defer kids.mu.Unlock()
		kids.starts++
		c := kids.born(kids.starts)
		c.asked = true
		kids.children = append(kids.children, c)
		return c.origin().Open(ctx)
	}
	srv := frontOf(t, o, quickly)
	call := modernRequestOf("7", "tools/call", meta(`{}`)+`,"name":"t","arguments":{}`)
	sameJSON(t, srv.modernly(call).body, result("7", `"resultType":"complete","content":[]`))
	kids.child(t, 0).lose(exited)
	kids.child(t, 1)
	sameJSON(t, srv.modernly(call).body, result("7", `"resultType":"complete","content":[]`))
	if n := kids.count(); n != 2 {
		t.Errorf("started %d times", n)
	}
}

// TestCallThatWaitsForAProcessEndsWithItsClient: the process does not get a call whose client has left before the process was there.
func TestCallThatWaitsForAProcessEndsWithItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kids := newFamily(func(int) *fakeServer {
			return modernServer(true, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
				return one(result(id, `"resultType":"complete","content":[]`))
			})
		})
		srv := frontOf(t, kids.origin(), func(cfg *config.Config) { cfg.Upstream.Restart.Wait = 10 * time.Second })
		s := srv.initialize("2025-06-18")
		kids.child(t, 0).lose(exited)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		srv.exchange(ctx, "POST", s, callOne)
		sameJSON(t, srv.post(s, callSecond).body, result("2", `"content":[]`))
		if calls := kids.child(t, 1).said("tools/call"); len(calls) != 1 {
			t.Errorf("called with %q", calls)
		}
	})
}
