package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
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

// askingWatch is a server that asks for sampling before it answers resources/subscribe, and the client of its calls.
type askingWatch struct {
	f                             *fakeServer
	srv                           testServer
	t                             *testing.T
	subscribe, call, requestState string
}

const canSample = `{"sampling":{}}`

func newAskingWatch(t *testing.T, change ...func(*config.Config)) *askingWatch {
	w := &askingWatch{t: t}
	w.f = legacyServer(`{"tools":{},"resources":{"subscribe":true}}`, func(id, method, _ string) ([]string, error) {
		switch method {
		case "resources/subscribe":
			w.subscribe = id
			return one(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`)
		case "resources/unsubscribe":
			return one(result(id, ""))
		case "tools/call":
			w.call = id
			return nil, nil
		}
		return one(result(w.subscribe, ""), result(w.call, `"content":[]`))
	})
	w.f.piped = true
	w.srv = front(t, w.f, change...)
	return w
}

func (w *askingWatch) listen(id string) *listens {
	ctx, cancel := context.WithCancelCause(context.Background())
	body := modernRequestOf(id, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(canSample))
	_, resp := w.srv.begin(ctx, "POST", "", body, modernHeader(body)...)
	return &listens{resp, sync.OnceFunc(func() { cancel(downstream.ErrClientLeft); resp.Done() })}
}

// ask makes a call, which the question of the subscription reaches while the client listens.
func (w *askingWatch) ask(listen func()) {
	var all sync.WaitGroup
	asked := ""
	all.Go(func() { asked = w.srv.modernly(asCall("2", canSample, "")).body })
	synctest.Wait()
	all.Go(listen)
	synctest.Wait()
	time.Sleep(time.Second) // more questions may come
	synctest.Wait()
	w.requestState = gjson.Get(asked, "result.requestState").Raw
}

// answer is the user's answer.
func (w *askingWatch) answer() {
	r := w.srv.modernly(asCall("3", canSample, `"inputResponses":{"sampling-1":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}},"requestState":`+w.requestState+`,`))
	sameJSON(w.t, r.body, `{"jsonrpc":"2.0","id":3,`+complete+`}`)
}

// TestUserWhoAnswersLaterThanServersMay: while the user is asked, the time for a subscription does not run out.
func TestUserWhoAnswersLaterThanServersMay(t *testing.T) {
	inBubble(t, "pipe", func(t *testing.T) {
		const limit = 2 * time.Second
		w := newAskingWatch(t, func(cfg *config.Config) { cfg.Upstream.HandshakeTimeout = limit })
		acknowledged := make(chan string, 1)
		w.ask(func() {
			go func() {
				l := w.listen("1")
				defer l.leave()
				acknowledged <- l.next(t)
			}()
		})
		time.Sleep(limit + time.Second)
		w.answer()
		if m := <-acknowledged; gjson.Get(m, "params.notifications.resourceSubscriptions.0").String() != "u:1" {
			t.Error(m)
		}
	})
}

// TestSubscriptionThatIsAcceptedLate: the client is told in time that it gets nothing. When the server accepts, the stream ends, and
// the client, which asks again, is subscribed at once, without another request to the server.
func TestSubscriptionThatIsAcceptedLate(t *testing.T) {
	inBubble(t, "pipe", func(t *testing.T) {
		w := newAskingWatch(t)
		var late *listens
		first := ""
		w.ask(func() {
			late = w.listen("1")
			first = late.next(t)
		})
		began := time.Now()
		time.Sleep(w.srv.Modern.Waits.Accepted)
		synctest.Wait()
		if gjson.Get(first, "params.notifications").Raw != "{}" {
			t.Fatalf("acknowledged after %v: %s", time.Since(began), first)
		}
		time.Sleep(time.Minute)
		w.answer()
		if m := late.next(t); gjson.Get(m, "result.resultType").String() != "complete" {
			t.Errorf("%s", m)
		}
		late.leave()
		again := w.listen("4")
		if m := again.next(t); gjson.Get(m, "params.notifications.resourceSubscriptions.0").String() != "u:1" {
			t.Errorf("%s", m)
		}
		time.Sleep(time.Minute)
		if n, m := len(w.f.said("resources/subscribe")), len(w.f.said("resources/unsubscribe")); n != 1 || m != 0 {
			t.Errorf("%d subscriptions, %d ends", n, m)
		}
		again.leave()
		synctest.Wait()
		if n := len(w.f.said("resources/unsubscribe")); n != 1 {
			t.Errorf("%d ends", n)
		}
	})
}

// TestClientThatLeavesBeforeItsSubscriptionIsAccepted, and one that does not ask again: the session does not stay subscribed.
func TestClientThatLeavesBeforeItsSubscriptionIsAccepted(t *testing.T) {
	for name, leavesFirst := range map[string]bool{"leaves": true, "does not ask again": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "pipe", func(t *testing.T) {
				w := newAskingWatch(t)
				var late *listens
				w.ask(func() {
					late = w.listen("1")
					late.next(t)
				})
				time.Sleep(w.srv.Modern.Waits.Accepted)
				synctest.Wait()
				if leavesFirst {
					late.leave()
				}
				w.answer()
				late.leave()
				time.Sleep(2 * w.srv.Modern.Waits.Accepted)
				synctest.Wait()
				if n := len(w.f.said("resources/unsubscribe")); n != 1 {
					t.Errorf("%d ends", n)
				}
			})
		})
	}
}

// TestSubscriptionThatIsRefusedLate: the stream, on which nothing would come, ends.
func TestSubscriptionThatIsRefusedLate(t *testing.T) {
	inBubble(t, "pipe", func(t *testing.T) {
		subscribe := make(chan string, 1)
		f := watchable(func(id, method string) ([]string, error) {
			if method == "resources/subscribe" {
				subscribe <- id
				return nil, nil
			}
			return one(result(id, ""))
		})
		f.piped = true
		srv := front(t, f)
		l := srv.listenFor("u:1")
		defer l.leave()
		if m := l.next(t); gjson.Get(m, "params.notifications").Raw != "{}" {
			t.Errorf("%s", m)
		}
		f.Unasked(rpcError(<-subscribe, `"code":-32602,"message":"no"`))
		if m := l.next(t); gjson.Get(m, "result.resultType").String() != "complete" {
			t.Errorf("%s", m)
		}
	})
}

// TestQuestionBeforeASubscriptionIsRefused at once if no call is open that may carry it: the client waits, and no call need ever come.
func TestQuestionBeforeASubscriptionIsRefused(t *testing.T) {
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
		body := modernRequestOf("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(canSample))
		began := time.Now()
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		defer resp.Done()
		e, err := resp.Stream.Next()
		if err != nil || gjson.GetBytes(e.Data, "params.notifications").Raw != "{}" {
			t.Errorf("%s %v", e.Data, err)
		}
		if took := time.Since(began); took >= srv.Modern.Waits.Unattributed {
			t.Errorf("refused after %v", took)
		}
		if srv.logs.FilterMessageSnippet("it is refused").Len() != 1 {
			t.Errorf("%v", srv.logs.All())
		}
	})
}

// TestRootsAreAskedForInTheNextCall also if the server wants them while it answers resources/subscribe: many servers want them as soon
// as a session is open.
func TestRootsAreAskedForInTheNextCall(t *testing.T) {
	inBubble(t, "pipe", func(t *testing.T) {
		f := legacyServer(`{"tools":{},"resources":{"subscribe":true}}`, nil)
		f.piped = true
		f.on("resources/subscribe", func(u *peertest.Turn) {
			u.Say(`{"jsonrpc":"2.0","id":"r1","method":"roots/list"}`, result(u.ID, ""))
		})
		srv := front(t, f)
		const can = `{"roots":{}}`
		body := modernRequestOf("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["u:1"]},`+meta(can))
		_, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
		defer resp.Done()
		if e, err := resp.Stream.Next(); err != nil || !gjson.GetBytes(e.Data, "params.notifications.resourceSubscriptions").Exists() {
			t.Errorf("%s %v", e.Data, err)
		}
		if r := srv.modernly(asCall("2", can, "")); gjson.Get(r.body, "result.inputRequests.roots-1.method").String() != "roots/list" {
			t.Errorf("%+v", r)
		}
	})
}
