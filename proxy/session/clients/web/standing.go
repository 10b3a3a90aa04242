package web

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// standingStreams are the open ones of clients. They would not end by themselves when the proxy is shut down.
type standingStreams struct {
	mu       sync.Mutex
	open     map[*exchange.Standing]struct{} // nil before the first one
	draining bool
}

// begin returns the stream of s that x will read in answer to a request. It ends with draining, also while the server has not granted
// it, and with Done of resp.
func (all *standingStreams) begin(x *exchange.Exchange, s *session.Session, resp *downstream.Response, draining context.Context) *exchange.Standing {
	x.Session = s
	s.Listens.Add(1)
	st := x.Stand()
	all.add(st, draining)
	resp.Done = func() {
		all.drop(st)
		s.Listens.Add(-1)
		st.Done()
	}
	return st
}

func (all *standingStreams) add(st *exchange.Standing, draining context.Context) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open == nil {
		all.open = make(map[*exchange.Standing]struct{})
		context.AfterFunc(draining, all.drain)
	}
	all.open[st] = struct{}{}
	if all.draining {
		st.Stop(report.ErrShutdown)
	}
}

func (all *standingStreams) drop(st *exchange.Standing) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, st)
}

// drain ends the streams.
func (all *standingStreams) drain() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.draining = true
	for st := range all.open {
		st.Stop(report.ErrShutdown)
	}
}
