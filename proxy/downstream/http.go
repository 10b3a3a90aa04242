package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/rawio"
)

// Why a request's context was cancelled.
var (
	ErrClientLeft = errors.New("the client has disconnected")
	ErrStopped    = errors.New("the server was stopped")
	ErrOver       = errors.New("the request has ended")
)

// HTTPConfig says how to serve. A field that is 0 or "" has the default that its comment names.
type HTTPConfig struct {
	Path string // of the MCP endpoint; /mcp

	// Pipes serves the clients of the older HTTP+SSE transport, which open a stream at SSEPath and get MessagesPath
	// as the path to POST to. If it is nil, nothing is served at these paths.
	Pipes        PipeHandler
	SSEPath      string // /sse
	MessagesPath string // /messages

	MaxBody     int // bytes of a request's body; 10 MiB
	MaxHeader   int // bytes of a request's line and headers together; 16 KiB
	MaxConns    int // connections open at the same time; 10,000
	MaxRequests int // POSTs in hand at the same time; 4096
	MaxQueue    int // bytes that wait for one client on HTTP+SSE; 16 MiB

	// Memory counts the bytes of large bodies, from when they are received until the handler no longer needs them. If
	// its budget is spent, even by other users of it, every POST waits for BudgetWait and is then refused. nil means a
	// Memory of 512 MiB.
	Memory     *large.Memory
	BudgetWait time.Duration // 5 s

	ReadTimeout  time.Duration // until a request is received completely; 1 min
	UploadTime   time.Duration // period over which a body's rate is measured, which must be 1 KiB/s or more; 30 s
	WriteTimeout time.Duration // for the client to take the next MiB of a response; 1 min
	IdleTimeout  time.Duration // between two requests on one connection; 2 min
	Heartbeat    time.Duration // of silence on a stream before a comment is sent; 0 sends none

	// AllowedHosts are the names that the Host and Origin headers may have besides the loopback names and the address
	// that the connection came in at. A name without a port allows every port, an entry with "://" is a whole origin,
	// and "*" allows everything.
	AllowedHosts []string

	// Tokens, if there are any, are the tokens of which a client must send one, as "Authorization: Bearer" or as
	// X-Dragoman-Token. Handlers do not see the token.
	Tokens []string

	// Pages are the origins of web pages that may call dragoman, "*" for all. They pass the check of Origin.
	Pages []string
	// PageHeaders are further headers that these pages may send.
	PageHeaders []string

	// WithoutID reports whether clients of this revision get an error that belongs to no message without an id; others
	// get it with the id null. nil means never.
	WithoutID func(version string) bool

	// Once returns the name of a header that identifies the client and may occur only once, or "" for none. It may be
	// nil.
	Once func() string

	// TLS, if it is set, is the configuration with which Serve wraps its listeners.
	TLS *tls.Config

	// Routes are other paths and their handlers, which are called after the same checks of Host, Origin and token. A
	// path that ends in a slash stands for all paths below it, too. A body of more than 8 KiB, or in chunks, is refused.
	Routes map[string]fasthttp.RequestHandler

	// Plain serves PlainPrefix and all paths below it, for every method and after the same checks. The rules for a
	// Handler's methods apply to it, and the limits for a POST to the endpoint apply to the body. nil serves nothing.
	// PlainRefusal returns the JSON body for a request to these paths that is refused before Plain is called; if it is
	// nil, the body is a JSON-RPC error.
	PlainPrefix  string
	Plain        func(*Request, *Response)
	PlainRefusal func(status int, why string) []byte

	// Beside serves further paths. nil for none.
	Beside Beside

	// Replicas serves at ReplicasPath the requests that other replicas forward, after the same checks of Host and
	// Origin. nil serves nothing.
	Replicas     ReplicasHandler
	ReplicasPath string

	// Refused is called for requests that no handler gets, because a token is missing or a limit is reached. It may
	// be nil.
	Refused func(status int, why string)

	// Log gets the errors that are returned to no caller: panics, failed accepts, broken connections. It may be nil.
	// The errors contain no header's value.
	Log func(what string, err error)
}

