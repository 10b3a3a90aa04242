package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// named returns a function that finds these addresses for every name.
func named(list ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) (all []netip.Addr, _ error) {
		for _, a := range list {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

// TestEachAddressGetsATurn: the first ones do not answer, or refuse.
func TestEachAddressGetsATurn(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, c := range []struct{ name, first string }{{"no answer", "hangs"}, {"refused", "fails"}} {
		var mu sync.Mutex
		var tried []string
		d := Dialer{
			Timeout: time.Minute,
			lookup:  named("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"),
			Control: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
				mu.Lock()
				tried = append(tried, address)
				mu.Unlock()
				switch host, _, _ := net.SplitHostPort(address); {
				case host == "127.0.0.1":
					return nil
				case c.first == "hangs":
					<-ctx.Done() // as long as the dialer waits for an answer
					return ctx.Err()
				}
				return syscall.ECONNREFUSED
			},
		}
		nc, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("server.example", itoa(port)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		nc.Close()
		if len(tried) != 4 {
			t.Errorf("%s: tried %q", c.name, tried)
		}
	}
}

func itoa(port int) string {
	_, text, _ := net.SplitHostPort((&net.TCPAddr{Port: port}).String())
	return text
}

// TestTheFirstAddressSaysWhatIsWrong when all fail.
func TestTheFirstAddressSaysWhatIsWrong(t *testing.T) {
	denied := errors.New("denied")
	d := Dialer{
		lookup: named("127.0.0.2", "127.0.0.3"),
		Control: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if strings.HasPrefix(address, "127.0.0.2:") {
				return denied
			}
			return syscall.ECONNREFUSED
		},
	}
	if _, err := d.DialContext(t.Context(), "tcp", "server.example:80"); !errors.Is(err, denied) {
		t.Errorf("%v", err)
	}
}

func TestBothFamiliesAreTriedInTurn(t *testing.T) {
	for _, c := range []struct{ found, want string }{
		{"::1 ::2 ::3 1.1.1.1", "::1 1.1.1.1 ::2 ::3"},
		{"1.1.1.1 ::1 ::2", "1.1.1.1 ::1 ::2"},
		{"1.1.1.1 2.2.2.2", "1.1.1.1 2.2.2.2"},
		{strings.Repeat("1.1.1.1 ", 20), strings.TrimSpace(strings.Repeat("1.1.1.1 ", 16))},
	} {
		list, _ := named(strings.Fields(c.found)...)(t.Context(), "")
		var got []string
		for _, a := range inTurn(list) {
			got = append(got, a.String())
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %s, want %s", c.found, got, c.want)
		}
	}
}

// TestNamesHaveATimeOfTheirOwn: a first name server that does not answer costs more than the time to connect. If none answers, the
// error is about the name, and no timeout of the server.
func TestNamesHaveATimeOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := errors.New("connected")
		d := Dialer{
			Timeout: time.Second,
			lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
				time.Sleep(10 * time.Second)
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, ctx.Err()
			},
			Control: func(context.Context, string, string, syscall.RawConn) error { return connected },
		}
		if _, err := d.DialContext(t.Context(), "tcp", "server.example:80"); !errors.Is(err, connected) {
			t.Errorf("a late answer: %v", err)
		}
		d.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true, UnwrapErr: ctx.Err()}
		}
		_, err := d.DialContext(t.Context(), "tcp", "server.example:80")
		dns, ok := errors.AsType[*net.DNSError](err)
		if !ok || dns.Timeout() || err.Error() != "dial tcp: lookup server.example: no answer from the name servers" {
			t.Errorf("no answer: %v", err)
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.DialContext(limited, "tcp", "server.example:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time is over: %v", err)
		}
	})
}

// TestAnotherNetwork opens the connections in place of the system, within the same time, and under the same control.
func TestAnotherNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := &addressed{at: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}}
		var asked []string
		denied := errors.New("denied")
		d := Dialer{
			Timeout: time.Second,
			Network: func(ctx context.Context, network, address string) (net.Conn, error) {
				asked = append(asked, network+" "+address)
				if address == "silent.example:80" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return inside, nil
			},
		}
		nc, err := d.Open(t.Context(), "tcp", "server.example:80")
		if nc != inside || err != nil {
			t.Errorf("%v, %v", nc, err)
		}
		began := time.Now()
		if _, err := d.Open(t.Context(), "tcp", "silent.example:80"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		d.Control = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if address == "10.0.0.1:80" {
				return denied
			}
			return nil
		}
		if _, err := d.DialContext(t.Context(), "tcp", "server.example:80"); !errors.Is(err, denied) || !inside.closed {
			t.Errorf("a denied address: %v, closed: %t", err, inside.closed)
		}
		if want := []string{"tcp server.example:80", "tcp silent.example:80", "tcp server.example:80"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q", asked)
		}
	})
}

// addressed is a connection with a remote address.
type addressed struct {
	net.Conn
	at     net.Addr
	closed bool
}

func (c *addressed) RemoteAddr() net.Addr { return c.at }
func (c *addressed) Close() error         { c.closed = true; return nil }
