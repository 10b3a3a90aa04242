package era

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// eraSilence is how long a process may leave server/discover unanswered before it is sent
	// initialize as well. askTime is how long a server over HTTP may take to answer it.
	// Handshake servers need not answer requests before initialize.
	eraSilence = 3*time.Second - eraBreath
	askTime    = 10 * time.Second
	// maxEras is for how many credentials the era is remembered. maxDiscovered is the largest
	// DiscoverResult that is kept, in bytes.
	maxEras       = 1024
	maxDiscovered = 64 << 10
	// spareTime is how long a process that was started to find out the era waits for a session.
	spareTime = 10 * time.Second
)

// ErrHandshakeOnly is returned when a connection is opened without a handshake, over a transport on which every
// server requires one.
var ErrHandshakeOnly = errors.New("servers on this transport have a handshake")

// An Era says whether a server is a handshake server, a modern server, or both. It is
// immutable.
type Era struct {
	// Revision is the modern revision that the server speaks, or nil if it speaks none.
	Revision *translate.Revision
	// Handshake says that the server accepts initialize, as far as that is known.
	Handshake bool
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
func (e *Era) WithoutHandshake() bool { return e.Modern() && !e.Handshake }

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

// NeedsNoSession reports whether requests with these headers need no session. The error is set only if the server took too long
// to answer. If the era cannot be found out for another reason, NeedsNoSession returns false, and a request through a
// session reports that reason.
func (p *Cache) NeedsNoSession(ctx context.Context, header []upstream.Header) (bool, error) {
	e, err := p.Of(ctx, header)
	if TookTooLong(err) {
		return false, err
	}
	return err == nil && e.Modern(), nil
}

// A Cache holds the server's era for each credential: behind a gateway, clients with different
// credentials may get different servers. An era is remembered until it turns out to be wrong. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type Cache struct {
	host    *host.Host
	open    func() func(context.Context) (*upstream.Begun, error)
	Silence time.Duration // how long a process may be silent before it is sent initialize as well; set before the first use

	AskTime time.Duration // how long a server may take to answer server/discover if it may have a handshake instead; set before the first use

	fallbacks fallbacks

	mu     sync.Mutex
	said   string               // the era that was logged last
	known  map[string]*eraEntry // by credential
	spare  *spareConn
	closed bool
}

// An eraEntry is the era for one credential, or the attempt to find it out.
type eraEntry struct {
	found chan struct{} // closed when era or err is set
	until time.Time     // when the entry expires; zero for never
	era   *Era
	err   error
	asked time.Time // when the entry was last used
}

// A spareConn is the connection to the process that was asked for its era. The first session uses it.
type spareConn struct {
	*upstream.Begun
	since time.Time
}

