package proxy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// listens is a client with a subscription to a resource.
type listens struct {
	resp  *response
	leave func()
}

func (srv testServer) listenFor(uri string) *listens {
	srv.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	body := modernRequestOf(`"L"`, "subscriptions/listen", fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, uri)+meta(`{}`))
	_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		srv.t.Fatalf("%s", resp.Body)
	}
	return &listens{resp, sync.OnceFunc(func() { cancel(downstream.ErrClientLeft); resp.Done() })}
}

// next returns the next notification.
func (l *listens) next(t *testing.T) string {
	t.Helper()
	e, err := l.resp.Stream.Next()
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Data)
}

// watchable is a server whose responses to subscription requests the test controls.
func watchable(answer func(id, method string) ([]string, error)) *fakeServer {
	return legacyServer(`{"resources":{"subscribe":true}}`, func(id, method, _ string) ([]string, error) { return answer(id, method) })
}

// TestAllWaitingClientsGetTheRefusal: if the server refuses, all waiting clients get the error, not
// only the first.
func TestAllWaitingClientsGetTheRefusal(t *testing.T) {
	gate := make(chan struct{})
	f := watchable(func(id, method string) ([]string, error) {
		if method == "resources/subscribe" {
			<-gate
		}
		return one(rpcError(id, `"code":-32602,"message":"no"`))
	})
	srv := front(t, f)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			l := srv.listenFor("u:1")
			defer l.leave()
			if m := l.next(t); gjson.Get(m, "params.notifications.resourceSubscriptions").Exists() {
				t.Error(m)
			}
		})
	}
	eventually(t, "both wait", func() bool { return srv.Modern.Counts().Uses == 2 && len(f.said("resources/subscribe")) == 1 })
	close(gate)
	all.Wait()
	if n := len(f.said("resources/unsubscribe")); n != 0 {
		t.Errorf("%d ends of what never was", n)
	}
}

// TestUnsubscribeByFirstClientKeepsSharedSubscription: other clients still use the subscription.
func TestUnsubscribeByFirstClientKeepsSharedSubscription(t *testing.T) {
	gate := make(chan struct{})
	f := watchable(func(id, method string) ([]string, error) {
		if method == "resources/subscribe" {
			<-gate
		}
		return one(result(id, ""))
	})
	srv := front(t, f)
	ctx, leave := context.WithCancelCause(context.Background())
	body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(`{}`))
	var all sync.WaitGroup
	all.Go(func() { srv.exchange(ctx, "POST", "", body, modernHeader(body)...) })
	eventually(t, "the first asks", func() bool { return len(f.said("resources/subscribe")) == 1 })
	second := make(chan *listens)
	go func() { second <- srv.listenFor("u:1") }()
	eventually(t, "both wait", func() bool { return srv.Modern.Counts().Uses == 2 })
	leave(downstream.ErrClientLeft)
	all.Wait()
	close(gate)
	l := <-second
	if m := l.next(t); gjson.Get(m, "params.notifications.resourceSubscriptions.0").String() != "u:1" {
		t.Error(m)
	}
	l.leave()
	eventually(t, "the last ends it", func() bool { return len(f.said("resources/unsubscribe")) == 1 })
}

// TestUserWhoAnswersLaterThanServersMay: while the user is asked, the time for a subscription does not run out.
func TestUserWhoAnswersLaterThanServersMay(t *testing.T) {
	inBubble(t, "pipe", func(t *testing.T) {
		const can = `{"sampling":{}}`
		subscribe, call := "", ""
		f := legacyServer(`{"tools":{},"resources":{"subscribe":true}}`, func(id, method, _ string) ([]string, error) {
			switch method {
			case "resources/subscribe":
				subscribe = id
				return one(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`)
			case "tools/call":
				call = id
				return nil, nil
			}
			return one(result(subscribe, ""), result(call, `"content":[]`))
		})
		f.piped = true
		const limit = 2 * time.Second
		srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.HandshakeTimeout = limit })
		listen := modernRequestOf("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(can))
		listening := srv.reads("", listen, modernHeader(listen)...)
		synctest.Wait()
		asked := srv.modernly(asCall("2", can, "")).body
		time.Sleep(limit + time.Second)
		answered := srv.modernly(asCall("3", can, `"inputResponses":{"sampling-1":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}},"requestState":`+gjson.Get(asked, "result.requestState").Raw+`,`))
		sameJSON(t, answered.body, `{"jsonrpc":"2.0","id":3,`+complete+`}`)
		if m := <-listening; gjson.Get(m, "params.notifications.resourceSubscriptions.0").String() != "u:1" {
			t.Error(m)
		}
	})
}

// TestQuestionBeforeASubscriptionWaits for a call that may carry it, and is refused only then.
func TestQuestionBeforeASubscriptionWaits(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		const ask = `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`
		f := legacyServer(`{"resources":{"subscribe":true}}`, nil)
		refuse := func(id string) string { return rpcError(id, `"code":-32603,"message":"refused"`) }
		if f.piped = piped; piped {
			subscribe := ""
			f.on("", func(*peertest.Turn) { f.Unasked(refuse(subscribe)) })
			f.on("resources/subscribe", func(u *peertest.Turn) {
				subscribe = u.ID
				u.Say(ask)
			})
		} else {
			f.on("resources/subscribe", func(u *peertest.Turn) {
				f.Unasked(ask)
				u.Hears(`"s1"`)
				u.Say(refuse(u.ID))
			})
		}
		srv := front(t, f)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		body := modernRequestOf("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(`{"sampling":{}}`))
		began := time.Now()
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		defer resp.Done()
		e, err := resp.Stream.Next()
		if err != nil || gjson.GetBytes(e.Data, "params.notifications").Raw != "{}" {
			t.Errorf("%s %v", e.Data, err)
		}
		if took := time.Since(began); took < srv.Modern.Waits.Unattributed {
			t.Errorf("refused after %v", took)
		}
	})
}
