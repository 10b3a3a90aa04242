package downstream

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// HTTPConfig says how to serve. A field that is 0 or "" has the default that its comment names.
type HTTPConfig struct {
	Path string // of the MCP endpoint; /mcp

	// Pipes serves the clients of the older HTTP+SSE transport, which open a stream at SSEPath and get MessagesPath
	// as the path to POST to. If it is nil, nothing is served at these paths.
	Pipes        PipeHandler
	SSEPath      string // /sse
	MessagesPath string // /messages
	// MessagesURI returns the path that the clients get instead, if a gateway maps that to MessagesPath. nil means MessagesPath.
	MessagesURI func() string

	// Health are paths that answer a GET with 200 and "ok" as long as h serves, before Host, Origin and token are checked.
	Health []string

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

	// Exposed says that other machines can reach the listener, perhaps at an address that this machine does not know: the Host of a
	// request may then be any IP address, and its Origin the same one.
	Exposed bool

	// Tokens, if there are any, are the tokens of which a client must send one, as "Authorization: Bearer" or as
	// X-Dragoman-Token, or as Authorization alone. TokenHeader is a further header for it; "" for none. Handlers do not see the token.
	Tokens      []string
	TokenHeader string

	// Pages are the origins of web pages that may call dragoman, "*" for all. They pass the check of Origin.
	Pages []string
	// PageHeaders are further headers that these pages may send.
	PageHeaders []string
	// PageReads are further headers of responses that these pages may read.
	PageReads []string

	// WithoutID reports whether clients of this revision get an error that belongs to no message without an id; others
	// get it with the id null. nil means never.
	WithoutID func(version string) bool

	// Principal returns the name of the header that identifies the client, or "" for none. It may be nil. Once are the names of
	// further headers on which handlers act. A request in which one of these headers occurs twice is refused.
	Principal func() string
	Once      []string

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

	// Held waits until handlers hold nothing that clients come back for on other connections, or until ctx ends. Shutdown
	// accepts connections until then. nil if they never hold anything.
	Held func(ctx context.Context)

	// Refused is called for requests that no handler gets: a token is missing, the host or origin is not allowed, or a limit
	// is reached. why may quote the refused Host or Origin, and no other header. It may be nil.
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
	if c.MessagesURI == nil {
		c.MessagesURI = func() string { return c.MessagesPath }
	}
	if c.Principal == nil {
		c.Principal = func() string { return "" }
	}
	if c.Held == nil {
		c.Held = func(context.Context) {}
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

// guard calls f and reports whether it returned. A panic is logged.
func (c *HTTPConfig) guard(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			c.Log("panic", fmt.Errorf("%v\n%s", p, debug.Stack()))
		}
	}()
	f()
	return true
}
