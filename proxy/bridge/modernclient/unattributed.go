package modernclient

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Unattributed questions name no call, and came when no call ran in which the server may ask. Many servers ask for roots as
// soon as a session is open. Such questions wait a little for the next call in which the server may ask. Some servers ask for sampling
// before they answer resources/subscribe: then a client waits for its subscription, and no other call need ever come. Those
// questions are refused at once.

// looseTime is how long they wait.
const looseTime = 10 * time.Second

// attribute gives questions that name no call to the newest call in which the server may ask. If there is
// none, they wait for the next one. It does not matter which call carries them: the same user answers.
func (b *pooledSession) attribute(list []crossing.Question, from []mcp.Header) {
	list = b.tasks.route(b, list)
	for i := range list {
		list[i].Loose = true
	}
	for len(list) > 0 {
		calls, joined := b.calls.lend()
		left := offer(calls, list)
		b.calls.giveBack()
		if len(calls) > 0 && len(left) < len(list) {
			b.refuse(left, tooManyAsked, from)
			return
		}
		if list = b.refuseNow(left, from); len(list) == 0 || b.keep(list, joined, from) {
			return
		}
	}
}

// refuseNow refuses the questions that cannot wait for the next call, and returns the others: the server answers a request of
// dragoman's own only when they are answered, and the client waits for that.
func (b *pooledSession) refuseNow(list []crossing.Question, from []mcp.Header) (others []crossing.Question) {
	var now []crossing.Question
	for _, q := range list {
		if !q.Now {
			others = append(others, q)
			continue
		}
		now = append(now, q)
		b.Host.Log.Info("the server asks its client something before it answers resources/subscribe or another request of dragoman's own, and no call of the client is open that could bring the question: it is refused",
			zap.String("question", q.Method.String()))
	}
	if len(now) > 0 {
		from := slices.Clone(from)
		b.Host.Spawn(func() { b.refuse(now, unattached, from) }) // the reader of the server's messages does not wait for the server
	}
	return others
}

// offer offers questions to these calls, the newest first. Calls whose client waits for a response come
// before the parked ones, which ask only when their client calls again. offer returns the questions that
// no call accepted.
func offer(calls []openCall, list []crossing.Question) (left []crossing.Question) {
	var parked []openCall
	for _, d := range slices.Backward(calls) {
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
// joined since lend has returned this number.
func (b *pooledSession) keep(list []crossing.Question, joined int, from []mcp.Header) bool {
	held, size := b.Host.Memory().Holding(), 0
	for _, q := range list[:min(len(list), maxLoose)] {
		size += len(q.Body) + len(q.ID)
	}
	if held.Keep(size) != nil {
		b.refuse(list, unattached, from)
		return true
	}
	kept, refused, ok := b.calls.keep(list, joined)
	if !ok {
		held.Close()
		return false
	}
	b.asks(len(kept))
	b.refuse(refused, unattached, from)
	if len(kept) == 0 {
		held.Close()
		return true
	}
	from = slices.Clone(from)
	b.Host.Spawn(func() {
		defer held.Close()
		timer := time.NewTimer(b.waits.Unattributed)
		defer timer.Stop()
		select {
		case <-timer.C:
			left := b.calls.take(kept)
			b.asks(-len(left))
			b.refuse(left, unattached, from)
		case <-b.life.Done():
		}
	})
	return true
}

// join makes d an open call, before it is sent. It also gets the questions that the server asked when there was no call that
// could take them.
func (b *pooledSession) join(d openCall, mayAsk bool) {
	if list := b.calls.join(d, mayAsk); len(list) > 0 {
		d.askFirst(list)
		b.asks(-len(list)) // askFirst has counted them for d
	}
}

// lacks notes, for the newest call in which the server may ask, that its client lacks a capability: dragoman has answered a
// question in the client's place.
func (b *pooledSession) lacks(required []byte) {
	calls, _ := b.calls.lend()
	defer b.calls.giveBack()
	if n := len(calls); n > 0 {
		calls[n-1].lacks(required)
	}
}
