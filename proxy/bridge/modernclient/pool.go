package modernclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A caller is a client and its request.
type caller struct {
	ctx  context.Context // ends when the client leaves
	q    *stateless.Request
	who  string // the principal
	from []mcp.Header
}

// A sessionPool holds the sessions with the server for modern clients. Their number is
// bounded, and each ends if it was not used for a while. Sessions without a server take no place of those with one: there may be as many again.
type sessionPool struct {
	shared

	mu      sync.Mutex
	byKey   map[poolKey][]*pooledSession
	held    map[quota.Holder]int // sessions by the client that opened them
	servers places               // of sessions with the server
	alone   places               // of sessions without
	room    chan struct{}        // closed when there may be room again; nil while no call waits for it
}

// places are those of the sessions that count together.
type places struct {
	size   int        // the number of sessions
	shares quota.Fair // each client's share of the sessions in use
}

// places returns those that sessions of this kind take.
func (p *sessionPool) places(k Kind) *places {
	if k == OnlyAdapters {
		return &p.alone
	}
	return &p.servers
}

// fullTime is how long a call waits for a session if the pool is full.
const fullTime = 10 * time.Second

func newSessionPool(with shared) *sessionPool {
	return &sessionPool{shared: with, byKey: make(map[poolKey][]*pooledSession), held: make(map[quota.Holder]int)}
}

// get returns the session for a client. It is in use until release is called. All requests of
// one client share it, also concurrent ones: stateful servers depend on that.
func (p *sessionPool) get(c caller) (*pooledSession, error) {
	lost, err := fit(c.q)
	if err != nil {
		return nil, err
	}
	key := keyOf(c)
	if p.Proxy.IsOurs(c.q) {
		direct, err := p.Proxy.IsDirect(c.ctx, c.from, c.q)
		if err != nil {
			return nil, err
		}
		if direct {
			key.kind = OnlyAdapters
		}
	}
	b, err := p.hold(c, key)
	if err == nil && len(lost) > 0 {
		p.Host.Losses.Note(losses.Peers{From: translate.Lookup(translate.Modern()), To: b.s.About().ServerRevision, Client: losses.NameOf(wire.View(c.q.ClientInfo))}, wire.Initialize, lost, c.from)
	}
	if err == nil && (c.q.CanBeAsked() || b.mayReceiveOnStanding(c.q)) { // servers may ask for roots when a session begins
		b.startListening(c.ctx, c.from)
	}
	return b, err
}

// keyOf returns the key of the client's session, which is valid as long as its request.
func keyOf(c caller) poolKey {
	key := poolKey{principal: c.who, client: wire.View(c.q.ClientInfo), capabilities: wire.View(c.q.Capabilities)}
	if c.who == "" {
		key.address = c.q.Address
	}
	return key
}

// fit leaves out what a pooled session does not keep of the client that sends q, and returns what is lost. The error is a
// *mcp.Failure: it has said too much of itself.
func fit(q *stateless.Request) (losses []wire.Loss, err error) {
	self := mcp.Self{Client: q.ClientInfo, Capabilities: q.Capabilities}
	losses, err = self.Fit(mcp.MetaInvalid, [2]string{mcp.MetaClient, mcp.MetaCapabilities})
	q.ClientInfo = self.Client
	return losses, err
}

// hold finds or opens the session of a key, and waits until it is open.
func (p *sessionPool) hold(c caller, key poolKey) (*pooledSession, error) {
	b, made, err := p.with(taskOf(c.q), key, c.q.Holder(key.principal)), false, error(nil)
	if b == nil {
		b, made, err = p.await(c.ctx, key, c.q.Holder(key.principal))
	}
	if err != nil {
		return nil, err
	}
	if made {
		q, header := c.q.WithoutMessage(), slices.Clone(c.from)
		p.Host.Spawn(func() { p.open(b, q, header) })
	}
	select {
	case <-b.opening:
	default: // only now is the channel of ctx needed
		select {
		case <-b.opening:
		case <-c.ctx.Done():
			p.release(b)
			return nil, context.Cause(c.ctx)
		}
	}
	if b.err != nil {
		p.release(b)
		return nil, b.err
	}
	return b, nil
}

