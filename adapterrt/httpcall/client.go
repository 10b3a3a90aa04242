package httpcall

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
)

const (
	connectTimeout    = 5 * time.Second
	idlePerHost       = 64
	idleTimeout       = 90 * time.Second
	maxResponseHeader = 256 << 10
	maxHops           = 3
	maxTrace          = 8 << 10 // bytes of a trace header
)

// Dial opens a connection to an address of host and port.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are the operator's choices on how APIs are called.
type Options struct {
	UserAgent           string
	MaxResponse         int    // bytes of a body
	Memory              Memory // of bodies; nil for Uncounted
	Now                 func() time.Time
	Idle                time.Duration                         // longest pause between parts of a streamed answer, 0 for 30 s
	PublicOnly          bool                                  // no private and loopback addresses
	NameHosts           bool                                  // failures say at which host no connection is made
	SameOriginRedirects bool                                  // follow a GET's redirects within its origin
	Proxy               func(*http.Request) (*url.URL, error) // nil for none; addresses behind a proxy are not checked
	Dial                Dial                                  // opens connections; nil for those of the system
	RootCAs             *x509.CertPool                        // nil for the system's
	Configure           func(*tls.Config) error               // sets the adapter's own TLS options from its files; may be nil
}

func (o *Options) memory() Memory {
	if o.Memory == nil {
		return Uncounted{}
	}
	return o.Memory
}

// Client is an adapter's pool of connections.
type Client struct {
	http.Client
	opt     Options
	pool    *connections
	retired atomic.Bool
}

// connections are those of a transport, which is replaced when the trusted certificates change.
type connections struct {
	now atomic.Pointer[http.Transport]
}

func (p *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.now.Load().RoundTrip(r)
}

func (p *connections) CloseIdleConnections() { p.now.Load().CloseIdleConnections() }

// Retire closes idle connections, now and after each call that is still running.
func (c *Client) Retire() {
	c.retired.Store(true)
	c.CloseIdleConnections()
}

// Trust makes connections that are opened from now on trust roots, nil for the system's, or what Configure reads. If Configure fails,
// nothing changes. Calls of Trust must not overlap.
func (c *Client) Trust(roots *x509.CertPool) error {
	c.opt.RootCAs = roots
	next, err := newTransport(c.opt)
	was := c.pool.now.Load()
	if err != nil || next.TLSClientConfig.RootCAs.Equal(was.TLSClientConfig.RootCAs) {
		return err
	}
	next.DisableKeepAlives = was.DisableKeepAlives
	c.pool.now.Store(next)
	was.CloseIdleConnections()
	return nil
}

// WithoutKeepAlives makes c open a connection for each request. It must be called before the first one.
func (c *Client) WithoutKeepAlives() { c.pool.now.Load().DisableKeepAlives = true }

// NewClient returns a client for one adapter.
func NewClient(opt Options) *Client {
	t, _ := newTransport(opt) // Configure lets t trust nothing if it fails
	pool := new(connections)
	pool.now.Store(t)
	// follow decides about redirects, and sends no credential to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{opt: opt, pool: pool, Client: http.Client{Transport: pool, CheckRedirect: stay}}
}

func newTransport(opt Options) (t *http.Transport, err error) {
	dialer := &dial.Dialer{
		Timeout: connectTimeout, Network: opt.Dial,
		// The address is checked when it is dialled, because a name that resolved to an
		// allowed address before may now resolve to another one.
		Control: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || !allowedAddress(a.Addr(), opt.PublicOnly) {
				return errDenied
			}
			return nil
		},
	}
	t = &http.Transport{
		Proxy:                  opt.Proxy,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.RootCAs},
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if opt.Configure != nil {
		err = opt.Configure(t.TLSClientConfig)
	}
	return t, err
}

var errDenied = errors.New("address not allowed")

// IsDenied reports whether a request failed because its address is not allowed.
func IsDenied(err error) bool { return errors.Is(err, errDenied) }

// allowedAddress reports whether a sidecar may call an address. It may never call link-local
// addresses and metadata services. With publicOnly, it may not call private addresses either.
func allowedAddress(a netip.Addr, publicOnly bool) bool {
	z := dial.ZoneOf(a)
	return z == dial.Public || z != dial.Never && !publicOnly
}
