package observe

import "sync"

// queueBytes is how many bytes wait for one reader.
const queueBytes = 8 << 20

// overhead is what an event takes besides the text of its message, in bytes: an estimate.
const overhead = 400

// event is one thing that happened: a *Message, *Note, *End, *Session or *Stderr.
type event struct {
	what any
	size int
}

// queue holds the events that one reader has not read. It is bounded in bytes: what does not fit is dropped and counted.
type queue struct {
	name string
	max  int
	lost func(reader string) // called for each dropped event

	mu      sync.Mutex
	filled  *sync.Cond
	events  []event
	bytes   int // of these, and of those that the reader is reading
	reading int
	dropped uint64 // since the reader was last told
	closed  bool
}

func newQueue(name string, max int, lost func(string)) *queue {
	q := &queue{name: name, max: max, lost: lost}
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
		q.filled.Signal()
	case !q.closed:
		q.dropped++
	}
	closed := q.closed
	q.mu.Unlock()
	if !fits && !closed && q.lost != nil {
		q.lost(q.name)
	}
}

// take returns all events that wait, and how many were dropped behind them. It waits for one, and returns ok false when
// the queue is closed and empty. spare is memory for further events.
func (q *queue) take(spare []event) (events []event, dropped uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= q.reading
	q.reading = 0
	for len(q.events) == 0 && q.dropped == 0 && !q.closed {
		q.filled.Wait()
	}
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
}

// feed hands the events to r until the queue is closed and empty.
func (q *queue) feed(r Reader) {
	var spare []event
	for {
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
	}
}
