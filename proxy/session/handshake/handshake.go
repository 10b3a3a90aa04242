// Package handshake begins sessions: it sends the client's initialize to the server, or asks a server without a handshake what it
// is, and makes a session of the answer.
//
//   - opener.go has [Opener], which all handshakes share, and [Handshake], one of them; handshake.go proposes one revision
//     after the other, and settles on the one that the server accepts;
//   - modern.go begins the session of a handshake client at a modern server, directly.go that of a modern client;
//   - openfor.go opens the sessions that modern clients share at a handshake server;
//   - connection.go opens the connection, and says what stands over it: a restart, lanes, a shared process;
//   - namecollision.go and footprint.go read the server's tools before the client has its answer, where a setting asks for it;
//   - observed.go tells the observer.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization.
package handshake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Negotiate sends the client's initialize to the server. It returns a session without an id, and
// the response for the client. The client gets the revision that it asked for, whichever the server
// speaks. If s is nil, the caller must close h.conn, if there is one.
func (h *Handshake) Negotiate(ctx context.Context, raw []byte) (*session.Session, []byte, error) {
	ctx, cancel := context.WithTimeout(processes.For(ctx, h.RunsFor), h.Opener.Now().Config.Upstream.HandshakeTimeout)
	defer cancel()
	if err := h.read(raw); err != nil {
		return nil, nil, err
	}
	h.observe(raw)
	h.beginSpan(raw)
	h.Span.Numbered(h.Seen.Number())
	ctx = h.Span.Within(ctx)
	noticed := h.noticeSilence()
	defer noticed()
	s, answer, err := h.propose(ctx, raw, nil)
	if f, ok := err.(*mcp.Failure); ok && f.Cause == mcp.UpstreamTimeout && f.Err == context.DeadlineExceeded {
		f.Err = fmt.Errorf("the server has not answered initialize within %v: %w", h.Opener.Now().Config.Upstream.HandshakeTimeout, f.Err)
	}
	if s != nil {
		s.Catalogue.Introduce(answer)
	}
	return s, answer, err
}

// noticeSilence logs a warning if a server at a URL is slow to answer initialize, or what initialize waits for before it is
// sent. The caller calls stop when the server has answered. For a silent process, its connection logs a warning.
func (h *Handshake) noticeSilence() (stop func()) {
	now := h.Opener.Now()
	if now.Config.Upstream.URL == "" {
		return func() {}
	}
	timer := time.AfterFunc(upstream.MuteTime, func() {
		fields := []zap.Field{zap.String("url", now.Config.Upstream.URL), zap.Duration("waited", upstream.MuteTime), zap.Duration("given_up_after", now.Config.Upstream.HandshakeTimeout)}
		if awaited := now.Origin.Credential.Awaited(); awaited != "" {
			h.log().Info("initialize waits for a sign-in", append(fields, zap.String("waits_for", awaited))...)
			return
		}
		h.log().Warn("upstream has not answered initialize yet", fields...)
	})
	return func() { timer.Stop() }
}

// propose sends initialize with one revision after the other until the server accepts one. named is
// the newest handshake revision that the server has named, or nil. A server that is known to be
// modern only is not sent initialize.
func (h *Handshake) propose(ctx context.Context, raw []byte, named *translate.Revision) (*session.Session, []byte, error) {
	if known := h.Opener.Eras.Peek(h.Header); h.Bridges && known.WithoutHandshake() {
		if s, answer, ok, err := h.bridge(ctx, raw, nil); ok {
			return h.ready(ctx, s, answer, err)
		}
		h.unbridge()
		h.Opener.Eras.Drop(h.Header, known)
	}
	steps := h.Opener.Eras.Proposals(h.vc, named, h.Header)
	for {
		m, err := h.ask(ctx, raw, steps.Next())
		if steps.First() && era.LooksModern(m, err) && !h.namesHandshake(m) {
			if s, answer, ok, err := h.bridge(ctx, raw, m); ok {
				h.Opener.Eras.Note(h.Header, &era.Era{Revision: translate.Lookup(translate.Modern()), Handshake: era.Refused})
				return h.ready(ctx, s, answer, err)
			}
		}
		if err != nil && h.sharesModern(ctx, err) {
			if s, answer, ok, err := h.bridge(ctx, raw, nil); ok {
				return h.ready(ctx, s, answer, err)
			}
		}
		if err == nil && m.Kind == wire.Result && !h.shakesFor(ctx, m) {
			if s, answer, ok, err := h.bridge(ctx, raw, nil); ok {
				return h.ready(ctx, s, answer, err)
			}
			return nil, nil, mcp.Fail(mcp.UpstreamModern, translate.Modern()).About(h.ID)
		}
		if err == nil && m.Kind == wire.Result {
			steps.Accepted(m)
			s, answer, err := h.settle(m)
			if err != nil {
				return nil, nil, err
			}
			h.Opener.Eras.Saw(h.Header, gjson.Get(wire.View(m.Result()), "serverInfo").Raw)
			h.Opener.Eras.Prove(h.Header, era.Accepted)
			return h.ready(ctx, s, answer, nil)
		}
		if err == nil {
			next, err := h.rejected(m)
			if err != nil {
				return nil, nil, err
			}
			if next != nil && steps.Only(next) {
				continue
			}
		}
		if h.Opener.Now().Origin.Shared == nil && steps.GoOn(m, err) { // a shared process does its own handshake
			h.unbridge() // a process that has refused one revision may not accept another one
			continue
		}
		switch {
		case err == nil:
			return nil, h.refusal(m), nil
		case h.Opener.Now().Own.ServesAlone() && report.Unreachable(err):
			return h.goAlone(err)
		}
		return nil, nil, report.FailureOf(err).About(h.ID)
	}
}

