package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// NewHTTP returns a server that hands the requests for its endpoint to handler.
func NewHTTP(handler Handler, cfg HTTPConfig) *HTTP {
	cfg = cfg.withDefaults()
	h := &HTTP{
		cfg:       cfg,
		handler:   handler,
		closed:    make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		peers:     make(map[string]int),
		pipes:     make(map[string]*pipe),
	}
	h.Renew(Renewable{AllowedHosts: cfg.AllowedHosts, Tokens: cfg.Tokens, TokenHeader: cfg.TokenHeader, Pages: cfg.Pages, PageHeaders: cfg.PageHeaders, PageReads: cfg.PageReads, Once: cfg.Once, Heartbeat: cfg.Heartbeat})
	h.hard, h.stop = context.WithCancelCause(context.Background())
	h.exchanges.New = func() any { return newExchange(h) }
	h.fast.New = func() any { return &fastPath{face: h, in: make([]byte, 0, fastBuffer)} }
	h.parsers.New = func() any { return bufio.NewReaderSize(nil, fastBuffer) }
	h.server = fasthttp.Server{
		Handler:            h.serve,
		ErrorHandler:       h.badRequest,
		ConnState:          h.connState,
		Concurrency:        2*cfg.MaxConns + spareConns, // accept bounds the connections, and answers those over the limit
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
		if h.isClosed() {
			return nil
		}
		// As in net/http: a lack of file descriptors is no reason to stop.
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck
			return fmt.Errorf("accept: %w", err)
		}
		h.cfg.Log("accept", err)
		select {
		case <-h.closed:
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

// spareConns is how many connections there may be for probes alone when the others are used up.
const spareConns = 16

// looked is how many connections are looked at for one that can give way: an attempt to connect must not cost much.
const looked = 512

// makeRoom reports whether there is room for one more connection, and makes some if it can: of those without a request, among the first
// that it looks at, it closes one of the address that has the most connections. If there are none, an address may still have as many as
// are left of a quarter more; and probes are always answered. h.mu must be held.
func (h *HTTP) makeRoom(one *conn) bool {
	open := len(h.conns) - h.closing
	if open < h.cfg.MaxConns {
		return true
	}
	for _, idle := range []bool{true, false} { // then also those that are slow to send a request
		most := h.peers[one.peer]
		var from *conn
		seen := 0
		for c := range h.conns { // in random order
			if seen++; seen > looked {
				break
			}
			if n := h.peers[c.peer]; n >= most && !c.closing && !c.whole.Load() && (!idle || !c.busy.Load()) {
				most, from = n, c
			}
		}
		if from != nil && from.giveWay() {
			from.closing = true
			h.closing++
			if open--; open < h.cfg.MaxConns {
				return true
			}
			break
		}
	}
	left := h.cfg.MaxConns/4 + h.cfg.MaxConns - open
	one.probe = h.peers[one.peer] > left && left > -spareConns && len(h.cfg.Routes)+len(h.cfg.Health) > 0
	return h.peers[one.peer] <= left || one.probe
}

func (h *HTTP) accept(nc net.Conn) {
	c := newConn(rawio.Wrap(nc), &h.cfg)
	h.mu.Lock()
	switch {
	case h.isClosed():
		h.mu.Unlock()
		_ = nc.Close()
		return
	case !h.makeRoom(c):
		h.mu.Unlock()
		if _, isTLS := nc.(*tls.Conn); !isTLS { // a TLS connection would wait for the handshake
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write([]byte(tooManyConns))
		}
		_ = unwrap(nc).Close()
		return
	}
	h.conns[c] = struct{}{}
	h.peers[c.peer]++
	if c.late = h.draining.Load(); !c.late {
		h.earlier.Add(1)
	}
	h.mu.Unlock()
	var seen bool
	if c.watched, seen = h.watch.Add(unwrap(nc), rawio.Leaving, c); !seen {
		c.peek = new(peeker)
	}
	h.serving.Go(func() { h.serveConn(c) })
}

// serveConn serves the requests of a connection. If a request took the connection over for its stream, that goes on
// in a goroutine of its own, if it needs one: fasthttp then has its buffers back, and the stack that parsing made
// large is released.
func (h *HTTP) serveConn(c *conn) {
	if !c.probe && h.serveFast(c) {
		h.dropConn(c)
		return
	}
	if err := h.server.ServeConn(c); err != nil {
		h.cfg.Log("connection", err)
	}
	if c.takenOver != nil {
		c.serving = nil
		h.serving.Go(c.takenOver)
		return
	}
	h.dropConn(c)
}

// connState notes that a response was written. (fasthttp reports a connection as active before a byte came; conn
// notes that itself.)
func (h *HTTP) connState(nc net.Conn, state fasthttp.ConnState) {
	if c, ok := nc.(*conn); ok && state == fasthttp.StateIdle {
		c.rest(time.Now())
		if h.draining.Load() {
			c.hangUpSoon()
		}
	}
}

// lastWords is how long handlers have, after their contexts have ended, to answer that they were stopped.
const lastWords = time.Second

// Shutdown closes idle connections, after a moment those that were just used, and waits for the exchanges under way, and for what [HTTPConfig].Held waits for. Until
// then it accepts connections, for one request each: clients may need them to end what is under way, and a load balancer may not
// know yet that this server ends. If ctx ends first, it cuts the exchanges: it cancels their contexts, closes their streams and connections a moment later, and then returns ctx's error.
// Streams are exchanges too, and handlers must end them; a pipe has that moment to end by itself. In either case it waits until everything that Serve has
// started has ended, so handlers must return when their contexts end. It may be called more than once.
func (h *HTTP) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.draining.Store(true)
	for c := range h.conns {
		c.hangUpSoon()
	}
	h.mu.Unlock()

	done := make(chan struct{})
	go func() {
		h.earlier.Wait()
		h.cfg.guard(func() { h.cfg.Held(ctx) })
		h.close()
		h.serving.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		h.close()
		pipes := h.pipeConns()
		h.cut(func(c *conn, why error) {
			if !pipes[c] {
				c.end(why)
			}
		})
		select {
		case <-done: // all handlers have answered
		case <-time.After(lastWords):
			h.cut(func(c *conn, why error) { c.end(why); c.hangUp() })
			<-done
		}
	}
	h.stop(ErrStopped)
	h.watch.Close()
	return err
}

// close accepts no more connections, and closes idle ones.
func (h *HTTP) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isClosed() {
		close(h.closed)
	}
	for ln := range h.listeners {
		_ = ln.Close()
	}
	h.hangUpIdle()
}

// hangUpIdle closes idle connections. h.mu must be held.
func (h *HTTP) hangUpIdle() {
	for c := range h.conns {
		c.hangUpIdle()
	}
}

// pipeConns returns the connections of all pipes.
func (h *HTTP) pipeConns() map[*conn]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := make(map[*conn]bool, len(h.pipes))
	for _, p := range h.pipes {
		of[p.conn] = true
	}
	return of
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