// open begins b's session.
func (p *sessionPool) open(b *pooledSession, q *stateless.Request, header []mcp.Header) {
	defer close(b.opening)
	ctx, cancel := context.WithTimeout(q.Counts.Span().Within(p.Host.Serving), p.Host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	if b.err = p.begin(ctx, b, q, header); b.err != nil {
		b.discard()
	}
}

func (p *sessionPool) begin(ctx context.Context, b *pooledSession, q *stateless.Request, header []mcp.Header) error {
	tried := time.Now()
	s, answer, err := p.Proxy.Open(ctx, Opening{
		Kind: b.key.kind, Principal: b.key.principal, Realm: b.realm, For: q, Header: header, Lost: b.discard, Tasked: b.tasked,
	})
	if err != nil {
		return err
	}
	if answer != nil {
		result := gjson.GetBytes(answer, "result")
		b.said = profile{
			capabilities: []byte(cmp.Or(result.Get("capabilities").Raw, "{}")),
			server:       []byte(cmp.Or(result.Get("serverInfo").Raw, unknownServer)),
			instructions: []byte(result.Get("instructions").Raw),
		}
	}
	err = b.kept.Keep(b.size())
	p.mu.Lock()
	b.s = s
	if err == nil && b.gone { // the pool has dropped b in the meantime
		err = report.ErrShutdown
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		s.End(err)
	case b.key.kind == OnlyAdapters:
	case s.Serverless():
		time.AfterFunc(pipes.ServerAgain(time.Since(tried)), func() { p.outdate(b) })
	default:
		p.serverIsBack(b)
		if !s.Piped() && s.About().Named != "" {
			b.keepListening(header) // some servers end a session whose client cannot be pinged
		}
	}
	return err
}

// outdate makes later calls try the server again, without which b began.
func (p *sessionPool) outdate(b *pooledSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.dead = true; b.uses == 0 {
		p.forget(b)
	}
}

// serverIsBack ends the subscriptions of the client of b in sessions that began without the server: there they would never be told anything.
func (p *sessionPool) serverIsBack(b *pooledSession) {
	p.mu.Lock()
	var without []*pooledSession
	for _, other := range p.byKey[b.key] {
		if other.s != nil && other.s.Serverless() {
			without = append(without, other)
		}
	}
	p.mu.Unlock()
	for _, other := range without {
		other.listeners.handOver()
	}
}

// await is acquire for a call that can wait a little if the pool is full.
func (p *sessionPool) await(ctx context.Context, key poolKey, by quota.Holder) (b *pooledSession, made bool, err error) {
	var timer *time.Timer
	for {
		b, made, room := p.acquire(key, by)
		if b != nil {
			return b, made, nil
		}
		if timer == nil {
			timer = time.NewTimer(p.waits.Room)
			defer timer.Stop()
		}
		select {
		case <-room:
		case <-timer.C:
			f := mcp.Fail(mcp.TooManySessions, "")
			f.Header = []mcp.Header{{Name: "Retry-After", Value: "1"}}
			return nil, false, f
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-p.Host.Serving.Done():
			return nil, false, report.ErrShutdown
		}
	}
}

// acquire finds the session for key, or adds one that the caller must open: made is true then. If the
// pool is full, b is nil, and room is closed when there may be room again.
func (p *sessionPool) acquire(key poolKey, by quota.Holder) (b *pooledSession, made bool, room <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, most := p.places(key.kind), p.Host.Config().Bridge.MaxSessions
	for _, b := range p.byKey[key] {
		if b.dead {
			continue
		}
		if b.uses == 0 {
			if !at.shares.Acquire(by, most) {
				return nil, false, p.makeRoom()
			}
			b.holder = by
		}
		b.uses++
		return b, false, nil
	}
	if !at.shares.Acquire(by, most) {
		return nil, false, p.makeRoom()
	}
	if at.size >= most && !p.evict(at) {
		at.shares.Release(by)
		return nil, false, p.makeRoom()
	}
	return p.addLocked(key, by), true, nil
}

// addLocked adds a session for key, in use, that is not open. The caller holds p.mu and has a share for it.
func (p *sessionPool) addLocked(key poolKey, by quota.Holder) *pooledSession {
	key.client, key.capabilities = strings.Clone(key.client), strings.Clone(key.capabilities)
	realm := results.KeyOf("session", strconv.Itoa(int(key.kind)), key.principal, key.address, key.client, key.capabilities)
	b := &pooledSession{
		shared: p.shared, key: key, realm: string(realm[:]), holder: by, opener: by.Party(), uses: 1,
		kept:    p.Host.Memory().Holding(),
		opening: make(chan struct{}), settled: make(chan struct{}), level: mcp.NoLogLevel, leveling: make(chan struct{}, 1),
	}
	b.discard, b.tasked = func() { p.discard(b) }, func(task string) { p.tasked(b, task) }
	b.hasOpened, b.taskNews = b.urls.opened, func(notification []byte) { p.tasks.changed(b, notification) }
	b.withdraws = b.withdraw
	b.resources = resourceWatches{host: p.Host, life: &b.life, ask: b.ask}
	b.lastID.Store(1)
	p.byKey[key] = append(p.byKey[key], b)
	p.held[b.opener]++
	p.places(key.kind).size++
	return b
}

// all gives each session, which the loop may forget. The caller holds p.mu.
func (p *sessionPool) all(yield func(*pooledSession) bool) {
	for _, list := range p.byKey {
		for _, b := range list {
			if !yield(b) {
				return
			}
		}
	}
}

// roomSignal returns a channel that is closed when there may be room for a session again. The caller holds p.mu.
func (p *sessionPool) roomSignal() <-chan struct{} {
	if p.room == nil {
		p.room = make(chan struct{})
	}
	return p.room
}

// notifyRoom wakes the calls that wait for room. The caller holds p.mu.
func (p *sessionPool) notifyRoom() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

// release ends one use of b.
func (p *sessionPool) release(b *pooledSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.since = time.Now()
	if b.uses--; b.uses > 0 {
		return
	}
	p.places(b.key.kind).shares.Release(b.holder)
	if b.dead && b.isOver() {
		p.forget(b)
	}
	p.notifyRoom()
}

// retain adds one use of b, which is in use. The caller calls release once more.
func (p *sessionPool) retain(b *pooledSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.uses++
}

// listens notes that n more uses of b are subscriptions.
func (p *sessionPool) listens(b *pooledSession, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.stands += n
}

// stopListening ends one use of b, which is a subscription.
func (p *sessionPool) stopListening(b *pooledSession) {
	p.listens(b, -1)
	p.release(b)
}

// holderOf returns the client whose share b, which is in use, counts for.
func (p *sessionPool) holderOf(b *pooledSession) quota.Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.holder
}

