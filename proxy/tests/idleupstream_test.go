package tests

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// idlers are the connections of a server, and whether each is idle.
type idlers struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	ended int
}

func (s *idlers) state(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	default:
		s.conns[c] = state == http.StateIdle
	}
}

// closeAll closes all connections once all are idle: a request written to one that closes at that
// moment would be lost.
func (s *idlers) closeAll(t *testing.T) {
	eventually(t, "all connections idle", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, idle := range s.conns {
			if !idle {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
		s.ended++
	}
}

// TestServerThatClosesIdleConnectionsFailsNoCall: ten calls, some of them concurrent, as 200 a
// second make in 50 ms; then the server closes its idle connections, and the next ten follow at
// once. A POST may not be sent twice, so none may be sent on a closed connection.
func TestServerThatClosesIdleConnectionsFailsNoCall(t *testing.T) {
	leavesNothing(t)
	s := newSessionServer(t, "2025-06-18", "")
	at := &idlers{conns: make(map[net.Conn]bool)}
	s.ConnState = at.state
	srv := frontOfWeb(t, s.At().URL)
	session := srv.initialize("2024-11-05")
	name := srv.who(session)
	for wave := range 60 {
		for i := range 10 {
			n := 1
			if i == 0 && wave%4 == 0 { // more connections than are needed afterwards
				n = 8
			}
			var calls sync.WaitGroup
			for k := range n {
				calls.Go(func() {
					r := srv.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"test/session"}`, k))
					if gjson.Get(r.body, "result.session").String() != name {
						t.Errorf("call %d.%d: %+v", wave, i, r)
					}
				})
			}
			calls.Wait()
		}
		at.closeAll(t)
	}
	if at.ended < 60 {
		t.Errorf("the server closed %d connections: nothing was tested", at.ended)
	}
	srv.Close()
	s.Close()
}
