package observe

import (
	"sync"
	"time"
)

// queueBytes is how many bytes wait for one reader.
const queueBytes = 8 << 20

// overhead is what an event takes besides the text of its message, in bytes: an estimate.
const overhead = 400

func newQueue(name string, b Bounds, lost func(string)) *queue {
	q := &queue{name: name, max: b.Queue, long: newAllowance(b.Long, burst), calls: newAllowance(b.Calls, callsBurst), lost: lost, urgent: make(chan struct{}, 1)}
	q.filled = sync.NewCond(&q.mu)
	return q
}

// put never waits for the reader.
func (q *queue) put(e event) {
	q.mu.Lock()
	fits := q.bytes+e.size <= q.max && !q.closed
	switch {
	case fits:
		q.events = append(q.events, e)
		q.bytes += e.size
		if len(q.events) == 1 {
			q.filled.Signal()
		}
	case !q.closed:
		q.dropped++
	}
	closed, full := q.closed, q.bytes > q.max/2
	q.mu.Unlock()
	if full {
		q.hurry()
	}
	if !fits && !closed && q.lost != nil {
		q.lost(q.name)
	}
}

// hurry ends the reader's wait for more events.
func (q *queue) hurry() {
	select {
	case q.urgent <- struct{}{}:
	default:
	}
}

// gather is how long the reader waits for more events after the first one: to wake it for each event would take longer than
// all the rest.
const gather = 20 * time.Millisecond

// await waits for the first event, and then for further ones, until the queue is half full or closed.
func (q *queue) await(timer *time.Timer) {
	q.mu.Lock()
	for len(q.events) == 0 && q.dropped == 0 && !q.closed {
		q.filled.Wait()
	}
	now := q.closed || q.bytes > q.max/2
	q.mu.Unlock()
	if now {
		return
	}
	timer.Reset(gather)
	select {
	case <-timer.C:
	case <-q.urgent:
		timer.Stop()
	}
}

// take returns all events that wait, and how many were dropped behind them. ok is false when the queue is closed and empty.
// spare is memory for further events.
func (q *queue) take(spare []event) (events []event, dropped uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events = q.events, spare
	dropped, q.dropped = q.dropped, 0
	q.reading = q.bytes
	return events, dropped, len(events) > 0 || dropped > 0
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.filled.Signal()
	q.mu.Unlock()
	q.hurry()
}

// done notes that the events of the last take were read.
func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= q.reading
	q.reading = 0
}

// feed hands the events to r until the queue is closed and empty.
func (q *queue) feed(r Reader) {
	var spare []event
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for {
		q.await(timer)
		events, dropped, ok := q.take(spare)
		if !ok {
			return
		}
		for _, e := range events {
			switch what := e.what.(type) {
			case *Message:
				r.Message(what)
			case *Note:
				r.Note(what)
			case *End:
				r.End(what)
			case *Session:
				r.Session(what)
			case *Stderr:
				r.Stderr(what)
			}
		}
		if dropped > 0 {
			r.Gap(dropped)
		}
		clear(events)
		spare = events[:0]
		q.done()
	}
}
