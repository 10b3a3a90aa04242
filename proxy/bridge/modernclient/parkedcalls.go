package modernclient

import (
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// parkedCalls holds the calls whose client was asked something. Their number is bounded, and so is
// how long each waits.
type parkedCalls struct {
	br       *Bridge
	instance sealed.ID // the id of this process

	mu   sync.Mutex
	byID map[sealed.ID]*parkedCall
	used quota.Fair
}

func newParkedCalls(br *Bridge, instance sealed.ID) *parkedCalls {
	return &parkedCalls{br: br, instance: instance, byID: make(map[sealed.ID]*parkedCall)}
}

// begin makes a parkedCall for a request that is about to be sent on b as x with the returned id. The caller then calls
// start or stop.
func (s *parkedCalls) begin(r *relay, b *pooledSession) (d *parkedCall, x *asking, id []byte, box *outbox.Outbox) {
	m, box := r.room()
	d, x = &m.parked, &m.asking
	*d = parkedCall{br: s.br, who: r.who, first: r.q, from: r.from, b: b, reply: r.q, began: time.Now(), silence: d.silence}
	id = b.appendID(x.id[:0])
	d.call, d.box = wire.View(id), box
	box.OnLeave(d)
	b.join(d)
	return d, x, id, box
}

// park adds d, whose client is asked. It returns false if there are too many parked calls.
func (s *parkedCalls) park(d *parkedCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[d.id] != nil {
		return true
	}
	if !s.used.Acquire(d.first.Holder(d.who), s.br.host.Config().Bridge.MaxParked) {
		return false
	}
	rand.Read(d.id[:])
	d.login = s.br.proxy.Login()
	s.byID[d.id] = d
	return true
}

func (s *parkedCalls) find(id sealed.ID) *parkedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *parkedCalls) drop(d *parkedCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[d.id] != nil {
		s.used.Release(d.first.Holder(d.who))
		delete(s.byID, d.id)
	}
}

func (s *parkedCalls) count(c *Counts) {
	for _, d := range s.list() {
		c.Parked++
		d.mu.Lock()
		if d.answer != nil {
			c.Answered++
		}
		d.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Shares += s.used.Held()
}

// Parked is a question that waits for the answer of a modern client.
type Parked struct {
	Method      wire.Method
	Since, Ends time.Time
	Seen        *observe.Call // the observation of the call; nil if nothing observed it
}

// Parked returns the questions that wait for their clients.
func (br *Bridge) Parked() (list []Parked) {
	for _, d := range br.parked.list() {
		d.mu.Lock()
		if d.box == nil { // else the client is not asked yet
			for _, q := range d.asked.open {
				list = append(list, Parked{q.Method, d.parked, d.ends, d.seen})
			}
		}
		d.mu.Unlock()
	}
	return list
}

func (s *parkedCalls) list() []*parkedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byID))
}

// close abandons all calls.
func (s *parkedCalls) close() {
	for _, d := range s.list() {
		d.abandon("dragoman is shutting down")
	}
}