// Of returns the server's era for a client whose headers for the server are header.
// If it is not known, the server is asked, once for all callers. The
// error says that the server cannot be reached, refuses access, or speaks only
// revisions that dragoman does not know, or that there are too many credentials.
func (p *Cache) Of(ctx context.Context, header []upstream.Header) (*Era, error) {
	if e := p.Fixed(); e != nil {
		return e, nil
	}
	who := credential(header)
	p.mu.Lock()
	at := p.known[who]
	if at == nil || !at.until.IsZero() && time.Now().After(at.until) {
		if len(p.known) >= maxEras && !p.evict() {
			p.mu.Unlock()
			return nil, mcp.Fail(mcp.TooManySessions, "")
		}
		at = &eraEntry{found: make(chan struct{})}
		p.known[who] = at
		header := append([]upstream.Header(nil), header...)
		p.host.Spawn(func() { p.find(at, who, header) })
	}
	at.asked = time.Now()
	p.mu.Unlock()
	select {
	case <-at.found:
		return at.era, at.err
	default: // only now is the channel of ctx needed
	}
	select {
	case <-at.found:
		return at.era, at.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Fixed returns the era that follows from the configuration or the transport, or nil if the server
// must be asked.
func (p *Cache) Fixed() *Era {
	if e := named[p.host.Config().Upstream.Version]; e != nil {
		return e
	}
	if p.open() == nil {
		return &handshakeOnly
	}
	return nil
}

// handshakeOnly is the era of every server on a transport that requires a handshake, and named has that of a server of
// one revision, by the revision's name.
var (
	handshakeOnly = Era{Handshake: true}
	named         = func() map[string]*Era {
		all := make(map[string]*Era)
		for _, v := range translate.All() {
			if all[v.Name] = (&Era{Handshake: true, Newest: v}); v.Modern {
				all[v.Name] = &Era{Revision: v}
			}
		}
		return all
	}()
)

// credential returns a hash of the client's Authorization header, or "" if there is none: the hash cannot
// be used as a credential.
func credential(header []upstream.Header) string {
	for _, h := range header {
		if strings.EqualFold(h.Name, "Authorization") {
			sum := sha256.Sum256([]byte(h.Value))
			return string(sum[:])
		}
	}
	return ""
}

// Asking returns the context for server/discover at the beginning of a session. The context ends after
// AskTime, unless the server is known to have no handshake: there is no other request to try with it.
func (p *Cache) Asking(ctx context.Context, header []upstream.Header) (context.Context, context.CancelFunc) {
	if e := p.Peek(header); e != nil && e.Modern() && !e.Handshake && !e.Unsure {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.AskTime)
}

// Peek returns the era if it is known without asking the server, else nil.
func (p *Cache) Peek(header []upstream.Header) *Era {
	if e := p.Fixed(); e != nil {
		return e
	}
	who := credential(header)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.known[who]; at != nil && at.era != nil && at.until.IsZero() {
		at.asked = time.Now()
		return at.era
	}
	return nil
}

// Note replaces the stored era by e, which the caller has found out without the cache.
func (p *Cache) Note(header []upstream.Header, e *Era) {
	who := credential(header)
	found := make(chan struct{})
	close(found)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[who] == nil && len(p.known) >= maxEras && !p.evict() {
		return
	}
	p.known[who] = &eraEntry{found: found, era: e, asked: time.Now()}
}

// Drop forgets e, which has turned out to be wrong, unless another era has replaced it already.
func (p *Cache) Drop(header []upstream.Header, e *Era) {
	who := credential(header)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.known[who]; at != nil && at.era == e {
		delete(p.known, who)
	}
}

// evict forgets the entry that was not used for the longest time, and returns false if there is none that can be
// forgotten. The caller holds p.mu.
func (p *Cache) evict() bool {
	oldest := ""
	var since time.Time
	for who, at := range p.known {
		if (at.era != nil || at.err != nil) && (since.IsZero() || at.asked.Before(since)) {
			oldest, since = who, at.asked
		}
	}
	delete(p.known, oldest)
	return !since.IsZero()
}

// Forget forgets all eras. It is called if the server was replaced, or if a reload has changed how it is reached.
func (p *Cache) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
	p.fallbacks.forget()
	p.endSpare()
}

// find asks the server, stores its era in at, and wakes the callers that wait for it.
func (p *Cache) find(at *eraEntry, who string, header []upstream.Header) {
	var e *Era
	var b *upstream.Begun
	err := error(mcp.Fail(mcp.Panicked, ""))
	defer func() {
		if r := recover(); r != nil {
			p.host.Report.Panicked(r)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		at.era, at.err = e, err
		current := p.known[who] == at
		switch {
		case !current:
		case err != nil:
			delete(p.known, who)
		case e.Unsure: // the handshake that follows will show the era
			at.until = time.Now().Add(askTime)
		}
		if b != nil {
			p.endSpare()
			p.spare = &spareConn{b, time.Now()}
			if p.closed || !current {
				p.endSpare()
			}
		}
		close(at.found)
	}()
	e, b, err = p.ask(p.host.Draining, header)
	if err == nil && !e.Unsure {
		p.host.Log.Log(p.logLevel(e), "server identified", e.fields()...)
	}
}

// logLevel returns the level for logging e: info if it differs from the era that was logged last, else debug, so
// that not every credential causes a line.
func (p *Cache) logLevel(e *Era) zapcore.Level {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what := fmt.Sprint(e.Modern(), e.Handshake); what != p.said {
		p.said = what
		return zap.InfoLevel
	}
	return zap.DebugLevel
}

// fields returns the log fields that describe e.
func (e *Era) fields() (f []zap.Field) {
	if e.Modern() {
		f = append(f, zap.String("without_handshake", e.Revision.Name))
	}
	return append(f, zap.Bool("handshake", e.Handshake))
}

// endSpare ends the connection that no session has taken, if there is one. The caller holds p.mu.
func (p *Cache) endSpare() {
	if b := p.spare; b != nil {
		p.spare = nil
		p.host.Spawn(func() { server.EndBegun(b.Begun, p.host.Log) })
	}
}

// TakeSpare returns the connection to the process that was asked for its era, or nil if there is none. The
// caller owns the connection from then on, and the process is counted for the client in ctx.
func (p *Cache) TakeSpare(ctx context.Context) *upstream.Begun {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.spare
	p.spare = nil
	if b == nil {
		return nil
	}
	if b.Move != nil {
		b.Move(ctx)
	}
	return b.Begun
}

// EndSpareSince ends the process that was asked for its era if no session has taken it for spareTime. now is
// the current time.
func (p *Cache) EndSpareSince(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare != nil && now.Sub(p.spare.since) >= spareTime {
		p.endSpare()
	}
}

// Close ends the spare connection, and makes the cache keep no other.
func (p *Cache) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.endSpare()
}

// ask finds out the server's era. b is the process that was asked, if a session can still use it, else nil.
func (p *Cache) ask(ctx context.Context, header []upstream.Header) (e *Era, b *upstream.Begun, err error) {
	b, err = p.open()(ctx)
	switch {
	case errors.Is(err, ErrHandshakeOnly):
		return &Era{Handshake: true}, nil, nil
	case err != nil:
		return nil, nil, err
	}
	piped := b.Standing != nil
	var r eraAnswer
	code := 0
	if piped {
		r, err = p.askProcess(ctx, b)
	} else {
		r.m, code, err = p.discover(ctx, b, header)
	}
	if err != nil || !piped || r.greeted { // over HTTP another connection costs nothing
		server.EndBegun(b, p.host.Log)
		b = nil
	}
	m := r.m
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case Inconclusive(code), upstream.NeverSent(err), errors.As(err, new(*upstream.CredentialError)):
		return nil, nil, err // initialize would fail in the same way
	case piped && TookTooLong(err):
		return nil, nil, err // the process has already had initialize and has not answered it either
	case r.begun:
		if e, err = concludeBegun(m); err == nil && m.Kind == wire.Result && e.Handshake {
			p.host.Report.Quirk(report.SilentEarly)
		}
	case err == nil, code < 500 && m != nil:
		if e, err = conclude(m, code); err == nil && m.Kind == wire.Error && e.Newest != nil {
			p.host.Report.Quirk(report.LegacyList)
		}
	default:
		if _, exited := errors.AsType[*upstream.ExitError](err); exited {
			p.host.Report.Quirk(report.ExitsEarly)
		}
		e, err = &Era{Handshake: true, Unsure: !piped && (code == 0 || code >= 500)}, nil
	}
	if err != nil && b != nil {
		server.EndBegun(b, p.host.Log)
		b = nil
	}
	return e, b, err
}

