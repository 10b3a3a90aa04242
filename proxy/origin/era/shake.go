package era

import (
	"context"
	"errors"
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shake sends a server over HTTP an initialize of dragoman's own, and returns what its response proves: Untried for nothing. A
// session that begins with it is ended.
func (p *Cache) shake(ctx context.Context, header []mcp.Header) Handshake {
	b, err := p.open()(ctx)
	if err != nil {
		return Untried
	}
	defer pipes.EndBegun(b, p.host.Log)
	if b.Standing != nil {
		return Untried
	}
	ctx, cancel := context.WithTimeout(ctx, p.AskTime)
	defer cancel()
	h := &pipes.Opening{Of: p.host, Begun: *b, Header: slices.DeleteFunc(slices.Clone(header), ofMessage), ID: []byte(`"dragoman:handshake"`)}
	m, named, err := Ask(ctx, h, mcp.Initialize(h.ID, translate.Latest().Name, "{}", mcp.Us), translate.Latest())
	if err != nil || m.Kind != wire.Result {
		return refusal(m, err)
	}
	vu, err := Agreed(m, h.ID)
	if err != nil {
		return refusal(m, nil)
	}
	if b.Web != nil {
		b.Web.SetSession(named, vu.HeaderName())
	}
	if named != "" {
		return Accepted
	}
	how, _ := Pinged(ctx, h, vu)
	return how
}

// Pinged sends a ping to a server that has answered initialize, agreed on vu, and begun no session: some servers without a handshake
// answer one, and refuse all that follows. The error says that the server has answered the ping neither with a result nor with a refusal.
func Pinged(ctx context.Context, h *pipes.Opening, vu *translate.Revision) (Handshake, error) {
	id := []byte(`"dragoman:ping"`)
	m, _, err := Ask(ctx, &pipes.Opening{Of: h.Of, Begun: h.Begun, Header: h.Header, ID: id}, mcp.Request(id, wire.Ping, ""), vu)
	switch status, refused := errors.AsType[*upstream.StatusError](err); {
	case err == nil && m.Kind == wire.Result:
		return Accepted, nil
	case err == nil, refused && status.Code < 500 && !Inconclusive(status.Code):
		return Refused, nil
	}
	return Untried, err
}

// Ask sends h's request with the body, in revision vu, and returns the response and the session that it begins, "" for none.
func Ask(ctx context.Context, h *pipes.Opening, body []byte, vu *translate.Revision) (m *wire.Message, named string, err error) {
	o := &upstream.Outgoing{Body: body, Request: true, Header: h.Header}
	span := telemetry.Ask(ctx, o, vu.Name)
	defer func() {
		span.Answered(m)
		span.Done(err)
	}()
	st, err := h.Conn.Send(ctx, o)
	if err != nil {
		return nil, "", err
	}
	if st == nil { // a pipe
		m, err = h.Await(ctx, h.Standing)
		return m, "", err
	}
	defer st.Close()
	if m, err = h.Await(ctx, st); err != nil {
		return nil, "", err
	}
	return m, st.SessionID(), nil
}
