package proxy

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// parkedCalls holds the calls whose client was asked something. Their number is bounded, and so is
// how long each waits.
type parkedCalls struct {
	srv      *Server
	instance sealed.ID // the id of this process

	mu   sync.Mutex
	byID map[sealed.ID]*parkedCall
	used quota.Fair
}

func newParkedCalls(srv *Server) *parkedCalls {
	s := &parkedCalls{srv: srv, byID: make(map[sealed.ID]*parkedCall)}
	rand.Read(s.instance[:]) // never fails
	return s
}

// begin makes a parkedCall for a request that is about to be sent on b with the given id. The
// caller then calls start or stop.
func (s *parkedCalls) begin(r *relay, b *pooledSession, id []byte) (*parkedCall, *outbox.Outbox) {
	d := &parkedCall{srv: s.srv, who: r.who, first: r.q, from: r.from, b: b, call: string(id), reply: r.q, began: time.Now()}
	rand.Read(d.id[:])
	box := outbox.New()
	box.OnLeave(func() { d.leave(box) })
	d.box = box
	b.join(d)
	return d, box
}

// park adds d, whose client is asked. It returns false if there are too many parked calls.
func (s *parkedCalls) park(d *parkedCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[d.id] != nil {
		return true
	}
	if !s.used.Acquire(d.first.Holder(d.who), s.srv.now().cfg.Bridge.MaxParked) {
		return false
	}
	d.login = s.srv.signIns.Login()
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

func (s *parkedCalls) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// close abandons all calls.
func (s *parkedCalls) close() {
	s.mu.Lock()
	var all []*parkedCall
	for _, d := range s.byID {
		all = append(all, d)
	}
	s.mu.Unlock()
	for _, d := range all {
		d.abandon("dragoman is shutting down")
	}
}
