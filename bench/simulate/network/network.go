// Package network is a network in memory, for a synctest bubble: hosts, listeners, connections that behave as TCP's on Linux do, pipes,
// and what goes wrong with them. Nothing takes time but what a fault delays.
package network

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Network is a network in memory. It is made and used in one bubble, is safe for concurrent use, and Close ends it.
type Network struct {
	// Dead is how long a connection that has vanished goes on with bytes that are not acknowledged. Then it fails with ETIMEDOUT.
	Dead time.Duration
	// KeepAlive is how long a connection that has vanished goes on without them; 0 for ever.
	KeepAlive time.Duration

	portable bool // connections cannot tell that they are quiet

	mu        sync.Mutex // of all that belongs to the network; never held while something waits
	listeners map[int]*listener
	balanced  map[int]*balance
	links     []*link // that have an open end
	lives     map[string]life
	weather   []weather
	refused   map[string]time.Time // until when dials to a host are refused
	hangs     map[string]time.Time // until when they wait
	timers    []*time.Timer        // of the ends of faults
	turn      chan struct{}        // closed, and made anew, when dials that wait should look again
	last      int                  // number of the last connection
	port      int                  // of the last dialer
	closed    bool

	telling sync.WaitGroup
}

// life counts the powercuts of a host. What belonged to an earlier life stays dead.
type life struct {
	n    int
	dead bool // and not yet revived
}

// balance is a port that stands for others.
type balance struct {
	ports []int
	next  int
}

// New returns a network. If it is portable, its connections have neither Tell nor Quiet, as on macOS and Windows.
func New(portable bool) *Network {
	return &Network{
		Dead:      30 * time.Second,
		portable:  portable,
		listeners: make(map[int]*listener),
		balanced:  make(map[int]*balance),
		lives:     make(map[string]life),
		refused:   make(map[string]time.Time),
		hangs:     make(map[string]time.Time),
		turn:      make(chan struct{}),
		port:      20000,
	}
}

func address(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// Listen listens at a port of host on 127.0.0.1.
func (n *Network) Listen(host string, port int) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fails := func(err error) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: address(port), Err: os.NewSyscallError("bind", err)}
	}
	switch {
	case n.closed || n.lives[host].dead:
		return fails(syscall.EADDRNOTAVAIL)
	case n.listeners[port] != nil:
		return fails(syscall.EADDRINUSE)
	}
	l := &listener{n: n, host: host, addr: address(port)}
	l.came.L = &n.mu
	n.listeners[port] = l
	return l, nil
}

// Balance makes dials to port go to the others in turn, connection by connection, without those at which nothing listens.
func (n *Network) Balance(port int, ports ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.balanced[port] = &balance{ports: ports}
}

// listener has the connections that were not yet accepted.
type listener struct {
	n      *Network
	host   string
	addr   *net.TCPAddr
	came   sync.Cond
	queue  []*Conn
	closed bool
}

// Accept implements net.Listener. After a powercut of its host it waits until the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.came.Wait()
	}
	if l.closed {
		return nil, l.failure("accept")
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return l.n.dressed(c), nil
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.closed {
		return l.failure("close")
	}
	l.closed = true
	if l.n.listeners[l.addr.Port] == l {
		delete(l.n.listeners, l.addr.Port)
	}
	l.drop()
	l.came.Broadcast()
	return nil
}

// drop resets what was not accepted.
func (l *listener) drop() {
	for _, c := range l.queue {
		c.end.other.reset(syscall.ECONNRESET)
		c.end.close()
	}
	l.queue = nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) failure(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
}

// Dial returns a function that dials for the host from: the host that it is now, so that after a powercut the function fails for ever.
// Of an address only the port matters.
func (n *Network) Dial(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	life := n.lives[from]
	n.mu.Unlock()
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		_, text, err := net.SplitHostPort(to)
		port, bad := strconv.Atoi(text)
		if err = errors.Join(err, bad); err == nil {
			var c *Conn
			if c, err = n.dial(ctx, from, life, port); err == nil {
				return n.dressed(c), nil
			}
		}
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address(port), Err: err}
	}
}

