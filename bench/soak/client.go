package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	callTime  = 20 * time.Second // for calls that the client does not abandon
	maxAnswer = 1 << 20
)

// counts are the outcomes of clients' calls.
type counts struct {
	good     atomic.Int64 // calls that should succeed, and did
	failed   atomic.Int64 // calls that should succeed and did not, and sessions that did not begin or end
	bad      atomic.Int64 // calls that need not succeed
	wrong    atomic.Int64 // calls that got the answer of another call
	sessions atomic.Int64
	outcomes
}

func (c *counts) String() string {
	all := fmt.Sprintf("%d sessions; %d good calls answered, %d not; %d bad ones; %d wrong answers",
		c.sessions.Load(), c.good.Load(), c.failed.Load(), c.bad.Load(), c.wrong.Load())
	if more := c.outcomes.String(); more != "" {
		all += "\n" + more
	}
	return all
}

// visitor is a client with one session at a time.
type visitor struct {
	*counts
	http    *http.Client
	url     string
	session string
	token   string
	rand    *rand.Rand
	id      int
	status  int // HTTP status of the last response
}

// visitor creates a visitor. done closes its connections.
func (c *counts) visitor(url string, seed uint64) (v *visitor, done func()) {
	transport := &http.Transport{DisableCompression: true}
	return &visitor{counts: c, http: &http.Client{Transport: transport}, url: url, rand: rand.New(rand.NewPCG(seed, 1))}, transport.CloseIdleConnections
}

// visit opens one session after the other until ctx ends.
func (c *counts) visit(ctx context.Context, stay func(context.Context) error) {
	for ctx.Err() == nil {
		if err := stay(ctx); err != nil && ctx.Err() == nil {
			c.failed.Add(1)
			time.Sleep(10 * time.Millisecond) // no busy loop if the proxy refuses sessions
		}
	}
}

// stay runs one session. It leaves one session in ten without a DELETE.
func (v *visitor) stay(ctx context.Context) error {
	v.session = ""
	_, head, err := v.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`, translate.Oldest().Name))
	if err != nil {
		return err
	}
	v.session = head.Get("Mcp-Session-Id")
	v.sessions.Add(1)
	if _, _, err := v.post(ctx, callTime, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	for range 50 + v.rand.IntN(100) {
		if ctx.Err() != nil {
			return nil
		}
		if more := v.act(ctx); !more {
			v.do(ctx, http.MethodDelete, callTime, "") // may fail: perhaps the session has ended
			return nil
		}
	}
	if v.rand.IntN(10) == 0 {
		return nil
	}
	_, _, err = v.do(ctx, http.MethodDelete, callTime, "")
	return err
}

// act makes one call or does something bad. It returns false if the server may
// be gone now, so that the session must end.
func (v *visitor) act(ctx context.Context) bool {
	leave := time.Duration(1+v.rand.IntN(20)) * time.Millisecond
	switch n := v.rand.IntN(400); {
	case n < 10:
		v.misbehave(ctx, leave, v.call(hang))
	case n < 14:
		v.misbehave(ctx, leave, v.call(echo))
	case n < 15:
		v.misbehave(ctx, callTime, v.call(hang)) // until the proxy gives up
	case n < 18:
		v.misbehave(ctx, callTime, v.call(lie))
	case n < 20:
		v.misbehave(ctx, callTime, v.call(cut))
		return false
	case n < 25:
		v.misbehave(ctx, callTime, v.call(echo)[:30])
	case n < 30:
		v.bad.Add(1)
		v.do(ctx, http.MethodGet, leave, "")
	case n < 32:
		own := v.session
		v.session = "forged"
		v.misbehave(ctx, callTime, v.call(echo))
		v.session = own
	case n < 40:
		v.reuse(ctx)
	case n < 100:
		v.behave(ctx, events)
	default:
		v.behave(ctx, echo)
	}
	return true
}

// call returns a call with a unique text.
func (v *visitor) call(m manner) string {
	v.id++
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, v.id, m, v.text())
}

func (v *visitor) text() string { return fmt.Sprintf("%s %d", v.session, v.id) }

func (v *visitor) misbehave(ctx context.Context, limit time.Duration, message string) {
	v.bad.Add(1)
	v.post(ctx, limit, message) // any answer is accepted
}

func (v *visitor) behave(ctx context.Context, m manner) {
	message := v.call(m)
	body, _, err := v.post(ctx, callTime, message)
	if err != nil {
		if ctx.Err() == nil {
			v.failed.Add(1)
		}
		return
	}
	got := gjson.Get(answerIn(body), "result.content.0.text")
	switch {
	case got.Str == v.text():
		v.good.Add(1)
	case got.Exists():
		v.wrong.Add(1)
	default:
		v.failed.Add(1)
	}
}

// answerIn returns the last message of a body, which may be an SSE stream.
func answerIn(body string) string {
	if i := strings.LastIndex(body, "data: "); i >= 0 && !strings.HasPrefix(body, "{") {
		return body[i+len("data: "):]
	}
	return body
}

var errStatus = errors.New("an HTTP error")

func (v *visitor) post(ctx context.Context, limit time.Duration, message string) (string, http.Header, error) {
	return v.do(ctx, http.MethodPost, limit, message)
}

// do sends a request. It abandons the request after limit.
func (v *visitor) do(ctx context.Context, method string, limit time.Duration, message string) (string, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.url, strings.NewReader(message))
	if err != nil {
		return "", nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	if v.session != "" {
		r.Header.Set("Mcp-Session-Id", v.session)
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	v.status = 0
	resp, err := v.http.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	v.status = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = errStatus
	}
	return string(body), resp.Header, err
}
