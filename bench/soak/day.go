package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	tokenA = "soak-token-of-the-first-user-0001"
	tokenB = "soak-token-of-the-second-user-002"
)

// day adds the loads of an ordinary day: the server restarts, ids are reused, another user tries to use a session, and parallel calls all ask their
// user something.
func (s *stage) day() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := []string{"--", self, "-child"}
	mortal, err := startRestarting()
	if err != nil {
		return err
	}
	restarts := &counts{}
	s.beside = append(s.beside, beside{"restarts of the server", restarts, func(ctx context.Context) {
		if err := mortal.run(ctx); err != nil {
			restarts.failed.Add(1)
			restarts.show("restart of the server", err.Error())
		}
		restarts.good.Add(1)
	}, mortal.stop})
	if err := s.throughRestarts(mortal); err != nil {
		return err
	}
	if err := s.tokens(child); err != nil {
		return err
	}
	return s.parallel(child)
}

func pick(n int) manner {
	if n%4 == 0 {
		return late
	}
	return echo
}

func callMessage(id int, m manner, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, m, text)
}

// throughRestarts adds clients that begin one session and keep it while the server restarts.
func (s *stage) throughRestarts(mortal *restarting) error {
	w, err := s.dragoman("restarts", []string{"DRAGOMAN_SESSION_IDLE_TIMEOUT=5m"}, "--listen", "127.0.0.1:0", "--upstream", mortal.url())
	if err != nil {
		return err
	}
	w.load = func(ctx context.Context, seed uint64) {
		v, done := w.counts.visitor(w.proxy.URL(), seed)
		defer done()
		w.counts.visit(ctx, func(ctx context.Context) error {
			began := time.Now()
			if err := v.begin(ctx); err != nil {
				if mortal.out(began) {
					return nil
				}
				return err
			}
			for ctx.Err() == nil {
				v.id++
				text, began := v.text(), time.Now()
				body, _, err := v.post(ctx, callTime, callMessage(v.id, pick(v.id), text))
				w.counts.overRestart(ctx, "over HTTP", gjson.Parse(answerIn(body)), err, text, mortal.out(began))
				time.Sleep(time.Duration(v.rand.IntN(20)) * time.Millisecond)
			}
			return nil
		})
	}
	return nil
}

