package clients

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file is what package bridge/modernclient sees of the proxy: the server, the sessions that dragoman
// opens for modern clients, and their exchanges.

// View implements [modernclient.Proxy].
type View struct{ *Proxy }

func (v *View) IsDirect(ctx context.Context, header []mcp.Header, q *stateless.Request) (bool, error) {
	return v.Proxy.NeedsNoSession(ctx, header, q)
}

// HasReplicas implements [modernclient.Proxy].
func (v *View) HasReplicas() bool { return v.Proxy.Replicas.Configured() }

func (v *View) Forward(to sealed.ID, req *downstream.Request, resp *downstream.Response) (bool, error) {
	proxy := v.Proxy
	if !proxy.Replicas.Configured() {
		return false, nil
	}
	err := proxy.Forward(to, "POST", mcp.StateInvalid, req, resp)
	if errors.Is(err, replicas.ErrNotTaken) {
		return false, nil
	}
	return true, err
}

// Reopen implements [modernclient.Proxy].
func (v *View) Reopen(sealedSession string, q *stateless.Request, principal string) (modernclient.Session, bool) {
	t, ok := v.Proxy.Now().Sealer.OpenSession(sealedSession, time.Now())
	if !ok || t.Local || t.Named == "" || v.Proxy.Now().Origin.Resume == nil { // a server without a handshake names no session
		return nil, false
	}
	s := v.Proxy.Table.ResumeSession(t, &q.Sender)
	s.Principal = "modern " + principal
	s.Ended = nil
	out := open(v.Proxy, s)
	out.Leave()
	return out, true
}

func (v *View) Sealer() *sealed.Sealer { return v.Proxy.Now().Sealer }

func (v *View) Silence(m wire.Method) config.TimeLimit { return v.Proxy.Now().Silence[m] }

func (v *View) Login() string { return v.SignIns.Login() }

// Open begins a session for modern clients.
func (v *View) Open(ctx context.Context, o modernclient.Opening) (_ modernclient.Session, answer []byte, err error) {
	proxy := v.Proxy
	s, answer, err := proxy.Open(ctx, o)
	if err != nil { // each call that waits for the session reports the failure
		f := report.FailureOf(err)
		f.Why = string(report.CauseOf(&proxy.Now().Config, f, report.At{Method: wire.Initialize.String()}))
		proxy.Metrics.Handshake(translate.Lookup(translate.Modern()), nil, report.Outcome(f), failures.Cause(f.Why))
		return nil, nil, err
	}
	if o.Kind == modernclient.WithHandshake {
		proxy.Shape.Store(s.Up.Shape())
		s.KeepAlive()
	} else if o.Kind == modernclient.WithoutHandshake && s.Piped && s.Transport == "" { // a process
		s.Tasked = o.Tasked
	}
	return open(proxy, s), answer, nil
}

// opened implements [modernclient.Session].
type opened struct {
	proxy   *Proxy
	s       *session.Session
	left    atomic.Bool     // another replica has begun it, or may use it
	listens context.Context // until the subscriptions that are passed on end
	retire  context.CancelFunc
}

func open(proxy *Proxy, s *session.Session) *opened {
	o := &opened{proxy: proxy, s: s}
	o.listens, o.retire = context.WithCancel(proxy.Host.Draining)
	return o
}

func (o *opened) About() *sealed.Session      { return &o.s.Session }
func (o *opened) ForReplicas() sealed.Session { return o.s.ForReplicas() }
func (o *opened) Tools() *toolindex.Index     { return &o.s.Tools }
func (o *opened) Down() *translate.Translator { return o.s.Down }
func (o *opened) Piped() bool                 { return o.s.Piped }
func (o *opened) Serverless() bool            { return o.s.Serverless }
func (o *opened) RunsFor() string             { return o.s.RunsFor }
func (o *opened) Leave()                      { o.left.Store(true) }
func (o *opened) Retire()                     { o.retire() }

func (o *opened) CheckCall(ctx context.Context, tools modernclient.ToolLister, q *stateless.Request) error {
	return o.proxy.CheckCall(ctx, o.s, tools, q)
}

// lister implements [modernclient.ToolLister].
type lister struct {
	s    *session.Session
	from []mcp.Header
}

func (l *lister) List(ctx context.Context, params string) ([]byte, error) {
	return l.s.Inquire(ctx, wire.ToolsList, params, l.from)
}

