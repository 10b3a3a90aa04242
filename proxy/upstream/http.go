package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// HTTPConfig describes a server that speaks Streamable HTTP. The zero value of every
// field except URL means the default.
type HTTPConfig struct {
	URL    string      // http or https, without user and password
	Header []Header    // sent with every request, instead of headers of the same name that a message has
	TLS    *tls.Config // for https; without a ServerName, the host of URL is verified

	// Credential is sent as Authorization, in place of the client's; nil for none.
	Credential Credential

	// Explain returns the error for a response that refuses a request, if there is no
	// Credential. It may return its argument. nil leaves all errors as they are.
	Explain func(*StatusError) error

	// Proxy returns the HTTP proxy through which URL is reached, or nil if there is
	// none. It is called once, and may itself be nil for no proxy. The proxy's user and
	// password are secrets. A proxy that is itself reached by https is verified by the
	// roots in TLS. [net/http.ProxyFromEnvironment] follows HTTPS_PROXY, HTTP_PROXY and
	// NO_PROXY.
	Proxy func(*url.URL) (*url.URL, error)

	DialTimeout      time.Duration // until connected, TLS included; 5 s
	FirstByteTimeout time.Duration // until the head of a response; 5 min
	IdleTimeout      time.Duration // silence within a body, except that of a GET stream; 5 min
	EndpointTimeout  time.Duration // until an HTTP+SSE server has said where to post messages; 10 s
	IdleConnTimeout  time.Duration // until an unused connection is closed; 1 min

	MaxMessage   int // bytes of one message (body or event) from the server; 64 MiB
	MaxIdleConns int // kept for further messages; 128

	// Memory counts large messages from the server until they are delivered and no
	// longer needed, and lends their buffers. nil stands for memory of its own.
	Memory *large.Memory
}

// deleteTimeout bounds the DELETE that ends a session.
const deleteTimeout = 2 * time.Second

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
	maxMessage int
	memory     *large.Memory
	credential Credential // nil for none
	explain    func(*StatusError) error
	pool       pool

	buffers sync.Pool // of *buffer
	readers sync.Pool // of *sse.Reader
	parsed  sync.Pool // of *fasthttp.ResponseHeader
	spare   sync.Pool // of *carried
}

// NewHTTP returns the server that c describes, without connecting to it. The error says
// what is wrong with c.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("upstream url: not a URL") // without err, which quotes the URL: it may contain a secret
	}
	d := dialer{timeout: cmp.Or(c.DialTimeout, 5*time.Second)}
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
	d.addr = hostPort(u)
	if d.via, err = findProxy(c, u); err != nil {
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
		maxMessage: cmp.Or(c.MaxMessage, 64<<20),
		memory:     c.Memory,
		credential: c.Credential,
		explain:    c.Explain,
		pool: pool{
			dial:    d.dial,
			maxIdle: cmp.Or(c.MaxIdleConns, 128),
			maxAge:  cmp.Or(c.IdleConnTimeout, time.Minute),
			open:    make(map[*conn]struct{}),
		},
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

func tlsConfig(c *tls.Config, host string) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c = c.Clone()
	c.ServerName = cmp.Or(c.ServerName, host)
	c.NextProtos = []string{"http/1.1"}
	return c
}

// Close closes all connections. Exchanges under way fail with ErrClosed, and so do all
// later ones.
func (h *HTTP) Close() error {
	h.pool.close()
	return nil
}

// Session returns the session with this id and this MCP-Protocol-Version. Requests omit
// each of them while it is "". The session costs nothing until it is used.
func (h *HTTP) Session(id, version string) *HTTPSession {
	return &HTTPSession{http: h, id: id, version: version}
}

// HTTPSession is one session with a server over HTTP.
type HTTPSession struct {
	http *HTTP

	mu            sync.RWMutex
	id, version   string
	authorization string // the last one of the client, which Close sends. It is a secret
}

var _ Conn = (*HTTPSession)(nil)

// SetSession changes what later requests are sent with: the Mcp-Session-Id that
// the server gave on initialize, and the MCP-Protocol-Version agreed upon.
func (s *HTTPSession) SetSession(id, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.version = id, version
}

// SessionID returns the server's id of the session; "" for none.
func (s *HTTPSession) SessionID() string {
	id, _ := s.session()
	return id
}

func (s *HTTPSession) session() (id, version string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.id, s.version
}

// Listen opens the stream of a GET. It returns when the server has granted it.
func (s *HTTPSession) Listen(ctx context.Context, o ListenOptions) (Stream, error) {
	x, err := s.exchange(ctx, request{kind: listen, header: o.Header, lastEventID: o.LastEventID})
	if err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	return x, nil
}

// Delete asks the server to end the session, with these further headers. If the server
// refuses, the error is a *StatusError. Without a session id there is nothing to end,
// and no request is sent.
func (s *HTTPSession) Delete(ctx context.Context, header []Header) error {
	if id, _ := s.session(); id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	x, err := s.exchange(ctx, request{kind: end, header: header})
	if err != nil {
		return err
	}
	return x.settle()
}

// note remembers the Authorization among the headers of a message, if there is one.
func (s *HTTPSession) note(header []Header) {
	for _, h := range header {
		if !strings.EqualFold(h.Name, "Authorization") {
			continue
		}
		s.mu.RLock()
		same := s.authorization == h.Value
		s.mu.RUnlock()
		if !same {
			s.mu.Lock()
			s.authorization = h.Value
			s.mu.Unlock()
		}
		return
	}
}

// Close ends the session by a DELETE, with the last Authorization of a message of the
// session. It is no error if the server does not know the session, or does not let
// clients end one. Streams of the session stay open until they are closed.
func (s *HTTPSession) Close(ctx context.Context) error {
	s.mu.RLock()
	var header []Header
	if s.authorization != "" {
		header = []Header{{"Authorization", s.authorization}}
	}
	s.mu.RUnlock()
	err := s.Delete(ctx, header)
	if status, ok := errors.AsType[*StatusError](err); ok && (status.Code == 404 || status.Code == 405) {
		return nil
	}
	return err
}

// buffer holds bytes that are reused.
type buffer struct{ b []byte }

const (
	smallBuffer = 4 << 10
	// keepBuffer is the largest buffer that is used again.
	keepBuffer = 64 << 10
)

func (h *HTTP) buffer() *buffer {
	buf := h.buffers.Get().(*buffer)
	buf.b = buf.b[:0]
	return buf
}

func (h *HTTP) release(buf *buffer) {
	if cap(buf.b) <= keepBuffer {
		h.buffers.Put(buf)
	}
}
