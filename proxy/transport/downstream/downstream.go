// Package downstream is the side of the MCP clients: it receives their messages and sends
// the answers. The package does not interpret messages.
//
// [HTTP] serves the Streamable HTTP transport, and each client of the older HTTP+SSE as a
// [Pipe]; [Stdio] is a client on a pair of pipes. [NewAdmin] serves the operators of the
// proxy.
//
// The files, from the top; each uses only those below it:
//
//   - admin.go is the listener for operators, and serve.go accepts connections and ends them;
//   - fastpath.go serves plain requests without the server of fasthttp, route.go finds out what any other one is for, and
//     sse.go serves those of HTTP+SSE;
//   - exchange.go is a request and its response, cors.go adds what pages need, standing.go is the stream of a GET, and
//     stream.go has the events of a response;
//   - http.go has the state of a listener, and pipe.go that of a client of HTTP+SSE;
//   - body.go and check.go are what happens to a request before a handler gets it, refusals.go answers one that none gets,
//     and headers.go has the heads of messages;
//   - conn.go is a client's connection, and notices that the client leaves it; output.go writes to it, and head.go finds what is
//     no head of a request in what it reads;
//   - guests.go says which clients are admitted, stdio.go is a client on a pair of pipes, and config.go has the limits;
//   - downstream.go is what the package and its users agree on.
package downstream

