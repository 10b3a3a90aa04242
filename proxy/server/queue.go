package server

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// A Queue holds messages for a client that is slow or has no stream open. Its bounds
// apply to notifications, of which the oldest is dropped first. Requests and answers
// always stay: the tables of open ids bound them.
type Queue struct {
	maxItems, maxBytes int

	items []queued
	bytes int
	asked int // how many of the items are questions, and their bytes
	heavy int
}

type queued struct {
	message  []byte
	firm     bool // a request or an answer, which is never dropped
	question bool // a request of the server that offer has appended
}

// Limit sets the bounds.
func (q *Queue) Limit(cfg config.Limits) { q.maxItems, q.maxBytes = cfg.Queue, int(cfg.QueueBytes) }

// Put appends m, which belongs to the queue from now on, and returns how many
// notifications were dropped. A firm message is never dropped.
func (q *Queue) Put(m []byte, firm bool) (dropped int) {
	q.items = append(q.items, queued{message: m, firm: firm})
	q.bytes += len(m)
	for len(q.items) > q.maxItems || q.bytes > q.maxBytes {
		i := slices.IndexFunc(q.items, func(it queued) bool { return !it.firm })
		if i < 0 {
			break
		}
		q.bytes -= len(q.items[i].message)
		q.items = slices.Delete(q.items, i, i+1)
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
	q.items[len(q.items)-1].question = true
	q.asked++
	q.heavy += len(m)
	return dropped, true
}

// Pop removes and returns the oldest message, which belongs to the caller.
func (q *Queue) Pop() ([]byte, bool) {
	if len(q.items) == 0 {
		return nil, false
	}
	it := q.items[0]
	q.items[0] = queued{}
	q.items = q.items[1:]
	q.forget(it)
	return it.message, true
}

// forget notes that an item was removed.
func (q *Queue) forget(it queued) {
	q.bytes -= len(it.message)
	if it.question {
		q.asked--
		q.heavy -= len(it.message)
	}
}

// remove removes this very message, and reports whether it was there.
func (q *Queue) remove(m []byte) bool {
	i := slices.IndexFunc(q.items, func(it queued) bool { return &it.message[0] == &m[0] })
	if i < 0 {
		return false
	}
	q.forget(q.items[i])
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
			q.forget(it)
		}
		return it.question
	})
	return all
}

// take moves all messages of another queue to the end of this one.
func (q *Queue) take(from *Queue) {
	for _, it := range from.items {
		q.Put(it.message, it.firm)
		if it.question {
			q.items[len(q.items)-1].question = true
			q.asked++
			q.heavy += len(it.message)
		}
	}
	*from = Queue{maxItems: from.maxItems, maxBytes: from.maxBytes}
}
