package proxy

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lanes makes a pipe look like Streamable HTTP: each request gets a stream of
// its own, and there is a standing one for the rest. It is what an HTTP client
// needs in front of a child process. One goroutine reads the pipe and sorts what
// the server says:
//
//   - an answer goes to the lane of its request,
//   - progress to the lane of the request that brought the token,
//   - log messages to that of the only request that wants some, if there is one,
//   - all else to the standing stream; without one, to the only request in
//     flight; a request of the server then to the latest of several, so that
//     no call waits for ever on a client that opens no stream;
//   - and what has nowhere to go waits for the next standing stream.
//
// Requests have ids and progress tokens of ours towards the server, so that several of
// one id can be open and a late answer is dropped.
type lanes struct {
	conn upstream.Conn
	cfg  config.Limits
	keeper

	life   context.Context // until Close
	stop   context.CancelFunc
	ended  chan struct{} // closed when the reader has returned
	pipe   upstream.Stream
	msg    wire.Message // the reader's
	pieces [][]byte

	trails trails // what its clients were told

	mu       sync.Mutex
	table    idmap.Table[*lane]
	order    []*lane // requests in flight, oldest first
	standing *lane
	waiting  queue
	err      error  // set once the pipe has ended
	lost     func() // called when it ends by itself; nil for nobody
}

// keeper keeps the reader's goroutine, and hears what goes wrong where nobody
// waits for an error.
type keeper interface {
	spawn(task func())
	dropper
	panicked(p any)
	replays() *atomic.Int64 // bytes kept to be told again
	inHand() *large.Memory  // what copies of large messages take
}

// openLanes begins to read st, everything the server behind conn says, which
// is the lanes' to close from now on.
func openLanes(conn upstream.Conn, st upstream.Stream, cfg config.Limits, k keeper) *lanes {
	l := &lanes{
		conn: conn, cfg: cfg, keeper: k,
		ended: make(chan struct{}), pipe: st,
	}
	l.life, l.stop = context.WithCancel(context.Background())
	l.waiting.limit(cfg)
	l.trails = trails{events: cfg.Replay, bytes: int(cfg.ReplayBytes), age: cfg.ReplayTime, total: k.replays(), most: k.inHand().Budget.Size() / replayShare}
	l.spawn(func() { l.read(st) })
	return l
}

// Send writes one message; for a request the Stream is its lane.
func (l *lanes) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	r := renamings.Get().(*renaming)
	defer r.done()
	if err := r.msg.Scan(m.Body, idmap.Shape); err != nil {
		return nil, err
	}
	if !m.Request {
		if !l.rename(&r.msg) {
			return nil, nil // nothing that the server knows is cancelled
		}
		out, err := r.outgoing(ctx, l.inHand(), m)
		if err == nil {
			_, err = l.conn.Send(ctx, out)
		}
		return nil, err
	}
	ln, err := l.open(ctx, m, &r.msg)
	if err != nil {
		return nil, err
	}
	out, err := r.outgoing(ctx, l.inHand(), m)
	if err == nil {
		out.Stale = ln.over
		_, err = l.conn.Send(ctx, out)
	}
	if err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// open enters a lane for a request.
func (l *lanes) open(ctx context.Context, out *upstream.Outgoing, m *wire.Message) (*lane, error) {
	ln := l.newLane(ctx)
	ln.limit = config.TimeLimit{FirstByte: out.FirstByte, Silence: out.Silence}
	ln.logs = out.Logs
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	ln.asked = l.table.Enter(m, ln)
	if m.Method != wire.SubscriptionsListen { // what it brings names it
		l.order = append(l.order, ln)
	}
	return ln, nil
}

// rename gives a cancellation the id that the server knows the request by, and reports
// whether there is one; other messages stay as they are.
func (l *lanes) rename(m *wire.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return renameCancelled(&l.table, m)
}

// known is the id that the server knows the newest open request of this one by.
func (l *lanes) known(id string) (given string, ok bool) {
	key := string(wire.AppendIDKey(nil, []byte(id)))
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.table.Newest(func(e *idmap.Entry[*lane]) bool { return e.Key == key })
	if e == nil {
		return "", false
	}
	return e.Given, true
}

// beneath is the connection on which requests have the ids that the server knows.
func (l *lanes) beneath() upstream.Conn { return l.conn }

// Listen makes a new standing stream. It takes over from an older one, whose
// client may be gone.
func (l *lanes) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	ln := l.newLane(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if old := l.standing; old != nil {
		old.finish(io.EOF)
		l.waiting.take(&old.queue)
	}
	l.standing = ln
	ln.queue.take(&l.waiting)
	ln.wake()
	return ln, nil
}

// move makes a lane in the place of one whose reader has ended.
func (l *lanes) move(ctx context.Context, old *lane) *lane {
	ln := l.newLane(ctx)
	ln.asked, ln.logs, ln.limit, ln.spoke = old.asked, old.logs, old.limit, true
	l.mu.Lock()
	defer l.mu.Unlock()
	old.mu.Lock()
	ln.queue.take(&old.queue)
	ln.err, old.err = old.err, upstream.ErrClosed
	old.mu.Unlock()
	ln.asked.Of = ln
	for i, at := range l.order {
		if at == old {
			l.order[i] = ln
		}
	}
	return ln
}

