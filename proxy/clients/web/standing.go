package web

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// standingStreams are the open ones of clients. They would not end by themselves when the proxy is shut down.
type standingStreams struct {
	mu       sync.Mutex
	open     map[*exchange.Standing]struct{} // nil before the first one
	draining bool
}

// begin makes resp the stream that x reads, which ends with draining. later is as in [exchange.Exchange.Stand].
func (all *standingStreams) begin(x *exchange.Exchange, later *upstream.ListenOptions, resp *downstream.Response, draining context.Context) {
	st := x.Stand(later)
	all.add(st, draining)
	resp.Listen = st.Listen
	resp.Done = func() {
		all.drop(st)
		st.Done()
	}
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
		st.Stop(clienterror.ErrShutdown)
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
		st.Stop(clienterror.ErrShutdown)
	}
}
