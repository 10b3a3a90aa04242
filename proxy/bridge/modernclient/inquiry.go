package modernclient

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// inquire sends the server one of dragoman's own requests and waits for the response, as long as a
// handshake may take. The error may be the server's own; the caller owns the result.
func (b *pooledSession) inquire(ctx context.Context, method wire.Method, params []byte, header []mcp.Header) (result []byte, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer b.limit(stop)()
	id := b.nextID()
	o := &upstream.Outgoing{Body: mcp.Request(id, method, params), Request: true, Repeats: method.Reads(), Header: header}
	span := telemetry.Ask(ctx, o, b.s.About().ServerRevision.Name)
	defer func() { span.Done(err) }()
	st, err := b.s.Send(ctx, o)
	if err != nil {
		return nil, err
	}
	c := b.crossing()
	c.Own = &crossing.OwnRequest{ID: id}
	x := b.s.Begin(ctx, stop, header, c, nil)
	defer x.Done()
	defer context.AfterFunc(ctx, func() { st.Close() })()
	x.Read(st)
	response, err := x.Answer(&asker{bystander{b, x, header}, method})
	switch {
	case err == nil:
		return pipes.ResultIn(response)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return nil, mcp.Fail(mcp.UpstreamSilent, "")
	}
	return nil, err
}

// bystander is the [crossing.Client] of an exchange that is about no request of a client.
type bystander struct {
	b    *pooledSession
	x    Exchange
	from []mcp.Header
}

// Send implements [crossing.Client]: subscriptions get what they have asked for.
func (s *bystander) Send(e sse.Event) error {
	s.b.interested(&stateless.Request{LogLevel: mcp.NoLogLevel}, s.x.Message(), e.Data)
	return nil
}

// Ask implements [crossing.Client].
func (s *bystander) Ask(list []crossing.Question) { s.b.attribute(list, s.from) }

// MayWait implements [crossing.Client].
func (s *bystander) MayWait() bool { return true }

// asker is the [crossing.Client] of one of dragoman's own requests.
type asker struct {
	bystander
	method wire.Method
}

// Ask implements [crossing.Client].
func (s *asker) Ask(list []crossing.Question) {
	watches := s.method == wire.ResourcesSubscribe || s.method == wire.ResourcesUnsubscribe
	for i := range list {
		list[i].Now = watches || !waits(&list[i])
	}
	s.bystander.Ask(list)
}

// waits reports whether a question may have nothing to do with the requests that are under way: many servers ask for roots as soon
// as a session is open.
func waits(q *crossing.Question) bool { return q.Method == wire.RootsList }

// ask is inquire without the result.
func (b *pooledSession) ask(ctx context.Context, method wire.Method, params []byte, header []mcp.Header) error {
	_, err := b.inquire(ctx, method, params, header)
	return err
}

// crossing returns what translation needs to know of messages that are about no request of a client.
func (b *pooledSession) crossing() *crossing.Crossing {
	return &crossing.Crossing{Down: wire.Stamp{ServerInfo: b.said.server}, Opened: b.hasOpened, Tasks: b.taskNews, Withdrawn: b.withdraws, Lacks: b.lacks}
}

// limit ends one of dragoman's own requests if the server does not answer as long as a handshake
// may take. The time in which a client answers a question does not count, since the response may
// depend on it.
func (b *pooledSession) limit(stop context.CancelCauseFunc) (free func()) {
	cfg := b.Host.Config()
	until := time.Now().Add(cfg.Bridge.ParkTimeout)
	var mu sync.Mutex
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(cfg.Upstream.HandshakeTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		if left := b.mayWait(cfg.Upstream.HandshakeTimeout); left > 0 && time.Now().Before(until) {
			timer.Reset(left)
			return
		}
		stop(context.DeadlineExceeded)
	})
	return func() { timer.Stop() }
}

// tools asks the server for a page of its tools. params are without the braces.
func (b *pooledSession) tools(ctx context.Context, params string, header []mcp.Header) ([]byte, error) {
	return b.inquire(ctx, wire.ToolsList, []byte("{"+params+"}"), header)
}

// setLevel sends logging/setLevel, unless the server was already asked for this level or a less
// severe one, and waits for the response. Each client receives only messages at its own level.
func (b *pooledSession) setLevel(ctx context.Context, level mcp.LogLevel, header []mcp.Header) {
	if level == mcp.NoLogLevel || !b.s.About().Facts.Has(wire.ServerLogging) {
		return
	}
	select {
	case b.leveling <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-b.leveling }()
	if b.level != mcp.NoLogLevel && b.level <= level {
		return
	}
	if err := b.ask(ctx, wire.LoggingSetLevel, []byte(`{"level":"`+level.String()+`"}`), header); err != nil {
		b.Host.Log.Debug("cannot set the server's log level", zap.Error(err)) // the next call tries again
		return
	}
	b.level = level
}

