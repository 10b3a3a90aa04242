package tests

import (
	"context"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// sharedModern is one modern process for all sessions.
func sharedModern(t *testing.T, rest func(id, method, m string) ([]string, error)) (testServer, *family) {
	kids := newFamily(func(int) *fakeServer {
		return modernServer(true, `"capabilities":{"tools":{},"resources":{"subscribe":true}}`, rest)
	})
	o := kids.origin()
	connect := o.Connect
	o.Open = func(ctx context.Context) (*upstream.Begun, error) {
		kids.mu.Lock()
		defer kids.mu.Unlock()
		kids.starts++
		c := kids.born(kids.starts)
		c.asked = true
		kids.children = append(kids.children, c)
		return c.origin().Open(ctx)
	}
	o.Connect = connect
	o.Share()
	return frontOf(t, o, quickly), kids
}

// TestProcessWithoutAHandshakeIsShared: sessions with the same ids and tokens get their own
// messages, and a session that ends leaves the process to the others.
func TestProcessWithoutAHandshakeIsShared(t *testing.T) {
	srv, kids := sharedModern(t, func(id, method, m string) ([]string, error) {
		switch method {
		case "subscriptions/listen":
			uri := gjson.Get(m, "params.notifications.resourceSubscriptions.0").Raw
			mark := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
			return one(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+mark+`,"notifications":{"resourceSubscriptions":[`+uri+`]}}}`,
				`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{`+mark+`,"uri":`+uri+`}}`)
		case "tools/call":
			token := gjson.Get(m, "params._meta.progressToken").Raw
			who := gjson.Get(m, "params.arguments.who").Raw
			return one(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1,"message":`+who+`}}`,
				result(id, `"resultType":"complete","content":[{"type":"text","text":`+who+`}]`))
		}
		return nil, nil
	})
	first, second := srv.initialize("2025-06-18"), srv.initialize("2025-03-26")
	var wg sync.WaitGroup
	for who, s := range map[string]string{"a": first, "b": second} {
		wg.Go(func() {
			for range 20 {
				r := srv.post(s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"who":"`+who+`"},"_meta":{"progressToken":"p"}}}`)
				if len(r.events) != 2 || gjson.Get(r.events[0], "params.message").String() != who || gjson.Get(r.events[0], "params.progressToken").String() != "p" ||
					gjson.Get(r.events[1], "result.content.0.text").String() != who || gjson.Get(r.events[1], "id").Raw != "1" {
					t.Errorf("%s: %q", who, r.events)
				}
			}
		})
	}
	wg.Wait()
	listening := srv.open("GET", second, "")
	defer listening.leaves()
	sameJSON(t, srv.post(second, `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:b"}}`).body, result("4", ""))
	sameJSON(t, string(listening.next().Data), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`)
	if r := srv.exchange(t.Context(), "DELETE", first, ""); r.status >= 400 {
		t.Errorf("%+v", r)
	}
	if r := srv.post(second, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"who":"b"},"_meta":{"progressToken":"p"}}}`); len(r.events) != 2 {
		t.Errorf("%+v", r)
	}
	if n := len(kids.children[len(kids.children)-1].said("tools/call")); n != 41 {
		t.Errorf("%d calls at the last process", n)
	}
}