// Inconclusive reports whether an HTTP status says nothing about the server's era: it is about the
// credential or the load, or may come from a gateway.
func Inconclusive(code int) bool {
	switch code {
	case 401, 403, 407, 408, 429, 502, 503, 504:
		return true
	}
	return false
}

// discover sends server/discover over HTTP. m is the response. If the server answers with an error status,
// code is that status, err is a *upstream.StatusError, and m is the JSON-RPC error in the body, or nil. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (p *Cache) discover(ctx context.Context, b *upstream.Begun, header []upstream.Header) (m *wire.Message, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime+p.host.Config().Upstream.Auth.Patience())
	defer cancel()
	h := &server.Opening{Of: p.host, Begun: *b, Header: header}
	Discover(h)
	o := &upstream.Outgoing{Request: true, FirstByte: askTime, Body: h.Sent}
	o.Header = slices.DeleteFunc(slices.Clone(header), ofMessage)
	o.Header = append(o.Header, upstream.Header{Name: "Mcp-Method", Value: wire.ServerDiscover.String()})
	span := telemetry.Ask(ctx, o, translate.Modern())
	st, err := b.Conn.Send(ctx, o)
	if err == nil {
		defer st.Close()
		m, err = h.Await(ctx, st)
	}
	span.Answered(m)
	span.Done(err)
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		m = new(wire.Message)
		if m.Scan(bytes.Clone(status.Body), nil) != nil || m.Kind != wire.Error {
			m = nil
		}
		return m, status.Code, err
	}
	return m, 0, err
}

