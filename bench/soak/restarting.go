package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// restarting is a server with sessions that restarts from time to time and then has forgotten all
// of them. It answers a request for an unknown session with 404.
type restarting struct {
	addr string

	mu       sync.Mutex
	server   *http.Server
	sessions map[string]bool
	last     int
	outages  []outage
}

// outage is a time in which calls may fail. The zero end means now.
type outage struct{ from, to time.Time }

func startRestarting() (*restarting, error) {
	s := &restarting{addr: "127.0.0.1:0"}
	return s, s.start()
}

func (s *restarting) url() string { return "http://" + s.addr + "/mcp" }

func (s *restarting) start() error {
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr, s.sessions = ln.Addr().String(), map[string]bool{}
	s.server = &http.Server{Handler: s}
	if n := len(s.outages); n > 0 {
		s.outages[n-1].to = time.Now()
	}
	go s.server.Serve(ln)
	return nil
}

func (s *restarting) stop() {
	s.mu.Lock()
	s.outages = append(s.outages, outage{from: time.Now()})
	server := s.server
	s.mu.Unlock()
	server.Close()
}

// run restarts the server again and again until ctx ends.
func (s *restarting) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2*time.Second + time.Duration(rand.IntN(2000))*time.Millisecond):
		}
		s.stop()
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		if err := s.start(); err != nil {
			return err
		}
	}
}

// out reports whether the server was down at some time since then, or shortly before, because requests
// may have been in flight.
func (s *restarting) out(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.outages {
		if o.to.IsZero() || o.to.After(since) {
			return true
		}
	}
	return false
}

func (s *restarting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	call := read(body)
	s.mu.Lock()
	if call.method == "initialize" {
		s.last++
		id := strconv.Itoa(s.last)
		s.sessions[id] = true
		w.Header().Set("Mcp-Session-Id", id)
	}
	known := s.sessions[r.Header.Get("Mcp-Session-Id")]
	s.mu.Unlock()
	switch {
	case call.method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"soak","version":"1"}}}`,
			call.id, translate.Handshake()[0].Name)
	case call.method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		listen(w, r, changed)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, r.Header.Get("Mcp-Session-Id"))
		s.mu.Unlock()
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		behave(w, r, call)
	}
}
