// Package era finds out and remembers which era the server is of: whether it has the initialize handshake,
// is of a revision without one ("modern"), or serves both.
//
//   - era.go: what is remembered; cache.go: the era for each credential, found out once and kept until it turns out to be wrong;
//   - ask.go: how a server is asked; a process may answer nothing before initialize;
//   - answers.go: what is proved by a response to initialize;
//   - memory.go: what a command was in earlier processes of dragoman, so that a slow one is started once;
//   - shake.go: how a server that names no revision with a handshake is tried;
//   - changed.go: what makes a refusal doubtful, so that the server is asked again;
//   - proposal.go: the revisions that initialize proposes, one after the other.
package era

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	// eraSilence is how long a process may leave server/discover unanswered before it is sent
	// initialize as well. askTime is how long a server over HTTP may take to answer it.
	// Handshake servers need not answer requests before initialize.
	eraSilence = 3*time.Second - eraBreath
	askTime    = 10 * time.Second
	// eraBreath is how long the second of the responses to server/discover and initialize is awaited after
	// the first: some servers handle several requests at once.
	eraBreath = 250 * time.Millisecond
	// maxEras is for how many credentials the era is remembered. maxDiscovered is the largest
	// DiscoverResult that is kept, in bytes.
	maxEras       = 1024
	maxDiscovered = 64 << 10
	// spareTime is how long a process that was started to find out the era waits for a session.
	spareTime = 10 * time.Second
)

// ServerInfo is where a DiscoverResult names the server.
var ServerInfo = "_meta." + strings.ReplaceAll(mcp.MetaServer, ".", `\.`)

// ErrHandshakeOnly is returned when a connection is opened without a handshake, over a transport on which every
// server requires one.
var ErrHandshakeOnly = errors.New("servers on this transport have a handshake")

// An Era says whether a server is a handshake server, a modern server, or both. It is
// immutable.
type Era struct {
	// Revision is the modern revision that the server speaks, or nil if it speaks none.
	Revision *translate.Revision
	// Handshake says whether the server accepts initialize.
	Handshake Handshake
	// Newest is the newest revision with a handshake that the server has named, or nil if it has
	// named none.
	Newest *translate.Revision
	// Discovered is the server's DiscoverResult, which must not be modified. It is nil if there is none, or
	// if it is too large to be kept.
	Discovered []byte
	// Unsure says that the era was concluded from a failure that may have another cause.
	Unsure bool
}

// Modern reports whether requests need no session. It may be called on nil, for an unknown era.
func (e *Era) Modern() bool { return e != nil && e.Revision != nil }

// WithoutHandshake reports whether the server is known to refuse initialize. It may be called on nil.
func (e *Era) WithoutHandshake() bool { return e.Modern() && e.Handshake == Refused }

// A Handshake is what is known of how a server takes initialize. Only its response proves that: a server of both eras need not
// name in its DiscoverResult the revisions that initialize negotiates.
type Handshake int

const (
	Untried Handshake = iota
	Accepted
	Refused
)

func (h Handshake) String() string { return [...]string{"untried", "accepted", "refused"}[h] }

// Supported returns the names of the supported revisions that a modern server lists. It may be called on nil.
func (e *Era) Supported() (names []string) {
	if !e.Modern() {
		return nil
	}
	for _, v := range gjson.GetBytes(e.Discovered, "supportedVersions").Array() {
		if translate.Lookup(v.String()) != nil {
			names = append(names, v.String())
		}
	}
	if names == nil {
		names = []string{e.Revision.Name}
	}
	return names
}

// A Cache holds the server's era for each credential: behind a gateway, clients with different
// credentials may get different servers. An era is remembered until it turns out to be wrong. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type Cache struct {
	host    *host.Host
	open    func() func(context.Context) (*upstream.Begun, error)
	Silence time.Duration // how long a process may be silent before it is sent initialize as well; set before the first use

	AskTime time.Duration // how long a server may take to answer server/discover if it may have a handshake instead; set before the first use

	Memory Memory // of a server that is a process; set before the first use

	fallbacks fallbacks

	mu     sync.Mutex
	said   string               // the era that was logged last
	known  map[string]*eraEntry // by credential
	spare  *spareConn
	closed bool
}

// New returns an empty Cache. open returns the function that opens a connection without sending a message, or
// nil if servers on the transport are known to have a handshake; that function returns ErrHandshakeOnly if it
// finds that out.
func New(h *host.Host, open func() func(context.Context) (*upstream.Begun, error)) *Cache {
	return &Cache{host: h, open: open, Silence: eraSilence, AskTime: askTime, Memory: Forgetful{}, known: make(map[string]*eraEntry)}
}

// An eraEntry is the era for one credential, or the attempt to find it out.
type eraEntry struct {
	found chan struct{} // closed when era or err is set
	until time.Time     // when the entry expires; zero for never
	era   *Era
	err   error
	asked time.Time // when the entry was last used

	server string // the server's name and version, as a session has seen them; "" before
}

// A spareConn is the connection to the process that was asked for its era. The first session uses it.
type spareConn struct {
	*upstream.Begun
	greeted []byte // the initialize that was sent, whose response Standing gives first; nil for none
	since   time.Time
}

// fallback is the older revision that a server has accepted after it had refused the newest one.
type fallback struct {
	accepted *translate.Revision
	server   string // serverInfo; another one means that the server was replaced
}

// fallbacks holds the fallback for each credential.
type fallbacks struct {
	mu    sync.Mutex
	known map[string]*fallback // by credential
}

// of returns the fallback for a client with these headers, or nil.
func (k *fallbacks) of(header []mcp.Header) *fallback {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[credential(header)]
}

func (k *fallbacks) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
}

func (k *fallbacks) set(whose string, f *fallback) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f == nil {
		delete(k.known, whose)
		return
	}
	if k.known == nil || len(k.known) >= maxEras {
		k.known = make(map[string]*fallback)
	}
	k.known[whose] = f
}

// credential returns a hash of the client's Authorization header, or "" if there is none: the hash cannot
// be used as a credential.
func credential(header []mcp.Header) string {
	for _, h := range header {
		if strings.EqualFold(h.Name, "Authorization") {
			sum := sha256.Sum256([]byte(h.Value))
			return string(sum[:])
		}
	}
	return ""
}
