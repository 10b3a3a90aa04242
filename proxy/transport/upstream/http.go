package upstream

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// HTTPConfig describes a server that speaks Streamable HTTP. The zero value of every
// field except URL means the default.
type HTTPConfig struct {
	URL    string       // http or https, without user and password; or a unix socket, as package unixsocket has it
	Header []mcp.Header // sent with every request, instead of headers of the same name that a message has
	TLS    *tls.Config  // for https; without a ServerName, the host of URL is verified

	// Credential is sent as Authorization, in place of the client's; nil for none.
	Credential Credential

	// Explain returns the error for a response that refuses a request, if there is no
	// Credential. It may return its argument. nil leaves all errors as they are.
	Explain func(*StatusError) error

	// Cookies reports whether a cookie of this name is kept that the server sets: further requests of the same session carry it, within
	// the scope that the server has given it. nil keeps none. Secret is called with each of them; it may be nil.
	Cookies func(name string) bool
	Secret  func(name, value string)

	// Pass are the names of headers in responses that callers are told of, in [Outgoing].Told and in a [StatusError].
	Pass []string

	// Proxy returns the HTTP proxy through which URL is reached, or nil if there is
	// none. It is called once, and may itself be nil for no proxy. The proxy's user and
	// password are secrets. A proxy that is itself reached by https is verified by the
	// roots in TLS. [net/http.ProxyFromEnvironment] follows HTTPS_PROXY, HTTP_PROXY and
	// NO_PROXY.
	Proxy func(*url.URL) (*url.URL, error)

	DialTimeout      time.Duration // until connected, and again for TLS; 5 s
	FirstByteTimeout time.Duration // until the head of a response; 5 min
	IdleTimeout      time.Duration // silence within a body, except that of a GET stream; 5 min
	EndpointTimeout  time.Duration // until an HTTP+SSE server has said where to post messages; 10 s
	IdleConnTimeout  time.Duration // until an unused connection is closed; 1 min

	// Dial opens the connections; nil for those of the system.
	Dial Dial
	// Watch closes connections of the system that are dead; nil for dial.Standard.
	Watch *dial.Watch

	MaxMessage   int // bytes of one message (body or event) from the server; 64 MiB
	MaxIdleConns int // kept for further messages; 128

	// Memory counts large messages from the server until they are delivered and no
	// longer needed, and lends their buffers. nil stands for memory of its own.
	Memory *large.Memory
}

// HTTP is a server reached over Streamable HTTP, with the connections that all
// its sessions share.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http.
type HTTP struct {
	url        *url.URL
	addr       string
	head       heads
	firstByte  time.Duration
	silence    time.Duration
	endpoint   time.Duration
	parkAfter  time.Duration
	maxMessage int
	memory     *large.Memory
	credential Credential // nil for none
	explain    func(*StatusError) error
	cookies    func(name string) bool // nil for none
	pass       []string
	secret     func(name, value string)
	pool       pool
	successor  atomic.Pointer[HTTP]
	packs      atomic.Bool // standing streams are compressed, whatever is asked for

	buffers sync.Pool // of *buffer
	readers sync.Pool // of *sse.Reader
	parsed  sync.Pool // of *fasthttp.ResponseHeader
	spare   sync.Pool // of *carried
}

// parkAfter is how long Events waits for the next event of a stream that can be parked. While events come more often, the stream
// costs no more than one that cannot.
const parkAfter = time.Second

// maxLife is the age at which a connection takes no further exchange, so that a change of the server's addresses is followed.
const maxLife = 10 * time.Minute

// NewHTTP returns the server that c describes, without connecting to it. The error says
// what is wrong with c.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	u, socket, err := serverURL(c.URL)
	if err != nil {
		return nil, err
	}
	d := &dialer{network: c.Dial, timeout: cmp.Or(c.DialTimeout, 5*time.Second), watch: cmp.Or(c.Watch, dial.Standard)}
	switch u.Scheme {
	case "http":
	case "https":
		d.tls = tlsConfig(c.TLS, u.Hostname())
	case "":
		return nil, errors.New("upstream url: missing scheme")
	default:
		return nil, fmt.Errorf("upstream url: unexpected scheme %q: must be http or https", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("upstream url: missing host")
	}
	if strings.Contains(u.RequestURI(), " ") {
		return nil, errors.New("upstream url: the query must not have spaces")
	}
	if u.User != nil {
		return nil, errors.New("upstream url: must not contain user and password: send them in a header")
	}
	connect := d.dial
	if d.addr = hostPort(u); socket != "" {
		d.addr, connect = unixsocket.Scheme+socket, d.dialSocket(socket)
	} else if d.via, err = findProxy(c.Proxy, c.TLS, u); err != nil {
		return nil, err
	}
	reader := d.via
	if d.tls != nil {
		reader = nil // the proxy does not read what goes through its tunnel
	}
	hd, err := newHeads(u, c.Header, reader)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}

	h := &HTTP{
		url:        u,
		addr:       d.addr,
		head:       hd,
		firstByte:  cmp.Or(c.FirstByteTimeout, 5*time.Minute),
		silence:    cmp.Or(c.IdleTimeout, 5*time.Minute),
		endpoint:   cmp.Or(c.EndpointTimeout, 10*time.Second),
		parkAfter:  parkAfter,
		maxMessage: cmp.Or(c.MaxMessage, 64<<20),
		memory:     c.Memory,
		credential: c.Credential,
		explain:    c.Explain,
		cookies:    c.Cookies,
		pass:       c.Pass,
		secret:     c.Secret,
		pool: pool{
			dial:    connect,
			maxIdle: cmp.Or(c.MaxIdleConns, 128),
			maxAge:  cmp.Or(c.IdleConnTimeout, time.Minute),
			maxLife: maxLife,
			open:    make(map[*conn]struct{}),
		},
	}
	if h.secret == nil {
		h.secret = func(string, string) {}
	}
	if h.memory == nil {
		h.memory = large.NewMemory(math.MaxInt64)
	}
	h.buffers.New = func() any { return &buffer{b: make([]byte, 0, smallBuffer)} }
	h.readers.New = func() any { return sse.NewReader(nil, h.maxMessage) }
	h.parsed.New = func() any { return new(fasthttp.ResponseHeader) }
	h.spare.New = func() any { return new(carried) }
	return h, nil
}

// ReplacedBy makes the exchanges that begin from now on those of next, also in sessions of h: they have the settings, the credential
// and the connections of next.
func (h *HTTP) ReplacedBy(next *HTTP) { h.successor.Store(next) }

// latest returns what has replaced h, or h.
func (h *HTTP) latest() *HTTP {
	for next := h.successor.Load(); next != nil; next = h.successor.Load() {
		h = next
	}
	return h
}

// InUse returns how many connections have an exchange under way, the end of a response that is read for a moment included.
func (h *HTTP) InUse() int { return h.pool.inUse() }

// Close closes all connections. Exchanges under way fail with ErrClosed, and so do all
// later ones.
func (h *HTTP) Close() error {
	h.pool.close()
	return nil
}
