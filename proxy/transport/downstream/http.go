package downstream

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// HTTP serves MCP's Streamable HTTP transport, and HTTP+SSE beside it.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http.
type HTTP struct {
	cfg       HTTPConfig
	handler   Handler // nil on a listener for operators
	guests    atomic.Pointer[guests]
	heartbeat heartbeat
	server    fasthttp.Server
	exchanges sync.Pool
	buffers   buffers
	fast      sync.Pool // of *fastPath
	parsers   sync.Pool // of *bufio.Reader, for fasthttp to parse a head

	inHand   inHand        // POSTs
	draining atomic.Bool   // no pipe begins, and each connection ends with its request
	closed   chan struct{} // closed when no more connections are accepted
	hard     context.Context
	stop     context.CancelCauseFunc // ends hard

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	peers     map[string]int   // how many of conns each address has
	closing   int              // how many of conns give way
	pipes     map[string]*pipe // by the session in their POSTs
	watch     rawio.Watch      // notices that clients leave
	serving   sync.WaitGroup   // Serve calls, connections and pipes
	earlier   sync.WaitGroup   // connections from before draining
}

// dropConn forgets a connection that is closed, or about to be.
func (h *HTTP) dropConn(c *conn) {
	h.mu.Lock()
	h.watch.Remove(c.watched)
	if _, here := h.conns[c]; here {
		h.forgetLocked(c)
	}
	h.mu.Unlock()
}

func (h *HTTP) forgetLocked(c *conn) {
	delete(h.conns, c)
	if h.peers[c.peer]--; h.peers[c.peer] == 0 {
		delete(h.peers, c.peer)
	}
	if c.closing {
		h.closing--
	}
	if !c.late {
		h.earlier.Done()
	}
}

// isClosed reports whether no more connections are accepted.
func (h *HTTP) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// InHand returns how many connections of clients there are, and how many of their POSTs are being answered.
func (h *HTTP) InHand() (conns, posts int) {
	h.mu.Lock()
	conns = len(h.conns)
	h.mu.Unlock()
	h.inHand.mu.Lock()
	defer h.inHand.mu.Unlock()
	return conns, h.inHand.of.Held()
}

// inHand counts POSTs by client.
type inHand struct {
	mu sync.Mutex
	of quota.Fair
}

// admit counts one more POST in hand of a client. It returns false if there are too many.
func (h *HTTP) admit(who string) bool {
	h.inHand.mu.Lock()
	defer h.inHand.mu.Unlock()
	return h.inHand.of.Admit(quota.Holder{Principal: who}, h.cfg.MaxRequests)
}

// dismiss counts one less.
func (h *HTTP) dismiss(who string) {
	h.inHand.mu.Lock()
	defer h.inHand.mu.Unlock()
	h.inHand.of.Release(quota.Holder{Principal: who})
}

// isMCP reports whether clients send messages to a path.
func (h *HTTP) isMCP(path []byte) bool {
	return string(path) == h.cfg.Path || h.cfg.Pipes != nil && (string(path) == h.cfg.SSEPath || string(path) == h.cfg.MessagesPath)
}

// meant returns the path to which clients send messages that differs from path by a slash at the end, or path itself. Some people write
// the slash, and some clients and balancers add it.
func (h *HTTP) meant(path []byte) []byte {
	if h.isMCP(path) {
		return path
	}
	plain := bytes.TrimSuffix(path, []byte("/"))
	for _, own := range []string{h.cfg.Path, h.cfg.SSEPath, h.cfg.MessagesPath} {
		if string(plain) == strings.TrimSuffix(own, "/") && h.isMCP([]byte(own)) {
			return []byte(own)
		}
	}
	return path
}

// isPlain reports whether path is one of the plain endpoints.
func (h *HTTP) isPlain(path []byte) bool {
	if h.cfg.Plain == nil {
		return false
	}
	rest, ok := bytes.CutPrefix(path, []byte(h.cfg.PlainPrefix))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

// isHealth reports whether a request asks whether h serves.
func (h *HTTP) isHealth(ctx *fasthttp.RequestCtx) bool {
	return (ctx.IsGet() || ctx.IsHead()) && slices.Contains(h.cfg.Health, string(ctx.Path()))
}

// isOurs reports whether the listener itself serves a path.
func (h *HTTP) isOurs(path []byte) bool {
	_, route := h.routeOf(path)
	return route || h.isMCP(path) || h.isPlain(path) || h.cfg.Replicas != nil && string(path) == h.cfg.ReplicasPath
}

// routeOf returns the handler of a path: its own, or that of the longest path ending in a slash that it is below.
func (h *HTTP) routeOf(path []byte) (serve fasthttp.RequestHandler, ok bool) {
	if serve, ok = h.cfg.Routes[string(path)]; ok {
		return serve, true
	}
	for i := len(path) - 1; i > 0; i-- { // not the root
		if path[i] == '/' {
			if serve, ok = h.cfg.Routes[string(path[:i+1])]; ok {
				return serve, true
			}
		}
	}
	return nil, false
}

// base returns the scheme and host of the URL that the client requests.
func (h *HTTP) base(ctx *fasthttp.RequestCtx) string {
	if h.cfg.TLS != nil {
		return "https://" + string(ctx.Host())
	}
	return "http://" + string(ctx.Host())
}
