package pipes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A Stream has the server's messages about one request, or those about no request.
type Stream struct {
	upstream.Plain
	of       closer
	ctx      context.Context
	asked    *idmap.Entry[*Stream] // the request; nil on the standing stream
	way      Sending               // of the request; of guards it
	answered atomic.Bool
	closed   bool             // it only stands for a closed one
	away     bool             // its client has left, and may resume it; of guards it
	process  int              // that of the requests of the server in queue; of guards it
	halt     atomic.Bool      // Interrupt was called, and Events has not given sse.ErrInterrupted for it
	logs     bool             // log messages may be about the request
	limit    config.TimeLimit // of the server's silence; 0 for none
	spoke    bool             // there was a message; for Events only

	signal chan struct{} // there may be a new message

	mu    sync.Mutex
	queue Queue
	err   error // set once nothing more will come
}

// closer is what a stream belongs to.
type closer interface{ close(s *Stream) }

// Close implements [upstream.Stream]. Messages of a standing stream that were not read wait for the next one.
func (s *Stream) Close() error {
	s.of.close(s)
	return nil
}

// Put appends m and returns how many other messages were dropped for it.
func (s *Stream) Put(m []byte, firm bool) int {
	s.mu.Lock()
	dropped := s.queue.Put(m, firm)
	s.mu.Unlock()
	s.wake()
	return dropped
}

// offer is Put for a request of the server. It returns false, and appends nothing, if the client reads too slowly.
func (s *Stream) offer(m []byte) (dropped int, ok bool) {
	s.mu.Lock()
	dropped, ok = s.queue.offer(m)
	s.mu.Unlock()
	s.wake()
	return dropped, ok
}

// questions removes and returns the requests of the server that the client has not read.
func (s *Stream) questions() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.questions()
}

func (s *Stream) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// finish ends the stream once its queue is empty. The first reason stays.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.wake()
}

// Given returns the id by which the server knows the request.
func (s *Stream) Given() string { return s.asked.Given }

// Answered reports whether the server has answered the request.
func (s *Stream) Answered() bool { return s.answered.Load() }

// Over reports whether nothing more will come.
func (s *Stream) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// Events implements [upstream.Stream].
func (s *Stream) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := s.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event waits for the next message.
func (s *Stream) event() (sse.Event, error) {
	limit := s.limit.FirstByte
	if s.spoke {
		limit = s.limit.Silence
	}
	var quiet <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		quiet = timer.C
	}
	for {
		s.mu.Lock()
		m, ok := s.queue.Pop()
		err := s.err
		s.mu.Unlock()
		switch {
		case ok:
			s.spoke = true
			return sse.Event{Data: m}, nil
		case err != nil:
			return sse.Event{}, err
		case s.halt.Swap(false):
			return sse.Event{}, sse.ErrInterrupted
		}
		select {
		case <-s.signal:
		case <-quiet:
			return sse.Event{}, SilentFor(limit, s.spoke)
		case <-s.ctx.Done():
			return sse.Event{}, context.Cause(s.ctx)
		}
	}
}

// CanInterrupt implements [upstream.Stream].
func (s *Stream) CanInterrupt() bool { return true }

// Interrupt implements [upstream.Stream].
func (s *Stream) Interrupt() {
	s.halt.Store(true)
	s.wake()
}