// hearingTime is how long a call waits for the standing stream. A server may
// send the response's header only with its first message on the stream.
const hearingTime = 2 * time.Second

// startListening opens the session's standing stream, if it was not called before, and reports
// whether the session has one. It waits until that is known, but not longer than hearingTime.
func (b *pooledSession) startListening(ctx context.Context, from []mcp.Header) bool {
	b.keepListening(from)
	select {
	case <-b.settled:
	default: // only now is the channel of ctx needed
		select {
		case <-b.settled:
		case <-ctx.Done():
		}
	}
	return b.listeners.heard.Load()
}

// keepListening is startListening for a caller that does not wait.
func (b *pooledSession) keepListening(from []mcp.Header) {
	b.hearing.Do(func() {
		header := slices.Clone(from)
		b.Host.Spawn(func() {
			if !b.Host.Report.Contained(func() { b.listen(header) }) {
				b.listeners.streamEnded() // its clients listen again, on another session
				b.discard()
			}
		})
	})
}

// listen opens the standing stream and reads it.
func (b *pooledSession) listen(from []mcp.Header) {
	settle := sync.OnceFunc(func() { close(b.settled) })
	timer := time.AfterFunc(hearingTime, settle)
	st, err := b.s.Listen(&b.life, upstream.ListenOptions{Header: from})
	timer.Stop()
	b.listeners.heard.Store(err == nil)
	if err == nil {
		b.s.Tools().Forget() // the list may have changed before the stream was open
	}
	settle()
	switch {
	case err == nil:
		b.follow(st, from)
	case !errors.Is(err, upstream.ErrNoStream):
		b.Host.Log.Info("cannot open the standing stream", zap.Error(err))
	}
}

// follow reads the standing stream, and opens it again when it breaks off, until the session ends. It goes on behind the last event of
// the server, which may have kept others since; if it cannot, clients are told that they may have missed something.
func (b *pooledSession) follow(st upstream.Stream, from []mcp.Header) {
	var again pipes.Reopening
	at := "" // the id of the last event
	for {
		again.Opened()
		spoke, last := b.read(st, from)
		if spoke {
			again.Heard()
		}
		at = cmp.Or(last, at)
		b.Results.Unheard(b.realm)
		for {
			if again.Wait(&b.life, 0) != nil {
				return
			}
			var err error
			if st, err = b.s.Listen(&b.life, upstream.ListenOptions{LastEventID: at, Header: from}); err == nil {
				b.s.Tools().Forget() // as above
				if at == "" {
					b.listeners.missed()
				}
				break
			}
			if _, refused := errors.AsType[*upstream.StatusError](err); refused {
				at = "" // the server may not know the event any more
			}
			if errors.Is(err, upstream.ErrNoStream) || b.life.Err() != nil || report.FailureOf(err).Cause == mcp.UpstreamLost || report.FailureOf(err).Status == 404 {
				b.listeners.streamEnded()
				if !errors.Is(err, upstream.ErrNoStream) {
					b.discard()
				}
				return
			}
		}
	}
}

// read reads one standing stream to its end, and reports whether the server sent anything on it, and the id of its last event.
func (b *pooledSession) read(st upstream.Stream, from []mcp.Header) (spoke bool, last string) {
	ctx := callctx.Under(&b.life)
	x := b.s.Begin(ctx, ctx.End, from, b.crossing(), nil)
	defer x.Done()
	x.Read(st)
	to := &standing{bystander: bystander{b, x, from}}
	_, _ = x.Answer(to) // the stream breaks off, or the session ends
	return to.spoke, x.LastEvent()
}

// standing is the [crossing.Client] of a standing stream.
type standing struct {
	bystander
	spoke bool // the server has sent something
}

// Send implements [crossing.Client]: a notification may be about a call.
func (s *standing) Send(e sse.Event) error {
	m := s.x.Message()
	if m.Kind != wire.Notification {
		return nil
	}
	s.spoke = true
	of := s.b.calls.about(m, s.b.s.Piped())
	defer s.b.calls.giveBack()
	if of != nil {
		of.notify(m, e.Data)
		return nil
	}
	return s.bystander.Send(e)
}

// Ask implements [crossing.Client].
func (s *standing) Ask(list []crossing.Question) {
	s.spoke = true
	if s.b.resources.busy.Load() > 0 {
		for i := range list {
			list[i].Now = !waits(&list[i])
		}
	}
	s.bystander.Ask(list)
}
