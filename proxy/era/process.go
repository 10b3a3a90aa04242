package era

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// eraBreath is how long the second of the responses to server/discover and initialize is awaited after
// the first: some servers handle several requests at once.
const eraBreath = 250 * time.Millisecond

// eraAnswer is the response of a process that was asked for its era.
type eraAnswer struct {
	m *wire.Message
	// greeted says that the process was sent initialize as well, so that no session can use it. begun says
	// that m is the response to initialize, and that server/discover has none.
	greeted, begun bool
}

// askProcess asks a process for its era. A process that is silent for a while may start slowly, or may be
// a handshake server that does not answer what comes before initialize: it is sent initialize as well, and
// has the time of a handshake to answer either.
func (p *Cache) askProcess(ctx context.Context, b *upstream.Begun) (r eraAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Silence+p.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	h := &server.Opening{Of: p.host, Begun: *b}
	Discover(h)
	o := &upstream.Outgoing{Body: h.Sent, Request: true}
	span := telemetry.Ask(ctx, o, translate.Modern())
	defer func() {
		if !r.begun { // else server/discover has no response
			span.Answered(r.m)
		}
		span.Done(err)
	}()
	if _, err := b.Conn.Send(ctx, o); err != nil {
		return r, err
	}
	id := []byte(`"dragoman:handshake"`)
	r.m, r.greeted, err = p.awaitGreeting(ctx, h, id)
	if err != nil || !r.greeted {
		return r, err
	}
	// The other response is on its way: a process that is ended before it has written it may log an error.
	other := id
	if r.begun = server.IsAbout(r.m, id); r.begun {
		other = h.ID
	}
	ctx, cancel = context.WithTimeout(ctx, eraBreath)
	defer cancel()
	if m, err := h.AwaitAny(ctx, b.Standing, other); err == nil && r.begun {
		r.m, r.begun = m, false
	}
	return r, nil
}

// awaitGreeting waits for the response to h's request. After a silence it sends initialize with this id, and
// waits for either response.
func (p *Cache) awaitGreeting(ctx context.Context, h *server.Opening, id []byte) (m *wire.Message, greeted bool, err error) {
	waiting, over := context.WithCancel(ctx)
	silence := time.NewTimer(p.Silence)
	defer silence.Stop()
	var greeting sync.WaitGroup
	greeting.Go(func() {
		select {
		case <-silence.C:
		case <-waiting.Done():
			return
		}
		greeted = true
		body := mcp.Initialize(id, translate.Latest().Name, "{}", mcp.Us)
		h.Conn.Send(waiting, &upstream.Outgoing{Body: body, Request: true}) //nolint:errcheck // the reader gets the error
	})
	m, err = h.AwaitAny(ctx, h.Standing, h.ID, id)
	over()
	greeting.Wait()
	return m, greeted, err
}

// concludeBegun returns the era of a server that has answered initialize with m, and server/discover not at
// all.
func concludeBegun(m *wire.Message) (*Era, error) {
	switch {
	case !LooksModern(m, nil):
		return &Era{Handshake: true}, nil
	case m.Kind == wire.Error && gjson.Get(wire.View(m.Error()), "data.supported").IsArray():
		return conclude(m, 0)
	}
	return &Era{Revision: translate.Lookup(translate.Modern())}, nil
}

// TookTooLong reports whether err is that of a context whose deadline has passed.
func TookTooLong(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
