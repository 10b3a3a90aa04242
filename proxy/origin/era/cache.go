package era

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Of returns the server's era for a client whose headers for the server are header.
// If it is not known, the server is asked, once for all callers. The
// error says that the server cannot be reached, refuses access, or speaks only
// revisions that dragoman does not know, or that there are too many credentials.
func (p *Cache) Of(ctx context.Context, header []mcp.Header) (*Era, error) {
	return p.OfFor(ctx, header, Introduction(translate.Latest()))
}

// Introduction returns dragoman's own initialize for a process, with the id 0. A process that clients share begins with it, too.
func Introduction(v *translate.Revision) []byte { return mcp.Initialize("0", v.Name, "{}", mcp.Us) }

// OfFor is Of for a caller that begins a session with initialize next. If the server is a process that was sent that request to
// find out its era, the session goes on with it: see [Cache.TakeSpare].
func (p *Cache) OfFor(ctx context.Context, header []mcp.Header, initialize []byte) (*Era, error) {
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
		header := append([]mcp.Header(nil), header...)
		p.host.Spawn(func() { p.find(at, who, header, initialize) })
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
	handshakeOnly = Era{Handshake: Accepted}
	named         = func() map[string]*Era {
		all := make(map[string]*Era)
		for _, v := range translate.All() {
			if all[v.Name] = (&Era{Handshake: Accepted, Newest: v}); v.Modern {
				all[v.Name] = &Era{Revision: v, Handshake: Refused}
			}
		}
		return all
	}()
)

// Asking returns the context for server/discover at the beginning of a session. The context ends after
// AskTime, unless the server is known to have no handshake: there is no other request to try with it.
func (p *Cache) Asking(ctx context.Context, header []mcp.Header) (context.Context, context.CancelFunc) {
	if e := p.Peek(header); e.WithoutHandshake() && !e.Unsure {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.AskTime)
}

// Peek returns the era if it is known without asking the server, else nil.
func (p *Cache) Peek(header []mcp.Header) *Era {
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
func (p *Cache) Note(header []mcp.Header, e *Era) {
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

// Prove notes how the server has taken initialize, if its era is known and that is not.
func (p *Cache) Prove(header []mcp.Header, how Handshake) {
	if p.Fixed() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.known[credential(header)]; at != nil && at.era != nil && at.era.Handshake == Untried {
		e := *at.era
		e.Handshake = how
		at.era = &e
	}
}

// Saw forgets the era of a server whose name or version differs from those that an earlier session has seen: what was
// proved of it need not hold for another version. info is its serverInfo, raw JSON, "" if it says none.
func (p *Cache) Saw(header []mcp.Header, info string) {
	server := identity(info)
	if server == "" || p.Fixed() != nil {
		return
	}
	who := credential(header)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch at := p.known[who]; {
	case at == nil || at.era == nil:
	case at.server == "":
		at.server = server
	case at.server != server:
		delete(p.known, who)
	}
}

// Drop forgets e, which has turned out to be wrong, unless another era has replaced it already.
func (p *Cache) Drop(header []mcp.Header, e *Era) {
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
func (p *Cache) find(at *eraEntry, who string, header []mcp.Header, initialize []byte) {
	var e *Era
	var spare *spareConn
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
		if spare != nil {
			p.endSpare()
			spare.since = time.Now()
			p.spare = spare
			if p.closed || !current {
				p.endSpare()
			}
		}
		close(at.found)
	}()
	e, spare, err = p.ask(p.host.Serving, header, initialize)
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
	return append(f, zap.Stringer("handshake", e.Handshake))
}

// endSpare ends the connection that no session has taken, if there is one. The caller holds p.mu.
func (p *Cache) endSpare() {
	if b := p.spare; b != nil {
		p.spare = nil
		p.host.Spawn(func() { pipes.EndBegun(b.Begun, p.host.Log) })
	}
}

// TakeSpare returns the connection to the process that was asked for its era, or nil if there is none for a caller that
// sends initialize next; nil if it sends none. greeted says that this request was sent already. The
// caller owns the connection from then on, and the process is counted for the client in ctx.
func (p *Cache) TakeSpare(ctx context.Context, initialize []byte) (_ *upstream.Begun, greeted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.spare
	if b == nil {
		return nil, false
	}
	if b.greeted != nil && !bytes.Equal(b.greeted, initialize) {
		p.endSpare()
		return nil, false
	}
	p.spare = nil
	if b.Move != nil {
		b.Move(ctx)
	}
	return b.Begun, b.greeted != nil
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
