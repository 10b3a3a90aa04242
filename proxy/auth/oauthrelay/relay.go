// Package oauthrelay forwards the requests of OAuth clients to the server behind the proxy.
//
// A client that is refused with 401 looks for the server's metadata at the origin of the URL that it knows, which is
// the proxy's. A [Relay] requests from the server instead: the metadata at the well-known paths, and the endpoints of
// a server that is its own authorization server. Requests and answers pass byte for byte; nothing is kept but the
// paths of those endpoints (learn.go) and, for clients of 2025-03-26, a copy of the metadata of another authorization server
// (oldclients.go). On demand, the metadata and the challenge say the proxy's URL in place of the server's (rewrite.go). No credential of dragoman's is added. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization.
package oauthrelay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Bounds of what is relayed.
const (
	maxRequest  = 64 << 10 // bytes of a body
	maxMetadata = 1 << 20  // bytes of an answer at a well-known path
	maxPage     = 10 << 20 // bytes of another answer
	maxInHand   = 64       // MiB of answers in memory: one for each request, and ten for a large answer
	timeLimit   = 30 * time.Second
)

// Config names the server that a Relay asks, and the paths that it relays. The zero value of all but Server and Path is
// valid.
type Config struct {
	Server    *url.URL // the server's MCP endpoint
	Path      string   // path of dragoman's MCP endpoint
	Metadata  bool     // only metadata is relayed, no endpoint
	Paths     []string // further paths; a path that ends in * stands for all paths with this prefix
	Forwarded bool     // X-Forwarded-Host, -Proto and -For are added to requests

	Public  *url.URL // the URL by which clients know the MCP endpoint; nil for that of each request
	Rewrite bool     // the metadata of the protected resource says Public in place of the server's own URL

	// Copy, if not nil, reads the metadata of the authorization server that clients of 2025-03-26 get a copy of.
	Copy *oauth.MetadataReader

	TLS         *tls.Config                      // for the server; nil for Go's defaults
	Proxy       func(*url.URL) (*url.URL, error) // the web proxy for a URL; nil for none
	Dial        upstream.Dial                    // opens connections; nil for those of the system
	DialTimeout time.Duration                    // 0 for the system's
}

// A Relay forwards requests of OAuth clients to the server. It is safe for concurrent use.
type Relay struct {
	Config
	client *http.Client
	room   *semaphore.Weighted   // MiB
	reader *oauth.MetadataReader // reads what the server names, as a sign-in does

	learning singleflight.Group
	learned  learned
	copied   servedCopy
}

// New returns a Relay. It sends nothing yet.
func New(c Config) *Relay {
	t := &http.Transport{
		DialContext:        (&dial.Dialer{Timeout: c.DialTimeout, Network: c.Dial}).DialContext,
		TLSClientConfig:    c.TLS,
		DisableCompression: true, // what is compressed nevertheless is decoded: some of it is rewritten
		MaxIdleConns:       16, MaxConnsPerHost: maxInHand, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	if c.Proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return c.Proxy(r.URL) }
	}
	return &Relay{
		Config: c,
		room:   semaphore.NewWeighted(maxInHand),
		reader: oauth.NewMetadataReader(c.Server, c.Server.Scheme == "http", c.TLS, c.Dial), // it sends nothing secret over http
		client: &http.Client{Transport: unpack.Transport{RoundTripper: t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Close closes idle connections to the server. r may be nil.
func (r *Relay) Close() {
	if r != nil {
		r.client.CloseIdleConnections()
		r.reader.Close()
		if r.Copy != nil {
			r.Copy.Close()
		}
	}
}

// isPlain reports whether a path has nothing that servers may interpret in different ways.
func isPlain(path string) bool {
	low := strings.ToLower(path)
	for _, odd := range [...]string{"//", "\\", ";", "%2e", "%2f", "%5c"} {
		if strings.Contains(low, odd) {
			return false
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return false
		}
	}
	_, err := url.PathUnescape(path)
	return err == nil && strings.HasPrefix(path, "/")
}

// at returns the URL of a path, which is escaped, at the server's origin. Nothing in the path can lead to another host.
func (r *Relay) at(path, query string) (*url.URL, error) {
	plain, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("%.100q is no path of a URL", path)
	}
	return &url.URL{Scheme: r.Server.Scheme, Host: r.Server.Host, Path: plain, RawPath: path, RawQuery: query}, nil
}

func matches(pattern, path string) bool {
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, begin)
	}
	return path == pattern
}

