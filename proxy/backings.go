package proxy

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// backings are the sessions held for clients that have none. Their number is
// bounded, and each ends when nobody used it for a while.
type backings struct {
	srv *Server

	mu     sync.Mutex
	byKey  map[backingKey][]*backing
	count  int
	held   map[string]int // sessions of each principal
	shares share          // of sessions in use

	looseTime time.Duration // how long questions wait for a call to belong to
}

func newBackings(srv *Server) *backings {
	return &backings{srv: srv, byKey: make(map[backingKey][]*backing), held: make(map[string]int), looseTime: looseTime}
}

// maxSelf is how much a client may say of itself, and of what it can do: a session that
// is held for it remembers that.
const maxSelf = 16 << 10

// get returns a session for q, which is in use until put. Not every server says
// in which call it asks its client something: each call in which it may has the
// session to itself among such calls.
func (p *backings) get(ctx context.Context, q *modernRequest, who string, header []upstream.Header) (*backing, error) {
	for name, said := range map[string][]byte{metaClient: q.client, metaCapabilities: q.capabilities} {
		if len(said) > maxSelf {
			f := fail(metaInvalid, "")
			f.text += ": " + name
			return nil, f
		}
	}
	key := backingKey{principal: who, client: string(q.client), capabilities: string(q.capabilities)}
	if p.srv.isOurs(q) {
		direct, err := p.srv.isDirect(ctx, header)
		if err != nil {
			return nil, err
		}
		if direct {
			key.kind = toolless
		}
	}
	b, err := p.hold(ctx, key, q, header)
	if err == nil && (q.canBeAsked() || b.wantsLogs(q)) { // servers ask for roots as a session begins
		b.hear(ctx, p.srv, header)
	}
	return b, err
}

// direct returns what stands for the server where it needs no session, in use until
// let go.
func (p *backings) direct(ctx context.Context, q *modernRequest, who string, header []upstream.Header) (*backing, error) {
	return p.hold(ctx, backingKey{kind: straight, principal: who}, q, header)
}

// hold finds or opens the session of a key.
func (p *backings) hold(ctx context.Context, key backingKey, q *modernRequest, header []upstream.Header) (*backing, error) {
	asks := key.kind != straight && q.mayAsk()
	b, made, err := p.take(key, asks)
	if err != nil {
		return nil, err
	}
	if made {
		header, q := append([]upstream.Header(nil), header...), q.own()
		p.srv.spawn(func() { p.open(b, q, header) })
	}
	select {
	case <-b.opening:
	case <-ctx.Done():
		p.let(b, asks)
		return nil, context.Cause(ctx)
	}
	if b.err != nil {
		p.let(b, asks)
		return nil, b.err
	}
	return b, nil
}

// take finds a session for key, or enters one that is yet to be opened.
func (p *backings) take(key backingKey, asks bool) (b *backing, made bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.srv.now().cfg.Bridge.MaxSessions
	for _, b := range p.byKey[key] {
		if b.dead || asks && b.asking > 0 {
			continue
		}
		if b.uses == 0 && !p.shares.take(key.principal, most) {
			return nil, false, fail(tooManySessions, "")
		}
		b.use(asks)
		return b, false, nil
	}
	if !p.shares.take(key.principal, most) {
		return nil, false, fail(tooManySessions, "")
	}
	if p.count >= most && !p.evict() {
		p.shares.give(key.principal)
		return nil, false, fail(tooManySessions, "")
	}
	realm := results.KeyOf("session", strconv.Itoa(int(key.kind)), key.principal, key.client, key.capabilities)
	b = &backing{key: key, realm: string(realm[:]), opening: make(chan struct{}), settled: make(chan struct{}), level: noLevel, leveling: make(chan struct{}, 1)}
	b.life, b.end = context.WithCancel(context.Background())
	b.use(asks)
	p.byKey[key] = append(p.byKey[key], b)
	p.held[key.principal]++
	p.count++
	return b, true, nil
}

func (b *backing) use(asks bool) {
	b.uses++
	if asks {
		b.asking++
	}
}

// put ends the use of b for q.
func (p *backings) put(b *backing, q *modernRequest) { p.let(b, q.mayAsk()) }

// let ends the use of b for a call in which the server may ask something, or another.
func (p *backings) let(b *backing, asks bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.uses--; b.uses == 0 {
		p.shares.give(b.key.principal)
	}
	if asks {
		b.asking--
	}
	b.since = time.Now()
	if b.uses == 0 && b.dead {
		p.forget(b)
	}
}

// retain keeps b in use until release.
func (p *backings) retain(b *backing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.use(false)
}

func (p *backings) release(b *backing) { p.let(b, false) }

// kill sees to it that nobody else gets b, whose session is of no more use.
func (p *backings) kill(b *backing) {
	defer p.srv.heldTasks.lost(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.dead, b.lost = true, true
	if b.uses == 0 {
		p.forget(b)
	}
}

// isLost reports whether b was killed.
func (p *backings) isLost(b *backing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.lost
}

// retire sees to it that whoever comes now gets a session that begins now.
func (p *backings) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.byKey {
		for _, b := range slices.Clone(list) {
			if b.dead = true; b.uses == 0 {
				p.forget(b)
			}
		}
	}
}

// evict ends a session that nobody uses: of the principal that has the most, the one
// that was not used for the longest time. Called with p.mu held.
func (p *backings) evict() bool {
	var oldest *backing
	most := 0
	for _, list := range p.byKey {
		for _, b := range list {
			held := p.held[b.key.principal]
			if b.uses == 0 && (held > most || held == most && b.since.Before(oldest.since)) {
				oldest, most = b, held
			}
		}
	}
	if oldest == nil {
		return false
	}
	p.forget(oldest)
	return true
}

// forget takes b out, which nobody uses, and ends its session; one that is being
// opened ends as soon as it stands. Called with p.mu held.
func (p *backings) forget(b *backing) {
	if b.gone {
		return
	}
	b.gone = true
	p.count--
	if p.held[b.key.principal]--; p.held[b.key.principal] == 0 {
		delete(p.held, b.key.principal)
	}
	if list := p.byKey[b.key]; len(list) == 1 {
		delete(p.byKey, b.key)
		p.srv.results.Unheard(b.realm)
	} else {
		p.byKey[b.key] = slices.DeleteFunc(slices.Clone(list), func(at *backing) bool { return at == b })
	}
	b.end()
	if b.s != nil {
		p.srv.spawn(func() { p.srv.endSession(b.s, errShutdown) })
	}
}

// number is how many sessions there are.
func (p *backings) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// tend ends the sessions that nobody has used since then.
func (p *backings) tend(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.byKey {
		for _, b := range slices.Clone(list) {
			if b.uses == 0 && b.since.Before(then) {
				p.forget(b)
			}
		}
	}
}

// close ends all sessions.
func (p *backings) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.byKey {
		for _, b := range slices.Clone(list) {
			p.forget(b)
		}
	}
}
