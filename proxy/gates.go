package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/gate"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// gate asks the gates of a tool of the server. refusal is the result for the client where
// one of them holds the call back.
func (x *exchange) gate(m *wire.Message) (refusal []byte) {
	gates := x.srv.now().gates
	if len(gates) == 0 || m.Method != wire.ToolsCall || x.errand != nil {
		return nil
	}
	tool, arguments := gjson.Get(view(m.Params()), "name").Str, wire.Member(m.Params(), "arguments")
	for i := range gates {
		g := &gates[i]
		if g.Tool != tool {
			continue
		}
		verdict, refusal, err := g.Check(x.ctx, arguments, x.askSource)
		if verdict == gate.None {
			continue
		}
		x.srv.metrics.gates.WithLabelValues(g.Tool, string(verdict)).Inc()
		if err != nil {
			x.log().Debug("the source of a gate does not say what is supported", zap.String("tool", g.Tool), zap.String("source", g.Source), zap.Error(err))
		}
		if refusal != nil && x.s.direct != nil {
			refusal = append([]byte(`{"resultType":"complete",`), refusal[1:]...)
		}
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// askSource calls the source of a gate.
func (x *exchange) askSource(ctx context.Context, params []byte) ([]byte, error) {
	answer, err := x.askServer(ctx, wire.ToolsCall, params)
	if err != nil {
		return nil, err
	}
	return resultIn(answer)
}

// askServer makes a request of our own on the client's session, with the client's
// credentials, and returns the answer. What else comes on its stream is passed over.
// ctx has a deadline.
func (x *exchange) askServer(ctx context.Context, method wire.Method, params []byte) ([]byte, error) {
	var b [12]byte
	rand.Read(b[:])
	id := []byte(`"dragoman-gate-` + hex.EncodeToString(b[:]) + `"`)
	c := newCall(id, wire.ToolsCall)
	c.here, c.answers = true, make(chan []byte, 1)
	if err := x.s.open.add(c); err != nil {
		return nil, err
	}
	defer x.s.open.end(c)
	body := mcp.Request(id, method, params)
	header := x.from
	if d := x.s.direct; d != nil { // each request says who sends it
		body = d.request(id, method, string(bytes.TrimSuffix(bytes.TrimPrefix(params, []byte{'{'}), []byte{'}'})))
		header = d.headers(x.from, method.String(), gjson.GetBytes(params, "name").String())
	}
	end, _ := ctx.Deadline()
	left := time.Until(end)
	st, err := x.s.conn.Send(ctx, &upstream.Outgoing{Body: body, Request: true, Header: header, FirstByte: left, Silence: left})
	switch {
	case err != nil:
		return nil, err
	case st == nil: // the answer comes with everything else that a server on a pipe says
		select {
		case answer := <-c.answers:
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer st.Close()
	var m wire.Message
	for {
		e, err := st.Next()
		if err != nil {
			return nil, err
		}
		if m.Scan(e.Data, nil) != nil || !m.Kind.Response() {
			continue
		}
		if string(wire.AppendIDKey(nil, m.ID())) == c.key {
			return slices.Clone(m.Raw), nil
		}
	}
}