// ready completes a session before the client receives the response to initialize: it checks
// dragoman's own tools for name collisions and adds them to the response. An error, which
// may be one from before, means that there is no session.
func (h *Handshake) ready(ctx context.Context, s *session.Session, answer []byte, err error) (*session.Session, []byte, error) {
	if err == nil {
		err = h.checkCollisions(ctx, s)
	}
	if err == nil {
		answer, err = h.Opener.Now().OwnFor(&h.Sender).Introduce(answer)
	}
	if err != nil {
		return nil, nil, report.FailureOf(err).About(h.ID)
	}
	s.ServerName = session.NameOf([]byte(gjson.GetBytes(answer, "result.serverInfo").Raw))
	out := h.hoist(ctx, s, answer)
	if len(out) != len(answer) {
		h.Seen.Note(observe.Note{By: observe.Footprint, What: "hoisted", Path: "result.instructions", To: observe.ToClient, Detail: "what several tools say is said once"})
	}
	return s, out, nil
}

// goAlone begins a session with only dragoman's own tools, since the server cannot be reached. This
// does not change until the client sends initialize again.
func (h *Handshake) goAlone(err error) (*session.Session, []byte, error) {
	h.Opener.Host.Report.FailedAs("server is unavailable: the session has only tools of adapters", err, h.requestInfo())
	if conn := h.Conn; conn != nil {
		h.Opener.Host.Spawn(func() { h.Opener.EndConn(conn) })
	}
	return h.settleAlone()
}

// settleAlone makes a session without a server.
func (h *Handshake) settleAlone() (*session.Session, []byte, error) {
	h.alone, h.shared, h.bridged = true, false, nil
	h.Begun, h.named, h.Early = upstream.Begun{Conn: origin.NoServer{}}, "", nil
	m := new(wire.Message)
	if err := m.Scan(origin.NoServer{}.AnswerTo(wire.Initialize, h.ID), nil); err != nil {
		return nil, nil, err
	}
	s, answer, err := h.settle(m)
	if err == nil {
		answer, err = h.Opener.Now().OwnFor(&h.Sender).Introduce(answer)
	}
	return s, answer, err
}

// read notes what the session needs to know of initialize.
func (h *Handshake) read(raw []byte) error {
	var m wire.Message
	if err := m.Scan(raw, nil); err != nil {
		return err
	}
	h.ID = bytes.Clone(m.ID())
	params := wire.View(m.Params())
	if params == "" {
		return mcp.Fail(mcp.InitializeBroken, "").About(h.ID)
	}
	h.asked = strings.Clone(gjson.Get(params, "protocolVersion").String())
	h.vc = cmp.Or(translate.WithHandshake(h.asked), translate.Latest()) // as the specification requires of servers
	h.Facts = mcp.ClientFacts(gjson.Get(params, "capabilities"))
	return nil
}

// ask proposes a revision and waits for the response.
func (h *Handshake) ask(ctx context.Context, raw []byte, propose *translate.Revision) (*wire.Message, error) {
	m, err := h.sendProposal(ctx, raw, propose)
	if m != nil {
		h.Seen.Came(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: h.Seen.Keep(m.Raw), Method: wire.Initialize.String(), Rev: propose.Name})
	}
	return m, err
}

