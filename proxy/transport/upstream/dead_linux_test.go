package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// deadAfter is long enough for the system's timers, and short enough for a test.
const deadAfter = time.Second

// network is what lies between a server and its clients.
type network struct {
	watch  *dial.Watch
	says   string // of a dead connection
	listen func(t *testing.T) net.Listener
	forget func(t *testing.T, end net.Conn) // what comes for the server's end of a connection, and what it sends
}

// loopback forgets by dropping what comes.
var loopback = &network{
	watch: dial.NewWatch(deadAfter),
	says:  "the connection was dead (no acknowledgement for 1 s)",
	listen: func(t *testing.T) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	},
	forget: func(t *testing.T, end net.Conn) { peertest.Deafen(t, end) },
}

// forgetful is a server whose connections can be forgotten by what lies between.
type forgetful struct {
	server
	by   *network
	http *HTTP
	got  atomic.Int32 // requests
	ends chan net.Conn
}

// serve serves every request by reply, and connects nothing yet. If that is a stream, a POST is accepted.
func (n *network) serve(t *testing.T, reply string) *forgetful {
	t.Helper()
	f := &forgetful{by: n, ends: make(chan net.Conn, 10)}
	ln := n.listen(t)
	f.address = ln.Addr().String()
	peertest.AcceptOn(t, ln, func(c net.Conn) {
		f.conns.Add(1)
		f.ends <- c
		for in := bufio.NewReader(c); ; {
			r, ok := take(in)
			if !ok {
				return
			}
			f.got.Add(1)
			if r.Method == "POST" && strings.HasPrefix(reply, eventHead) {
				io.WriteString(c, accepted)
			} else {
				io.WriteString(c, reply)
			}
		}
	})
	f.http = newHTTP(t, HTTPConfig{URL: f.url(), Watch: n.watch, FirstByteTimeout: patience})
	return f
}

// idle opens n connections and leaves them idle.
func (f *forgetful) idle(t *testing.T, n int) {
	t.Helper()
	var all []Stream
	for range n {
		all = append(all, send(t, t.Context(), f.http.Session("", "")))
	}
	for _, st := range all {
		if _, err := First(st); err != nil {
			t.Fatal(err)
		}
		st.Close()
	}
	if len(f.http.pool.idle) != n {
		t.Fatalf("%d connections are idle, want %d", len(f.http.pool.idle), n)
	}
}

// forgetAll makes the connections that are open now look as if a NAT had forgotten them.
func (f *forgetful) forgetAll(t *testing.T) {
	t.Helper()
	for range len(f.ends) {
		f.by.forget(t, <-f.ends)
	}
}

func (f *forgetful) call(t *testing.T, repeats bool) error {
	t.Helper()
	st, err := f.http.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Repeats: repeats})
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = First(st)
	return err
}

// TestDeadConnections on a network that forgets.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	forgets(t, loopback)
}