// discard removes b, whose session is unusable, from the pool.
func (p *sessionPool) discard(b *pooledSession) {
	defer p.tasks.forgetSession(b)
	defer b.listeners.streamEnded() // it may stay open for ever at a server that has forgotten the session
	p.mu.Lock()
	defer p.mu.Unlock()
	b.dead, b.lost = true, true
	if b.uses == 0 {
		p.forget(b)
	}
}

// isLost reports whether discard was called for b.
func (p *sessionPool) isLost(b *pooledSession) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.lost
}

// retire makes later calls open new sessions. Those whose process has made tasks stay for requests about these until they are idle.
func (p *sessionPool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.all {
		if b.dead = true; b.uses == 0 && b.isOver() {
			p.forget(b)
		}
	}
}

// makeRoom returns a channel that is closed when there may be room for a session again. Subscriptions do not keep one from calls in sessions
// that these do not get: there they end, and their clients listen in those that calls get. The caller holds p.mu.
func (p *sessionPool) makeRoom() <-chan struct{} {
	for b := range p.all {
		if b.dead && b.s != nil {
			p.handOver(b)
		}
	}
	return p.roomSignal()
}

// handOver ends the subscriptions in b, which is open and which calls do not get any more. It returns false if that was done before. The caller
// holds p.mu.
func (p *sessionPool) handOver(b *pooledSession) (first bool) {
	b.yields.Do(func() {
		first = true
		s := b.s
		p.Host.Spawn(func() {
			b.listeners.handOver()
			s.Retire()
		})
	})
	return first
}

// Bounds of the ids that are kept of the tasks of one process.
const (
	maxMade   = 256
	maxMadeID = 256
)

// tasked notes a task that the process of b has made.
func (p *sessionPool) tasked(b *pooledSession, task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if task == "" || len(task) > maxMadeID {
		return
	}
	if len(b.made) == maxMade {
		b.made = slices.Delete(b.made, 0, 1)
	}
	b.made = append(b.made, strings.Clone(task))
}

// isOver reports whether no request needs b, which is dead, any more. The caller holds p.mu.
func (b *pooledSession) isOver() bool { return b.lost || len(b.made) == 0 }

// taskOf returns the id of the task that a request is about; "" for none.
func taskOf(q *stateless.Request) string {
	if !isTaskRequest(q.Method) {
		return ""
	}
	return gjson.ParseBytes(q.Target).String()
}

