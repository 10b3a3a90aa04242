package tests

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestEndedSessionsAreTold to the page and counted, with a server on a pipe, and with one over HTTP, whose sessions could be resumed.
func TestEndedSessionsAreTold(t *testing.T) {
	for name, front := range map[string]func(t *testing.T) testServer{
		"a pipe": func(t *testing.T) testServer { return front(t, legacyServer(`{"tools":{}}`, nil)) },
		"HTTP": func(t *testing.T) testServer {
			return severalOf(t, newSessionServer(t, "2025-06-18", ""), 1)[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := front(t)
			ring, end := observedBy(srv)
			defer end()
			session := srv.initialize("2025-06-18")
			if r := srv.exchange(t.Context(), "DELETE", session, ""); r.status >= 300 {
				t.Fatalf("%+v", r)
			}
			eventually(t, "the session", func() bool { return len(ring.Ended()) == 1 })
			if s := ring.Ended()[0]; s.Why != "its client has ended it" || s.ClientRevision != "2025-06-18" || s.Session == "" || s.Ended == "" {
				t.Errorf("%+v", s)
			}
			if n := measured(t, srv, "mcp_server_session_duration_seconds", "mcp_protocol_version=2025-06-18", "error_type="); n != 1 {
				t.Errorf("%d sessions are counted", n)
			}
		})
	}
}

// TestWhySessionsEnd is said truly: dragoman goes on when a client leaves or does nothing.
func TestWhySessionsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		why string
		do  func(t *testing.T, base string)
	}{
		"an idle client": {"it was not used for session.idle_timeout, or its id has expired", func(t *testing.T, base string) {
			visit(t, http.DefaultClient, "POST", base+"/mcp", initialize("2025-06-18", `{}`))
		}},
		"a client of HTTP+SSE that leaves": {"the client has disconnected", func(t *testing.T, base string) {
			c := peertest.NewSSEClient(t, base)
			c.Post(initialize("2024-11-05", `{}`))
			c.Next()
			_ = c.Body.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Session.IdleTimeout = 50 * time.Millisecond
			f := newFake(initializing("2025-06-18", obliging))
			f.piped = true
			srv, err := proxy.NewWith(cfg, zap.NewNop(), f.origin())
			if err != nil {
				t.Fatal(err)
			}
			ring := observe.NewRing(srv.Now().Redactor)
			defer srv.Observer.Attach("test", ring)()
			base, _ := startServing(t, srv)
			c.do(t, base)
			eventually(t, "the session has ended", func() bool { return len(ring.Ended()) == 1 })
			if s := ring.Ended()[0]; s.Why != c.why {
				t.Errorf("it has ended because %s, want %s", s.Why, c.why)
			}
		})
	}
	t.Run("a client on stdio that leaves", func(t *testing.T) {
		client, srv := pipeClient(t, newFake(initializing("2025-06-18", obliging)))
		ring, end := observedBy(srv)
		client.initialize("2025-06-18", `{}`)
		if err := client.end(); err != nil {
			t.Error(err)
		}
		end()
		if all := ring.Ended(); len(all) != 1 || all[0].Why != "the client has disconnected" {
			t.Errorf("%+v", all)
		}
	})
}

// slowToForget is an engine whose Delete waits for go on.
type slowToForget struct {
	sharedMemory
	asked, on chan struct{}
}

func (e slowToForget) Delete(ctx context.Context, key string) error {
	e.asked <- struct{}{}
	<-e.on
	return e.sharedMemory.Delete(ctx, key)
}

// TestCallOfASessionThatIsDeletedDoesNotWaitForTheStore: its client gets the error while the store still deletes the session's state.
func TestCallOfASessionThatIsDeletedDoesNotWaitForTheStore(t *testing.T) {
	leavesNothing(t)
	e := slowToForget{sharedMemory{store.NewMemory(store.Bounds{})}, make(chan struct{}, 1), make(chan struct{})}
	called := make(chan struct{})
	s := newSessionless(t, func(u *peertest.Turn) bool {
		if u.Method != "tools/call" {
			return false
		}
		close(called)
		<-u.Ctx.Done()
		return true
	})
	srv, _, _ := newCluster(t, s, func() store.Engine { return e }, nil).start()
	session := srv.initialize("2025-11-25")
	sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`).body, result("6", ""))
	answered, deleted := make(chan reply, 1), make(chan reply, 1)
	go func() {
		answered <- srv.post(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`)
	}()
	<-called
	go func() { deleted <- srv.exchange(context.Background(), "DELETE", session, "") }()
	select {
	case <-e.asked:
	case <-time.After(patience):
		t.Fatal("the store is not asked to delete the state")
	}
	select {
	case r := <-answered:
		if r.status != 404 {
			t.Errorf("%+v", r)
		}
	case <-time.After(patience / 2):
		t.Error("the call waits for the store")
	}
	close(e.on)
	if r := <-deleted; r.status != 200 {
		t.Errorf("%+v", r)
	}
}