const (
	wellKnown = "/.well-known/"
	openID    = wellKnown + "openid-configuration"
)

// metadata has the well-known names at the root. The path of what is described may follow each of them:
// https://www.rfc-editor.org/rfc/rfc9728#section-3.1, https://www.rfc-editor.org/rfc/rfc8414#section-3.1.
var metadata = [...]string{wellKnown + "oauth-protected-resource", wellKnown + "oauth-authorization-server", openID}

// IsMetadata reports whether OAuth clients look for metadata at a path.
func IsMetadata(path string) bool {
	_, _, ok := described(path)
	return ok
}

// described returns what the metadata at a path describes, "" for the origin as a whole, and a function that returns
// the path of the metadata of something else.
func described(path string) (what string, of func(what string) string, ok bool) {
	for _, name := range metadata {
		if rest, found := strings.CutPrefix(path, name); found && (rest == "" || rest[0] == '/') {
			return rest, func(what string) string { return name + what }, true
		}
	}
	// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfigurationRequest
	if what, found := strings.CutSuffix(path, openID); found {
		return what, func(what string) string { return what + openID }, true
	}
	return "", nil, false
}

// Say fills resp with plain text, because an OAuth client cannot read JSON-RPC.
func Say(resp *downstream.Response, status int, text string, more ...mcp.Header) {
	resp.Status, resp.Body = status, []byte(text+"\n")
	resp.Header = append([]mcp.Header{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}, more...)
}

// requestHeaders are the client's headers that are forwarded to the server.
var requestHeaders = [...]string{"Accept", "Content-Type", "Authorization", "MCP-Protocol-Version", "Cookie", "User-Agent", "DPoP", "Origin",
	"Access-Control-Request-Method", "Access-Control-Request-Headers"}

// dropped are the server's headers that are not forwarded: they are about its connection with dragoman, or dragoman's
// HTTP server writes its own.
var dropped = map[string]bool{"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Date": true, "Alt-Svc": true}

var (
	errTooLarge = errors.New("the answer of the server behind this proxy is too large")
	errFull     = errors.New("too many answers in memory")
)

// An answer is the server's response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends one request to the server's origin. It adds to took the MiB of r.room that it acquires.
func (r *Relay) ask(ctx context.Context, req *downstream.Request, path, query string, most int, took *int64) (*answer, error) {
	to, err := r.at(path, query)
	if err != nil {
		return nil, err
	}
	out, err := http.NewRequestWithContext(ctx, req.Method, "/", bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	out.URL, out.Host = to, to.Host
	out.Header["User-Agent"] = nil // otherwise net/http sends its own
	for _, name := range requestHeaders {
		if value := req.Header(name); value != "" {
			out.Header.Set(name, value)
		}
	}
	if r.Forwarded {
		scheme, host, _ := strings.Cut(req.Base, "://")
		out.Header.Set("X-Forwarded-Proto", scheme)
		out.Header.Set("X-Forwarded-Host", host)
		if _, err := netip.ParseAddr(req.Peer); err == nil { // a user of a unix socket is no address
			out.Header.Set("X-Forwarded-For", req.Peer)
		}
	}
	res, err := r.client.Do(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata+1))
	if err == nil && len(body) > maxMetadata && most > maxMetadata {
		const more = maxPage>>20 - 1
		if !r.room.TryAcquire(more) {
			return nil, errFull
		}
		*took += more
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(res.Body, int64(most-len(body))+1))
		body = append(body, rest...)
	}
	switch {
	case err != nil:
		return nil, err
	case len(body) > most:
		return nil, errTooLarge
	}
	return &answer{res.StatusCode, res.Header, body}, nil
}

// endpoints are those of a server that is its own authorization server.
type endpoints struct {
	urls []*url.URL
	// unlisted says that the server has no metadata at all. Its endpoints are then at the
	// paths in
	// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#fallbacks-for-servers-without-metadata-discovery.
	unlisted bool
}

// learned is the last result, and until when it is valid.
type learned struct {
	mu    sync.Mutex
	last  endpoints
	until time.Time
}

// servedCopy is the last result of reading an authorization server's metadata, and how long it is valid.
type servedCopy struct {
	mu    sync.Mutex
	last  copied
	until time.Time
}

type copied struct {
	document []byte // nil if the server names no authorization server, or that has no metadata
	err      error
}

// A CopyError says that clients of 2025-03-26 got no copy of the metadata of the authorization server.
type CopyError struct{ Err error }

func (e *CopyError) Error() string { return e.Err.Error() }

func (e *CopyError) Unwrap() error { return e.Err }
