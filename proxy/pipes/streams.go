package pipes

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Streams makes a pipe look like Streamable HTTP: each request gets a stream of its own, and there is
// a standing one for the rest. An HTTP client in front of a child process needs it. One goroutine
// reads the pipe and sorts the server's messages:
//
//   - an answer goes to the stream of its request,
//   - progress to the stream of the request that brought the token,
//   - a log message to the stream of the only request that wants log messages, if there
//     is exactly one,
//   - all else to the standing stream; without one, to the only request in flight; a
//     request of the server, and what is about one, to the latest of several, so that
//     no call waits for ever on a client that opens no stream;
//   - what has no stream to go to waits for the next standing stream. A ping of the
//     server does not wait but is answered here, and its other requests are refused
//     after [UnreachedTime].
//
// Requests have ids and progress tokens of dragoman's own towards the server, so that several with
// one id can be open and a late answer is dropped.
type Streams struct {
	conn  upstream.Conn
	cfg   config.Limits
	owner Owner

	life   context.Context // until Close
	stop   context.CancelFunc
	ended  chan struct{} // closed when the reader has returned
	pipe   upstream.Stream
	msg    wire.Message // for the reader goroutine
	pieces [][]byte

	mu       sync.Mutex
	table    idmap.Table[*Stream]
	order    []*Stream // requests in flight, oldest first
	left     []*Stream // in the places of those that were closed before the answer, oldest first: the requests may still be cancelled
	standing *Stream
	waiting  Queue
	kept     *large.Holding // counts what waits in all queues
	err      error          // set once the pipe has ended
	lost     func()         // called when the pipe ends by itself; may be nil
	process  int            // the number of the process, or of the session over HTTP+SSE

	patience  time.Duration // UnreachedTime
	unreached []unreached   // requests of the server that are in waiting, or were, oldest first
	late      *time.Timer   // for the oldest; nil before the first one
	replies   Replies
	alone     bool         // no client ever opens a standing stream
	headed    bool         // responses of dragoman's own need the headers of the client
	header    []mcp.Header // those of its last message
}

// Open begins to read st, which has all messages of the server behind conn. The Streams close st. begun is the id of the initialize
// that was sent on conn; nil for none.
func Open(conn upstream.Conn, st upstream.Stream, begun []byte, cfg config.Limits, o Owner) *Streams {
	l := &Streams{
		conn: conn, cfg: cfg, owner: o,
		ended: make(chan struct{}), pipe: st, kept: o.Memory().Holding(), patience: UnreachedTime,
	}
	l.table.Taken(begun)
	_, l.headed = conn.(*upstream.SSESession)
	l.life, l.stop = context.WithCancel(context.Background())
	l.waiting.Limit(cfg, l.kept)
	l.owner.Spawn(func() { l.read(st) })
	return l
}

// Send writes one message.
func (l *Streams) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if m.Request {
		s, err := l.Request(ctx, m)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	r := renamings.Get().(*renaming)
	defer r.done()
	if err := r.msg.Scan(m.Body, idmap.Shape); err != nil {
		return nil, err
	}
	if !l.rename(&r.msg, m.Header) {
		return nil, nil // the cancelled request is not open, or is being sent
	}
	out, err := r.outgoing(ctx, l.owner.Memory(), m)
	if err == nil {
		_, err = l.conn.Send(ctx, out)
	}
	if _, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		err = nil
	}
	return nil, err
}

// Request writes a request, and returns its stream. A request that waits for the server fails on the stream.
func (l *Streams) Request(ctx context.Context, m *upstream.Outgoing) (*Stream, error) {
	r := renamings.Get().(*renaming)
	defer r.done()
	if err := r.msg.Scan(m.Body, idmap.Shape); err != nil {
		return nil, err
	}
	s, err := l.open(ctx, m, &r.msg)
	if err != nil {
		return nil, err
	}
	out, err := r.outgoing(ctx, l.owner.Memory(), m)
	if err == nil && m.Stale != nil && m.Stale() {
		err = ErrRecalled
	}
	if err == nil {
		out.Stale, out.Again = s.Over, &s.asked.Progress.Again
		_, err = l.conn.Send(ctx, out)
	}
	if h, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		l.mu.Lock()
		s.way.Waits(h)
		l.mu.Unlock()
		h.Then(func(err error) {
			if l.sent(s.asked, err); err != nil {
				s.finish(err)
			}
		})
		return s, nil
	}
	if l.sent(s.asked, err); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// sent notes that a request was sent, or will not be because of err.
