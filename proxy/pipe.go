package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/lines"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var errUpstreamGone = errors.New("the session with the server has ended")

// pipe is a client on our own stdin and stdout, or on HTTP+SSE, from its first byte
// to its last. Its messages are taken one after the other by one goroutine, and reach the
// server in this order. In front of a server on a pipe a second goroutine brings
// everything back, in order too; over HTTP each request's answer has a goroutine
// of its own, and one more reads the standing stream.
type pipe struct {
	srv     *Server
	client  interface{ Write(message []byte) error }
	runsFor string // the client that its process is counted for
	ctx     context.Context
	fail    context.CancelCauseFunc
	tasks   sync.WaitGroup

	s       *session                // nil before initialize
	begun   atomic.Pointer[session] // s, for goroutines that do not take messages
	from    []upstream.Header       // that go on with the message being taken, for its goroutine alone
	first   []upstream.Header       // those of the message that began s, for lines about calls
	listens bool                    // the standing stream was asked for
	called  chan struct{}           // wakes the watch

	// Of requests without a handshake, which only come on our stdin.
	bothEras bool
	straight *pipe // to a server that needs no session either; nil before the first such request
	calls    sync.WaitGroup
	mu       sync.Mutex
	running  map[string]context.CancelCauseFunc // by the keys of their ids
	heard    atomic.Int64                       // when a server on a pipe said something, in ns
}

func newPipe(srv *Server) *pipe { return &pipe{srv: srv, called: make(chan struct{}, 1)} }

// ServePipe serves one client that speaks on in and reads on out, one message a
// line, until in ends, ctx ends or the server is lost, and returns when all it
// started has ended. Calls in flight when in or ctx ends are still answered, within the
// drain time, and then by an error that says so. What the server asks meanwhile is
// refused: there is no way left for the client's answer. A nil error says that in or ctx
// was the reason.
func (srv *Server) ServePipe(ctx context.Context, in io.Reader, out io.Writer) error {
	srv.personal.Store(true)
	p := newPipe(srv)
	client := downstream.NewStdio(downstream.StdioConfig{
		In: in, Out: out, MaxMessage: int(srv.now().cfg.Limits.ClientMessage),
		TooLong: p.tooLong,
	})
	p.client, p.bothEras = client, true
	p.ctx, p.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	reading, read := context.WithCancel(ctx)
	defer read()
	context.AfterFunc(p.ctx, read)
	context.AfterFunc(ctx, func() {
		overdue := time.AfterFunc(srv.now().cfg.Shutdown.Drain, func() { p.fail(clienterror.ErrShutdown) })
		context.AfterFunc(p.ctx, func() { overdue.Stop() })
	})
	tending, stop := context.WithCancel(context.Background())
	srv.host.Spawn(func() { srv.tend(tending) })

	err := client.Run(reading, p.handle)
	lost := context.Cause(p.ctx)
	overdue := errors.Is(lost, clienterror.ErrShutdown) // Run returned after the drain time
	if (lost == nil || overdue) && (err == nil || ctx.Err() != nil) {
		p.hangUp()
		p.finish()
		p.cutOff()
		lost = context.Cause(p.ctx)
	}
	p.fail(clienterror.ErrShutdown)
	if p.s != nil {
		srv.endSession(p.s, clienterror.ErrShutdown)
	}
	if half := p.straight; half != nil {
		srv.endSession(half.s, clienterror.ErrShutdown)
		half.tasks.Wait()
	}
	p.tasks.Wait()
	stop()
	srv.close()
	switch {
	case ctx.Err() != nil || err == nil && lost == nil:
		return nil
	case lost != nil:
		return lost
	}
	return fmt.Errorf("client: %w", err)
}

// spawn runs a task that the end of p waits for. A panic ends p, for which the task
// cannot be missed, and not the process.
func (p *pipe) spawn(task func()) {
	p.tasks.Go(func() {
		if !p.srv.host.Report.Contained(task) {
			p.fail(mcp.Fail(mcp.Panicked, ""))
		}
	})
}