func (c HTTPConfig) withDefaults() HTTPConfig {
	setDefault(&c.Path, "/mcp")
	setDefault(&c.SSEPath, "/sse")
	setDefault(&c.MessagesPath, "/messages")
	setDefault(&c.MaxBody, 10<<20)
	setDefault(&c.MaxHeader, 16<<10)
	setDefault(&c.MaxConns, 10_000)
	setDefault(&c.MaxRequests, 4096)
	setDefault(&c.MaxQueue, 16<<20)
	setDefault(&c.BudgetWait, 5*time.Second)
	setDefault(&c.ReadTimeout, time.Minute)
	setDefault(&c.UploadTime, 30*time.Second)
	setDefault(&c.WriteTimeout, time.Minute)
	setDefault(&c.IdleTimeout, 2*time.Minute)
	if c.Memory == nil {
		c.Memory = large.NewMemory(512 << 20)
	}
	if c.Refused == nil {
		c.Refused = func(int, string) {}
	}
	if c.Log == nil {
		c.Log = func(string, error) {}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// HTTP serves MCP's Streamable HTTP transport, and HTTP+SSE beside it.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http.
type HTTP struct {
	cfg       HTTPConfig
	handler   Handler // nil on a listener for operators
	guests    atomic.Pointer[guests]
	heartbeat atomic.Int64 // in ns
	server    fasthttp.Server
	exchanges sync.Pool
	buffers   sync.Pool // of *[]byte, for what is about to be written
	fast      sync.Pool // of *fastPath
	parsers   sync.Pool // of *bufio.Reader, for fasthttp to parse a head

	requests atomic.Int64 // POSTs in hand
	draining atomic.Bool
	drain    chan struct{} // closed with draining
	hard     context.Context
	stop     context.CancelCauseFunc // ends hard

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	pipes     map[string]*Pipe // by the session in their POSTs
	watch     *watch
	serving   sync.WaitGroup // Serve calls, connections and pipes
}

// NewHTTP returns a server that hands the requests for its endpoint to handler.
func NewHTTP(handler Handler, cfg HTTPConfig) *HTTP {
	cfg = cfg.withDefaults()
	h := &HTTP{
		cfg:       cfg,
		handler:   handler,
		drain:     make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		pipes:     make(map[string]*Pipe),
	}
	h.Renew(Renewable{AllowedHosts: cfg.AllowedHosts, Tokens: cfg.Tokens, Pages: cfg.Pages, PageHeaders: cfg.PageHeaders, Heartbeat: cfg.Heartbeat})
	h.hard, h.stop = context.WithCancelCause(context.Background())
	h.buffers.New = func() any { return new([]byte) }
	h.exchanges.New = func() any { return newExchange(h) }
	h.fast.New = func() any { return &fastPath{face: h, in: make([]byte, 0, fastBuffer)} }
	h.parsers.New = func() any { return bufio.NewReaderSize(nil, fastBuffer) }
	h.server = fasthttp.Server{
		Handler:            h.serve,
		ErrorHandler:       h.badRequest,
		ConnState:          h.connState,
		Concurrency:        cfg.MaxConns + 1, // accept bounds the connections, and answers those over the limit
		ReadBufferSize:     cfg.MaxHeader,
		ReadTimeout:        cfg.ReadTimeout,
		HeaderReceived:     h.headReceived,
		WriteTimeout:       cfg.WriteTimeout,
		IdleTimeout:        cfg.IdleTimeout,
		MaxRequestBodySize: cfg.MaxBody,
		// A body takes no memory before the head of its request was checked.
		StreamRequestBody: true,
		// Otherwise a multipart body would go to temporary files before the handler is called.
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		NoDefaultDate:                true, // fasthttp's clock is a goroutine that never ends
		SecureErrorLogMessage:        true,
		Logger:                       logger(cfg.Log),
	}
	return h
}

// logger writes fasthttp's few messages to Log.
type logger func(what string, err error)

func (l logger) Printf(format string, args ...any) { l("http", fmt.Errorf(format, args...)) }

// Serve accepts connections until Shutdown is called, and then returns nil, or until ln fails permanently. It closes
// ln. Without TLS in the configuration, the connections of ln may be *tls.Conn themselves. Serve may be called for
// several listeners.
//
// It does not use fasthttp's own accept loop, which ends when file descriptors run out for the first time, and whose
// goroutines outlive it.
func (h *HTTP) Serve(ln net.Listener) error {
	if h.cfg.TLS != nil {
		ln = tls.NewListener(rawListener{ln}, h.cfg.TLS)
	}
	defer ln.Close()
	if err := h.start(ln); err != nil {
		return err
	}
	defer h.serving.Done()
	defer h.forget(ln)

	const firstPause, lastPause = 5 * time.Millisecond, time.Second
	pause := firstPause
	for {
		nc, err := ln.Accept()
		if err == nil {
			pause = firstPause
			h.accept(nc)
			continue
		}
		if h.draining.Load() {
			return nil
		}
		// As in net/http: a lack of file descriptors is no reason to stop.
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck
			return fmt.Errorf("accept: %w", err)
		}
		h.cfg.Log("accept", err)
		select {
		case <-h.drain:
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// rawListener wraps the connections below TLS.
type rawListener struct{ net.Listener }

func (l rawListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return rawio.Wrap(nc), nil
}

func (h *HTTP) start(ln net.Listener) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining.Load() {
		return fmt.Errorf("serve %s: %w", ln.Addr(), ErrStopped)
	}
	if h.watch == nil {
		w, err := newWatch()
		if err != nil {
			return fmt.Errorf("watch for clients that disconnect: %w", err)
		}
		h.watch = w
	}
	h.listeners[ln] = struct{}{}
	h.serving.Add(1)
	return nil
}

func (h *HTTP) forget(ln net.Listener) {
	h.mu.Lock()
	delete(h.listeners, ln)
	h.mu.Unlock()
}

// tooManyConns is the response to a connection over the limit. Sending it needs few resources.
const tooManyConns = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
	"Content-Type: application/json\r\nContent-Length: 84\r\n\r\n" +
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too many connections"}}`

func (h *HTTP) accept(nc net.Conn) {
	h.mu.Lock()
	switch {
	case h.draining.Load():
		h.mu.Unlock()
		_ = nc.Close()
		return
	case len(h.conns) >= h.cfg.MaxConns:
		h.mu.Unlock()
		if _, isTLS := nc.(*tls.Conn); !isTLS { // a TLS connection would wait for the handshake
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte(tooManyConns))
		}
		_ = unwrap(nc).Close()
		return
	}
	c := &conn{Conn: rawio.Wrap(nc), face: h, peer: addressOf(nc.RemoteAddr())}
	h.conns[c] = struct{}{}
	h.mu.Unlock()
	if !h.watch.add(c) {
		c.peek = new(peeker)
	}
	h.serving.Go(func() { h.serveConn(c) })
}

// serveConn serves the requests of a connection. If a request took the connection over for its stream, that goes on
// in a goroutine of its own, if it needs one: fasthttp then has its buffers back, and the stack that parsing made
// large is released.
func (h *HTTP) serveConn(c *conn) {
	if h.serveFast(c) {
		h.dropConn(c)
		return
	}
	if err := h.server.ServeConn(c); err != nil {
		h.cfg.Log("connection", err)
	}
	if c.takenOver != nil {
		h.serving.Go(c.takenOver)
		return
	}
	h.dropConn(c)
}

// dropConn forgets a connection that is closed, or about to be.
func (h *HTTP) dropConn(c *conn) {
	h.mu.Lock()
	if h.watch != nil {
		h.watch.remove(c)
	}
	delete(h.conns, c)
	h.mu.Unlock()
}

// connState notes that a response was written. (fasthttp reports a connection as active before a byte came; conn
// notes that itself.)
func (h *HTTP) connState(nc net.Conn, state fasthttp.ConnState) {
	if c, ok := nc.(*conn); ok && state == fasthttp.StateIdle {
		c.busy.Store(false)
		if h.draining.Load() {
			c.hangUp()
		}
	}
}

// lastWords is how long handlers have, after their contexts have ended, to answer that they were stopped.
const lastWords = time.Second

// Shutdown stops accepting, closes idle connections and waits for the exchanges under way. If ctx ends first, it cuts
// them: it cancels their contexts, closes their streams and connections a moment later, and then returns ctx's error.
// Streams are exchanges too, and handlers must end them. In either case it waits until everything that Serve has
// started has ended, so handlers must return when their contexts end. It may be called more than once.
func (h *HTTP) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	if !h.draining.Swap(true) {
		close(h.drain)
	}
	for ln := range h.listeners {
		_ = ln.Close()
	}
	for c := range h.conns {
		if !c.busy.Load() {
			c.hangUp()
		}
	}
	h.mu.Unlock()

	done := make(chan struct{})
	go func() {
		h.serving.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		h.cut((*conn).end)
		select {
		case <-done: // all handlers have answered
		case <-time.After(lastWords):
			h.cut(func(c *conn, why error) { c.end(why); c.hangUp() })
			<-done
		}
	}
	h.stop(ErrStopped)
	if h.watch != nil {
		h.watch.close()
	}
	return err
}

// cut calls each for every connection, to end what is under way on it.
func (h *HTTP) cut(each func(c *conn, why error)) {
	h.stop(ErrStopped)
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		each(c, ErrStopped)
	}
}
