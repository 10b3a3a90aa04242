package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Questions that came with nothing to say whose they are, and when no call ran in which
// the server may ask: many servers ask for roots as soon as a session stands, and some
// for sampling while they answer resources/subscribe. They wait for the next such call,
// a little.
const (
	looseTime = 10 * time.Second
	maxLoose  = 16 // of one session
)

// attribute hands questions that came with nothing to say whose they are to the newest
// call that may be asked, now or soon: whichever call carries them, the same user answers.
func (b *pooledSession) attribute(srv *Server, list []serverQuestion, from []upstream.Header) {
	list = srv.heldTasks.route(b, list)
	for i := range list {
		list[i].loose = true
	}
	for len(list) > 0 {
		b.mu.Lock()
		talks, joined := slices.Clone(b.inFlight), b.joined
		b.mu.Unlock()
		left := offer(talks, list)
		if len(talks) > 0 && len(left) < len(list) {
			b.refuseAs(srv, left, tooManyAsked, from)
			return
		}
		list = left
		if b.keep(srv, list, joined, from) {
			return
		}
	}
}

// offer offers questions to the newest of these calls, first to those whose client waits:
// the others ask when their client calls again. It returns the questions that none took.
func offer(talks []*parkedCall, list []serverQuestion) (left []serverQuestion) {
	var parked []*parkedCall
	for _, d := range slices.Backward(talks) {
		if !d.waits() {
			parked = append(parked, d)
			continue
		}
		if list = d.accept(list); len(list) == 0 {
			return nil
		}
	}
	for _, d := range parked {
		if list = d.accept(list); len(list) == 0 {
			return nil
		}
	}
	return list
}

// keep keeps questions for the next call, a little; false when there is one by now, which
// joined has not counted.
func (b *pooledSession) keep(srv *Server, list []serverQuestion, joined int, from []upstream.Header) bool {
	b.mu.Lock()
	if b.joined != joined {
		b.mu.Unlock()
		return false
	}
	room := min(max(maxLoose-len(b.unattributed), 0), len(list))
	kept, refused := slices.Clone(list[:room]), list[room:]
	b.unattributed = append(b.unattributed, kept...)
	b.asks(room)
	b.mu.Unlock()
	b.refuse(srv, refused, from)
	if len(kept) == 0 {
		return true
	}
	from = slices.Clone(from)
	srv.spawn(func() {
		timer := time.NewTimer(srv.pool.unattributedTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			b.refuse(srv, b.takeUnattributed(kept), from)
		case <-b.life.Done():
		}
	})
	return true
}

// takeLoose takes those of the questions that still wait.
func (b *pooledSession) takeUnattributed(list []serverQuestion) (taken []serverQuestion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unattributed = slices.DeleteFunc(b.unattributed, func(q serverQuestion) bool {
		is := slices.ContainsFunc(list, func(o serverQuestion) bool { return &o.id[0] == &q.id[0] })
		if is {
			taken = append(taken, q)
			b.asks(-1)
		}
		return is
	})
	return taken
}

// refuse answers questions for which there is no user to ask.
func (b *pooledSession) refuse(srv *Server, list []serverQuestion, from []upstream.Header) {
	b.refuseAs(srv, list, unattached, from)
}

// refuseAs answers questions that the client is not asked, for this reason.
func (b *pooledSession) refuseAs(srv *Server, list []serverQuestion, why string, from []upstream.Header) {
	for _, q := range list {
		b.deliverOrLog(srv, mcp.AppendError(nil, q.id, -32603, why, nil), from)
	}
}

const unattached = "no client request to attach to"

// converse makes d a call in which the server may ask something. It takes up what the
// server asked when there was none.
func (b *pooledSession) begin(d *parkedCall) {
	b.mu.Lock()
	b.inFlight = append(b.inFlight, d)
	b.joined++
	list := b.unattributed
	b.unattributed = nil
	b.mu.Unlock()
	if len(list) > 0 {
		d.askFirst(list)
		b.asks(-len(list)) // d has counted them by now
	}
}

// takeUp asks the client, before anything else, what the server had asked when there
// was no call yet. The server's own answer to this one may come before the client's.
func (d *parkedCall) askFirst(list []serverQuestion) {
	d.mu.Lock()
	for _, q := range list {
		d.add(q)
	}
	d.mu.Unlock()
	d.askClient()
}

// say is deliver for callers that can do nothing about an error.
func (b *pooledSession) deliverOrLog(srv *Server, body []byte, from []upstream.Header) {
	if err := b.deliver(srv, body, from); err != nil {
		srv.undelivered(err, requestInfo{client: b.s.ClientRevision, server: b.s.ServerRevision, session: b.s.Named, header: from})
	}
}

// deliver sends the server a response of the client, as one that came over a session.
func (b *pooledSession) deliver(srv *Server, body []byte, from []upstream.Header) error {
	ctx, cancel := context.WithTimeout(context.Background(), srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	x := srv.newExchange(ctx, nil)
	defer x.done()
	x.s = b.s
	x.s.enter()
	x.from = append(x.from[:0], from...)
	out, v, err := x.fromClient(body)
	if err == nil && v == wire.Forward {
		_, err = x.forward(out)
	}
	return err
}