// finish lets calls in flight be answered after the client has said its last.
func (p *pipe) finish() {
	timer := time.NewTimer(p.srv.now().cfg.Shutdown.Drain)
	defer timer.Stop()
	answered := make(chan struct{})
	p.spawn(func() {
		p.calls.Wait()
		close(answered)
	})
	if half := p.straight; half != nil {
		half.leaveSubscriptions()
		if !half.untilAnswered(timer.C) {
			return
		}
	}
	if p.begun.Load() != nil && !p.untilAnswered(timer.C) {
		return
	}
	select {
	case <-answered:
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

// hangUp refuses what the server has asked the client and will ask: nothing more comes
// from there.
func (p *pipe) hangUp() {
	s := p.s
	if s == nil {
		return
	}
	s.deaf.Store(true)
	for _, c := range s.asked.List() {
		p.handle(clientGone([]byte(c.ID)))
	}
}

// clientGone is the answer to a question that its client can no longer answer.
func clientGone(id []byte) []byte {
	return mcp.AppendError(nil, id, mcp.Untranslatable.Code(), "the client has closed its side", nil)
}

// cutOff answers the calls in flight with an error that says that we end.
func (p *pipe) cutOff() {
	for _, half := range []*pipe{p, p.straight} {
		if half == nil {
			continue
		}
		switch s := half.begun.Load(); {
		case s == nil:
		case s.piped:
			half.failOpen(mcp.Fail(mcp.ShuttingDown, ""))
		default: // each has a goroutine, which says so
			for _, c := range s.open.List() {
				if c.Stop != nil {
					c.Stop(clienterror.ErrShutdown)
				}
			}
		}
	}
}

// write sends one message to the client; one that cannot be reached ends us.
func (p *pipe) write(message []byte) {
	if err := p.client.Write(message); err != nil {
		p.fail(fmt.Errorf("client: %w", err))
	}
}

func (p *pipe) refuse(err error) {
	p.write(onPipe(p.srv.host.Report.Failed(err, report.At{})).BodyTo(p.revision()))
}

// revision is the client's, nil before it is known.
func (p *pipe) revision() *translate.Revision {
	if p.s == nil {
		return nil
	}
	return p.s.ClientRevision
}

// onPipe is f as clients on a pipe get it: a client without a handshake
// is told that there is no such method, and may go on in another way.
func onPipe(f *mcp.Failure) *mcp.Failure {
	if f.Cause == mcp.ModernRefused {
		f.Code = mcp.CodeMethodNotFound
	}
	return f
}

func (p *pipe) tooLong(e *lines.TooLongError) {
	f := mcp.Fail(mcp.TooLong, e.Error())
	if e.Message.Method() {
		f.About(e.Message.ID())
	}
	p.refuse(f)
}

// take handles one line of the client.
func (p *pipe) handle(line []byte) {
	defer func() {
		if r := recover(); r != nil {
			p.srv.host.Report.Panicked(r)
			if id := idOf(line); id != nil || wire.IsArray(line) {
				p.refuse(mcp.Fail(mcp.Panicked, "").About(id))
			}
		}
	}()
	switch {
	case wire.IsArray(line):
		p.batch(line)
	case p.s == nil:
		p.initialize(line)
	default:
		p.forward(line, nil, 0)
	}
}

// initialize begins the session. The client's next line waits until it stands.
func (p *pipe) initialize(line []byte) {
	var m wire.Message
	if err := m.Scan(line, nil); err != nil {
		p.refuse(err)
		return
	}
	switch {
	case m.Method == wire.Cancelled && p.cancelModern(&m), p.forwardDirect(&m):
		return
	case m.Kind.Response(), m.Kind == wire.Notification:
		p.srv.host.Report.Dropped("not_initialized") // JSON-RPC owes no answer to these
		return
	case isModern(&m) && p.bothEras:
		p.modern(&m)
		return
	case isModern(&m):
		p.refuse(mcp.Uninitialized(mcp.ModernRefused).About(m.ID()))
		return
	case m.Method != wire.Initialize:
		p.refuse(mcp.Uninitialized(mcp.NotInitialized).About(m.ID()))
		return
	}
	if err := p.begin(line); err != nil {
		p.refuse(clienterror.Of(err).About(m.ID()))
	}
}

func (p *pipe) begin(line []byte) error {
	h := &handshake{srv: p.srv, pipe: true, runsFor: p.runsFor, bridges: true, Opening: server.Opening{Of: p.srv.host, Header: p.from}}
	s, answer, err := h.negotiate(p.ctx, line)
	err = h.concluded(s, answer, err)
	if s == nil {
		if h.Conn != nil {
			p.srv.endConn(h.Conn)
		}
		if err == nil {
			p.write(answer)
		}
		return err
	}
	if h.Standing != nil {
		s.conn, h.Standing = server.Renumber(s.conn, h.Standing, p.srv.now().cfg.Limits, p.srv.host)
	}
	p.s, p.first = s, slices.Clone(p.from)
	p.begun.Store(s)
	x := p.exchange()
	for _, early := range h.Early {
		if out, ok := x.fromServer(early); ok {
			p.write(out)
		}
	}
	p.write(answer)
	if s.told.Load() != nil {
		p.spawn(p.announce)
	}
	if h.Standing == nil {
		x.done()
		return nil
	}
	x.attach(h.Standing)
	p.spawn(func() { p.bring(x) })
	p.spawn(p.watch)
	return nil
}

// exchange is one for the next message of the client.
func (p *pipe) exchange() *exchange {
	ctx, stop := p.ctx, context.CancelCauseFunc(nil)
	if !p.s.piped {
		ctx, stop = context.WithCancelCause(ctx) // each has a stream to end
	}
	x := p.srv.newExchange(ctx, stop)
	x.s = p.s
	x.s.enter()
	x.from = append(x.from[:0], p.from...)
	if p.s.direct != nil {
		x.crossing = p.s.direct.crossing
	}
	return x
}

// forward carries one message to the server. A request that came in an array
// has its place in g.
func (p *pipe) forward(line []byte, g *batchAnswers, slot int) {
	x := p.exchange()
	x.group, x.slot = g, slot
	defer p.rescue(x, line)
	err := x.enter(line)
	if err != nil || !x.waits() {
		p.pass(x, line, err)
		return
	}
	// What comes behind it does not wait with it.
	own, err := p.srv.host.Memory().Clone(p.ctx, large.RequestWait, large.RequestCopy, line)
	if err == nil {
		err = x.scan(own)
	}
	p.spawn(func() {
		defer p.rescue(x, own)
		p.pass(x, own, err)
	})
}

// rescue answers x's request, which line is, if there was a panic.
func (p *pipe) rescue(x *exchange, line []byte) {
	if r := recover(); r != nil {
		f := x.panicked(r, line)
		if f.ID != nil && (x.call == nil || x.s.open.End(x.call)) {
			p.deliver(x.group, x.slot, f.Body())
		}
		x.done()
	}
}

// pass sends x's message on, which was entered unless err says why not.
func (p *pipe) pass(x *exchange, line []byte, err error) {
	var out []byte
	var v wire.Verdict
	if err == nil {
		out, v, err = x.onward(line)
	}
	switch {
	case err != nil && clienterror.Of(err).Cause == mcp.ModernRefused && x.group == nil && p.bothEras:
		p.modern(&x.msg)
	case x.cancels && (p.cancelModern(&x.msg) || p.forwardDirect(&x.msg)):
	case x.stale(): // cancelled while it waited: no answer is owed
		if x.call.Stop == nil {
			x.call = nil // who cancelled it has counted it
		}
	case err != nil:
		p.deliver(x.group, x.slot, onPipe(x.refused(err)).BodyTo(p.s.ClientRevision))
	case v == wire.Answer:
		x.outcome = metrics.Local
		p.deliver(x.group, x.slot, bytes.Clone(out))
	case v == wire.Forward:
		p.send(x, out)
		return
	}
	x.done()
}

// send sends a message on and sees to it that its answer comes back.
func (p *pipe) send(x *exchange, out []byte) {
	st, err := x.forwardKept(out)
	switch {
	case err != nil:
		owed := x.call != nil && x.s.open.End(x.call) // else serverLost was faster
		f := p.srv.answerFor(x, err)
		switch {
		case owed:
			p.deliver(x.group, x.slot, f.Body())
		}
		p.lostWith(f)
	case st != nil:
		x.attach(st)
		p.spawn(func() { p.answer(x) })
		return
	case x.call != nil:
		x.call = nil // it stays open: the answer comes with everything else
		select {
		case p.called <- struct{}{}:
		default: // the watch is awake
		}
	case x.msg.Method == wire.Initialized && !p.s.piped && !p.listens:
		p.listens = true
		standing := p.exchange()
		p.spawn(func() { p.listen(standing) })
	}
	x.done()
}

// deliver sends the client the answer to a request, alone, or later with others.
func (p *pipe) deliver(g *batchAnswers, slot int, answer []byte) {
	if g == nil {
		p.write(answer)
		return
	}
	g.put(slot, answer)
}

// kept is the answer to c with memory of its own where others go with it.
func (p *pipe) kept(c *call, answer []byte) []byte {
	if c.More.group == nil {
		return answer
	}
	own, err := p.srv.host.Memory().Clone(p.ctx, large.AnswerWait, large.Copy, answer)
	if err != nil {
		return p.srv.host.Report.Failed(err, p.requestInfo(c)).About([]byte(c.ID)).Body()
	}
	return own
}

// answer brings back what the server says about one request.
func (p *pipe) answer(x *exchange) {
	defer x.done()
	for {
		m := x.nextMessage(x.slot)
		if x.group != nil {
			m = x.keep(m)
		}
		switch {
		case m.final && m.message == nil && x.group == nil: // cancelled: no answer is owed
		case m.final:
			p.deliver(x.group, x.slot, m.message)
		case len(m.message) > 0:
			p.write(m.message)
		}
		if m.failure != nil {
			p.lostWith(m.failure)
		}
		if m.final {
			return
		}
	}
}

// bring brings back everything that a server on a pipe says. Without the server
// there is no session.
func (p *pipe) bring(x *exchange) {
	defer x.done()
	for {
		e, err := x.nextRecovered()
		switch {
		case server.Restarts(err):
			p.failOpen(clienterror.Of(err))
			continue
		case server.Skipped(err) != nil:
			p.srv.host.Report.Dropped("too_large")
			p.failOpen(clienterror.Of(err))
			continue
		case err != nil:
			p.serverLost(err)
			return
		}
		p.heard.Store(time.Now().UnixNano())
		if c := x.met; c != nil {
			p.deliver(c.More.group, c.More.slot, p.kept(c, e.Data))
			p.srv.metrics.Request(p.s.ClientRevision, p.s.ServerRevision, c.Method, x.verdict, c.Began)
			continue
		}
		p.write(e.Data)
	}
}

// listen keeps the server's standing stream open, from where it broke off, for
// as long as the server offers one.
func (p *pipe) listen(x *exchange) {
	defer x.done()
	for again := new(server.Reopening); ; {
		st, err := p.s.stand(x.ctx, upstream.ListenOptions{LastEventID: string(x.resumeAt), Header: x.from})
		switch {
		case errors.Is(err, upstream.ErrNoStream):
			return
		case err == nil:
			x.attach(st)
			if p.copy(x) {
				again.Heard()
			}
			st.Close()
		default:
			p.srv.host.Log.Debug("standing stream", zap.Error(err))
			p.lostWith(p.srv.answerFor(x, err))
		}
		if again.Wait(x.ctx, x.retry) != nil {
			return
		}
	}
}

// copy writes what comes on x's stream until it ends, and reports whether
// anything came.
func (p *pipe) copy(x *exchange) (some bool) {
	for {
		e, err := x.nextRecovered()
		if err != nil {
			return some
		}
		some = true
		if len(e.Data) > 0 {
			p.write(e.Data)
		}
	}
}

// batch takes an array of the client apart. Its reply is one line, written when
// all answers are there; what else the server says goes out at once.
func (p *pipe) batch(line []byte) {
	items, slots, err := p.srv.splitBatch(p.s, line)
	if err != nil {
		p.refuse(err)
		return
	}
	g := newGroup(slots)
	g.emit = p.write
	for _, it := range items {
		switch {
		case it.refusal != nil:
			g.put(it.slot, it.refusal)
		case it.slot < 0:
			p.forward(it.raw, nil, 0)
		default:
			p.forward(it.raw, g, it.slot)
		}
	}
}
