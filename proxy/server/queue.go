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
}

type queued struct {
	message []byte
	firm    bool // a request or an answer, which is never dropped
}

// Limit sets the bounds.
func (q *Queue) Limit(cfg config.Limits) { q.maxItems, q.maxBytes = cfg.Queue, int(cfg.QueueBytes) }

// Put appends m, which belongs to the queue from now on, and returns how many
// notifications were dropped. A firm message is never dropped.
func (q *Queue) Put(m []byte, firm bool) (dropped int) {
	q.items = append(q.items, queued{m, firm})
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

// Pop removes and returns the oldest message, which belongs to the caller.
func (q *Queue) Pop() ([]byte, bool) {
	if len(q.items) == 0 {
		return nil, false
	}
	m := q.items[0].message
	q.items[0] = queued{}
	q.items = q.items[1:]
	q.bytes -= len(m)
	return m, true
}

// take moves all messages of another queue to the end of this one.
func (q *Queue) take(from *Queue) {
	for _, it := range from.items {
		q.Put(it.message, it.firm)
	}
	from.items, from.bytes = nil, 0
}
