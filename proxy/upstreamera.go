package proxy

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

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// eraSilence is how long a process may be silent when it is asked who it is, before
	// it is told initialize as well, and eraTime how long a server over HTTP may take:
	// servers with a handshake need not answer what comes before it.
	eraSilence = 3*time.Second - eraBreath
	eraTime    = 10 * time.Second
	// maxEras is for how many credentials it is remembered, and maxDiscovered how much
	// of what a server said of itself.
	maxEras       = 1024
	maxDiscovered = 64 << 10
	// spareTime is how long a process waits for the session that it was started for.
	spareTime = 10 * time.Second
)

// errShakesHands is what opening a connection without a handshake ends with, where
// servers have one by their transport.
var errShakesHands = errors.New("servers on this transport have a handshake")

// serverEra is what a server is: with a handshake, without, or both. It does not
// change.
type serverEra struct {
	// revision is the one without a handshake that it speaks, nil for none.
	revision *translate.Revision
	// shakes says that it takes initialize, as far as it is known to.
	shakes bool
	// handshake is the newest revision with a handshake that it has named, nil for none.
	handshake *translate.Revision
	// discovered is its DiscoverResult, to be read only; nil where there is none, and
	// where it is too large to be kept.
	discovered []byte
	// unsure says that this was concluded from a failure that may have been another's.
	unsure bool
}

// modern reports whether requests need no session.
func (e *serverEra) modern() bool { return e.revision != nil }

// eras are what was found out about the server, per credential: a gateway may have
// two of them served by two different servers. What is found out once is remembered
// until it turns out to be wrong. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type eraCache struct {
	srv *Server

	silence   time.Duration // eraSilence
	fallbacks fallbacks     // the older revisions that it accepted

	mu     sync.Mutex
	said   string               // of the server, in the log, last
	known  map[string]*eraEntry // by credential
	spare  *spareConn
	closed bool
}

// eraEntry is one of them, or what there will be.
type eraEntry struct {
	found chan struct{} // closed when era or err is there
	until time.Time     // it is good; zero for ever
	era   *serverEra
	err   error
	asked time.Time // last
}

// spareConn is the connection that a process was asked on, for the first session.
type spareConn struct {
	*upstream.Begun
	since time.Time
}

func newEraCache(srv *Server) *eraCache {
	return &eraCache{srv: srv, silence: eraSilence, known: make(map[string]*eraEntry)}
}