func (l *Streams) sent(e *idmap.Entry[*Stream], err error) {
	l.mu.Lock()
	way := &e.Of.way // of what stands in for the stream, if that was closed meanwhile
	recall := way.End()
	if err != nil && !mayHave(err) {
		way.cancelled = true // a later cancellation would be about a request that the server does not have
	}
	l.mu.Unlock()
	if recall != nil && err == nil {
		SendRecall(l.owner, l.conn, recall)
	}
}

// open enters a stream for a request.
func (l *Streams) open(ctx context.Context, out *upstream.Outgoing, m *wire.Message) (*Stream, error) {
	s := l.newStream(ctx)
	s.limit = config.TimeLimit{FirstByte: out.FirstByte, Silence: out.Silence}
	s.logs = out.Logs
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if out.Ours && out.Header == nil {
		out.Header = l.header
	} else {
		l.noteHeader(out.Header)
	}
	s.asked, s.process = l.table.Enter(m, s), l.process
	if m.Method != wire.SubscriptionsListen && !out.Ours { // messages about a subscription name it
		l.order = append(l.order, s)
	}
	return s, nil
}

// noteHeader keeps the headers of a message of the client, which the server may want with what dragoman answers. Called with
// l.mu held.
func (l *Streams) noteHeader(header []mcp.Header) {
	if !l.headed || slices.Equal(l.header, header) {
		return
	}
	own := make([]mcp.Header, len(header)) // a response that waits may have the old ones
	for i, h := range header {
		own[i] = mcp.Header{Name: strings.Clone(h.Name), Value: strings.Clone(h.Value)}
	}
	l.header = own
}

// rename replaces the id in a cancellation with the one that the server knows, and reports whether
// the message is to be sent. Other messages stay as they are.
func (l *Streams) rename(m *wire.Message, header []mcp.Header) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteHeader(header)
	return renameCancelled(&l.table, m, header, l.wayOf)
}

// wayOf returns the way of a request that is cancelled. Called with l.mu held.
func (l *Streams) wayOf(e *idmap.Entry[*Stream]) *Sending {
	if e.Of.closed {
		l.leave(e.Of)
	}
	return &e.Of.way
}

// Listen opens a new standing stream. It ends an older one, whose client may be gone, and takes over
// its messages.
func (l *Streams) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	s := l.newStream(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if old := l.standing; old != nil {
		old.finish(io.EOF)
		old.mu.Lock() // its reader may still take a message
		l.waiting.take(&old.queue)
		old.mu.Unlock()
	}
	l.standing, s.process = s, l.process
	s.queue.take(&l.waiting)
	s.wake()
	return s, nil
}

// Move returns a stream that replaces old, whose reader has ended.
func (l *Streams) Move(ctx context.Context, old *Stream) *Stream {
	s := l.newStream(ctx)
	s.asked, s.way.over, s.logs, s.limit, s.spoke = old.asked, true, old.logs, old.limit, true
	l.mu.Lock()
	defer l.mu.Unlock()
	old.mu.Lock()
	if s.process = l.process; old.process != l.process {
		old.queue.questions()
	}
	s.queue.take(&old.queue)
	s.err, old.err = old.err, upstream.ErrClosed
	old.mu.Unlock()
	s.asked.Of = s
	if i := slices.Index(l.order, old); i >= 0 {
		l.order[i] = s
	}
	return s
}

// Close stops the server. It returns after the reader goroutine has ended.
func (l *Streams) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.err == nil {
		l.err = upstream.ErrClosed
	}
	l.forgetUnreached()
	l.mu.Unlock()
	l.stop()
	err := l.conn.Close(ctx)
	l.pipe.Close()
	<-l.ended
	l.kept.Close()
	return err
}

