package pipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// exchange returns an exchange for the client's next message.
func (p *pipe) exchange() *exchange.Exchange {
	ctx, stop := p.ctx, context.CancelCauseFunc(nil)
	if !p.s.Piped { // each request has a stream to close
		own := callctx.Under(ctx)
		ctx, stop = own, own.End
	}
	x := p.proxy.New(ctx, stop)
	x.Session = p.s
	x.Session.Enter()
	x.From, x.Heard = append(x.From[:0], p.from...), p.shown
	x.Sender, x.Waiting = p.sender, &p.waiting
	if p.s.Direct != nil {
		x.Crossing = p.s.Direct.Crossing
	}
	return x
}

// forward sends one message to the server. If the message is an element of a batch, g and slot are
// where its response goes.
func (p *pipe) forward(line []byte, g *session.Batch, slot int) {
	x := p.exchange()
	x.Batch, x.Slot = g, slot
	defer p.rescue(x, line)
	err := x.Enter(line)
	if err != nil || !x.Waits() {
		p.pass(x, line, err)
		return
	}
	// The messages after it must not wait.
	own, err := p.proxy.Host.Memory().Clone(p.ctx, large.RequestWait, large.RequestCopy, line)
	if err == nil {
		err = x.Scan(own)
	}
	p.spawnCall(func() {
		defer p.rescue(x, own)
		p.pass(x, own, err)
	})
}

// rescue recovers a panic, and answers the request in line with an error.
func (p *pipe) rescue(x *exchange.Exchange, line []byte) {
	if r := recover(); r != nil {
		f := x.Panicked(r, line)
		switch owed := x.Call == nil || x.Session.Open.End(x.Call); {
		case !owed && x.Call.Stop == nil:
			leave(x)
		case owed && f.ID != nil:
			p.deliver(x.Batch, x.Slot, f.Body())
		}
		x.Done()
	}
}

// pass handles x's message after enter, which has returned err.
func (p *pipe) pass(x *exchange.Exchange, line []byte, err error) {
	var out []byte
	var v wire.Verdict
	if err == nil {
		out, v, err = x.Onward(line)
	}
	switch {
	case err != nil && report.FailureOf(err).Cause == mcp.ModernRefused && x.Batch == nil && p.modern != nil:
		p.modern.serve(&x.Msg)
	case x.Cancels && p.modern != nil && p.modern.takes(&x.Msg):
	case x.Recalled(): // while it waited
		unowed(x)
	case x.IsStale(): // answered while it waited
		if x.Call.Stop == nil {
			leave(x)
		}
	case err != nil:
		p.deliver(x.Batch, x.Slot, onPipe(x.Refused(err)).BodyTo(p.s.ClientRevision))
	case v == wire.Answer:
		x.Outcome = metrics.Local
		x.ObserveLocal(out)
		p.deliver(x.Batch, x.Slot, bytes.Clone(out))
	case v == wire.Forward:
		p.send(x, out)
		return
	case x.IsInitialized(): // dragoman has told the server already
		p.stand()
	}
	x.Done()
}

// send sends a message to the server, and arranges that the response is read.
func (p *pipe) send(x *exchange.Exchange, out []byte) {
	st, err := x.ForwardKept(out)
	switch {
	case err != nil && x.Unowed(err):
		unowed(x)
	case err != nil:
		owed := x.Call != nil && x.Session.Open.End(x.Call)
		if x.Call != nil && x.Call.Stop == nil && !owed {
			leave(x) // serverLost has answered it
			break
		}
		f := p.proxy.Failed(x, err)
		if owed {
			p.deliver(x.Batch, x.Slot, f.Body())
		}
		p.lostWith(f)
	case st != nil:
		x.Stream = st
		p.spawnCall(func() { p.answer(x) })
		return
	case x.Call != nil:
		if c := x.Call; x.Handed != nil {
			x.Handed.Then(func(err error) { p.written(c, err) })
		}
		leave(x) // the call stays open: bring receives its response
		p.wake()
	case x.IsInitialized():
		p.stand()
	}
	x.Done()
}