// Discover sets the first request of h to a server/discover with dragoman's own clientInfo. It sends nothing.
func Discover(h *server.Opening) {
	h.ID = []byte(`"dragoman:era"`)
	h.Sent = mcp.Request(h.ID, wire.ServerDiscover, fmt.Sprintf(`{"_meta":{%q:%q,%q:%s,%q:{}}}`, mcp.MetaVersion, translate.Modern(), mcp.MetaClient, mcp.Us, mcp.MetaCapabilities))
}

// ofMessage reports whether a header describes the message that it came with, as Mcp-Method does.
func ofMessage(h upstream.Header) bool {
	const prefix = "Mcp-"
	return len(h.Name) > len(prefix) && strings.EqualFold(h.Name[:len(prefix)], prefix)
}

// conclude returns the era of the server that has answered server/discover with m. code is the HTTP
// status, 0 for success. Most errors mean a handshake server: such servers answer a request
// before initialize with all kinds of errors.
func conclude(m *wire.Message, code int) (*Era, error) {
	if m.Kind == wire.Result {
		names := gjson.Get(wire.View(m.Result()), "supportedVersions")
		modern, handshake, _ := Named(names)
		e := &Era{Revision: modern, Handshake: modern == nil || handshake != nil, Newest: handshake}
		if modern != nil && len(m.Result()) <= maxDiscovered {
			e.Discovered = bytes.Clone(m.Result())
		}
		return e, nil
	}
	said := gjson.Parse(wire.View(m.Error()))
	modern, handshake, others := Named(said.Get("data.supported"))
	switch rpc := said.Get("code").Int(); {
	case rpc == mcp.CodeUnsupportedVersion && handshake == nil && modern == nil && others != "":
		return nil, mcp.Fail(mcp.UpstreamModern, others)
	case rpc == mcp.CodeUnsupportedVersion && (handshake != nil || modern != nil):
		return &Era{Revision: modern, Handshake: handshake != nil, Newest: handshake}, nil
	case rpc == int64(mcp.HeaderMismatch.Code()), rpc == int64(mcp.CapabilityMissing.Code()),
		(rpc == mcp.CodeInvalidParams || rpc == mcp.CodeMethodNotFound) && (code == 400 || code == 404) && strings.Contains(said.Raw, mcp.MetaPrefix):
		return &Era{Revision: translate.Lookup(translate.Modern())}, nil
	}
	return &Era{Handshake: true}, nil
}

// Named returns, of a list of revision names, a modern revision and the newest handshake revision
// that dragoman knows, nil if there is none, and the first few names that it does not know.
func Named(names gjson.Result) (modern, handshake *translate.Revision, others string) {
	if !names.IsArray() {
		return nil, nil, ""
	}
	var unknown []string
	names.ForEach(func(_, v gjson.Result) bool {
		switch r := translate.Lookup(v.String()); {
		case r == nil && len(unknown) < 4:
			unknown = append(unknown, fmt.Sprintf("%.32s", v.String()))
		case r == nil:
		case r.Modern:
			modern = r
		case !r.Modern && (handshake == nil || r.Newer(handshake)):
			handshake = r
		}
		return true
	})
	return modern, handshake, strings.Join(unknown, ", ")
}