// read sorts the server's messages until the pipe ends.
func (l *Streams) read(st upstream.Stream) {
	defer close(l.ended)
	defer st.Close()
	defer func() {
		if p := recover(); p != nil {
			l.owner.Panicked(p)
			l.end(mcp.Fail(mcp.Panicked, ""))
		}
	}()
	for e, err := range st.Events {
		e, err, ok := Replaced(e, err, l.owner)
		switch {
		case !ok:
			continue
		case Restarts(err):
			l.lose(err)
			continue
		case Skipped(err) != nil:
			l.owner.Dropped("too_large")
			l.lose(err)
			continue
		case err != nil:
			l.end(err)
			return
		}
		l.pieces = append(l.pieces[:0], e.Data)
		if wire.IsArray(e.Data) {
			if l.pieces, err = wire.AppendElements(l.pieces[:0], e.Data, l.cfg.Batch); err != nil {
				l.owner.Dropped("malformed")
				continue
			}
		}
		for _, piece := range l.pieces {
			if Scan(&l.msg, piece, l.owner, l.asked) != nil {
				l.owner.Dropped("malformed")
				continue
			}
			if err := l.keep(&l.msg); err != nil {
				l.miss(&l.msg, err)
				continue
			}
			l.sort(&l.msg)
		}
		if len(e.Data) > large.Size {
			l.msg = wire.Message{}
			clear(l.pieces)
		}
	}
}

// asked returns the server's id of the open request that a response with this id answers, and for nil that of the only open
// request; "" for none.
func (l *Streams) asked(id []byte) (given string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != nil {
		if e := l.table.Asked(id); e != nil && !e.Of.closed {
			given = e.Given
		}
		return given
	}
	open := 0
	l.table.Each(func(e *idmap.Entry[*Stream]) {
		if !e.Of.closed {
			open++
			given = e.Given
		}
	})
	if open != 1 {
		return ""
	}
	return given
}

// keep copies m to memory of its own if it is large. It waits for room as long as clients are slow to
// read earlier messages.
func (l *Streams) keep(m *wire.Message) error {
	if len(m.Raw) <= large.Size {
		return nil
	}
	own, err := l.owner.Memory().Clone(l.life, large.AnswerWait, large.Copy, m.Raw)
	if err == nil {
		err = m.Scan(own, idmap.Shape)
		m.Room = cap(own) - len(own)
	}
	return err
}