// stand opens the standing stream of a client that is initialized, where the server has one.
func (p *pipe) stand() {
	if p.s.Piped || p.listens {
		return
	}
	p.listens = true
	p.awaitStream(p.listen(p.exchange()))
}

// written fails a call whose request waited for a server that was busy, and was not written because of err.
func (p *pipe) written(c *session.Call, err error) {
	if err == nil || err == upstream.ErrTakenBack || p.ctx.Err() != nil || !p.s.Open.End(c) {
		return // it is in flight, cancelled, or failed
	}
	f := *report.FailureOf(err)
	f.ID = []byte(c.ID)
	p.failCall(c, &f)
}

// unowed ends a call to which no response is owed any more, since its client has cancelled it before it was sent.
func unowed(x *exchange.Exchange) {
	switch {
	case x.Call.Stop == nil:
		leave(x) // the cancellation is its response in a batch
	case x.Batch != nil:
		x.Batch.Put(x.Slot, nil)
	}
}

// leave leaves a call at a server on a pipe to what ends it, which counts it, too.
func leave(x *exchange.Exchange) { x.Call, x.Span, x.Seen = nil, nil, nil }

// answer sends the client the server's messages about one request.
func (p *pipe) answer(x *exchange.Exchange) {
	defer x.Done()
	e, err := x.Answer(p)
	message := e.Data
	if err == nil && x.Batch != nil {
		message, err = x.Keep(message)
	}
	switch {
	case errors.Is(err, io.EOF): // cancelled: no response is owed
		if x.Batch != nil {
			x.Batch.Put(x.Slot, nil)
		}
	case err != nil:
		f := p.proxy.Failed(x, err)
		p.deliver(x.Batch, x.Slot, f.Body())
		p.lostWith(f)
	default:
		p.deliver(x.Batch, x.Slot, message)
	}
}

// bring sends the client all messages of a server on a pipe. The session ends with the server.
func (p *pipe) bring(x *exchange.Exchange) {
	defer x.Done()
	for {
		_, err := x.Answer(everything{p, x})
		switch {
		case pipes.Restarts(err):
			p.failOpen(report.FailureOf(err))
		case pipes.Skipped(err) != nil:
			p.proxy.Host.Report.Dropped("too_large")
			p.failOpen(report.FailureOf(err))
		default:
			p.serverLost(err)
			return
		}
	}
}

// everything is the client of the exchange that receives all messages of a server on a pipe.
type everything struct {
	p *pipe
	x *exchange.Exchange
}

// Send implements [mcp.Peer].
func (to everything) Send(e sse.Event) error {
	p, c := to.p, to.x.Met
	p.heard.Store(deaf)
	defer p.hear()
	if c == nil {
		return p.Send(e)
	}
	p.deliver(c.More.Group, c.More.Slot, p.kept(c, e.Data))
	p.counts(c, to.x.Verdict, to.x.Fault)
	return nil
}

// hear notes that the server was heard until now, and wakes watch if that waits for it.
func (p *pipe) hear() {
	if p.heard.Swap(time.Now().UnixNano()) == deafSeen {
		p.wake()
	}
}

// listen keeps the server's standing stream open, and resumes it if it breaks off, as long as the
// server offers one. tried is closed when it was opened, or could not be.
func (p *pipe) listen(x *exchange.Exchange) (tried <-chan struct{}) {
	p.tasks.Add(1)
	first := make(chan struct{})
	(&standing{pipe: p, stream: x.Stand(), tried: sync.OnceFunc(func() { close(first) })}).Wake()
	return first
}

// streamTime is how long the messages behind notifications/initialized wait for the standing stream.
const streamTime = 2 * time.Second

