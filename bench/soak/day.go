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
	shimLife  = 15 * time.Second // how long a shim lives
	shimCalls = 4                // calls that are open on a shim at a time
	tokenA    = "soak-token-of-the-first-user-0001"
	tokenB    = "soak-token-of-the-second-user-002"
)

// day adds the loads of an ordinary day, over HTTP and through the shim: the server
// restarts, ids are reused, another user tries to use a session, and parallel calls all ask their
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
	s.shims("shim, restarts", func(ctx context.Context, c *counts) error {
		return s.live(ctx, c, nil, []string{"--upstream", mortal.url()}, func(ctx context.Context, c *counts, shim *shim) {
			shim.handshake(ctx)
			id := shim.next()
			text, began := fmt.Sprintf("shim %p %d", shim, id), time.Now()
			m, err := shim.call(ctx, callTime, id, callMessage(id, pick(id), text))
			c.overRestart(ctx, "through the shim", m, err, text, mortal.out(began))
		})
	})
	s.shims("shim, reused ids", func(ctx context.Context, c *counts) error {
		return s.live(ctx, c, nil, child, reuseOnShim)
	})
	s.shims("shim, parallel questions", func(ctx context.Context, c *counts) error {
		return s.live(ctx, c, nil, child, askOnShim)
	})
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

// shims adds a load that starts shims, one after the other.
func (s *stage) shims(name string, life func(context.Context, *counts) error) {
	c := &counts{}
	s.beside = append(s.beside, beside{name, c, func(ctx context.Context) {
		c.visit(ctx, func(ctx context.Context) error {
			err := life(ctx, c)
			if err != nil {
				c.show(name, err.Error())
			}
			return err
		})
	}, func() {}})
}

// live starts a shim, calls act repeatedly in several goroutines, and ends the shim.
func (s *stage) live(ctx context.Context, c *counts, env, arg []string, act func(context.Context, *counts, *shim)) error {
	shim, err := s.shim(env, arg...)
	if err != nil {
		return err
	}
	c.sessions.Add(1)
	short, cancel := context.WithTimeout(ctx, shimLife)
	defer cancel()
	var wg sync.WaitGroup
	for range shimCalls {
		wg.Go(func() {
			for short.Err() == nil {
				select {
				case <-shim.ended:
					return
				default:
					act(short, c, shim)
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-shim.ended:
		if ctx.Err() == nil {
			return fmt.Errorf("%w by itself: %v", errEnded, shim.err)
		}
	default:
	}
	if err := shim.close(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// handshake makes sure that the shim's session has begun. It tries again while the server is down.
func (c *shim) handshake(ctx context.Context) {
	c.begin.Lock()
	defer c.begin.Unlock()
	for !c.begun && ctx.Err() == nil {
		m, err := c.call(ctx, callTime, 0, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`, translate.Handshake()[1].Name))
		if err == errEnded {
			return
		}
		if c.begun = err == nil && m.Get("result").Exists(); c.begun {
			c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reuseOnShim abandons a call and uses its id for the next one. The ping between them
// makes sure that an answer that was already sent is not taken for that of the second call.
func reuseOnShim(ctx context.Context, c *counts, shim *shim) {
	shim.handshake(ctx)
	id, ping := shim.next(), shim.next()
	text := fmt.Sprintf("shim %p %d", shim, id)
	shim.call(ctx, time.Duration(1+id%30)*time.Millisecond, id, callMessage(id, late, text+" first"))
	if m, err := shim.call(ctx, callTime, ping, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, ping)); err != nil || !m.Get("result").Exists() {
		if ctx.Err() == nil {
			c.failed.Add(1)
			c.show("ping", fmt.Sprint(err, " ", m.Raw))
		}
		return
	}
	m, err := shim.call(ctx, callTime, id, callMessage(id, late, text))
	c.overRestart(ctx, "with a reused id", m, err, text, false)
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
			g, done := w.counts.modernClient(func() []string { return []string{w.proxy.URL()} }, seed, false)
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

// askOnShim makes a call that asks its user something, through a shim that other calls share.
func askOnShim(ctx context.Context, c *counts, shim *shim) {
	g := &modernClient{counts: c, user: fmt.Sprintf("shim %p", shim), id: 100 * shim.next()}
	g.answerAll(ctx, func(s said) answer {
		m, err := shim.call(ctx, callTime, g.id, string(s.body))
		return answer{http.StatusOK, m, err}
	})
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
