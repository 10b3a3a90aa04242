package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// plainFake is a fake modern server. rest answers all requests except server/discover and
// dragoman's own.
func plainFake(piped bool, rest func(id, method, m string) ([]string, error)) *fakeServer {
	f := modernServer(piped, `"capabilities":{"tools":{}},`+identity, rest)
	f.asked = true
	return f
}

// TestSubscriptionEndsWithItsResultAtShutdown: when dragoman stops, a subscription ends with its result.
func TestSubscriptionEndsWithItsResultAtShutdown(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := plainFake(piped, func(id, _, _ string) ([]string, error) {
			ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":{}}}`
			return one(ack, hang)
		})
		srv := front(t, f)
		body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`))
		req, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
		time.AfterFunc(time.Millisecond, srv.Host.Drain)
		r := srv.read(req, resp)
		if len(r.events) != 2 {
			t.Fatalf("%+v", r)
		}
		sameJSON(t, r.events[1], result(`"L"`, `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}`))
	})
}

// TestProcessIsRestartedForModernClientsOnAPipe: open requests are lost, and the next one goes to a
// new process.
func TestProcessIsRestartedForModernClientsOnAPipe(t *testing.T) {
	for _, over := range []string{"http", "stdio"} {
		t.Run("from "+over, func(t *testing.T) {
			kids := newFamily(func(nth int) *fakeServer {
				return modernServer(true, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
					if nth == 1 {
						return nil, nil
					}
					return one(result(id, `"resultType":"complete","prompts":[]`))
				})
			})
			o := kids.origin()
			o.Open = func(ctx context.Context) (*upstream.Begun, error) {
				return o.Connect(ctx, &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)})
			}
			srv := frontOf(t, o, quickly)
			answers := make(chan string, 1)
			ask := func(body string) { answers <- srv.modernly(body).body }
			if over == "stdio" {
				c := srv.pipe()
				ask = func(body string) {
					c.say(body)
					answers <- c.hear()
				}
			}
			go ask(modernRequestOf("1", "prompts/list", meta(`{}`)))
			first := kids.child(t, 0)
			got(t, first, `"prompts/list"`)
			first.lose(exited)
			if r := <-answers; !strings.Contains(r, "being restarted") || gjson.Get(r, "id").Raw != "1" {
				t.Error(r)
			}
			go ask(modernRequestOf("1", "prompts/list", meta(`{}`)))
			sameJSON(t, <-answers, result("1", `"resultType":"complete","prompts":[]`))
			if n := len(kids.child(t, 1).said("initialize")); n != 0 {
				t.Error("initialize was sent")
			}
		})
	}
}