// awaitStream waits for the standing stream of a client that the server may ask something: some servers ask there alone, and drop
// the question while the stream is not open.
func (p *pipe) awaitStream(tried <-chan struct{}) {
	if !p.s.Facts.Has(wire.ClientElicitation) && !p.s.Facts.Has(wire.ClientSampling) && !p.s.Facts.Has(wire.ClientRoots) {
		return
	}
	timer := time.NewTimer(streamTime)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

// standing is the server's standing stream, and the client that gets its messages.
type standing struct {
	*pipe
	stream *exchange.Standing
	tried  func() // called when the stream was opened, or could not be
	again  pipes.Reopening
	away   bool // the stream could not be opened, or has broken off without an event after which it goes on
}

// Wake implements [mcp.Waker].
func (s *standing) Wake() { go s.run() }

// run reads the stream until it ends or is parked. A panic ends the pipe, but not the process.
func (s *standing) run() {
	parked := false
	if !s.proxy.Host.Report.Contained(func() { parked = s.read() }) {
		s.fail(mcp.Fail(mcp.Panicked, ""))
	}
	if !parked {
		s.stream.Done()
		s.tasks.Done()
	}
}

// read reads the stream, and opens it where there is none. It reports whether the stream was parked; another goroutine may then
// already use s.
func (s *standing) read() (parked bool) {
	for {
		x := s.stream.Awake()
		if x.Stream == nil && !s.open(x) {
			return false
		}
		if x.Stream != nil {
			_, err := x.Answer(s)
			if err == sse.ErrInterrupted {
				if s.stream.Park(s) {
					return true
				}
				continue
			}
			x.Stream.Close() // it has broken off
			x.Stream, s.away = nil, len(x.ResumeAt) == 0
		}
		if s.again.Wait(x.Ctx, x.Retry) != nil {
			return false
		}
	}
}

// open opens the stream, unless that fails for a while. It returns false if the server offers none.
func (s *standing) open(x *exchange.Exchange) bool {
	st, err := x.Session.Stand(x.Ctx, upstream.ListenOptions{LastEventID: string(x.ResumeAt), Header: x.From, Parks: true})
	s.tried()
	switch {
	case errors.Is(err, upstream.ErrNoStream):
		return false
	case err == nil:
		x.Stream = st
		s.again.Opened()
		if s.away && x.Session.Renewing != nil {
			x.Session.Renewing.MayHaveMissed()
		}
		s.away = false
	default:
		s.away = true
		s.proxy.Host.Log.Debug("cannot open the server's standing stream: it is tried again", zap.Error(err))
		s.lostWith(s.proxy.Failed(x, err))
	}
	return true
}

// Send implements [mcp.Peer].
func (s *standing) Send(e sse.Event) error {
	s.again.Heard()
	return s.pipe.Send(e)
}

// handle handles one line of the client.
func (p *pipe) handle(line []byte) {
	defer func() {
		if r := recover(); r != nil {
			p.proxy.Host.Report.Panicked(r)
			if id := exchange.IDOf(line); id != nil || wire.IsArray(line) {
				p.refuse(mcp.Fail(mcp.Panicked, "").About(id), line)
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

// initialize handles a line before the session exists. The client's next line waits until the
// session has begun.
func (p *pipe) initialize(line []byte) {
	var m wire.Message
	if err := m.Scan(line, nil); err != nil {
		p.refuse(err, line)
		return
	}
	switch {
	case m.Kind == wire.Notification && p.modern != nil && p.modern.takes(&m):
		return
	case m.Kind.Response(), m.Kind == wire.Notification:
		p.proxy.Host.Report.Dropped("not_initialized") // JSON-RPC requires no response
		return
	case stateless.IsModern(&m) && p.modern != nil:
		p.modern.serve(&m)
		return
	case stateless.IsModern(&m):
		p.refuse(mcp.Uninitialized(mcp.ModernRefused).About(m.ID()), line)
		return
	case m.Method != wire.Initialize:
		p.refuse(mcp.Uninitialized(mcp.NotInitialized).About(m.ID()), line)
		return
	}
	if err := p.begin(line); err != nil {
		p.refuse(report.FailureOf(err).About(m.ID()), line)
	}
}

func (p *pipe) begin(line []byte) error {
	h := &handshake.Handshake{Opener: p.proxy.Opener, Pipe: true, Heard: p.shown, Sender: p.sender, RunsFor: p.runsFor, Bridges: true, Opening: pipes.Opening{Of: p.proxy.Host, Header: p.from}}
	ctx := callctx.Under(p.ctx) // what is derived from p.ctx itself would leave something there
	defer ctx.End(nil)
	s, answer, err := h.Negotiate(ctx, line)
	err = h.Conclude(s, answer, err)
	defer h.End(s, err)
	if s == nil {
		if h.Conn != nil { // a process may take its time to end
			p.proxy.Host.Spawn(func() { p.proxy.EndConn(h.Conn) })
		}
		if err == nil {
			p.write(answer)
		}
		return err
	}
	if h.Standing != nil {
		p.called = make(chan struct{}, 1)
		p.given, h.Standing = pipes.Renumber(s.Conn, h.Standing, h.ID, p.proxy.Now().Config.Limits, p.proxy.Host)
		s.Conn, s.Recall = p.given, p.given.Recall
	}
	h.Span.Done(nil)
	p.s, p.first = s, slices.Clone(p.from)
	p.begun.Store(s)
	s.ObserveSession(h.Seen)
	p.proxy.AddPipe(s)
	x := p.exchange()
	for _, early := range h.Early {
		if out, ok := x.FromServer(early); ok {
			p.write(out)
		}
	}
	p.write(answer)
	if s.Told.Load() != nil {
		p.spawn(p.announce)
	}
	if h.Standing == nil {
		x.Done()
		return nil
	}
	x.Stream = h.Standing
	p.spawn(func() { p.bring(x) })
	p.spawn(p.watch)
	return nil
}

// batch splits a batch of the client. Its responses are written as one line when all have come;
// other messages of the server are written at once.
func (p *pipe) batch(line []byte) {
	items, slots, err := p.proxy.Split(p.s, line)
	if err != nil {
		p.refuse(err, line)
		return
	}
	g := session.NewBatch(slots)
	g.Emit = p.write
	for _, it := range items {
		switch {
		case it.Refusal != nil:
			p.proxy.ObserveRefused(p.s, it.Raw, it.Refusal)
			g.Put(it.Slot, it.Refusal.Body())
		case it.Slot < 0:
			p.forward(it.Raw, nil, 0)
		default:
			p.forward(it.Raw, g, it.Slot)
		}
	}
}

// announce sends a client on a pipe notifications/tools/list_changed whenever dragoman's own tools
// change, until the session ends.
func (p *pipe) announce() {
	for {
		if p.proxy.ToolsChanged(p.s) {
			p.write(mcp.Notification(wire.ToolsListChanged, ""))
		}
		select {
		case <-p.s.Told.Load().Replaced():
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *pipe) tooLong(e *lines.TooLongError) {
	f := mcp.Fail(mcp.TooLong, e.Error()+" (limits.client_message)")
	if e.Message.Method() {
		f.About(e.Message.ID())
	}
	p.refuse(f, nil)
}

// hangUp refuses the server's open and future questions, since the client sends no more messages.
func (p *pipe) hangUp() {
	s := p.s
	if s == nil {
		return
	}
	s.Deaf.Store(true)
	for _, c := range s.Asked.List() {
		p.handle(exchange.ClientGone([]byte(c.ID)))
	}
}

// kept returns the response to c, copied if it goes into a batch.
func (p *pipe) kept(c *session.Call, answer []byte) []byte {
	if c.More.Group == nil {
		return answer
	}
	own, err := p.proxy.Host.Memory().Clone(p.ctx, large.AnswerWait, large.Copy, answer)
	if err != nil {
		return p.proxy.Host.Report.Failed(err, p.requestInfo(c)).About([]byte(c.ID)).Body()
	}
	return own
}
