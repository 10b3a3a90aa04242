package telemetry

import (
	"context"
	"sync"
	"time"
)

// queue keeps encoded spans until they are sent, in batches. It is bounded: a span that does not fit is dropped and
// counted.
type queue struct {
	limits batching
	room   int                                            // bytes that every batch begins with, for what stands before the spans
	send   func(ctx context.Context, spans []byte, n int) // never at the same time
	full   chan struct{}                                  // has a value if there is a whole batch
	life   context.Context                                // ends when nothing more is sent
	end    context.CancelFunc
	over   chan struct{} // closed when the goroutine has ended
	last   chan struct{} // closed to send what is left

	mu      sync.Mutex
	batches []batch  // the last one is being filled
	held    int      // spans in batches
	dropped int      // since the last report
	spare   [][]byte // memory for the next batches, at most maxSpares
	closed  bool
}

// batch is encoded spans, one after the other, behind some room.
type batch struct {
	spans []byte
	n     int
}

// batching is how spans are batched. See
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/#batch-span-processor.
type batching struct {
	delay   time.Duration // between two batches that are not full
	queue   int           // how many spans wait
	batch   int           // how many are sent at once
	timeout time.Duration // for one batch, with its repetitions
}

// maxSpare is the largest memory of a batch that is used again, in bytes, and maxSpares of how many batches it is: one is
// filled while another one is sent.
const (
	maxSpare  = 1 << 20
	maxSpares = 2
)

func newQueue(b batching, room int, send func(context.Context, []byte, int)) *queue {
	q := &queue{limits: b, room: room, send: send, full: make(chan struct{}, 1), over: make(chan struct{}), last: make(chan struct{})}
	q.life, q.end = context.WithCancel(context.Background())
	go q.run()
	return q
}

// put adds n encoded spans, one after the other, that end at these indexes.
func (q *queue) put(spans []byte, ends ...int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := 0
	for _, to := range ends {
		q.putLocked(spans[from:to])
		from = to
	}
}

// putLocked adds one span. q.mu must be held.
func (q *queue) putLocked(span []byte) {
	if q.closed || q.held >= q.limits.queue {
		q.dropped++
		return
	}
	if len(q.batches) == 0 || q.batches[len(q.batches)-1].n >= q.limits.batch {
		q.batches = append(q.batches, batch{spans: q.emptyLocked()})
	}
	b := &q.batches[len(q.batches)-1]
	b.spans = append(b.spans, span...)
	q.held++
	if b.n++; b.n >= q.limits.batch {
		select {
		case q.full <- struct{}{}:
		default:
		}
	}
}

// emptyLocked returns the room of a new batch, in memory that will do if the batch becomes as long as the last one. q.mu
// must be held.
func (q *queue) emptyLocked() []byte {
	if n := len(q.spare); n > 0 {
		memory := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return memory[:q.room] // what stands there is overwritten
	}
	size := q.room
	if n := len(q.batches); n > 0 {
		size = len(q.batches[n-1].spans)
	}
	return make([]byte, q.room, size+size/8)
}

// take removes the oldest batch, if it is full or any is wanted.
func (q *queue) take(any bool) (b batch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 || !any && q.batches[0].n < q.limits.batch {
		return b, false
	}
	b = q.batches[0]
	q.batches = q.batches[1:]
	q.held -= b.n
	return b, true
}

// run sends batches until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.over)
	tick := time.NewTicker(q.limits.delay)
	defer tick.Stop()
	for {
		any, last := true, false
		select {
		case <-q.full:
			any = false
		case <-tick.C:
		case <-q.last:
			last = true
		}
		for {
			b, ok := q.take(any)
			if !ok {
				break
			}
			ctx, cancel := context.WithTimeout(q.life, q.limits.timeout)
			q.send(ctx, b.spans, b.n)
			cancel()
			q.keep(b.spans)
		}
		if last {
			return
		}
	}
}

// keep keeps the memory of a batch that was sent.
func (q *queue) keep(memory []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if cap(memory) <= maxSpare && len(q.spare) < maxSpares {
		q.spare = append(q.spare, memory)
	}
}

// lost returns how many spans were dropped since the last call.
func (q *queue) lost() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.dropped
	q.dropped = 0
	return n
}

// close sends what is left, and returns when that is done or after the wait.
func (q *queue) close(wait time.Duration) {
	q.mu.Lock()
	was := q.closed
	q.closed = true
	q.mu.Unlock()
	if !was {
		close(q.last)
	}
	timer := time.AfterFunc(wait, q.end)
	defer timer.Stop()
	<-q.over
	q.end()
}
