package dial

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// short is long enough for the system's timers, and short enough for a test.
const short = time.Second

// connect returns a connection that a watch of limit guards, and the server's end of it.
func connect(t *testing.T, limit time.Duration) (client net.Conn, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err = (&Dialer{Watch: NewWatch(limit)}).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); other.Close() })
	for _, c := range []net.Conn{client, other} {
		if err := c.SetDeadline(time.Now().Add(peertest.Patience)); err != nil {
			t.Fatal(err)
		}
	}
	return client, other.(*net.TCPConn)
}

// reads returns the error with which reading from c ends.
func reads(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// TestUnacknowledgedBytesEndAConnection that the peer does not hear any more, while the system would repeat them for a quarter of
// an hour.
func TestUnacknowledgedBytesEndAConnection(t *testing.T) {
	t.Parallel()
	client, server := connect(t, short)
	peertest.Deafen(t, server)
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	err := reads(client)
	if !IsDead(err) || err.Error() != "the connection was dead (no acknowledgement for 1 s)" {
		t.Errorf("%v", err)
	}
	if _, err := client.Write([]byte("again")); !IsDead(err) {
		t.Errorf("a later write: %v", err)
	}
}

// TestUnansweredProbesEndAQuietConnection.
func TestUnansweredProbesEndAQuietConnection(t *testing.T) {
	t.Parallel()
	client, server := connect(t, short)
	peertest.Deafen(t, server)
	if err := reads(client); !IsDead(err) {
		t.Errorf("%v", err)
	}
}

// TestAPeerThatDoesNotReadIsAlive: its window is closed, and it acknowledges probes. Once it is gone, the connection is dead.
func TestAPeerThatDoesNotReadIsAlive(t *testing.T) {
	t.Parallel()
	client, server := connect(t, short)
	wrote := make(chan error, 1)
	big := make([]byte, 8<<20)
	go func() {
		_, err := client.Write(big)
		wrote <- err
	}()
	select {
	case err := <-wrote:
		t.Fatalf("the write has ended: %v", err)
	case <-time.After(4 * short): // it must not end
	}
	if n, err := io.CopyN(io.Discard, server, int64(len(big))); err != nil {
		t.Fatalf("read %d: %v", n, err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}

	go func() {
		_, err := client.Write(big)
		wrote <- err
	}()
	peertest.Deafen(t, server)
	if err := <-wrote; !IsDead(err) {
		t.Errorf("the peer is gone: %v", err)
	}
}

// TestAClosedWindowOfAGonePeer: probes for room that are not answered end the connection too.
func TestAClosedWindowOfAGonePeer(t *testing.T) {
	t.Parallel()
	client, server := connect(t, short)
	wrote := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, 8<<20))
		wrote <- err
	}()
	c := client.(*conn)
	for closed := false; !closed; time.Sleep(time.Millisecond) {
		s, ok := stateOf(c.guard.socket)
		closed = ok && !s.unacked && s.unsent && s.probes == 0
		if !ok {
			t.Skip("the system says nothing of connections")
		}
	}
	peertest.Deafen(t, server)
	if err := <-wrote; !IsDead(err) {
		t.Errorf("%v", err)
	}
}

// TestASilentPeerIsAlive: it has acknowledged the request, and works on it.
func TestASilentPeerIsAlive(t *testing.T) {
	t.Parallel()
	client, server := connect(t, short)
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, len("hello"))); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(4*short, func() { server.Write([]byte("answer")); server.Close() })
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSlowAcknowledgementsKeepAConnection: each one begins the time anew, and when no more come, the connection is dead after
// 20 to 30 s.
func TestSlowAcknowledgementsKeepAConnection(t *testing.T) {
	const look, pause, last = 2500 * time.Millisecond, 20 * time.Second, 10 * time.Minute
	g := &Guard{watch: NewWatch(25 * time.Second)}
	begin := time.Now()
	for at := time.Duration(0); ; at += look {
		quiet := at % pause
		if at > last {
			quiet = at - last
		}
		if !g.isDead(state{unacked: true, quiet: quiet}, begin.Add(at)) {
			continue
		}
		if after := at - last; after < 20*time.Second || after > 30*time.Second {
			t.Errorf("dead %v after the last acknowledgement", after)
		}
		return
	}
}

// TestAnOldAcknowledgementIsNotThatOfNewBytes: probes for room come two minutes apart, and what they find is sent then.
func TestAnOldAcknowledgementIsNotThatOfNewBytes(t *testing.T) {
	g := &Guard{watch: NewWatch(25 * time.Second)}
	now := time.Now()
	for i, c := range []struct {
		state state
		after time.Duration
		dead  bool
	}{
		{state{unsent: true, quiet: 100 * time.Second, probes: 1}, 0, false},
		{state{unacked: true, unsent: true, quiet: 100 * time.Second}, time.Millisecond, false},
		{state{unacked: true, unsent: true, quiet: 110 * time.Second}, 10 * time.Second, false},
		{state{unacked: true, unsent: true, quiet: 125 * time.Second}, 25 * time.Second, true},
		{state{unsent: true, quiet: 26 * time.Second, probes: 2}, 0, false},
		{state{unsent: true, quiet: 26 * time.Second, probes: 3}, 0, true},
		{state{unsent: true, quiet: 24 * time.Second, probes: 9}, 0, false},
	} {
		if dead := g.isDead(c.state, now.Add(c.after)); dead != c.dead {
			t.Errorf("%d: dead is %t", i, dead)
		}
	}
}

// TestNothingIsLookedAtWhileNothingWaits: a connection whose bytes were acknowledged is forgotten, and the watch stops.
func TestNothingIsLookedAtWhileNothingWaits(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, short)
	w := client.(*conn).guard.watch
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	for stopped := false; !stopped; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		stopped = w.next == nil && len(w.waiting) == 0
		w.mu.Unlock()
	}
}

// TestHTTPClientOnADeadConnection: net/http sends a GET again on a new connection, and nothing else.
func TestHTTPClientOnADeadConnection(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ends := make(chan net.Conn, 10)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			s.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateNew {
					ends <- c
				}
			}
			s.Start()
			defer s.Close()
			d := Dialer{Watch: NewWatch(short)}
			transport := &http.Transport{DialContext: d.DialContext}
			defer transport.CloseIdleConnections()
			ask := func() error {
				r, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader("")) // which is no body
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transport.RoundTrip(r)
				if err == nil {
					resp.Body.Close()
				}
				return err
			}
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			dead := <-ends
			hear := peertest.Deafen(t, dead)
			if err := ask(); (err == nil) != (method == "GET") || err != nil && !IsDead(err) {
				t.Errorf("%v", err)
			}
			hear() // what the system repeats ends the server's side
			dead.Close()
		})
	}
}
