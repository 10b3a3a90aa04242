// Package downstream faces the MCP clients: how their messages come in and how
// the answers travel back. The package does not look at what a message says.
//
// [HTTP] serves the Streamable HTTP transport and, beside it, each client of the
// older HTTP+SSE as a [Pipe]; [Stdio] is a client on a pair of pipes. [NewAdmin]
// serves those who run the proxy.
package downstream

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// Stream is what a body of server-sent events is made of.
type Stream interface {
	// Next blocks until there is an event, which is valid until the next
	// call. io.EOF ends the body well; any other error cuts it off, so that
	// the client sees that something is missing.
	Next() (sse.Event, error)
	// Close ends the stream and makes a Next that is under way return. It may
	// be called at any time, from any goroutine and more than once, and the
	// transport always does at the end.
	Close() error
}

// Request is one HTTP request of a client. Its slices and its Header function
// belong to the transport and die when the handler's method returns: what
// outlives it, as a Stream may, must have been cloned. Strings may be kept.
type Request struct {
	// Ctx is cancelled when the client leaves (a half-closed connection
	// counts as that), when the server stops hard and when the exchange is
	// over. [context.Cause] tells which: ErrClientLeft, ErrStopped, ErrOver.
	Ctx context.Context
	// Cancel ends Ctx, for a handler that knows why before the transport does. It
	// may be called at any time; nil where it is not offered.
	Cancel       context.CancelCauseFunc
	Body         []byte // may be rewritten in place
	Session      string // Mcp-Session-Id, "" when absent
	Version      string // MCP-Protocol-Version, "" when absent
	VersionTwice bool   // the header is there more than once
	LastEventID  string // Last-Event-ID of a GET, "" when absent
	// Header returns the value of any other request header, "" when absent. A
	// token that opened the listener is not for the server: there is never an
	// X-Dragoman-Token, nor the Authorization that was one.
	Header func(name string) string
	// Headers calls do for each of those headers whose name begins with prefix, which
	// is spelled as in "Mcp-". Names are spelled so, too. It is nil where it is not needed.
	Headers func(prefix string, do func(name, value string))

	// Guest stands for the token that opened the listener, without telling it; ""
	// where none is needed.
	Guest string

	// Peer is the address that the request comes from, without a port; "" where there
	// is none, or where that is another replica's.
	Peer string

	// Method and Path, escaped and without the query, are there for a request to
	// the plain endpoints only; Method for one of another replica, too. For [Beside], Path
	// has the query.
	Method, Path string

	// Base is the scheme and host of the URL that the client asks, as in
	// "https://name:8443"; there for [Beside] only.
	Base string

	// Forwarded says that the client sent the request to another replica, which
	// forwarded it. It goes no further.
	Forwarded bool
}

// Response is filled by the handler. At most one of Body and Stream is set;
// with neither the response has no body.
type Response struct {
	Status int          // 200 when 0
	Header []mcp.Header // beside those of the transport; Content-Type overrides its
	Body   []byte       // application/json; must stay untouched until Done
	Stream Stream       // text/event-stream; of a GET, the connection ends with it
	// Done is called once, on the serving goroutine, when the response was
	// written or given up. It may be nil.
	Done func()
}

// Handler is the proxy as HTTP clients see it. The methods are called
// concurrently and fill the response before they return; they return soon after
// the request's Ctx is cancelled. A panic is answered with status 500.
type Handler interface {
	Post(*Request, *Response)
	Get(*Request, *Response)
	Delete(*Request, *Response)
}