// upstreamEra is what the server is to a client whose headers for it these are.
// Where that is not known the server is asked, once for all callers. The
// error is that the server cannot be reached, does not let us in, or speaks only
// revisions that we do not.
func (srv *Server) upstreamEra(ctx context.Context, header []upstream.Header) (*serverEra, error) {
	p := srv.eras
	if e := p.fixed(); e != nil {
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
		srv.spawn(func() { p.find(at, who, header) })
	}
	at.asked = time.Now()
	p.mu.Unlock()
	select {
	case <-at.found:
		return at.era, at.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fixed is what the server is by its configuration or its transport; nil where it
// has to be asked.
func (p *eraCache) fixed() *serverEra {
	now := p.srv.now()
	if v := translate.Lookup(now.cfg.Upstream.Version); v != nil {
		if v.Modern {
			return &serverEra{revision: v}
		}
		return &serverEra{shakes: true, handshake: v}
	}
	if now.origin.open == nil {
		return &serverEra{shakes: true}
	}
	return nil
}

// credential is what the server knows a client by, in a form that is none itself.
func credential(header []upstream.Header) string {
	for _, h := range header {
		if strings.EqualFold(h.Name, "Authorization") {
			sum := sha256.Sum256([]byte(h.Value))
			return string(sum[:])
		}
	}
	return ""
}

// peek is what is known of the server without asking; nil for nothing.
func (p *eraCache) peek(header []upstream.Header) *serverEra {
	if e := p.fixed(); e != nil {
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

// note takes down what was found out in another way, and so is newer.
func (p *eraCache) note(header []upstream.Header, e *serverEra) {
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

// drop forgets e, which has turned out to be wrong, unless something else is known
// by now.
func (p *eraCache) drop(header []upstream.Header, e *serverEra) {
	who := credential(header)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.known[who]; at != nil && at.era == e {
		delete(p.known, who)
	}
}

// evict forgets what was not asked for the longest time. Called with p.mu held.
func (p *eraCache) evict() bool {
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

// forget is for another server behind the same configuration, or the same one
// reached in another way.
func (p *eraCache) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
	p.fallbacks.forget()
	p.endSpare()
}

// find asks the server, and lets those know who wait.
func (p *eraCache) find(at *eraEntry, who string, header []upstream.Header) {
	srv := p.srv
	var e *serverEra
	var b *upstream.Begun
	err := error(mcp.Fail(mcp.Panicked, ""))
	defer func() {
		if r := recover(); r != nil {
			srv.panicked(r)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		at.era, at.err = e, err
		current := p.known[who] == at
		switch {
		case !current:
		case err != nil:
			delete(p.known, who)
		case e.unsure: // the session that is begun now will know
			at.until = time.Now().Add(eraTime)
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
	e, b, err = p.ask(srv.draining, header)
	if err == nil && !e.unsure {
		srv.log.Log(p.logLevel(e), "server identified", e.fields()...)
	}
}

// newsLevel is how loud it is said what the server is: not for every credential,
// as long as it is the same.
func (p *eraCache) logLevel(e *serverEra) zapcore.Level {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what := fmt.Sprint(e.modern(), e.shakes); what != p.said {
		p.said = what
		return zap.InfoLevel
	}
	return zap.DebugLevel
}

// fields say what e is in a log.
func (e *serverEra) fields() (f []zap.Field) {
	if e.modern() {
		f = append(f, zap.String("without_handshake", e.revision.Name))
	}
	return append(f, zap.Bool("handshake", e.shakes))
}

// letSpare ends the connection that no session has taken. Called with p.mu held.
func (p *eraCache) endSpare() {
	if b := p.spare; b != nil {
		p.spare = nil
		p.srv.spawn(func() { p.srv.endBegun(b.Begun) })
	}
}

func (srv *Server) endBegun(b *upstream.Begun) {
	if b.Standing != nil {
		b.Standing.Close()
	}
	srv.endConn(b.Conn)
}

// take is the process that was asked who it is, nil for none. It is the caller's, and
// counted for the client behind ctx.
func (p *eraCache) takeSpare(ctx context.Context) *upstream.Begun {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.spare
	p.spare = nil
	if b == nil {
		return nil
	}
	if c, ok := b.Conn.(*process); ok {
		c.place.Move(ctx)
	}
	return b.Begun
}

// tend ends a process that no session has taken.
func (p *eraCache) endSpareSince(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare != nil && now.Sub(p.spare.since) >= spareTime {
		p.endSpare()
	}
}

func (p *eraCache) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.endSpare()
}

// ask finds out what the server is. b is the process that it was asked on and that
// goes on, nil for none.
func (p *eraCache) ask(ctx context.Context, header []upstream.Header) (e *serverEra, b *upstream.Begun, err error) {
	b, err = p.srv.now().origin.open(ctx)
	switch {
	case errors.Is(err, errShakesHands):
		return &serverEra{shakes: true}, nil, nil
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
	if err != nil || !piped || r.greeted { // over HTTP the next one costs nothing
		p.srv.endBegun(b)
		b = nil
	}
	m := r.m
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case isInconclusive(code), upstream.NeverSent(err):
		return nil, nil, err // initialize would end in the same way
	case piped && tookTooLong(err):
		return nil, nil, err // it has
	case r.begun:
		if e, err = concludeBegun(m); err == nil && m.Kind == wire.Result && e.shakes {
			p.srv.count(silentEarly)
		}
	case err == nil, code < 500 && m != nil:
		if e, err = conclude(m, code); err == nil && m.Kind == wire.Error && e.handshake != nil {
			p.srv.count(legacyList)
		}
	default:
		if _, exited := errors.AsType[*upstream.ExitError](err); exited {
			p.srv.count(exitsEarly)
		}
		e, err = &serverEra{shakes: true, unsure: !piped && (code == 0 || code >= 500)}, nil
	}
	if err != nil && b != nil {
		p.srv.endBegun(b)
		b = nil
	}
	return e, b, err
}

// saysNothing reports whether a status is about who asks, or when, or comes from who
// stands before the server.
func isInconclusive(code int) bool {
	switch code {
	case 401, 403, 407, 408, 429, 502, 503, 504:
		return true
	}
	return false
}

// discover sends server/discover over HTTP. m is the answer; with an HTTP status, of
// this code, it is the error in its body, nil for none, and err is the status. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (p *eraCache) discover(ctx context.Context, b *upstream.Begun, header []upstream.Header) (m *wire.Message, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, eraTime)
	defer cancel()
	h := &handshake{srv: p.srv, conn: b.Conn, header: header}
	h.greetModern()
	o := &upstream.Outgoing{Request: true, FirstByte: eraTime, Body: h.sent}
	o.Header = slices.DeleteFunc(slices.Clone(header), ofMessage)
	o.Header = append(o.Header, upstream.Header{Name: "Mcp-Method", Value: wire.ServerDiscover.String()})
	st, err := b.Conn.Send(ctx, o)
	if err == nil {
		defer st.Close()
		m, err = h.await(ctx, st)
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		m = new(wire.Message)
		if m.Scan(bytes.Clone(status.Body), nil) != nil || m.Kind != wire.Error {
			m = nil
		}
		return m, status.Code, err
	}
	return m, 0, err
}

// greetModern makes server/discover, for no client, the first request of h.
func (h *handshake) greetModern() {
	h.id = []byte(`"dragoman:era"`)
	h.sent = mcp.Request(h.id, wire.ServerDiscover, fmt.Sprintf(`{"_meta":{%q:%q,%q:%s,%q:{}}}`, modernKey, translate.Modern(), metaClient, mcp.Us, metaCapabilities))
}

// ofMessage reports whether a header is about the message that it came with.
func ofMessage(h upstream.Header) bool {
	const prefix = "Mcp-"
	return len(h.Name) > len(prefix) && strings.EqualFold(h.Name[:len(prefix)], prefix)
}

// conclude is what an answer to server/discover tells of who gave it; code is that
// of HTTP, 0 for success. No single error decides: servers with a handshake have
// all kinds of them for what comes before it.
func conclude(m *wire.Message, code int) (*serverEra, error) {
	if m.Kind == wire.Result {
		names := gjson.Get(view(m.Result()), "supportedVersions")
		modern, handshake, _ := spokenOf(names)
		e := &serverEra{revision: modern, shakes: modern == nil || handshake != nil, handshake: handshake}
		if modern != nil && len(m.Result()) <= maxDiscovered {
			e.discovered = bytes.Clone(m.Result())
		}
		return e, nil
	}
	said := gjson.Parse(view(m.Error()))
	modern, handshake, others := spokenOf(said.Get("data.supported"))
	switch rpc := said.Get("code").Int(); {
	case rpc == mcp.CodeUnsupportedVersion && handshake == nil && modern == nil && others != "":
		return nil, mcp.Fail(mcp.UpstreamModern, others)
	case rpc == mcp.CodeUnsupportedVersion && (handshake != nil || modern != nil):
		return &serverEra{revision: modern, shakes: handshake != nil, handshake: handshake}, nil
	case rpc == int64(mcp.HeaderMismatch.Code()), rpc == int64(mcp.CapabilityMissing.Code()),
		(rpc == mcp.CodeInvalidParams || rpc == mcp.CodeMethodNotFound) && (code == 400 || code == 404) && strings.Contains(said.Raw, modernPrefix):
		return &serverEra{revision: translate.Lookup(translate.Modern())}, nil
	}
	return &serverEra{shakes: true}, nil
}

// spokenOf are the newest revisions of each kind in a list of names that we speak,
// nil for none, and the first few that we do not.
func spokenOf(names gjson.Result) (modern, handshake *translate.Revision, others string) {
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
		case !r.Modern && (handshake == nil || newer(r, handshake)):
			handshake = r
		}
		return true
	})
	return modern, handshake, strings.Join(unknown, ", ")
}
