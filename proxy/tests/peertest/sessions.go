package peertest

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"sync"
)

// Session is one session of a server that knows its sessions.
type Session struct {
	ID string

	says  chan string     // on the standing stream over HTTP
	lines io.Writer       // the stream of HTTP+SSE
	life  context.Context // ends when the server crashes
	crash context.CancelFunc
}

// Say sends a message on the standing stream of a session over HTTP.
func (in *Session) Say(m string) { in.says <- m }

func (in *Session) name() string {
	if in == nil {
		return ""
	}
	return in.ID
}

func (in *Session) crashed() <-chan struct{} {
	if in == nil {
		return nil
	}
	return in.life.Done()
}

// sessions are those of a server.
type sessions struct {
	life context.Context

	guard  sync.Mutex
	opened []*Session
	known  map[string]*Session
}

func (s *sessions) open() *Session {
	in := &Session{ID: rand.Text(), says: make(chan string, 10)}
	in.life, in.crash = context.WithCancel(s.life)
	s.guard.Lock()
	defer s.guard.Unlock()
	s.opened = append(s.opened, in)
	s.known[in.ID] = in
	return in
}

func (s *sessions) session(id string) *Session {
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.known[id]
}

func (s *sessions) end(in *Session) {
	s.guard.Lock()
	defer s.guard.Unlock()
	delete(s.known, in.name())
}

// Opened returns all sessions that have begun.
func (s *sessions) Opened() []*Session {
	s.guard.Lock()
	defer s.guard.Unlock()
	return slices.Clone(s.opened)
}

// Known returns how many sessions the server knows.
func (s *sessions) Known() int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return len(s.known)
}

// Forget makes the server forget its sessions. Their streams stay open, as behind a load balancer.
func (s *sessions) Forget() {
	s.guard.Lock()
	defer s.guard.Unlock()
	clear(s.known)
}

// Crash makes the server forget its sessions, and breaks their streams off, as a restart does.
func (s *sessions) Crash() {
	s.guard.Lock()
	defer s.guard.Unlock()
	for _, in := range s.known {
		in.crash()
	}
	clear(s.known)
}