// Close stops the server; the reader has returned when Close does.
func (l *lanes) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.err == nil {
		l.err = upstream.ErrClosed
	}
	l.mu.Unlock()
	l.stop()
	err := l.conn.Close(ctx)
	l.pipe.Close()
	<-l.ended
	return err
}

// read sorts what the server says until it says no more.
func (l *lanes) read(st upstream.Stream) {
	defer close(l.ended)
	defer st.Close()
	defer func() {
		if p := recover(); p != nil {
			l.panicked(p)
			l.end(mcp.Fail(mcp.Panicked, ""))
		}
	}()
	for {
		e, err := nextOf(st, l.keeper)
		switch {
		case restarts(err):
			l.lose(err)
			continue
		case skipped(err) != nil:
			l.unwanted("too_large")
			l.lose(err)
			continue
		case err != nil:
			l.end(err)
			return
		}
		l.pieces = append(l.pieces[:0], e.Data)
		if wire.IsArray(e.Data) {
			if l.pieces, err = wire.AppendElements(l.pieces[:0], e.Data, l.cfg.Batch); err != nil {
				l.unwanted("malformed")
				continue
			}
		}
		for _, piece := range l.pieces {
			if l.msg.Scan(piece, idmap.Shape) != nil {
				l.unwanted("malformed")
				continue
			}
			if err := l.keep(&l.msg); err != nil {
				l.miss(&l.msg, err)
				continue
			}
			l.sort(&l.msg)
		}
		if len(e.Data) > maxPooled {
			l.msg = wire.Message{}
			clear(l.pieces)
		}
	}
}

// keep makes m one with memory of its own where it is large: that waits for room, for as
// long as clients are slow to take what was said before.
func (l *lanes) keep(m *wire.Message) error {
	if len(m.Raw) <= large.Size {
		return nil
	}
	own, err := l.inHand().Clone(l.life, answerWait, large.Copy, m.Raw)
	if err == nil {
		err = m.Scan(own, idmap.Shape)
		m.Room = cap(own) - len(own)
	}
	return err
}

// miss ends the call that m answers, as there was no room for m.
func (l *lanes) miss(m *wire.Message, err error) {
	l.unwanted("no_room")
	if !m.Kind.Response() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.table.Answered(m); e != nil {
		e.Of.finish(err)
		l.leave(e.Of)
	}
}

// sort hands one message to the lane it belongs to.
func (l *lanes) sort(m *wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Kind.Response() {
		e := l.table.Answered(m)
		if e == nil {
			l.unwanted("late_answer")
			return
		}
		e.Of.answered.Store(true)
		l.leave(e.Of)
		e.Of.put(l.written(m), true)
		return
	}
	if m.Kind == wire.Notification {
		e, known := l.table.About(m)
		switch {
		case !known:
			l.unwanted("unattributed")
			return
		case e != nil:
			l.drops(e.Of.put(l.written(m), false))
			return
		}
	}
	raw := l.written(m)
	if m.Method == wire.LogMessage {
		if ln := l.logged(); ln != nil {
			l.drops(ln.put(raw, false))
			return
		}
	}
	firm := m.Kind == wire.Request
	switch n := len(l.order); {
	case l.standing != nil:
		l.drops(l.standing.put(raw, firm))
	case n == 1, n > 1 && firm:
		l.drops(l.order[n-1].put(raw, firm))
	default:
		l.drops(l.waiting.put(raw, firm))
	}
}

// written is m with the ids and tokens of its client, in memory of its own.
func (l *lanes) written(m *wire.Message) []byte {
	if len(m.Raw) > large.Size { // it has some already
		if out := m.InPlace(); out != nil {
			return out
		}
	}
	return m.AppendTo(make([]byte, 0, len(m.Raw)+m.Growth()))
}

// logged is the lane of the only request that wants log messages, nil where there is
// none or several. Called with l.mu held.
func (l *lanes) logged() (only *lane) {
	for _, ln := range l.order {
		switch {
		case ln.logs && only != nil:
			return nil
		case ln.logs:
			only = ln
		}
	}
	return only
}

func (l *lanes) drops(n int) {
	for range n {
		l.unwanted("queue_full")
	}
}

// leave takes ln out of the tables. Called with l.mu held.
func (l *lanes) leave(ln *lane) {
	if e := ln.asked; e != nil && e.Of == ln {
		l.table.Leave(e)
	}
	for i, at := range l.order {
		if at == ln {
			l.order = append(l.order[:i], l.order[i+1:]...)
			break
		}
	}
}

// lose ends the calls in flight: another server takes the place of the one that
// was asked, or what could not be read may have been the answer to any of them.
func (l *lanes) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.Each(func(e *idmap.Entry[*lane]) {
		if !spares(err, e.GivenKey) {
			e.Of.finish(err)
			l.leave(e.Of)
		}
	})
}