// sendProposal is ask without observation of the response.
func (h *Handshake) sendProposal(ctx context.Context, raw []byte, propose *translate.Revision) (answer *wire.Message, err error) {
	up := h.Opener.Now().Table.Between(h.vc, propose)
	body, lost, err := proposal(up, raw, propose, h.Facts)
	h.Opener.Host.Losses.Note(losses.Peers{From: h.vc, To: propose, Client: losses.NameOf(gjson.GetBytes(raw, "params.clientInfo").Raw)}, wire.Initialize, lost, h.Header)
	if err != nil {
		return nil, err
	}
	h.Sent = body
	h.observeProposal(body, propose, observe.Why{Translator: up, Known: translate.Known{Facts: h.Facts}}, lost)
	h.Told = nil
	o := &upstream.Outgoing{Body: body, Request: true, Header: h.Header, Told: &h.Told}
	span := telemetry.Ask(ctx, o, propose.Name)
	defer func() {
		span.Answered(answer)
		span.Done(err)
	}()
	st, err := h.send(ctx, o)
	if err != nil {
		return versionRefusal(err)
	}
	if st == nil {
		return h.Await(ctx, h.Standing)
	}
	defer st.Close()
	if answer, err = h.Await(ctx, st); err != nil {
		return versionRefusal(err)
	}
	if h.named = st.SessionID(); len(h.named) > sealed.MaxNamed {
		return nil, sealed.ErrNamedTooLong
	}
	return answer, nil
}

// proposal returns the client's initialize, raw, as the one that proposes this revision, and what is lost in it.
func proposal(up *translate.Translator, raw []byte, propose *translate.Revision, facts wire.Facts) (body []byte, losses []wire.Loss, err error) {
	var m wire.Message
	if err := m.Scan(bytes.Clone(raw), up.Shape()); err != nil {
		return nil, nil, err
	}
	m.Facts = facts
	body, _, err = up.Rewrite(nil, &m)
	if err == nil && gjson.Get(wire.View(body), "params.protocolVersion").String() != propose.Name {
		if body, err = sjson.SetBytes(body, "params.protocolVersion", propose.Name); err != nil {
			err = mcp.Fail(mcp.InitializeBroken, "").About(bytes.Clone(m.ID()))
		}
	}
	return body, m.Losses, err
}

// send sends initialize. It opens the connection first if there is none.
func (h *Handshake) send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if h.Conn != nil {
		return h.Conn.Send(ctx, m)
	}
	b, err := h.Opener.begun(ctx, m)
	if err != nil {
		return nil, err
	}
	h.Begun, h.shared = *b, h.Opener.Now().Origin.Shared != nil
	return b.Answer, nil
}

// versionRefusal returns the JSON-RPC error in the body of an HTTP refusal, if it is about
// revisions. Otherwise it returns err.
func versionRefusal(err error) (*wire.Message, error) {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || status.Code < 400 || status.Code > 499 {
		return nil, err
	}
	m := new(wire.Message)
	if m.Scan(status.Body, nil) != nil || m.Kind != wire.Error {
		return nil, err
	}
	if e := gjson.Parse(wire.View(m.Error())); !e.Get("data.supported").IsArray() && !strings.Contains(e.Raw, mcp.MetaPrefix) {
		return nil, err
	}
	return m, nil
}

// refusal returns the server's error response to initialize, with the client's id.
func (h *Handshake) refusal(m *wire.Message) []byte {
	if id := m.ID(); id != nil && string(id) != "null" {
		return m.Raw
	}
	return mcp.AppendErrorAs(nil, h.ID, m.Error())
}

// settle makes the session from the server's InitializeResult.
func (h *Handshake) settle(m *wire.Message) (*session.Session, []byte, error) {
	vu, err := era.Agreed(m, h.ID)
	if err != nil {
		return nil, nil, err
	}
	if vu != h.vc && vu.SameEra(h.vc) {
		h.Opener.Host.Report.Quirk(report.OtherRevision)
	}
	if gjson.Get(wire.View(m.Result()), "capabilities.logging").Exists() {
		h.Facts |= wire.ServerLogging
	}
	if mcp.Declares(gjson.GetBytes(m.Result(), "capabilities"), "tools") {
		h.Facts |= wire.ServerTools
	}
	if h.Opener.BridgesTasks(h.vc, vu, m.Result()) {
		h.Facts |= wire.ServerTasks
	}
	s := h.Opener.newSession(h, vu)
	if err := m.Scan(m.Raw, s.Down.Shape()); err != nil {
		return nil, nil, err
	}
	m.Method, m.Facts = wire.Initialize, s.Facts
	out, _, err := s.Down.Rewrite(nil, m)
	h.Opener.Host.Losses.Note(losses.Peers{From: vu, To: h.vc, Client: s.ClientName}, wire.Initialize, m.Losses, h.Header)
	h.Seen.Because(observe.ToClient, observe.Why{Translator: s.Down, Known: observe.KnownOf(m)}, m.Losses)
	if err != nil {
		return nil, nil, report.FailureOf(err).About(h.ID)
	}
	return s, out, nil
}

