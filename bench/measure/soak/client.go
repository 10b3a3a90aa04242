package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/measure/load"
	"github.com/dragoman-proxy/dragoman/translate"
)

const callTime = 20 * time.Second // for calls that the client does not abandon

// visitor is a client. It behaves well most of the time.
type visitor struct {
	*load.Tally
	http   *http.Client
	urls   []string // of dragomans before one server
	modern bool     // it has no sessions
	asked  bool     // it makes calls that ask
	mutter bool     // its server writes much to its standard error

	rand    *rand.Rand
	user    string
	session string
	id      int
}

// visit opens one session after the other until ctx ends.
func (v *visitor) visit(ctx context.Context, seed uint64) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	v.http, v.rand, v.user = &http.Client{Transport: transport}, rand.New(rand.NewPCG(seed, 1)), fmt.Sprintf("user-%d", seed)
	for ctx.Err() == nil {
		if err := v.stay(ctx); err != nil && ctx.Err() == nil {
			v.Fail("session", err)
			time.Sleep(10 * time.Millisecond) // no busy loop if the proxy refuses sessions
		}
	}
}

// stay runs one session. It leaves one session in ten without a DELETE.
func (v *visitor) stay(ctx context.Context) error {
	v.session = ""
	if !v.modern {
		a := v.send(ctx, callTime, v.message("initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"soak","version":"1"}`, translate.Handshake()[1].Name)))
		if a.Status != http.StatusOK {
			return fmt.Errorf("initialize: %v", a)
		}
		v.session = a.Header.Get("Mcp-Session-Id")
		v.send(ctx, callTime, said{body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`})
	}
	for range 50 + v.rand.IntN(100) {
		if ctx.Err() != nil {
			return nil
		}
		if more := v.act(ctx); !more {
			v.to(ctx, http.MethodDelete, callTime, v.urls[0], said{}) // may fail: perhaps the session has ended
			return nil
		}
	}
	if v.modern || v.rand.IntN(10) == 0 {
		return nil
	}
	if a := v.to(ctx, http.MethodDelete, callTime, v.urls[0], said{}); a.Err != nil || a.Status >= 300 {
		return fmt.Errorf("delete: %v", a)
	}
	return nil
}

// act makes one call or does something bad. It returns false if the server may be gone now, so that the session must end.
func (v *visitor) act(ctx context.Context) bool {
	leave := time.Duration(1+v.rand.IntN(20)) * time.Millisecond
	misbehave := func(what string, limit time.Duration, s said) {
		v.Excuse(what, "whatever the answer")
		v.send(ctx, limit, s)
	}
	switch n := v.rand.IntN(400); {
	case n < 10:
		misbehave("a call that hangs, abandoned", leave, v.call(hang))
	case n < 14:
		misbehave("a call, abandoned", leave, v.call(echo))
	case n < 15:
		misbehave("a call that hangs", callTime, v.call(hang)) // until the proxy gives up
	case n < 18:
		misbehave("a lie", callTime, v.call(lie))
	case n < 20:
		misbehave("half an answer", callTime, v.call(cut))
		return false
	case n < 25:
		half := v.call(echo)
		half.body = half.body[:30]
		misbehave("half a message", callTime, half)
	case n < 30 && v.modern:
		misbehave("a subscription, abandoned", 50*leave, v.message("subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	case n < 30:
		v.Excuse("a stream, abandoned", "whatever the answer")
		v.to(ctx, http.MethodGet, 20*leave, v.urls[0], said{})
	case n < 32:
		own := v.session
		v.session = "forged"
		misbehave("another session's id", callTime, v.call(echo))
		v.session = own
	case n < 110 && v.asked && v.modern:
		v.converse(ctx)
	case n < 110 && v.asked:
		v.host(ctx)
	case n < 60:
		v.behave(ctx, events)
	case v.mutter:
		v.behave(ctx, mutter)
	default:
		v.behave(ctx, echo)
	}
	return true
}

// said is one message.
type said struct{ body, method, name, text string }

func (v *visitor) message(method, params string) said {
	v.id++
	if v.modern {
		params += fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"}}`, translate.Modern())
	}
	return said{body: fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, v.id, method, params), method: method}
}

// call returns a call with a text of its own, so that an answer to another call is seen.
func (v *visitor) call(tool string) said {
	return v.callWith(tool, fmt.Sprintf("%s %s %d", v.user, v.session, v.id+1), "")
}

func (v *visitor) callWith(tool, text, more string) said {
	s := v.message("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"text":%s}%s`, tool, quote(text), more))
	s.name, s.text = tool, text
	return s
}

func (v *visitor) send(ctx context.Context, limit time.Duration, s said) load.Answer {
	return v.to(ctx, http.MethodPost, limit, v.anywhere(), s)
}

func (v *visitor) anywhere() string { return v.urls[v.rand.IntN(len(v.urls))] }

func (v *visitor) request(ctx context.Context, method, url string, s said) (*http.Request, error) {
	header := map[string]string{"Mcp-Session-Id": v.session}
	if v.modern {
		header = map[string]string{"MCP-Protocol-Version": translate.Modern(), "Mcp-Method": s.method, "Mcp-Name": s.name, "Authorization": "Bearer " + v.user}
	}
	return load.Request(ctx, method, url, s.body, header)
}

// to sends a request, and abandons it after limit.
func (v *visitor) to(ctx context.Context, method string, limit time.Duration, url string, s said) load.Answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := v.request(ctx, method, url, s)
	if err != nil {
		return load.Answer{Err: err}
	}
	return load.Send(v.http, r)
}

func (v *visitor) behave(ctx context.Context, tool string) {
	s := v.call(tool)
	v.expect(ctx, tool, v.send(ctx, callTime, s), s.text)
}

// expect counts an answer as good if it has this text.
func (v *visitor) expect(ctx context.Context, what string, a load.Answer, text string) {
	got, ok := a.Text()
	switch {
	case ok && got == text:
		v.Good(what)
	case ctx.Err() != nil: // the run ends
	case ok:
		v.Fail(what+": the answer of another call", fmt.Errorf("%.100q, not %.100q", got, text))
	default:
		v.Fail(what, errors.New(a.String()))
	}
}

// converse makes a call without a session that asks something, and answers the question at any replica, or never.
func (v *visitor) converse(ctx context.Context) {
	s := v.call(ask)
	a := v.send(ctx, callTime, s)
	state, key := a.Last.Get("result.requestState"), ""
	a.Last.Get("result.inputRequests").ForEach(func(k, _ gjson.Result) bool { key = k.Str; return false })
	switch {
	case key == "":
		v.expect(ctx, "question", a, "\x00 a question")
	case v.rand.IntN(5) == 0:
		v.Excuse("question", "never answered")
	default:
		answered := v.callWith(ask, s.text, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"city":"Rome"}}},"requestState":%s`, key, state.Raw))
		v.expect(ctx, "answered at any replica", v.send(ctx, callTime, answered), s.text+" in Rome")
	}
}

// host makes a call in a session during which the client is asked something.
func (v *visitor) host(ctx context.Context) {
	kind, limit, s := v.rand.IntN(10), callTime, v.call(ask)
	if kind == 0 {
		limit = 50 * time.Millisecond // abandons the call without an answer
	}
	calling, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := v.request(calling, http.MethodPost, v.urls[0], s)
	if err != nil {
		return
	}
	resp, err := v.http.Do(r)
	if err != nil {
		if kind > 0 && ctx.Err() == nil {
			v.Fail("asked in a session", err)
		}
		return
	}
	defer resp.Body.Close()
	want := s.text + " in Rome"
	for events := bufio.NewScanner(resp.Body); events.Scan(); {
		m := gjson.Parse(strings.TrimPrefix(events.Text(), "data: "))
		switch {
		case m.Get("method").Str == "elicitation/create" && kind > 0:
			reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"city":"Rome"}}}`, m.Get("id").Raw)
			if kind == 1 {
				reply, want = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not now"}}`, m.Get("id").Raw), s.text+" in "
			}
			v.send(ctx, callTime, said{body: reply})
		case m.Get("result").Exists() || m.Get("error").Exists():
			v.expect(ctx, "asked in a session", load.Answer{Last: m}, want)
			return
		}
	}
	if kind == 0 {
		v.Excuse("asked in a session", "left without an answer")
	} else if ctx.Err() == nil {
		v.Fail("asked in a session", io.ErrUnexpectedEOF)
	}
}
