package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// answerOn reads the stream of a request of ours until its response and closes it. The
// result is the caller's; the error is a *mcp.ServerError where the server answered with
// one. Other messages on the stream are passed over.
func answerOn(ctx context.Context, st upstream.Stream, id []byte) ([]byte, error) {
	defer st.Close()
	var m wire.Message
	for {
		e, err := nextBefore(ctx, st)
		status := err
		if err != nil {
			if e, err = refusedAs(err, id); err != nil {
				return nil, err
			}
		}
		if len(e.Data) == 0 || m.Scan(e.Data, nil) != nil || !m.Kind.Response() || !isAbout(&m, id) {
			continue
		}
		result, err := resultOf(&m)
		if refused, ok := err.(*mcp.ServerError); ok {
			refused.Err = status
		}
		return result, err
	}
}

// resultOf is the result in a response, a clone. The error is a *mcp.ServerError.
func resultOf(m *wire.Message) ([]byte, error) {
	if m.Kind == wire.Error {
		return nil, &mcp.ServerError{Raw: bytes.Clone(m.Error())}
	}
	return bytes.Clone(m.Result()), nil
}

// resultIn is resultOf a response that is not scanned yet.
func resultIn(response []byte) ([]byte, error) {
	var m wire.Message
	if err := m.Scan(response, nil); err != nil {
		return nil, err
	}
	return resultOf(&m)
}

// refusedAs is the answer to the request of this id, where err is an HTTP status with
// a JSON-RPC error in its body; else err again. Where the status is about who asks,
// or how often, it stays one.
func refusedAs(err error, id []byte) (sse.Event, error) {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || status.Code < 400 || status.Code > 499 || status.Code == 401 || status.Code == 403 || status.Code == 429 {
		return sse.Event{}, err
	}
	var m wire.Message
	if m.Scan(status.Body, nil) != nil || m.Kind != wire.Error {
		return sse.Event{}, err
	}
	return sse.Event{Data: mcp.AppendErrorAs(nil, id, m.Error())}, nil
}

// askServer makes a request of our own on the client's session, with the client's
// credentials. params is what is within the braces; ctx has a deadline.
func (x *exchange) askServer(ctx context.Context, method wire.Method, params string) ([]byte, error) {
	var b [12]byte
	rand.Read(b[:])
	id := []byte(`"dragoman-` + hex.EncodeToString(b[:]) + `"`)
	c := newCall(id, wire.ToolsCall)
	c.More.here, c.More.answers = true, make(chan []byte, 1)
	if err := x.s.open.Add(c); err != nil {
		return nil, err
	}
	defer x.s.open.End(c)
	out := &upstream.Outgoing{Body: mcp.Request(id, method, "{"+params+"}"), Request: true, Header: x.from}
	if d := x.s.direct; d != nil { // each request says who sends it
		out.Body = d.request(id, method, params)
		out.Header = d.headers(x.from, method.String(), gjson.Get("{"+params+"}", "name").String())
	}
	end, _ := ctx.Deadline()
	out.FirstByte = time.Until(end)
	out.Silence = out.FirstByte
	st, err := x.s.conn.Send(ctx, out)
	switch {
	case err != nil:
		return nil, err
	case st != nil:
		return answerOn(ctx, st, id)
	}
	select { // the answer comes with everything else that a server on a pipe says
	case answer := <-c.More.answers:
		return resultIn(answer)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