// namesHandshake reports whether the server's error names a handshake revision that it accepts.
func (h *Handshake) namesHandshake(m *wire.Message) bool {
	if m == nil {
		return false
	}
	next, err := h.rejected(m)
	return err == nil && next != nil
}

// rejected is [era.Rejected] for the request of h.
func (h *Handshake) rejected(m *wire.Message) (*translate.Revision, error) {
	next, err := era.Rejected(m)
	if err != nil {
		return nil, report.FailureOf(err).About(h.ID)
	}
	return next, nil
}

// Conclude logs and counts the outcome of a handshake, and returns the error for the client. It ends the span of one
// that has failed. If s is nil, answer is the server's refusal, or err is set.
func (h *Handshake) Conclude(s *session.Session, answer []byte, err error) error {
	switch {
	case err != nil:
		f := report.FailureOf(err)
		if f.UnknownSession() { // without a session, 404 means that there is no server at this path
			f.NoEndpoint()
		}
		f = h.Opener.Host.Report.Failed(f, h.requestInfo())
		h.observeFailure(f)
		h.Span.End(string(report.Outcome(f)), f.Why)
		h.Opener.Metrics.Handshake(h.vc, nil, report.Outcome(f), failures.Cause(f.Why))
		return f
	case s == nil:
		h.Seen.Went(observe.ClientEdge, observe.ToClient, answer)
		why, said := failures.Refusal, gjson.GetBytes(answer, "error")
		if said.Get("code").Int() == mcp.CodeUnsupportedVersion || said.Get("data.supported").IsArray() {
			why = failures.Revision
		}
		h.Opener.Metrics.Handshake(h.vc, nil, metrics.Errored, why)
		h.Opener.Host.Report.ServerFailed("server refused initialize", why, errors.New(said.Raw), h.Header)
		h.Span.Done(&mcp.ServerError{Raw: []byte(said.Raw)})
	default:
		h.observeAnswer(s, answer)
	}
	return nil
}

func (h *Handshake) requestInfo() report.At {
	return report.At{Method: wire.Initialize.String(), Client: h.vc, Header: h.Header}
}

// sharesModern reports whether the shared process is a server without a handshake. failed is the error of a handshake with it.
func (h *Handshake) sharesModern(ctx context.Context, failed error) bool {
	if h.Opener.Now().Origin.Shared == nil || !h.Bridges {
		return false
	}
	f, ok := errors.AsType[*mcp.Failure](failed)
	ownAnswer := ok && f.Err == nil // and no process that has ended
	e, err := h.Opener.Eras.Of(ctx, h.Header)
	if ownAnswer && f.Cause == mcp.UpstreamModern && err == nil && e.Handshake == era.Accepted { // it was concluded from the end of a process
		h.Opener.Eras.Drop(h.Header, e)
		e, err = h.Opener.Eras.Of(ctx, h.Header)
	}
	if err != nil || !e.Modern() || e.Handshake == era.Accepted {
		return false
	}
	if ownAnswer {
		h.Opener.Eras.Prove(h.Header, era.Refused)
		return true
	}
	return e.Handshake == era.Refused
}

// beginSpan begins the span of the client's initialize, raw.
func (h *Handshake) beginSpan(raw []byte) {
	if h.Opener.Tracer == nil {
		return
	}
	params := []byte(gjson.GetBytes(raw, "params").Raw)
	if p, yes := h.Opener.Tracer.Samples(params, h.Header, nil); yes {
		m := telemetry.Message{Method: wire.Initialize.String(), ID: h.ID, Params: params, Began: time.Now()}
		h.Span = h.Opener.Tracer.Begin(p, m, telemetry.Edge{Revision: h.vc.Name, Address: h.Peer}, telemetry.Edge{})
	}
}