// begin opens a session.
func (v *visitor) begin(ctx context.Context) error {
	v.session = ""
	_, head, err := v.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`, translate.Handshake()[1].Name))
	if err != nil {
		return err
	}
	v.session = head.Get("Mcp-Session-Id")
	v.sessions.Add(1)
	_, _, err = v.post(ctx, callTime, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return err
}

// overRestart judges the answer to a call in a session that must not end. Only a call
// that was in flight while the server was down may fail, with an error that says why.
func (c *counts) overRestart(ctx context.Context, how string, m gjson.Result, err error, text string, out bool) {
	got, message := m.Get("result.content.0.text"), m.Get("error.message").Str
	switch {
	case ctx.Err() != nil:
	case err == nil && got.Str == text:
		c.good.Add(1)
		c.note("answered " + how)
	case got.Exists():
		c.wrong.Add(1)
		c.show("another call's answer "+how, text+" expected: "+m.Raw)
	case err == nil && strings.Contains(message, "timed out"), err == nil && strings.Contains(message, "silent"):
		c.bad.Add(1) // the answer came after the proxy's timeout
	case err == nil && out && message != "":
		c.bad.Add(1)
		c.note("failed " + how + " while the server was away, with a reason")
	default:
		c.failed.Add(1)
		c.show("session that is to last "+how, fmt.Sprint(err, " ", m.Raw))
	}
}

// reuse abandons a call of a session over HTTP, and may cancel it, and uses its id for the next calls.
func (v *visitor) reuse(ctx context.Context) {
	v.id++
	text := v.text()
	v.post(ctx, time.Duration(1+v.rand.IntN(30))*time.Millisecond, callMessage(v.id, late, text+" first"))
	if v.rand.IntN(2) == 0 {
		v.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, v.id))
	}
	for n := range 2 {
		again := fmt.Sprint(text, " again ", n)
		body, _, err := v.post(ctx, callTime, callMessage(v.id, late, again))
		v.overRestart(ctx, "with a reused id", gjson.Parse(answerIn(body)), err, again, false)
	}
}

// tokens adds two users of a server whose sessions are processes. A request of the second for a session of the
// first must be answered as if there were no such session, and must change nothing.
func (s *stage) tokens(child []string) error {
	w, err := s.dragoman("two tokens", []string{"DRAGOMAN_AUTH_TOKENS=[" + tokenA + "," + tokenB + "]"}, append([]string{"--listen", "127.0.0.1:0"}, child...)...)
	if err != nil {
		return err
	}
	w.token = tokenA
	w.load = func(ctx context.Context, seed uint64) {
		v, done := w.counts.visitor(w.proxy.URL(), seed)
		defer done()
		v.token = tokenA
		w.counts.visit(ctx, func(ctx context.Context) error {
			if err := v.begin(ctx); err != nil {
				return err
			}
			for range 20 {
				v.behave(ctx, echo)
				v.reuse(ctx)
				v.trespass(ctx)
			}
			v.behave(ctx, echo)
			_, _, err := v.do(ctx, http.MethodDelete, callTime, "")
			return err
		})
	}
	return nil
}

// trespass sends a request for the session with another user's token, or with none.
func (v *visitor) trespass(ctx context.Context) {
	token, want := tokenB, http.StatusNotFound
	if v.rand.IntN(4) == 0 {
		token, want = "", http.StatusUnauthorized
	}
	method, body := http.MethodPost, ""
	switch v.rand.IntN(4) {
	case 0:
		method = http.MethodDelete
	case 1:
		method = http.MethodGet
	default:
		v.id++
		body = callMessage(v.id, echo, "trespasser")
	}
	own := v.token
	v.token = token
	answer, head, err := v.do(ctx, method, callTime, body)
	v.token = own
	switch {
	case ctx.Err() != nil:
	case head != nil && err == errStatus && v.status == want:
		v.good.Add(1)
		v.note(fmt.Sprintf("another token's %s: %d", method, want))
	default:
		v.wrong.Add(1)
		v.show("a session used with another token", fmt.Sprint(method, " ", v.status, " ", err, " ", answer))
	}
}

// parallel adds clients without sessions that make parallel calls which all ask their user something. Their
// servers are one on HTTP, where each call has a stream, and one on stdio, where all share a pipe.
func (s *stage) parallel(child []string) error {
	url, err := s.server(newCurious())
	if err != nil {
		return err
	}
	for name, arg := range map[string][]string{"parallel, HTTP": {"--upstream", url}, "parallel, stdio": child} {
		w, err := s.dragoman(name, nil, append([]string{"--listen", "127.0.0.1:0"}, arg...)...)
		if err != nil {
			return err
		}
		w.load = func(ctx context.Context, seed uint64) {
			g, done := w.counts.modernClient(func() []string { return []string{w.proxy.URL()} }, seed)
			defer done()
			for ctx.Err() == nil {
				g.askTogether(ctx)
			}
		}
	}
	return nil
}

// askTogether makes several calls at once that all ask their user something.
func (g *modernClient) askTogether(ctx context.Context) {
	var wg sync.WaitGroup
	for range 2 + g.rand.IntN(6) {
		g.id += 100
		one := &modernClient{counts: g.counts, http: g.http, urls: g.urls, user: g.user, id: g.id}
		wg.Go(func() {
			one.answerAll(ctx, func(s said) answer { return one.send(ctx, one.urls()[0], s) })
		})
	}
	wg.Wait()
}

// answerAll makes a call and answers all questions until the call ends. A question names the
// call that it belongs to, which may be another one than the call whose result contains it.
func (g *modernClient) answerAll(ctx context.Context, send func(said) answer) {
	call := g.call(ask, "")
	a := send(call)
	for range 50 {
		if !a.asks() {
			break
		}
		responses := map[string]any{}
		a.body.Get("result.inputRequests").ForEach(func(key, question gjson.Result) bool {
			about := strings.TrimSuffix(strings.TrimPrefix(question.Get("params.message").Str, "Which city for "), "?")
			responses[key.Str] = map[string]any{"action": "accept", "content": map[string]string{"city": cityOf(about)}}
			return true
		})
		a = send(g.retryWith(call, a.state(), responses))
	}
	g.expect(ctx, "parallel call that asks", a, call.text+" in "+cityOf(call.text))
}

// cityOf returns a city that is unique to the text.
func cityOf(text string) string { return "city of " + text }