// miss ends the call that m answers, because there was no room for m.
func (l *Streams) miss(m *wire.Message, err error) {
	l.owner.Dropped("no_room")
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

// sort puts one message into the stream that it belongs to.
func (l *Streams) sort(m *wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Kind.Response() {
		e := l.table.Answered(m)
		if e == nil {
			l.owner.Dropped("late_answer")
			return
		}
		if idmap.AsText(m) {
			l.owner.Quirk(mcp.TextID)
		}
		e.Of.answered.Store(true)
		l.leave(e.Of)
		if e.Of.closed {
			l.owner.Dropped("late_answer")
			return
		}
		e.Of.Put(l.written(m), true)
		return
	}
	if m.Kind == wire.Notification {
		e, known := l.table.About(m)
		switch {
		case !known, e != nil && e.Of.closed:
			l.owner.Dropped("unattributed")
			return
		case e != nil:
			l.drops(e.Of.Put(l.written(m), false))
			return
		}
	}
	raw := l.written(m)
	if m.Method == wire.LogMessage {
		if s := l.logged(); s != nil {
			l.drops(s.Put(raw, false))
			return
		}
	}
	switch {
	case m.Kind == wire.Request:
		l.ask(m, raw)
	case isAboutQuestion(m.Method) && !l.alone: // it goes where that went
		l.follow(raw)
	case l.standing != nil:
		l.drops(l.standing.Put(raw, false))
	case l.alone: // the request in flight is of any of its clients
		l.owner.Dropped("unattributed")
	case len(l.order) == 1:
		l.drops(l.order[0].Put(raw, false))
	default:
		l.drops(l.waiting.Put(raw, false))
	}
}

// written returns m with the ids and tokens of its client, in memory of its own.
func (l *Streams) written(m *wire.Message) []byte {
	if len(m.Raw) > large.Size { // keep has copied it already
		if out := m.InPlace(); out != nil {
			return out
		}
	}
	return m.AppendTo(make([]byte, 0, len(m.Raw)+m.Growth()))
}

// logged returns the stream of the only request that wants log messages, or nil if there is none or
// more than one. Called with l.mu held.
func (l *Streams) logged() (only *Stream) {
	for _, s := range l.order {
		switch {
		case s.logs && only != nil:
			return nil
		case s.logs:
			only = s
		}
	}
	return only
}

// leave removes s from the tables. Called with l.mu held.
func (l *Streams) leave(s *Stream) {
	if e := s.asked; e != nil && e.Of == s {
		l.table.Leave(e)
	}
	remove(&l.order, s)
	remove(&l.left, s)
}

func remove(list *[]*Stream, s *Stream) {
	if i := slices.Index(*list, s); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// maxLeft is how many requests without an answer can still be cancelled after their streams were closed.
const maxLeft = 64

// quit removes s from the requests in flight. A client that leaves a call may cancel it in another message, which may come
// later: the server's id of the request is kept for that, without the messages in s. Called with l.mu held.
func (l *Streams) quit(s *Stream) {
	e := s.asked
	if e == nil || e.Of != s || !l.table.Has(e) || s.way.cancelled || l.err != nil {
		l.leave(s)
		return
	}
	remove(&l.order, s)
	e.Of = &Stream{asked: e, way: s.way, closed: true}
	if l.left = append(l.left, e.Of); len(l.left) > maxLeft {
		l.leave(l.left[0])
	}
}

// lose ends the calls in flight, except those that err spares: another process takes the place of the
// one that had them, or the message that could not be read may have been the answer to any of them.
func (l *Streams) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if Restarts(err) {
		l.process++
		l.forgetUnreached()
	}
	l.table.Each(func(e *idmap.Entry[*Stream]) {
		if !Spares(err, e.GivenKey) {
			e.Of.finish(err)
			l.leave(e.Of)
		}
	})
}

// end ends all streams, because the server is gone.
func (l *Streams) end(err error) {
	l.mu.Lock()
	lost := l.lost
	if l.err == nil {
		l.err = err
	} else {
		lost = nil
	}
	err = l.err
	l.forgetUnreached()
	all := make([]*Stream, 0, l.table.Len()+1)
	l.table.Each(func(e *idmap.Entry[*Stream]) { all = append(all, e.Of) })
	if l.standing != nil {
		all = append(all, l.standing)
	}
	l.mu.Unlock()
	if lost != nil { // before the calls fail: their clients may begin the next call at once
		lost()
	}
	for _, s := range all {
		s.finish(err)
	}
}

// WhenLost sets do to be called when the connection to the server ends by itself; it calls do at once
// if that has happened. do must not wait for the Streams.
func (l *Streams) WhenLost(do func()) {
	l.mu.Lock()
	l.lost = do
	gone := l.err != nil
	l.mu.Unlock()
	if gone {
		do()
	}
}

// Requests returns how many requests have no answer yet.
func (l *Streams) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// Waiting returns how many messages wait for the client to read the standing stream or to open one.
func (l *Streams) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting.items)
	if s := l.standing; s != nil {
		s.mu.Lock()
		n += len(s.queue.items)
		s.mu.Unlock()
	}
	return n
}

// Reason returns why the pipe ended, or nil if it has not.
func (l *Streams) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Streams) newStream(ctx context.Context) *Stream {
	s := &Stream{of: l, ctx: ctx, signal: make(chan struct{}, 1)}
	s.queue.Limit(l.cfg, l.kept)
	return s
}

// close ends a stream.
func (l *Streams) close(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.finish(upstream.ErrClosed)
	l.quit(s)
	asked := l.unread(s)
	s.mu.Lock()
	if l.standing == s {
		l.standing = nil
		l.waiting.take(&s.queue)
	}
	s.queue.Discard()
	s.mu.Unlock()
	l.handOn(asked)
}
