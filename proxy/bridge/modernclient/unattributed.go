package modernclient

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Limits of unattributed questions: they name no call, and came when no call ran in which
// the server may ask. Many servers ask for roots as soon as a session is open, and some
// ask for sampling while they answer resources/subscribe. Such questions wait a little for the next
// call in which the server may ask.
const (
	looseTime = 10 * time.Second
	maxLoose  = 16 // per session
)

// attribute gives questions that name no call to the newest call in which the server may ask. If there is
// none, they wait for the next one. It does not matter which call carries them: the same user answers.
func (b *pooledSession) attribute(list []bridge.Question, from []upstream.Header) {
	list = b.br.tasks.route(b, list)
	for i := range list {
		list[i].Loose = true
	}
	for len(list) > 0 {
		talks, joined := b.lend()
		left := offer(talks, list)
		b.giveBack()
		if len(talks) > 0 && len(left) < len(list) {
			b.refuseAs(left, tooManyAsked, from)
			return
		}
		list = left
		if b.keep(list, joined, from) {
			return
		}
	}
}

// offer offers questions to these calls, the newest first. Calls whose client waits for a response come
// before the parked ones, which ask only when their client calls again. offer returns the questions that
// no call accepted.
func offer(talks []*parkedCall, list []bridge.Question) (left []bridge.Question) {
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

// keep keeps questions a little, for the next call. It returns false, and keeps nothing, if a call has
// begun since b.joined had the value joined.
func (b *pooledSession) keep(list []bridge.Question, joined int, from []upstream.Header) bool {
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
	b.refuse(refused, from)
	if len(kept) == 0 {
		return true
	}
	from = slices.Clone(from)
	b.br.host.Spawn(func() {
		timer := time.NewTimer(b.br.Waits.Unattributed)
		defer timer.Stop()
		select {
		case <-timer.C:
			b.refuse(b.takeUnattributed(kept), from)
		case <-b.life.Done():
		}
	})
	return true
}

// takeUnattributed removes and returns those of the questions that still wait for a call.
func (b *pooledSession) takeUnattributed(list []bridge.Question) (taken []bridge.Question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unattributed = slices.DeleteFunc(b.unattributed, func(q bridge.Question) bool {
		is := slices.ContainsFunc(list, func(o bridge.Question) bool { return &o.ID[0] == &q.ID[0] })
		if is {
			taken = append(taken, q)
			b.asks(-1)
		}
		return is
	})
	return taken
}

// refuse answers questions with an error, as there is no call to ask the user in.
func (b *pooledSession) refuse(list []bridge.Question, from []upstream.Header) {
	b.refuseAs(list, unattached, from)
}

// refuseAs answers questions with an error that says why the client is not asked.
func (b *pooledSession) refuseAs(list []bridge.Question, why string, from []upstream.Header) {
	for _, q := range list {
		b.deliverOrLog(mcp.AppendError(nil, q.ID, -32603, why, nil), from)
	}
}

const unattached = "no client request to attach to"

// begin makes d a call in which the server may ask. The call also gets the questions that the
// server asked when there was no such call.
func (b *pooledSession) begin(d *parkedCall) {
	b.mu.Lock()
	b.inFlight = append(b.inFlight, d)
	b.joined++
	list := b.unattributed
	b.unattributed = nil
	b.mu.Unlock()
	if len(list) > 0 {
		d.askFirst(list)
		b.asks(-len(list)) // askFirst has counted them for d
	}
}

// askFirst asks the client, before anything else, the questions that the server asked before the
// call. The server may answer the call before the client answers them.
func (d *parkedCall) askFirst(list []bridge.Question) {
	d.mu.Lock()
	for _, q := range list {
		d.add(q)
	}
	d.mu.Unlock()
	d.askClient()
}

// deliverOrLog is deliver for callers that cannot handle an error: it logs the error.
func (b *pooledSession) deliverOrLog(body []byte, from []upstream.Header) {
	if err := b.deliver(body, from); err != nil {
		is := b.s.About()
		b.br.host.Report.Undelivered(err, report.At{Client: is.ClientRevision, Server: is.ServerRevision, Session: is.Named, Header: from})
	}
}

// deliver sends the server a response of the client, translated like one that came over a session.
func (b *pooledSession) deliver(body []byte, from []upstream.Header) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.br.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	x := b.s.Begin(ctx, nil, from, nil, nil)
	defer x.Done()
	out, v, err := x.Translate(Message{Text: body})
	if err == nil && v == wire.Forward {
		_, err = x.Forward(out)
	}
	return err
}