import (
	"context"
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Request is one HTTP request of a client. Its slices and its Header function belong to the
// transport and are invalid after the handler's method has returned, and the Body after the first
// event that was sent to Client: what is used longer must have been cloned. Strings may be kept.
type Request struct {
	// Ctx is cancelled when the client leaves (a half-closed connection counts as that),
	// when the server is stopped by force and when the exchange is over. [context.Cause]
	// says which: ErrClientLeft, ErrStopped, ErrOver.
	Ctx context.Context
	// Cancel ends Ctx, for a handler that knows a reason before the transport does. It may
	// be called at any time. It is nil if the transport does not offer it.
	Cancel context.CancelCauseFunc
	// Client receives the messages that come before the response to a POST. The first one makes the response an
	// event stream, with the Status and Header that the Response has then. It is valid until the handler's method
	// returns.
	Client mcp.Peer
	// Await says that the response to a POST may take long. If none has begun after the time of a heartbeat, and the client's
	// Accept names text/event-stream, the response becomes an event stream with status 200 and comments, of which Body is the
	// last event. id is the request's, raw JSON, or null. Settle ends that, and returns the id and whether the head is out: then
	// Status and Header of the Response say nothing any more. Both are nil if the transport does not offer it.
	Await  func(id string)
	Settle func() (id []byte, begun bool)

	Body    []byte // may be rewritten in place
	Session string // Mcp-Session-Id, "" when absent
	Version string // MCP-Protocol-Version, "" when absent
	// Twice is the name of a header of a POST that begins with Mcp- and occurs more than once, "" for none. The handler refuses
	// such a request, as the response names the message.
	Twice       string
	LastEventID string // Last-Event-ID of a GET, "" when absent
	// Header returns the value of any other request header, "" when absent; several fields of
	// one name are one list. It does not return a token of the listener, which is not for the server: neither X-Dragoman-Token
	// nor an Authorization that was such a token.
	Header func(name string) string
	// Headers calls do for each of those headers whose name begins with prefix. Names and
	// prefix are in canonical form, as in "Mcp-". It is nil if it is not needed.
	Headers func(prefix string, do func(name, value string))

	// Guest identifies the listener token that admitted the request, without revealing it;
	// "" if the listener needs no token.
	Guest string

	// Peer is the address that the request comes from, without a port, or "uid 1000", its user, at a unix socket. It is "" if there
	// is none, or if another replica has forwarded the request.
	Peer string

	// Method and Path, escaped and without the query, are set only for a request to the
	// plain endpoints. Method is also set for a request of another replica. For [Beside],
	// Path includes the query.
	Method, Path string

	// Base is the scheme and host of the URL that the client requests, as in
	// "https://name:8443". It is set for [Beside] only.
	Base string

	// Forwarded says that the client sent the request to another replica, which forwarded
	// it. It is not forwarded again.
	Forwarded bool
}

// Sender says who sends a message, as far as tools of dragoman's own need it. The zero value is
// a client without a token on a network.
type Sender struct {
	Guest  string       // as in [Request.Guest]
	Header []mcp.Header // with credentials for APIs; never for the server
	Local  bool         // the client has started dragoman, on stdin and stdout
}

// SenderOf returns the sender of a request with the headers that names selects.
func SenderOf(guest string, header func(name string) string, names []string) Sender {
	s := Sender{Guest: guest}
	for _, name := range names {
		if v := header(name); v != "" {
			s.Header = append(s.Header, mcp.Header{Name: name, Value: v})
		}
	}
	return s
}

// Response is filled by the handler. At most one of Body and Listen is set; with neither, the
// response has no body, or ends without a further event.
type Response struct {
	Status int          // 200 when 0
	Header []mcp.Header // in addition to the transport's; Content-Type replaces the default
	// Body is application/json, or the data of the last event if others were sent before. It must stay untouched
	// until Done.
	Body []byte
	Last sse.Event // the last event, if others were sent before and Body is not set; as Body
	// Listen makes the response to a GET an event stream. It is called once the handler's method has returned, sends
	// the events to client and returns soon after the request's Ctx has ended. nil is the regular end of the stream.
	// Any other error cuts it off, so that the client sees that something is missing. The connection is closed then. But after
	// ErrParked the stream stays open without a goroutine, and Listen is called again when w was called.
	Listen func(client mcp.Peer, w mcp.Waker) error
	// Cut is why the events sent to Client break off; nil for their regular end. The client sees that something is
	// missing.
	Cut error
	// Done is called once, on the serving goroutine, when the response was
	// written or given up. It may be nil.
	Done func()
}

// ErrParked is returned by Listen of a [Response].
var ErrParked = errors.New("nothing comes on the stream for now")

// Handler is the proxy as HTTP clients see it. The methods are called
// concurrently and fill the response before they return; they return soon after
// the request's Ctx is cancelled. A panic is answered with status 500.
type Handler interface {
	Post(*Request, *Response)
	Get(*Request, *Response)
	Delete(*Request, *Response)
}

// Why a request's context was cancelled.
var (
	ErrClientLeft = errors.New("the client has disconnected")
	ErrStopped    = errors.New("the server was stopped")
	ErrOver       = errors.New("the request has ended")
)

// PipeHandler is the proxy as clients on HTTP+SSE see it. To the proxy such a client is a pipe, like a client on
// stdio.
type PipeHandler interface {
	// OpenPipe is called for a new client. It returns the session that takes the client's messages while the client
	// stays. It returns nil to refuse the client with resp, whose Stream and Done are not used. p may be written to
	// at once: the client gets the message after the address to POST to. req's Ctx is that of p and stays valid; the
	// rest of req is valid until OpenPipe returns.
	OpenPipe(p Pipe, req *Request, resp *Response) PipeSession
}

// Pipe is a client on HTTP+SSE, from its GET of the stream to the stream's end.
type Pipe interface {
	// Context returns a context that ends with the pipe. Its cause is the reason that the session's Left gets.
	Context() context.Context
	// Write sends one message to the client. It neither waits until that is done nor keeps msg, and is safe for
	// concurrent use; messages go out in the order of their calls. For a large message it waits until there is room. If
	// more than the configured number of bytes wait for the client, the pipe is closed. The error is the reason why the
	// pipe has ended.
	Write(msg []byte) error
	// Close ends the pipe: no more messages are accepted from the client, those that were are still taken, and all that
	// was written until the session's Ending returns goes out. Close does not wait for that. It may be called more than
	// once.
	Close()
}

// PipeSession is the proxy's session of one client on a pipe. A panic in it ends only the call.
type PipeSession interface {
	// Take receives one message of the client: well-formed JSON, and a message or an array. It is called for one
	// message after the other, in the order in which they came. The message is valid until Take returns and may be
	// changed in place. header returns the value of a header of the message's request, "" when absent; it is valid
	// until Take returns, too. Take must return soon after Close of the pipe, and after the pipe's context ends.
	Take(message []byte, header func(name string) string)
	// Ending is called once after Close of the pipe, when Take will not be called any more, unless the pipe's context has
	// ended before.
	Ending()
	// Owns reports whether a request with these headers, admitted by the token that guest identifies, may speak for
	// the client. It is called concurrently with the others.
	Owns(guest string, header func(name string) string) bool
	// Left is called once, when the pipe has ended and Take will not be called any more. why is ErrClientLeft,
	// ErrStopped, ErrClosed, ErrNotRead, or the error of a failed write. The server's Shutdown waits for Left to
	// return.
	Left(why error)
}

// ReplicasHandler serves the requests that other replicas of the proxy forward. A
// header proves that such a request is from a replica. It is checked before the body is
// read, and no token is needed.
type ReplicasHandler interface {
	// Open reports whether there are other replicas. If there are none, the path does
	// not exist.
	Open() bool
	// Admits checks the headers of a request with this method, POST or GET.
	Admits(method string, header func(name string) string) bool
	// Serve answers an admitted request, whose Method is POST or GET. It is called as a
	// Handler's methods are.
	Serve(*Request, *Response)
}

// Beside serves paths other than those of MCP to clients that have no token yet, after
// the checks of Host and Origin.
type Beside interface {
	// Serves reports whether it serves a path, escaped and without the query, to clients
	// that use base as the proxy's address; see [Request.Base].
	Serves(ctx context.Context, base, path string) bool
	// Serve serves the request. Its headers do not contain a token of the listener.
	Serve(*Request, *Response)
}