func (o *opened) Pass(req *downstream.Request, q *stateless.Request, header []mcp.Header, resp *downstream.Response, release func()) error {
	proxy, s := o.proxy, o.s
	if err := proxy.CheckCall(req.Ctx, s, &lister{s, header}, q); err != nil {
		release()
		return report.FailureOf(err).About(q.ID)
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := proxy.New(ctx, stop)
	resp.Done = func() { x.Done(); release() }
	x.Session, x.Crossing, x.Tally = s, s.Direct.Crossing, q.Counts
	x.Tally.Hold()
	x.Session.Enter()
	x.From = append(append(x.From[:0], header...), q.Header...)
	x.AnswerTo(req)
	x.Heard = q.Heard
	x.Clock.Asked, x.MaxTokens, x.Peer, x.Sender = q.Timed, q.MaxTokens, q.Address, q.Sender
	if q.Method == wire.SubscriptionsListen { // it would never end by itself
		x.Free = context.AfterFunc(o.listens, func() { stop(report.ErrShutdown) })
	}
	err := x.Post(req.Body, resp)
	if !x.Streamed {
		resp.Header = x.Clock.AppendTo(resp.Header)
	}
	return err
}

func (o *opened) End(why error) {
	o.retire()
	if o.left.Load() {
		o.s.Release(why)
		return
	}
	o.proxy.End(o.s, why)
}

func (o *opened) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	return o.s.Conn.Send(ctx, m)
}

func (o *opened) Listen(ctx context.Context, with upstream.ListenOptions) (upstream.Stream, error) {
	return o.proxy.Listen(ctx, o.s, with)
}

func (o *opened) Cancel(id string, header []mcp.Header, reason string) {
	o.proxy.GiveUpAs(o.s, id, header, reason)
}

func (o *opened) Observe(asked *stateless.Request, from []mcp.Header) *observe.Call {
	kept := o.proxy.Observer.Keep(asked.Raw)
	if !kept.Kept() {
		return nil
	}
	info := asked.ClientInfo
	if info == nil {
		info = []byte("{}")
	}
	heard := asked.Heard
	if heard == nil {
		heard = slices.Clone(from)
	}
	c := o.proxy.Observer.Begin(o.s.PeersWith(info), kept, false)
	c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept, Header: heard})
	return c
}

func (o *opened) Begin(ctx context.Context, stop context.CancelCauseFunc, header []mcp.Header, c *crossing.Crossing, asked *stateless.Request) modernclient.Exchange {
	x := o.proxy.New(ctx, stop)
	x.Session, x.Crossing = o.s, c
	x.Session.Enter()
	x.From = append(x.From[:0], header...)
	if asked != nil {
		x.Heard = asked.Heard
		x.Tally, x.MaxTokens, x.Clock.Asked, x.Peer, x.Sender = asked.Counts, asked.MaxTokens, asked.Timed, asked.Address, asked.Sender
		x.Tally.Hold()
	}
	return crossingExchange{x}
}

// crossingExchange implements [modernclient.Exchange].
type crossingExchange struct{ x *exchange.Exchange }

func (c crossingExchange) Translate(m modernclient.Message) ([]byte, wire.Verdict, error) {
	c.x.Lasts, c.x.Spare, c.x.Scanned = true, m.Spare, m.Scanned
	return c.x.FromClient(m.Text)
}

func (c crossingExchange) Forward(out []byte) (upstream.Stream, error) {
	return c.x.Forward(out)
}

func (c crossingExchange) Read(st upstream.Stream) { c.x.Stream = st }

func (c crossingExchange) Answer(client crossing.Client) ([]byte, error) {
	e, err := c.x.Cross(client)
	return e.Data, err
}

func (c crossingExchange) Message() *wire.Message      { return &c.x.Msg }
func (c crossingExchange) LastEvent() string           { return string(c.x.ResumeAt) }
func (c crossingExchange) Own() bool                   { return c.x.OwnCall != nil }
func (c crossingExchange) Left() bool                  { return c.x.ClientLeft() }
func (c crossingExchange) Fail(err error) *mcp.Failure { return c.x.Common.Failed(c.x, err) }
func (c crossingExchange) At() report.At               { return c.x.At() }
func (c crossingExchange) Seen() *observe.Call         { return c.x.Seen }
func (c crossingExchange) Done()                       { c.x.Done() }
func (c crossingExchange) CountLater()                 { c.x.Resumed = true }

func (c crossingExchange) Settle(how metrics.Outcome) { c.x.Outcome, c.x.Verdict = how, how }

func (c crossingExchange) Limits() config.TimeLimit {
	return config.TimeLimit{FirstByte: c.x.Outgoing.FirstByte, Silence: c.x.Outgoing.Silence}
}

func (c crossingExchange) Unbegun(err error) bool {
	return c.x.Resumes == 0 && (report.FailureOf(err).UnknownSession() || c.x.Common.Eras.Changed(c.x.Ctx, c.x.From, false, err))
}

func (c crossingExchange) Unsent() {
	c.x.Call.Cancelled.Store(true)
	c.x.Resumed = true
}

func (c crossingExchange) CancelAtServer(reason string) {
	if c.x.Call != nil && c.x.AtServer() && !c.x.Call.Cancelled.Load() {
		c.x.Common.GiveUpAs(c.x.Session, c.x.Call.ID, c.x.From, reason)
	}
}

func (c crossingExchange) AppendTiming(header []mcp.Header) []mcp.Header {
	return c.x.Clock.AppendTo(header)
}
