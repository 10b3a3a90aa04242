package dial

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const (
	// nameTime bounds the search for a name. A name server that does not answer costs 5 s, after which the system's resolver asks
	// the next one.
	nameTime = 20 * time.Second
	// turn is how long an address is tried alone. Then the next one is tried beside it.
	//
	// See https://www.rfc-editor.org/rfc/rfc8305#section-5.
	turn = 300 * time.Millisecond
	// maxAddresses is how many addresses of a name are tried.
	maxAddresses = 16
)

// Dialer opens connections. The zero value is ready to use.
type Dialer struct {
	// Timeout bounds the time until one of the addresses is connected, without the search for the name; 0 for no limit.
	Timeout time.Duration
	// Network opens the connections, to names too; nil for the system, which is asked for the addresses of names.
	Network func(ctx context.Context, network, address string) (net.Conn, error)
	// Control is called before each attempt, as in [net.Dialer]. It may be nil. Of a connection of Network it judges the remote
	// address, before anything is sent, and gets no RawConn.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
	// Watch notices that a connection is dead; nil for [Standard].
	Watch *Watch

	lookup func(ctx context.Context, host string) ([]netip.Addr, error) // replaced by tests
}

// DialContext opens a connection that fails with a *[DeadError] when it is dead.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := d.Open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc}
	c.guard.Guard(cmp.Or(d.Watch, Standard), nc)
	return c, nil
}

// Open opens a connection for a caller that has a [Guard] of its own. Each of the name's addresses gets a turn, also if those
// before do not answer.
func (d *Dialer) Open(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Network != nil {
		return d.openBy(ctx, network, address)
	}
	by := &net.Dialer{KeepAliveConfig: cmp.Or(d.Watch, Standard).KeepAlive(), ControlContext: d.Control}
	host, port, err := net.SplitHostPort(address)
	if err != nil || network != "tcp" || host == "" {
		by.Timeout = d.Timeout
		return by.DialContext(ctx, network, address)
	}
	all, err := d.addresses(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if len(all) == 1 {
		by.Timeout = d.Timeout
		return by.DialContext(ctx, network, net.JoinHostPort(all[0].String(), port))
	}
	return d.race(ctx, by, network, all, port)
}

// openBy opens a connection with d.Network.
func (d *Dialer) openBy(ctx context.Context, network, address string) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	nc, err := d.Network(ctx, network, address)
	if err != nil || d.Control == nil {
		return nc, err
	}
	if err := d.Control(ctx, network, nc.RemoteAddr().String(), nil); err != nil {
		nc.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: nc.RemoteAddr(), Err: err}
	}
	return nc, nil
}

// addresses returns the addresses of host, which may be an address itself, in the order in which they are tried: the system's, with
// both families in turn.
func (d *Dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	limited, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	lookup := d.lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	found, err := lookup(limited, host)
	if err != nil {
		return nil, unknown(ctx, host, err)
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "the name has no address", Name: host, IsNotFound: true}
	}
	return inTurn(found), nil
}

// unknown returns the error for a name that was not found because of err. It is a timeout only if the time of ctx is over: that of
// the search is none of the server's.
func unknown(ctx context.Context, host string, err error) error {
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(end) { // package net may see it before ctx ends
		return err
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return &net.DNSError{Err: err.Error(), Name: host}
	}
	if dns.IsTimeout || errors.Is(err, context.DeadlineExceeded) {
		return &net.DNSError{Err: "no answer from the name servers", Name: host, Server: dns.Server}
	}
	return dns
}

// inTurn returns addresses of both families in turn.
func inTurn(list []netip.Addr) []netip.Addr {
	var first, other []netip.Addr
	for _, a := range list {
		if a = a.Unmap(); a.Is4() == list[0].Unmap().Is4() {
			first = append(first, a)
		} else {
			other = append(other, a)
		}
	}
	mixed := make([]netip.Addr, 0, len(list))
	for i := range max(len(first), len(other)) {
		mixed = append(mixed, first[min(i, len(first)):min(i+1, len(first))]...)
		mixed = append(mixed, other[min(i, len(other)):min(i+1, len(other))]...)
	}
	return mixed[:min(len(mixed), maxAddresses)]
}

// race returns the first connection to one of the addresses. The next address is tried when one has failed, or has not answered
// for a turn. If all fail, the error is that of the first one.
func (d *Dialer) race(ctx context.Context, by *net.Dialer, network string, all []netip.Addr, port string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	type attempt struct {
		of  netip.Addr
		nc  net.Conn
		err error
	}
	done := make(chan attempt)
	running, next := 0, 0
	start := func() {
		of := all[next]
		next++
		running++
		go func() {
			nc, err := by.DialContext(ctx, network, net.JoinHostPort(of.String(), port))
			done <- attempt{of, nc, err}
		}()
	}
	timer := time.NewTimer(turn)
	defer timer.Stop()
	var won net.Conn
	var failed error
	for start(); running > 0; {
		select {
		case a := <-done:
			running--
			switch {
			case a.err == nil && won == nil:
				won = a.nc
				cancel()
			case a.err == nil:
				a.nc.Close()
			case failed == nil || a.of == all[0]:
				failed = a.err
			}
		case <-timer.C:
		}
		if won == nil && ctx.Err() == nil && next < len(all) {
			start()
			timer.Reset(turn)
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, failed
}
