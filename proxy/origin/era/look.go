package era

import (
	"context"
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Look sends a server at a URL the question that the first client would send, before there is one. It begins no session. The error
// says why the server has answered with no message; it is nil if a client has asked already. What a message says of the era is kept for
// clients without a credential of their own, so that the first of them need not ask.
func (p *Cache) Look(ctx context.Context) error {
	if e := p.Fixed(); e != nil {
		return p.lookAtFixed(ctx, e)
	}
	told := make(chan error, 1)
	at, err := p.entry(nil, Introduction(translate.Latest()), func(err error) { told <- err })
	if err != nil {
		return nil // so many clients have asked
	}
	select {
	case <-at.found:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err = <-told:
	default: // a client has asked
	}
	if err != nil && at.era != nil { // a gateway may refuse what its server, which starts later, answers
		p.Drop(nil, at.era)
	}
	return err
}

// lookAtFixed asks a server whose era is configured. One with a handshake is sent a ping, since it may not bear server/discover.
func (p *Cache) lookAtFixed(ctx context.Context, e *Era) error {
	open := p.open()
	if open == nil {
		return nil
	}
	b, err := open(ctx)
	switch {
	case errors.Is(err, ErrHandshakeOnly):
		return nil
	case err != nil:
		return err
	}
	defer pipes.EndBegun(b, p.host.Log)
	if e.Modern() {
		m, code, err := p.discover(ctx, b, nil)
		return unheard(m, code, err)
	}
	id := []byte(`"dragoman:ping"`)
	m, _, err := Ask(ctx, &pipes.Opening{Of: p.host, Begun: *b, ID: id}, mcp.Request(id, wire.Ping, ""), translate.Latest())
	if _, refused := pipes.RefusalOf(err, id); err != nil && refused == nil {
		return nil
	}
	return unheard(m, 0, err)
}

// unheard returns why a server over HTTP has answered with no message, nil if m is one. code is the status of an error, or 0.
func unheard(m *wire.Message, code int, err error) error {
	if m != nil && !Inconclusive(code) {
		return nil
	}
	return err
}
