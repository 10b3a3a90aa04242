package proxy

import (
	"context"
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file is what package bridge/modernclient sees of the proxy: the server, the sessions that dragoman
// opens for modern clients, and their exchanges.

// serverView implements [modernclient.Proxy].
type serverView struct{ *fronts }

func (v *serverView) IsDirect(ctx context.Context, header []upstream.Header) (bool, error) {
	return v.fronts.isDirect(ctx, header)
}

func (v *serverView) IsOurs(q *stateless.Request) bool { return v.fronts.isOurs(q) }

func (v *serverView) CheckCall(ctx context.Context, s modernclient.Session, list modernclient.ListTools, q *stateless.Request) error {
	return v.fronts.checkCall(ctx, s.(*openedSession).s, list, q)
}

func (v *serverView) Forward(to sealed.ID, req *downstream.Request, resp *downstream.Response) (bool, error) {
	srv := v.fronts
	if !srv.Replicas.Configured() {
		return false, nil
	}
	err := srv.forward(to, "POST", mcp.StateInvalid, req, resp)
	if errors.Is(err, replicas.ErrNotTaken) {
		return false, nil
	}
	return true, err
}

func (v *serverView) Sealer() *sealed.Sealer { return v.fronts.Now().Sealer }

func (v *serverView) Silence(m wire.Method) config.TimeLimit { return v.fronts.Now().Silence[m] }

func (v *serverView) Login() string { return v.signIns.Login() }

// Open begins a session for modern clients.
func (v *serverView) Open(ctx context.Context, o modernclient.Opening) (_ modernclient.Session, answer []byte, err error) {
	srv := v.fronts
	s, answer, err := srv.Open(ctx, o)
	if err != nil { // each call that waits for the session reports the failure
		f := clienterror.Of(err)
		f.Why = string(report.CauseOf(&srv.Now().Config, f, report.At{Method: wire.Initialize.String()}))
		srv.Metrics.Handshake(translate.Lookup(translate.Modern()), nil, report.Outcome(f), failures.Cause(f.Why))
		return nil, nil, err
	}
	return &openedSession{srv, s}, answer, nil
}

// openedSession implements [modernclient.Session].
type openedSession struct {
	srv *fronts
	s   *session.Session
}

func (o *openedSession) About() *sealed.Session      { return &o.s.Session }
func (o *openedSession) Tools() *toolindex.Index     { return &o.s.Tools }
func (o *openedSession) Down() *translate.Translator { return o.s.Down }
func (o *openedSession) Piped() bool                 { return o.s.Piped }
func (o *openedSession) RunsFor() string             { return o.s.RunsFor }
func (o *openedSession) End(why error)               { o.srv.End(o.s, why) }

func (o *openedSession) Alone() bool {
	_, is := o.s.Conn.(origin.NoServer)
	return is
}

func (o *openedSession) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	return o.s.Conn.Send(ctx, m)
}

func (o *openedSession) Listen(ctx context.Context, with upstream.ListenOptions) (upstream.Stream, error) {
	return o.srv.Listen(ctx, o.s, with)
}

func (o *openedSession) Cancel(id string, header []upstream.Header, reason string) {
	o.srv.GiveUpAs(o.s, id, header, reason)
}

func (o *openedSession) Observe(asked *stateless.Request, from []upstream.Header) *observe.Call {
	kept := o.srv.Observer.Keep(asked.Raw)
	if !kept.Kept() {
		return nil
	}
	info := asked.ClientInfo
	if info == nil {
		info = []byte("{}")
	}
	c := o.srv.Observer.Begin(o.s.PeersWith(info), kept, false)
	c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept, Header: exchange.HeadersOf(from)})
	return c
}

func (o *openedSession) Begin(ctx context.Context, stop context.CancelCauseFunc, header []upstream.Header, c *bridge.Crossing, asked *stateless.Request) modernclient.Exchange {
	x := o.srv.New(ctx, stop)
	x.Session, x.Crossing = o.s, c
	x.Session.Enter()
	x.From = append(x.From[:0], header...)
	if asked != nil {
		x.Tally, x.MaxTokens, x.Clock.Asked, x.Peer, x.Sender = asked.Counts, asked.MaxTokens, asked.Timed, asked.Address, asked.Sender
		x.Tally.Hold()
	}
	return crossingExchange{x}
}

// crossingExchange implements [modernclient.Exchange].
type crossingExchange struct{ x *exchange.Exchange }

func (c crossingExchange) Translate(message []byte) ([]byte, wire.Verdict, error) {
	return c.x.FromClient(message)
}

func (c crossingExchange) Forward(out []byte) (upstream.Stream, error) {
	return c.x.Forward(out)
}

func (c crossingExchange) Read(st upstream.Stream) { c.x.Attach(st) }

func (c crossingExchange) Interruptible() upstream.Interruptible {
	if st, ok := c.x.Stream.(upstream.Interruptible); ok && st.CanInterrupt() {
		return st
	}
	return nil
}

func (c crossingExchange) Next() (sse.Event, error)    { return c.x.Next() }
func (c crossingExchange) Message() *wire.Message      { return &c.x.Msg }
func (c crossingExchange) Final() bool                 { return c.x.Final }
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
	return c.x.Resumes == 0 && (clienterror.Of(err).UnknownSession() || c.x.Common.Eras.Changed(c.x.Ctx, c.x.From, false, err))
}

func (c crossingExchange) Unsent() {
	c.x.Call.Cancelled.Store(true)
	c.x.Resumed = true
}

func (c crossingExchange) CancelAtServer(reason string) {
	if c.x.Call != nil && !c.x.Call.Cancelled.Load() {
		c.x.Common.GiveUpAs(c.x.Session, c.x.Call.ID, c.x.From, reason)
	}
}

func (c crossingExchange) AppendTiming(header []mcp.Header) []mcp.Header {
	return c.x.Clock.AppendTo(header)
}