// end tells everyone who waits that the server is gone.
func (l *lanes) end(err error) {
	l.mu.Lock()
	lost := l.lost
	if l.err == nil {
		l.err = err
	} else {
		lost = nil
	}
	err = l.err
	all := make([]*lane, 0, l.table.Len()+1)
	l.table.Each(func(e *idmap.Entry[*lane]) { all = append(all, e.Of) })
	if l.standing != nil {
		all = append(all, l.standing)
	}
	l.mu.Unlock()
	for _, ln := range all {
		ln.finish(err)
	}
	l.trails.close()
	if lost != nil {
		lost()
	}
}

// whenLost makes the lanes call do, which must not wait for them, when the
// server goes away by itself; at once when it has.
func (l *lanes) whenLost(do func()) {
	l.mu.Lock()
	l.lost = do
	gone := l.err != nil
	l.mu.Unlock()
	if gone {
		do()
	}
}

// reason is why the pipe ended, nil while it has not.
func (l *lanes) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// lane is what the server says about one request, or to nobody in particular.
type lane struct {
	of       *lanes
	ctx      context.Context
	asked    *idmap.Entry[*lane] // the request; nil on the standing stream
	answered atomic.Bool
	logs     bool             // log messages may be about it
	limit    config.TimeLimit // of silence; 0 for none
	spoke    bool             // Next had something; for Next only

	signal chan struct{} // there may be something new

	mu    sync.Mutex
	queue queue
	err   error // set once nothing more will come
}

func (l *lanes) newLane(ctx context.Context) *lane {
	ln := &lane{of: l, ctx: ctx, signal: make(chan struct{}, 1)}
	ln.queue.limit(l.cfg)
	return ln
}

// put appends m and returns how many others had to go for it.
func (ln *lane) put(m []byte, firm bool) int {
	ln.mu.Lock()
	dropped := ln.queue.put(m, firm)
	ln.mu.Unlock()
	ln.wake()
	return dropped
}

func (ln *lane) wake() {
	select {
	case ln.signal <- struct{}{}:
	default:
	}
}

// finish ends the lane once its queue is empty; the first reason stays.
func (ln *lane) finish(err error) {
	ln.mu.Lock()
	if ln.err == nil {
		ln.err = err
	}
	ln.mu.Unlock()
	ln.wake()
}

// over reports whether nothing more will come.
func (ln *lane) over() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.err != nil
}

// Next waits for the lane's next message.
func (ln *lane) Next() (sse.Event, error) {
	limit := ln.limit.FirstByte
	if ln.spoke {
		limit = ln.limit.Silence
	}
	var quiet <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		quiet = timer.C
	}
	for {
		ln.mu.Lock()
		m, ok := ln.queue.pop()
		err := ln.err
		ln.mu.Unlock()
		switch {
		case ok:
			ln.spoke = true
			return sse.Event{Data: m}, nil
		case err != nil:
			return sse.Event{}, err
		}
		select {
		case <-ln.signal:
		case <-quiet:
			return sse.Event{}, silentFor(limit, ln.spoke)
		case <-ln.ctx.Done():
			return sse.Event{}, context.Cause(ln.ctx)
		}
	}
}

// Close gives the lane up. What a standing stream had not delivered waits for
// the next one.
func (ln *lane) Close() error {
	l := ln.of
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.finish(upstream.ErrClosed)
	l.leave(ln)
	if l.standing == ln {
		l.standing = nil
		ln.mu.Lock()
		l.waiting.take(&ln.queue)
		ln.mu.Unlock()
	}
	return nil
}

// queue holds messages for a client that is slow, or not there. Its bounds
// apply to notifications: the oldest one goes first. Requests and answers are
// bounded by the tables of open ids and always stay.
type queue struct {
	maxItems, maxBytes int

	items []queued
	bytes int
}

type queued struct {
	message []byte
	firm    bool
}

func (q *queue) limit(cfg config.Limits) { q.maxItems, q.maxBytes = cfg.Queue, int(cfg.QueueBytes) }

// put appends m, which is the queue's from now on, and returns how many notifications
// were dropped.
func (q *queue) put(m []byte, firm bool) (dropped int) { return q.push(queued{m, firm}) }

func (q *queue) push(in queued) (dropped int) {
	q.items = append(q.items, in)
	q.bytes += len(in.message)
	for len(q.items) > q.maxItems || q.bytes > q.maxBytes {
		i := 0
		for i < len(q.items) && q.items[i].firm {
			i++
		}
		if i == len(q.items) {
			return dropped
		}
		q.bytes -= len(q.items[i].message)
		q.items = append(q.items[:i], q.items[i+1:]...)
		dropped++
	}
	return dropped
}

func (q *queue) pop() ([]byte, bool) {
	if len(q.items) == 0 {
		return nil, false
	}
	m := q.items[0].message
	q.items[0] = queued{}
	q.items = q.items[1:]
	q.bytes -= len(m)
	return m, true
}

// take moves everything from another queue behind what is here.
func (q *queue) take(from *queue) {
	for _, it := range from.items {
		q.push(it)
	}
	from.items, from.bytes = nil, 0
}