func forgets(t *testing.T, n *network) {
	for name, test := range map[string]func(*testing.T){
		"a call":            func(t *testing.T) { deadCall(t, n, false, 4) },
		"a list":            func(t *testing.T) { deadCall(t, n, true, 5) },
		"an idle one":       func(t *testing.T) { deadIdle(t, n) },
		"a standing stream": func(t *testing.T) { deadStream(t, n, false) },
		"a parked stream":   func(t *testing.T) { deadStream(t, n, true) },
		"HTTP+SSE":          func(t *testing.T) { deadSession(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// deadCall: a call on a dead connection fails and says why, because the server may have it. What may be repeated is sent once more. In
// both cases no other idle connection of that time costs a call. got is how many requests the server gets, with the three before
// and the one after.
func deadCall(t *testing.T, n *network, repeats bool, got int32) {
	f := n.serve(t, jsonReply(answer))
	f.idle(t, 3)
	f.forgetAll(t)
	err := f.call(t, repeats)
	switch {
	case repeats && err != nil:
		t.Errorf("%v", err)
	case !repeats && (!dial.IsDead(err) || !strings.HasSuffix(err.Error(), n.says)):
		t.Errorf("%v", err)
	}
	if err := f.call(t, false); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if is, conns := f.got.Load(), f.conns.Load(); is != got || conns != 4 {
		t.Errorf("the server got %d requests, want %d, on %d connections", is, got, conns)
	}
}

// deadIdle: an idle connection that died is not used, after the system's probes were not answered. Older ones go with it.
func deadIdle(t *testing.T, n *network) {
	f := n.serve(t, jsonReply(answer))
	f.idle(t, 2)
	f.forgetAll(t)
	peertest.Eventually(t, "the system has given the connection up", func() (over bool) {
		raw, err := f.http.pool.idle[1].socket.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			over = err == nil && info.State == unix.BPF_TCP_CLOSE
		})
		return over
	})
	if err := f.call(t, false); err != nil {
		t.Fatal(err)
	}
	if n := f.got.Load(); n != 3 || len(f.http.pool.idle) != 1 {
		t.Errorf("the server got %d requests, %d connections are idle", n, len(f.http.pool.idle))
	}
	if !f.http.pool.learned.IsZero() {
		t.Error("the pool has learnt that the server closes connections")
	}
}

// deadStream: a standing stream of a dead connection ends, whether it is parked or not.
func deadStream(t *testing.T, n *network, parks bool) {
	f := n.serve(t, eventHead+"\r\n")
	st, err := f.http.Session("", "").Listen(t.Context(), ListenOptions{Parks: parks})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	f.forgetAll(t)
	p := &parking{Stream: st, woken: make(wakes, 1)}
	if _, err := p.next(t); !dial.IsDead(err) || (p.parks > 0) != parks {
		t.Errorf("%v, parked %d times", err, p.parks)
	}
}

// deadSession: a session over HTTP+SSE is lost with its stream. What is posted meanwhile fails for that reason, and not for its own
// connection, so that it can be sent in the next session.
func deadSession(t *testing.T, n *network) {
	f := n.serve(t, eventHead+"\r\nevent: endpoint\ndata: /post\n\n")
	s := f.http.SSESession()
	st, err := s.Listen(t.Context(), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	posts := func() error {
		_, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Repeats: true})
		return err
	}
	if err := posts(); err != nil {
		t.Fatal(err)
	}
	f.forgetAll(t)
	if err := posts(); !errors.Is(err, ErrLost) || !dial.IsDead(err) {
		t.Errorf("a message: %v", err)
	}
	if _, err := First(st); !errors.Is(err, ErrLost) || !dial.IsDead(err) {
		t.Errorf("%v", err)
	}
}

// TestServerThatIsBusyIsNotDead: it reads nothing of a large request for a long time, and is silent for as long before it answers.
func TestServerThatIsBusyIsNotDead(t *testing.T) {
	t.Parallel()
	srv := serve(t, func(c net.Conn, in *bufio.Reader) {
		<-time.After(4 * deadAfter)
		if _, ok := take(in); ok {
			<-time.After(4 * deadAfter)
			io.WriteString(c, jsonReply(answer))
		}
	})
	h := newHTTP(t, HTTPConfig{URL: srv.url(), Watch: dial.NewWatch(deadAfter), FirstByteTimeout: patience})
	st, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: make([]byte, 8<<20), Request: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if e, err := First(st); err != nil || string(e.Data) != answer {
		t.Errorf("%q, %v", e.Data, err)
	}
}

// TestConnectionsAgeByTheWallClock too: the other one stands still while the machine sleeps.
func TestConnectionsAgeByTheWallClock(t *testing.T) {
	for name, age := range map[string]func(*conn){
		"idle": func(c *conn) { c.since.wall -= int64(2 * time.Minute) },
		"old":  func(c *conn) { c.born.wall -= int64(11 * time.Minute) },
	} {
		f := loopback.serve(t, jsonReply(answer))
		f.idle(t, 1)
		age(f.http.pool.idle[0])
		if err := f.call(t, false); err != nil {
			t.Error(err)
		}
		if n := f.conns.Load(); n != 2 {
			t.Errorf("%s: %d connections, want a new one", name, n)
		}
	}
}

// TestOldConnectionFinishesItsExchange: the greatest age of a connection does not count while a call is in flight.
func TestOldConnectionFinishesItsExchange(t *testing.T) {
	f := loopback.serve(t, jsonReply(answer))
	st := send(t, t.Context(), f.http.Session("", ""))
	defer st.Close()
	x := st.(*exchange)
	x.conn.born.wall -= int64(time.Hour)
	x.conn.born.at -= time.Hour
	if _, err := First(st); err != nil {
		t.Error(err)
	}
}
