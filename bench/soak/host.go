package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// errNoQuestion is the error for a call that was answered without the expected elicitation/create.
var errNoQuestion = errors.New("nothing was asked")

// host is a client with sessions that answers the elicitation/create requests of a server without
// sessions.
type host struct {
	*visitor
}

// stay runs one session.
func (h *host) stay(ctx context.Context) error {
	h.session = ""
	_, head, err := h.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"soak","version":"1"}}}`, translate.Handshake()[1].Name))
	if err != nil {
		return err
	}
	h.session = head.Get("Mcp-Session-Id")
	h.sessions.Add(1)
	if _, _, err := h.post(ctx, callTime, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	for range 20 + h.rand.IntN(40) {
		if ctx.Err() != nil {
			return nil
		}
		leave := time.Duration(1+h.rand.IntN(20)) * time.Millisecond
		switch n := h.rand.IntN(200); {
		case n < 4:
			h.misbehave(ctx, leave, h.call(hang))
		case n < 8:
			h.misbehave(ctx, leave, h.call(echo))
		case n < 10:
			h.misbehave(ctx, callTime, h.call(lie))
		case n < 12:
			h.misbehave(ctx, callTime, h.call(cut))
		case n < 16:
			h.bad.Add(1)
			h.do(ctx, http.MethodGet, 20*leave, "")
		case n < 60:
			h.converse(ctx)
		default:
			h.behave(ctx, echo)
		}
	}
	if h.rand.IntN(10) == 0 {
		return nil
	}
	_, _, err = h.do(ctx, http.MethodDelete, callTime, "")
	return err
}

// converse makes a call during which the client gets an elicitation/create.
func (h *host) converse(ctx context.Context) {
	limit := callTime
	kind := h.rand.IntN(20)
	if kind == 0 {
		limit = 50 * time.Millisecond // abandons the call without an answer
	}
	message := h.call(ask)
	body, err := h.asked(ctx, limit, message, func(id string) {
		switch kind {
		case 0:
		case 1:
			h.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not now"}}`, id))
		default:
			h.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"city":"Rome"}}}`, id))
		}
		if kind == 2 {
			h.post(ctx, callTime, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"city":"Oslo"}}}`, id))
		}
	})
	text := gjson.Get(body, "result.content.0.text").Str
	switch {
	case kind == 0 || ctx.Err() != nil:
		h.bad.Add(1)
		h.note("left while asked")
	case err != nil:
		h.failed.Add(1)
		h.show("asked in a session", err.Error()+" "+body)
	case kind == 1 && text == h.text()+" in ":
		h.good.Add(1)
		h.note("asked, refused")
	case kind > 1 && text == h.text()+" in Rome":
		h.good.Add(1)
		h.note("asked, answered")
	default:
		h.failed.Add(1)
		h.show("asked in a session", body)
	}
}

// asked makes a call and calls reply with the id of each elicitation/create that comes during the call. It
// returns the call's answer.
func (h *host) asked(ctx context.Context, limit time.Duration, message string, reply func(id string)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(message))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", h.session)
	resp, err := h.http.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	were := 0
	events := bufio.NewScanner(resp.Body)
	for events.Scan() {
		data, ok := strings.CutPrefix(events.Text(), "data: ")
		if !ok {
			continue
		}
		m := gjson.Parse(data)
		switch {
		case m.Get("method").Str == "elicitation/create":
			were++
			reply(m.Get("id").Raw)
		case m.Get("result").Exists() || m.Get("error").Exists():
			if were == 0 {
				return data, errNoQuestion
			}
			return data, nil
		}
	}
	return "", errors.Join(events.Err(), io.ErrUnexpectedEOF)
}
