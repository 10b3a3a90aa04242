// Package network is a network in memory, for a synctest bubble: hosts, listeners, connections that behave as TCP's on Linux do, pipes,
// and what goes wrong with them. Nothing takes time but what a fault delays.
package network

import (
	"cmp"
	"context"
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
	balanced  map[int][]int // ports, the next one first
	links     []*link       // that have an open end
	lives     map[string]life
	weather   []weather
	turn      chan struct{} // closed, and made anew, when dials that wait should look again
	last      int           // number of the last connection
	closed    bool
	turns     *turns // nil: all happens at once

	telling sync.WaitGroup
}

// life is a time between two powercuts of a host. What belongs to an earlier one stays dead.
type life struct {
	n    int
	dead bool // and not yet revived
}

// New returns a network. If it is portable, its connections have neither Tell nor Quiet, as on macOS and Windows.
func New(portable bool) *Network {
	return &Network{
		Dead: 30 * time.Second, portable: portable, turn: make(chan struct{}),
		listeners: make(map[int]*listener), balanced: make(map[int][]int), lives: make(map[string]life),
	}
}

func (n *Network) lock() *sync.Mutex {
	n.mu.Lock()
	return &n.mu
}

func address(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// Listen listens at a port of host on 127.0.0.1.
func (n *Network) Listen(host string, port int) (net.Listener, error) {
	defer n.lock().Unlock()
	l := &listener{n: n, host: host, addr: address(port)}
	switch {
	case n.closed || n.lives[host].dead:
		return nil, l.failure("listen", os.NewSyscallError("bind", syscall.EADDRNOTAVAIL))
	case n.listeners[port] != nil:
		return nil, l.failure("listen", os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	l.came.L = &n.mu
	n.listeners[port] = l
	return l, nil
}

// Balance makes dials to port go to the others in turn, connection by connection, without those at which nothing listens.
func (n *Network) Balance(port int, ports ...int) {
	defer n.lock().Unlock()
	n.balanced[port] = slices.Clone(ports)
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
	defer l.n.lock().Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.came.Wait()
	}
	if l.closed {
		return nil, l.failure("accept", net.ErrClosed)
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c.dressed(), nil
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (l *listener) Close() error {
	defer l.n.lock().Unlock()
	if l.closed {
		return l.failure("close", net.ErrClosed)
	}
	l.closed = true
	l.leave()
	l.came.Broadcast()
	return nil
}

// leave gives up the port, and resets what was not accepted.
func (l *listener) leave() {
	if l.n.listeners[l.addr.Port] == l {
		delete(l.n.listeners, l.addr.Port)
	}
	for _, c := range l.queue {
		c.end.other.reset(syscall.ECONNRESET)
		c.end.close()
	}
	l.queue = nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.addr, Err: err}
}

// Dial returns a function that dials for the host from: the host that it is now, so that after a powercut the function fails for ever.
// Of an address only the port matters.
func (n *Network) Dial(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	defer n.lock().Unlock()
	life := n.lives[from]
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		_, text, err := net.SplitHostPort(to)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		port, _ := strconv.Atoi(text)
		c, err := n.dial(ctx, from, life, port)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Addr: address(port), Err: err}
		}
		return c.dressed(), nil
	}
}

func (n *Network) dial(ctx context.Context, from string, life life, port int) (*Conn, error) {
	for chosen := 0; ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n.awaitTurn(ctx, from, port)
		n.mu.Lock()
		if n.closed || n.lives[from] != life || life.dead {
			n.mu.Unlock()
			return nil, os.NewSyscallError("connect", syscall.ENETUNREACH)
		}
		l := n.find(cmp.Or(chosen, port))
		if l == nil {
			n.mu.Unlock()
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		chosen = l.addr.Port
		var until time.Time
		for _, w := range n.weather {
			if w.between(from, l.host) {
				until = later(until, w.still)
			}
			if l.host == w.b {
				until = later(until, w.hangs)
			}
		}
		left := time.Until(until)
		if left <= 0 {
			c := n.connect(from, l, port)
			n.mu.Unlock()
			return c, nil
		}
		turn := n.turn
		n.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-turn:
		case <-time.After(left):
		}
	}
}

// find returns the listener that gets the next connection to port; nil for none. n.mu must be held.
func (n *Network) find(port int) *listener {
	ports := n.balanced[port]
	if ports == nil {
		ports = []int{port}
	}
	for range ports {
		first := ports[0]
		ports[copy(ports, ports[1:])] = first
		l := n.listeners[first]
		if l != nil && !slices.ContainsFunc(n.weather, func(w weather) bool { return w.b == l.host && time.Now().Before(w.refuses) }) {
			return l
		}
	}
	return nil
}

// connect makes a connection that l may accept, and returns the dialer's end. n.mu must be held.
func (n *Network) connect(from string, l *listener, port int) *Conn {
	k := n.join(from, l.host, 256<<10)
	for _, w := range n.weather {
		if w.between(from, l.host) {
			k.weather(w)
		}
	}
	dialer := &Conn{end: &k.ends[0], local: address(20000 + k.id), remote: address(port)}
	l.queue = append(l.queue, &Conn{end: &k.ends[1], local: l.addr, remote: dialer.local})
	l.came.Signal()
	return dialer
}

// Pipe returns two ends of a pipe in both directions, of host a and of b. As with the pipes of a process, what was written before an
// end is closed can be read, and then a write to it fails at once. It does not vanish.
func (n *Network) Pipe(a, b string) (net.Conn, net.Conn) {
	defer n.lock().Unlock()
	k := n.join(a, b, 64<<10)
	k.pipe = true
	for i := range k.ends {
		if n.closed || n.lives[k.ends[i].host].dead {
			k.ends[i].kill()
		}
	}
	at := &net.UnixAddr{Name: a + "-" + b, Net: "pipe"}
	return &Conn{&k.ends[0], at, at}, &Conn{&k.ends[1], at, at}
}

// Open returns how many connections and pipes host has that it has not closed itself.
func (n *Network) Open(host string) (open int) {
	defer n.lock().Unlock()
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
		l.closed = true
		l.leave()
		l.came.Broadcast()
	}
	n.look()
	if n.turns != nil {
		n.turns.came.Signal()
	}
	n.mu.Unlock()
	if n.turns != nil {
		<-n.turns.over
	}
	n.telling.Wait()
}

// look makes dials that wait look again. n.mu must be held.
func (n *Network) look() {
	close(n.turn)
	n.turn = make(chan struct{})
}
