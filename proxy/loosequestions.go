package proxy

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Questions that came with nothing to say whose they are, and when no call ran in
// which the server may ask: many ask for roots as soon as a session stands. They
// wait for the next such call, a little.
const (
	looseTime = 10 * time.Second
	maxLoose  = 16 // of one session
)

// attribute hands questions that came with nothing to say whose they are to the
// call that they can only belong to, now or soon.
func (b *backing) attribute(srv *Server, list []query, from []upstream.Header) {
	var refused, kept []query
	list = srv.heldTasks.route(b, list)
	b.mu.Lock()
	talk := b.talk
	for _, q := range list {
		switch {
		case talk != nil:
		case len(b.loose) >= maxLoose, b.ours > 0 && q.method != wire.RootsList: // which our own request may wait for
			refused = append(refused, q)
		default:
			kept, b.loose = append(kept, q), append(b.loose, q)
		}
	}
	b.mu.Unlock()
	if talk != nil {
		talk.ask(list)
		return
	}
	b.refuse(srv, refused, from)
	if len(kept) == 0 {
		return
	}
	from = slices.Clone(from)
	srv.spawn(func() {
		timer := time.NewTimer(srv.backings.looseTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			b.refuse(srv, b.takeLoose(kept), from)
		case <-b.life.Done():
		}
	})
}

// takeLoose takes those of the questions that still wait.
func (b *backing) takeLoose(list []query) (taken []query) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loose = slices.DeleteFunc(b.loose, func(q query) bool {
		is := slices.ContainsFunc(list, func(o query) bool { return &o.id[0] == &q.id[0] })
		if is {
			taken = append(taken, q)
		}
		return is
	})
	return taken
}

// refuse answers questions that nobody can be asked.
func (b *backing) refuse(srv *Server, list []query, from []upstream.Header) {
	b.refuseAs(srv, list, unattached, from)
}

// refuseAs answers questions that the client is not asked, for this reason.
func (b *backing) refuseAs(srv *Server, list []query, why string, from []upstream.Header) {
	for _, q := range list {
		b.say(srv, appendError(nil, q.id, -32603, why, nil), from)
	}
}

const unattached = "no client request to attach to"

func refusedQuestion(id []byte) []byte {
	return appendError(nil, id, -32603, unattached, nil)
}

// converse makes d the call in which the server may ask something; nil for none.
func (b *backing) converse(d *dialogue) {
	b.mu.Lock()
	b.talk = d
	var list []query
	if d != nil {
		list, b.loose = b.loose, nil
	}
	b.mu.Unlock()
	if len(list) > 0 {
		d.takeUp(list)
	}
}

// takeUp asks the client, before anything else, what the server had asked when there
// was no call yet. The server's own answer to this one may come before the client's.
func (d *dialogue) takeUp(list []query) {
	d.mu.Lock()
	for _, q := range list {
		d.add(q)
		d.asked[len(d.asked)-1].loose = true
	}
	d.mu.Unlock()
	d.turn()
}

// say is deliver for whoever can do nothing about an error.
func (b *backing) say(srv *Server, body []byte, from []upstream.Header) {
	if err := b.deliver(srv, body, from); err != nil {
		srv.log.Warn("answer was not delivered", append(traced(from), zap.Error(err))...)
	}
}

// deliver sends the server a response of the client, as one that came over a session.
func (b *backing) deliver(srv *Server, body []byte, from []upstream.Header) error {
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
