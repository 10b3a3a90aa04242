package pipes

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// A Queue holds messages for a client that is slow or has no stream open. Its bounds
// apply to notifications, of which the oldest is dropped first. Requests and answers
// always stay: the tables of open ids bound them.
type Queue struct {
	maxItems, maxBytes int
	kept               *large.Holding // of the owner

	items []queued
	bytes int
	asked int // how many of the items are questions, and their bytes
	heavy int
}

type queued struct {
	message  []byte
	firm     bool // a request or an answer, which is never dropped
	question bool // a request of the server that offer has appended
	counted  bool // in kept
}

// Limit sets the bounds. kept counts the messages, except for large ones, which are counted where they were copied.
func (q *Queue) Limit(cfg config.Limits, kept *large.Holding) {
	q.maxItems, q.maxBytes, q.kept = cfg.Queue, int(cfg.QueueBytes), kept
}

// Put appends m, which belongs to the queue from now on, and returns how many
// notifications were dropped, which may be m itself. A firm message is never dropped.
func (q *Queue) Put(m []byte, firm bool) (dropped int) {
	counted := false
	for len(m) <= large.Size && !counted {
		if counted = q.kept.Keep(len(m)) == nil; counted {
			break
		}
		if !q.dropOldest() {
			if !firm {
				return dropped + 1
			}
			break
		}
		dropped++
	}
	q.items = append(q.items, queued{message: m, firm: firm, counted: counted})
	q.bytes += len(m)
	for (len(q.items) > q.maxItems || q.bytes > q.maxBytes) && q.dropOldest() {
		dropped++
	}
	return dropped
}

// offer appends a request of the server, which is firm from then on. It returns false, and appends nothing, if as many wait as the
// bounds allow.
func (q *Queue) offer(m []byte) (dropped int, ok bool) {
	if q.asked > 0 && (q.asked >= q.maxItems || q.heavy+len(m) > q.maxBytes) {
		return 0, false
	}
	dropped = q.Put(m, true)
	q.markQuestion()
	return dropped, true
}

// markQuestion says that the newest message is a request of the server.
func (q *Queue) markQuestion() {
	it := &q.items[len(q.items)-1]
	it.question = true
	q.asked++
	q.heavy += len(it.message)
}

// dropOldest removes the oldest notification, and returns false if there is none.
func (q *Queue) dropOldest() bool {
	i := slices.IndexFunc(q.items, func(it queued) bool { return !it.firm })
	if i < 0 {
		return false
	}
	q.let(&q.items[i])
	q.items = slices.Delete(q.items, i, i+1)
	return true
}

// let stops counting a message.
func (q *Queue) let(it *queued) {
	q.bytes -= len(it.message)
	if it.counted {
		q.kept.Drop(len(it.message))
	}
	if it.question {
		q.asked--
		q.heavy -= len(it.message)
	}
}

// Pop removes and returns the oldest message, which belongs to the caller.
func (q *Queue) Pop() ([]byte, bool) {
	if len(q.items) == 0 {
		return nil, false
	}
	m := q.items[0].message
	q.let(&q.items[0])
	q.items[0] = queued{}
	q.items = q.items[1:]
	return m, true
}

// remove removes this very message, and reports whether it was there.
func (q *Queue) remove(m []byte) bool {
	i := slices.IndexFunc(q.items, func(it queued) bool { return &it.message[0] == &m[0] })
	if i < 0 {
		return false
	}
	q.let(&q.items[i])
	q.items = slices.Delete(q.items, i, i+1)
	return true
}

// questions removes and returns the requests of the server.
func (q *Queue) questions() (all [][]byte) {
	if q.asked == 0 {
		return nil
	}
	q.items = slices.DeleteFunc(q.items, func(it queued) bool {
		if it.question {
			all = append(all, it.message)
			q.let(&it)
		}
		return it.question
	})
	return all
}

// take moves all messages of another queue to the end of this one.
func (q *Queue) take(from *Queue) {
	items := from.items
	from.Discard()
	for _, it := range items {
		q.Put(it.message, it.firm)
		if it.question {
			q.markQuestion()
		}
	}
}

// Discard removes all messages.
func (q *Queue) Discard() {
	for i := range q.items {
		q.let(&q.items[i])
	}
	q.items = nil
}