func (n *Network) dial(ctx context.Context, from string, life life, port int) (*Conn, error) {
	at := 0 // the port that was chosen
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n.mu.Lock()
		if n.closed || n.lives[from] != life || life.dead {
			n.mu.Unlock()
			return nil, os.NewSyscallError("connect", syscall.ENETUNREACH)
		}
		now := time.Now()
		l := n.find(cmp.Or(at, port), now)
		if l == nil {
			n.mu.Unlock()
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		at = l.addr.Port
		until := n.hangs[l.host]
		for _, w := range n.weather {
			if w.between(from, l.host) && w.still.After(until) {
				until = w.still
			}
		}
		if !now.Before(until) {
			c := n.connect(from, l, port)
			n.mu.Unlock()
			return c, nil
		}
		turn := n.turn
		n.mu.Unlock()
		timer := time.NewTimer(until.Sub(now))
		select {
		case <-ctx.Done():
		case <-turn:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// find returns the listener that gets the next connection to port; nil for none. n.mu must be held.
func (n *Network) find(port int, now time.Time) *listener {
	takes := func(port int) *listener {
		if l := n.listeners[port]; l != nil && !now.Before(n.refused[l.host]) {
			return l
		}
		return nil
	}
	b := n.balanced[port]
	if b == nil {
		return takes(port)
	}
	for range b.ports {
		port := b.ports[b.next%len(b.ports)]
		b.next++
		if l := takes(port); l != nil {
			return l
		}
	}
	return nil
}

// connect makes a connection that l may accept, and returns the dialer's end. n.mu must be held.
func (n *Network) connect(from string, l *listener, port int) *Conn {
	n.port++
	k := n.join(from, l.host, 256<<10)
	for _, w := range n.weather {
		if w.between(from, l.host) {
			k.weather(w)
		}
	}
	dialer := &Conn{end: &k.ends[0], local: address(n.port), remote: address(port)}
	l.queue = append(l.queue, &Conn{end: &k.ends[1], local: l.addr, remote: dialer.local})
	l.came.Signal()
	return dialer
}

// Pipe returns two ends of a pipe in both directions, of host a and of b. As with the pipes of a process, what was written before an
// end is closed can be read, and then a write to it fails at once. It does not vanish.
func (n *Network) Pipe(a, b string) (net.Conn, net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.join(a, b, 64<<10)
	k.pipe = true
	ends := [2]*Conn{}
	for i := range ends {
		name := k.ends[i].host + "-" + k.ends[1-i].host
		at := &net.UnixAddr{Name: name, Net: "pipe"}
		ends[i] = &Conn{end: &k.ends[i], local: at, remote: at}
		if n.closed || n.lives[k.ends[i].host].dead {
			k.ends[i].kill()
		}
	}
	return n.dressed(ends[0]), n.dressed(ends[1])
}

// Open returns how many connections host has, until it closes them itself, and how many pipes.
func (n *Network) Open(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := 0
	for _, k := range n.links {
		for i := range k.ends {
			if e := &k.ends[i]; e.host == host && !e.closed && !e.killed {
				open++
			}
		}
	}
	return open
}

// Close ends all connections, listeners and dials. No goroutine of the network is left.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	for _, k := range slices.Clone(n.links) {
		k.ends[0].close()
		k.ends[1].close()
	}
	for _, l := range n.listeners {
		l.closed, l.queue = true, nil
		l.came.Broadcast()
	}
	clear(n.listeners)
	for _, t := range n.timers {
		t.Stop()
	}
	n.look()
	n.mu.Unlock()
	n.telling.Wait()
}

// look makes dials that wait look again. n.mu must be held.
func (n *Network) look() {
	close(n.turn)
	n.turn = make(chan struct{})
}
