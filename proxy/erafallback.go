package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// eraBreath is how long one of the answers to server/discover and initialize is waited
// for once the other is there: some servers take several requests at once.
const eraBreath = 250 * time.Millisecond

// reaction is what a process has said to who asked what it is.
type eraAnswer struct {
	m *wire.Message
	// greeted says that it was told initialize as well, so that it is of no more use,
	// and begun that m answers that: server/discover has no answer.
	greeted, begun bool
}

// sound asks a process what it is. One that has been silent for a while may be slow to
// start, or be of those with a handshake that do not answer what comes before it: it is
// told initialize as well, and has the time of a handshake for either. The error is
// that of the process, or of the time.
func (p *eraCache) askProcess(ctx context.Context, b *upstream.Begun) (r eraAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.silence+p.srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	h := &handshake{srv: p.srv, conn: b.Conn, standing: b.Standing}
	h.greetModern()
	if _, err := b.Conn.Send(ctx, &upstream.Outgoing{Body: h.sent, Request: true}); err != nil {
		return r, err
	}
	id := []byte(`"dragoman:handshake"`)
	r.m, r.greeted, err = h.awaitGreeting(ctx, id)
	if err != nil || !r.greeted {
		return r, err
	}
	// The other answer is on its way; who is ended before it is written may complain.
	other := id
	if r.begun = server.IsAbout(r.m, id); r.begun {
		other = h.id
	}
	ctx, cancel = context.WithTimeout(ctx, eraBreath)
	defer cancel()
	if m, err := h.awaitAny(ctx, b.Standing, other); err == nil && r.begun {
		r.m, r.begun = m, false
	}
	return r, nil
}

// awaitGreeting waits for the answer to what h has said, and after a silence says
// initialize under this id and waits for an answer to either.
func (h *handshake) awaitGreeting(ctx context.Context, id []byte) (m *wire.Message, greeted bool, err error) {
	waiting, over := context.WithCancel(ctx)
	silence := time.NewTimer(h.srv.eras.silence)
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
		h.conn.Send(waiting, &upstream.Outgoing{Body: body, Request: true}) //nolint:errcheck // who reads finds out
	})
	m, err = h.awaitAny(ctx, h.standing, h.id, id)
	over()
	greeting.Wait()
	return m, greeted, err
}

// concludeBegun is what an answer to initialize tells of who gave it, and none to
// server/discover.
func concludeBegun(m *wire.Message) (*serverEra, error) {
	switch {
	case !looksModern(m, nil):
		return &serverEra{shakes: true}, nil
	case m.Kind == wire.Error && gjson.Get(wire.View(m.Error()), "data.supported").IsArray():
		return conclude(m, 0)
	}
	return &serverEra{revision: translate.Lookup(translate.Modern())}, nil
}

// tookTooLong reports whether err says that a server took too long.
func tookTooLong(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