// isTaskRequest reports whether requests of this method are about a task.
func isTaskRequest(m wire.Method) bool {
	return m == wire.TasksGet || m == wire.TasksUpdate || m == wire.TasksCancel
}

// with returns the session for key, in use, whose process has made this task, or nil.
func (p *sessionPool) with(task string, key poolKey, by quota.Holder) *pooledSession {
	if task == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.byKey[key] {
		if !slices.Contains(b.made, task) || b.lost {
			continue
		}
		if b.uses == 0 {
			if !p.places(key.kind).shares.Acquire(by, p.Host.Config().Bridge.MaxSessions) {
				return nil
			}
			b.holder = by
		}
		b.uses++
		return b
	}
	return nil
}

// evict ends an unused session that has one of these places, and returns false if there is none. It takes the client that has opened the
// most sessions, and of its unused ones the one that was not used for the longest time. The caller holds
// p.mu.
func (p *sessionPool) evict(at *places) bool {
	var oldest *pooledSession
	most := 0
	for b := range p.all {
		held := p.held[b.opener]
		if b.uses == 0 && p.places(b.key.kind) == at && (held > most || held == most && b.since.Before(oldest.since)) {
			oldest, most = b, held
		}
	}
	if oldest == nil {
		return false
	}
	p.forget(oldest)
	return true
}

// forget removes the unused b, and ends its session. A session that is still being
// opened ends as soon as it is open. The caller holds p.mu.
func (p *sessionPool) forget(b *pooledSession) {
	if b.gone {
		return
	}
	b.gone = true
	p.places(b.key.kind).size--
	p.notifyRoom()
	if p.held[b.opener]--; p.held[b.opener] <= 0 {
		delete(p.held, b.opener)
	}
	if list := p.byKey[b.key]; len(list) == 1 {
		delete(p.byKey, b.key)
		p.Results.Unheard(b.realm)
	} else {
		p.byKey[b.key] = slices.DeleteFunc(slices.Clone(list), func(at *pooledSession) bool { return at == b })
	}
	b.life.End(nil)
	b.kept.Close()
	if b.s != nil {
		p.Host.Spawn(func() { b.s.End(report.ErrShutdown) })
	}
}

func (p *sessionPool) count(c *Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Sessions, c.Alone, c.Waiting = p.servers.size, p.alone.size, p.room != nil
	c.Shares += p.servers.shares.Held() + p.alone.shares.Held()
	for b := range p.all {
		c.Uses += b.uses
		c.Opening += b.urls.calls()
	}
}

// endIdleSince ends the sessions that were not used since then.
func (p *sessionPool) endIdleSince(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.all {
		if b.uses == 0 && b.since.Before(then) {
			p.forget(b)
		}
	}
}

// close ends all sessions.
func (p *sessionPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.all {
		p.forget(b)
	}
}

// endIdle ends b, and returns false if b is in use or was ended before.
func (p *sessionPool) endIdle(b *pooledSession) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.uses > 0 || b.gone {
		return false
	}
	b.dead = true
	p.forget(b)
	return true
}

// adopt adds a session that another replica has begun, for a task that this one continues. It is in use until release is
// called; new calls do not get it. It returns nil if there is no room.
func (p *sessionPool) adopt(s Session, c caller, server []byte) *pooledSession {
	key, by, named := keyOf(c), c.q.Holder(c.who), s.About().Named
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.byKey[key] {
		if b.adopted == named && named != "" && !b.lost && b.uses > 0 {
			b.uses++
			p.Host.Spawn(func() { s.End(nil) })
			return b
		}
	}
	at, most := p.places(key.kind), p.Host.Config().Bridge.MaxSessions
	if !at.shares.Acquire(by, most) {
		return nil
	}
	if at.size >= most && !p.evict(at) {
		at.shares.Release(by)
		return nil
	}
	b := p.addLocked(key, by)
	b.adopted, b.dead, b.s = named, true, s
	b.lastID.Store(anywhere())
	b.said.server = server
	if server == nil {
		b.said.server = []byte(unknownServer)
	}
	close(b.opening)
	return b
}

// anywhere returns where the request ids of a session begin that other replicas use as well: each counts on from a number of its own. All
// are exact in a JavaScript number.
func anywhere() int64 {
	var n [8]byte
	rand.Read(n[:])
	return int64(binary.BigEndian.Uint64(n[:]) >> 12)
}
