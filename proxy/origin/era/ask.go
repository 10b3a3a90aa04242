package era

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// eraAnswer is the response of a process that was asked for its era.
type eraAnswer struct {
	m *wire.Message
	// greeted says that the process was sent initialize as well, and begun that m is the response to it, and that
	// server/discover has none.
	greeted, begun bool
	// greeting is the response to initialize where both requests have one.
	greeting *wire.Message
}

// accepted returns the response with which the server has begun a session, or nil.
func (r *eraAnswer) accepted() *wire.Message {
	m := r.greeting
	if r.begun {
		m = r.m
	}
	if m == nil || m.Kind != wire.Result {
		return nil
	}
	return m
}

// identity returns the [identity] of the server, "" if it has not named itself.
func (r *eraAnswer) identity() string {
	if m := r.accepted(); m != nil {
		return identity(gjson.Get(wire.View(m.Result()), "serverInfo").Raw)
	}
	if r.m == nil || r.m.Kind != wire.Result {
		return ""
	}
	return identity(gjson.Get(wire.View(r.m.Result()), ServerInfo).Raw)
}

// askPipe asks the process of b for its era, or one that is started instead, which then is that of b. What is remembered of it
// decides how.
func (p *Cache) askPipe(ctx context.Context, b *upstream.Begun, initialize []byte) (r eraAnswer, err error) {
	known, ok := p.Memory.Recall()
	silence := p.Silence
	switch {
	case ok && known.Modern: // initialize would pin it to an older revision
		silence = max(silence, p.host.Config().Upstream.HandshakeTimeout/2)
	case ok:
		if r, err = p.greet(ctx, b, initialize, known.Server); err == nil || TookTooLong(err) {
			return r, err
		}
		p.Memory.Forget()
		pipes.EndBegun(b, p.host.Log)
		again, err := p.open()(ctx)
		if err != nil {
			return eraAnswer{}, err
		}
		*b = *again
	}
	return p.askProcess(ctx, b, initialize, silence)
}

// errOther says that a server is not the one that was remembered.
var errOther = errors.New("another server than before")

// greet asks a process that has a handshake only, as far as is remembered: it is sent initialize first, and then
// server/discover, which it has eraBreath to answer. The error is errOther if it is not the server with this identity.
func (p *Cache) greet(ctx context.Context, b *upstream.Begun, initialize []byte, who string) (r eraAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	standing := upstream.LookAhead(b.Standing)
	b.Standing = standing
	h := &pipes.Opening{Of: p.host, Begun: *b, ID: []byte(gjson.GetBytes(initialize, "id").Raw)}
	o := &upstream.Outgoing{Body: initialize, Request: true}
	span := telemetry.Ask(ctx, o, translate.Latest().Name)
	r = eraAnswer{greeted: true, begun: true}
	if _, err = b.Conn.Send(ctx, o); err == nil {
		r.m, err = h.Await(ctx, standing)
	}
	span.Answered(r.m)
	span.Done(err)
	if err == nil && r.identity() != who {
		err = errOther
	}
	if err != nil {
		return r, err
	}
	question := &pipes.Opening{Of: p.host, Begun: *b}
	Discover(question, eraID)
	if _, err = b.Conn.Send(ctx, &upstream.Outgoing{Body: question.Sent, Request: true}); err != nil {
		return r, err
	}
	r.awaitOther(ctx, h, standing, question.ID)
	return r, nil
}

// askProcess asks a process for its era. A process that is silent for a while may start slowly, or may be
// a handshake server that does not answer what comes before initialize: it is sent initialize as well. To answer either, it has the time
// of a handshake, of which the silence takes half at most.
func (p *Cache) askProcess(ctx context.Context, b *upstream.Begun, initialize []byte, silence time.Duration) (r eraAnswer, err error) {
	limit := p.host.Config().Upstream.HandshakeTimeout
	silence = min(silence, limit/2)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	standing := upstream.LookAhead(b.Standing)
	b.Standing = standing
	h := &pipes.Opening{Of: p.host, Begun: *b}
	Discover(h, eraID)
	o := &upstream.Outgoing{Body: h.Sent, Request: true}
	span := telemetry.Ask(ctx, o, translate.Modern())
	defer func() {
		if !r.begun { // else server/discover has no response
			span.Answered(r.m)
		}
		span.Done(err)
	}()
	if _, err := b.Conn.Send(ctx, o); err != nil {
		return r, err
	}
	id := []byte(gjson.GetBytes(initialize, "id").Raw)
	r.m, r.greeted, err = p.awaitGreeting(ctx, h, silence, initialize, id)
	if err != nil || !r.greeted {
		return r, err
	}
	other := id
	if r.begun = pipes.IsAbout(r.m, id); r.begun {
		other = h.ID
	}
	r.awaitOther(ctx, h, standing, other)
	return r, nil
}

// awaitOther waits for the response to the other of the two requests, which has this id: a process that is ended before it has
// written it may log an error. If it has begun a session, the response to initialize is put back into standing.
func (r *eraAnswer) awaitOther(ctx context.Context, h *pipes.Opening, standing *upstream.Lookahead, other []byte) {
	ctx, cancel := context.WithTimeout(ctx, eraBreath)
	defer cancel()
	defer func() {
		if m := r.accepted(); m != nil {
			standing.Unread(append(h.Early, m.Raw)...)
		}
	}()
	switch m, err := h.AwaitAny(ctx, standing.Look(), other); {
	case err != nil:
	case r.begun:
		r.m, r.greeting, r.begun = m, r.m, false
	default:
		r.greeting = m
	}
}

// awaitGreeting waits for the response to h's request. After a silence it sends initialize, which has this id, and
// waits for either response.
func (p *Cache) awaitGreeting(ctx context.Context, h *pipes.Opening, after time.Duration, initialize, id []byte) (m *wire.Message, greeted bool, err error) {
	waiting, over := context.WithCancel(ctx)
	silence := time.NewTimer(after)
	defer silence.Stop()
	var greeting sync.WaitGroup
	greeting.Go(func() {
		select {
		case <-silence.C:
		case <-waiting.Done():
			return
		}
		greeted = true
		h.Conn.Send(waiting, &upstream.Outgoing{Body: initialize, Request: true}) //nolint:errcheck // the reader gets the error
	})
	m, err = h.AwaitAny(ctx, h.Standing, h.ID, id)
	over()
	greeting.Wait()
	return m, greeted, err
}

// concludeBegun returns the era of a server that has answered initialize with m, and server/discover not at
// all.
func concludeBegun(m *wire.Message) (*Era, error) {
	switch {
	case !LooksModern(m, nil):
		return &Era{Handshake: Accepted}, nil
	case m.Kind == wire.Error && gjson.Get(wire.View(m.Error()), "data.supported").IsArray():
		e, err := conclude(m, 0)
		if err == nil && e.Handshake == Untried {
			e.Handshake = Refused
		}
		return e, err
	}
	return &Era{Revision: translate.Lookup(translate.Modern()), Handshake: Refused}, nil
}

// TookTooLong reports whether err is that of a context whose deadline has passed, or of a process that has written nothing until then.
func TookTooLong(err error) bool {
	_, mute := errors.AsType[*upstream.MuteError](err)
	return mute || errors.Is(err, context.DeadlineExceeded)
}

// ask finds out the server's era. spare is the process that was asked, if a session can still use it, else nil. initialize
// is that of the session for which the server is asked.
func (p *Cache) ask(ctx context.Context, header []mcp.Header, initialize []byte) (e *Era, spare *spareConn, err error) {
	b, err := p.open()(ctx)
	switch {
	case errors.Is(err, ErrHandshakeOnly):
		return &Era{Handshake: Accepted}, nil, nil
	case err != nil:
		return nil, nil, err
	}
	piped := b.Standing != nil
	var r eraAnswer
	code := 0
	if piped {
		r, err = p.askPipe(ctx, b, initialize)
	} else {
		r.m, code, err = p.discover(ctx, b, header)
	}
	failed := err != nil
	if e, err = p.judge(ctx, &r, piped, code, err); err == nil && piped && !failed { // over HTTP another connection costs nothing
		spare = r.spare(b, e, initialize)
		p.remember(Remembered{Modern: e.Modern(), Server: r.identity()})
	}
	switch {
	case spare != nil:
	case err != nil: // a process may take its time to end, for which its client does not wait
		p.host.Spawn(func() { pipes.EndBegun(b, p.host.Log) })
	default:
		pipes.EndBegun(b, p.host.Log)
	}
	return e, spare, err
}

// remember keeps what a process turned out to be.
func (p *Cache) remember(r Remembered) {
	if known, ok := p.Memory.Recall(); r.Server != "" {
		p.Memory.Remember(r)
	} else if ok && known.Modern != r.Modern {
		p.Memory.Forget()
	}
}

// spare returns the process of b for a session to use, or nil if none can. initialize was sent to it if it was greeted.
func (r *eraAnswer) spare(b *upstream.Begun, e *Era, initialize []byte) *spareConn {
	if !r.greeted {
		return &spareConn{Begun: b}
	}
	if r.accepted() == nil || e.Modern() { // initialize pins a server of both eras to the older one
		return nil
	}
	return &spareConn{Begun: b, greeted: initialize}
}

// judge concludes the era from r. err is the failure of the question, and code the status of an answer over HTTP, or 0.
func (p *Cache) judge(ctx context.Context, r *eraAnswer, piped bool, code int, err error) (*Era, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case Inconclusive(code), upstream.NeverSent(err), errors.As(err, new(*upstream.CredentialError)):
		return nil, err // initialize would fail in the same way
	case piped && TookTooLong(err):
		return nil, err // the process has already had initialize and has not answered it either
	case r.begun:
		e, err := concludeBegun(r.m)
		if err == nil && r.accepted() != nil && e.Handshake == Accepted {
			p.host.Report.Quirk(report.SilentEarly)
		}
		return e, err
	case err == nil, code < 500 && r.m != nil:
		e, err := conclude(r.m, code)
		if err == nil && r.m.Kind == wire.Error && e.Newest != nil {
			p.host.Report.Quirk(report.LegacyList)
		}
		if err == nil && e.Handshake == Untried && r.greeting != nil {
			if e.Handshake = refusal(r.greeting, nil); r.greeting.Kind == wire.Result && e.Handshake == Untried {
				e.Handshake = Accepted
			}
		}
		return e, err
	}
	if _, exited := errors.AsType[*upstream.ExitError](err); exited {
		p.host.Report.Quirk(report.ExitsEarly)
	}
	return &Era{Handshake: Accepted, Unsure: !piped && (code == 0 || code >= 500)}, nil
}

// discover sends server/discover over HTTP. m is the response. If the server answers with an error status,
// code is that status, err is a *upstream.StatusError, and m is the JSON-RPC error in the body, or nil. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (p *Cache) discover(ctx context.Context, b *upstream.Begun, header []mcp.Header) (m *wire.Message, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime+p.host.Config().Upstream.Auth.Patience())
	defer cancel()
	h := &pipes.Opening{Of: p.host, Begun: *b, Header: header}
	Discover(h, eraID)
	o := &upstream.Outgoing{Request: true, FirstByte: askTime, Body: h.Sent}
	o.Header = slices.DeleteFunc(slices.Clone(header), ofMessage)
	o.Header = append(o.Header, mcp.Header{Name: "Mcp-Method", Value: wire.ServerDiscover.String()})
	span := telemetry.Ask(ctx, o, translate.Modern())
	st, err := b.Conn.Send(ctx, o)
	if err == nil {
		defer st.Close()
		m, err = h.Await(ctx, st)
	}
	span.Answered(m)
	span.Done(err)
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		m = new(wire.Message)
		if m.Scan(bytes.Clone(status.Body), nil) != nil || m.Kind != wire.Error {
			m = nil
		}
		return m, status.Code, err
	}
	return m, 0, err
}

// eraID is the id of the request by which the era is asked for.
const eraID = "dragoman:era"

// Discover sets the first request of h to a server/discover with dragoman's own clientInfo and an id. It sends nothing.
func Discover(h *pipes.Opening, id string) {
	h.ID = strconv.AppendQuote(nil, id)
	h.Sent = mcp.Request(h.ID, wire.ServerDiscover, fmt.Sprintf(`{"_meta":{%q:%q,%q:%s,%q:{}}}`, mcp.MetaVersion, translate.Modern(), mcp.MetaClient, mcp.Us, mcp.MetaCapabilities))
}

// ofMessage reports whether a header describes the message that it came with, as Mcp-Method does.
func ofMessage(h mcp.Header) bool {
	const prefix = "Mcp-"
	return len(h.Name) > len(prefix) && strings.EqualFold(h.Name[:len(prefix)], prefix)
}

// conclude returns the era of the server that has answered server/discover with m. code is the HTTP
// status, 0 for success. Most errors mean a handshake server: such servers answer a request
// before initialize with all kinds of errors.
func conclude(m *wire.Message, code int) (*Era, error) {
	if m.Kind == wire.Result {
		names := gjson.Get(wire.View(m.Result()), "supportedVersions")
		modern, handshake, _ := Named(names)
		e := &Era{Revision: modern, Newest: handshake}
		if modern == nil || handshake != nil {
			e.Handshake = Accepted
		}
		if modern != nil && len(m.Result()) <= maxDiscovered {
			e.Discovered = bytes.Clone(m.Result())
		}
		return e, nil
	}
	said := gjson.Parse(wire.View(m.Error()))
	modern, handshake, others := Named(said.Get("data.supported"))
	switch rpc := said.Get("code").Int(); {
	case rpc == mcp.CodeUnsupportedVersion && handshake == nil && modern == nil && others != "":
		return nil, mcp.Fail(mcp.UpstreamModern, others)
	case rpc == mcp.CodeUnsupportedVersion && handshake != nil:
		return &Era{Revision: modern, Handshake: Accepted, Newest: handshake}, nil
	case rpc == mcp.CodeUnsupportedVersion && modern != nil:
		return &Era{Revision: modern}, nil
	case rpc == int64(mcp.HeaderMismatch.Code()), rpc == int64(mcp.CapabilityMissing.Code()),
		(rpc == mcp.CodeInvalidParams || rpc == mcp.CodeMethodNotFound) && (code == 400 || code == 404) && strings.Contains(said.Raw, mcp.MetaPrefix):
		return &Era{Revision: translate.Lookup(translate.Modern())}, nil
	}
	return &Era{Handshake: Accepted}, nil
}

// Named returns, of a list of revision names, a modern revision and the newest handshake revision
// that dragoman knows, nil if there is none, and the first few names that it does not know.
func Named(names gjson.Result) (modern, handshake *translate.Revision, others string) {
	if !names.IsArray() {
		return nil, nil, ""
	}
	var unknown []string
	names.ForEach(func(_, v gjson.Result) bool {
		switch r := translate.Lookup(v.String()); {
		case r == nil && len(unknown) < 4:
			unknown = append(unknown, fmt.Sprintf("%.32s", v.String()))
		case r == nil:
		case r.Modern:
			modern = r
		case !r.Modern && (handshake == nil || r.Newer(handshake)):
			handshake = r
		}
		return true
	})
	return modern, handshake, strings.Join(unknown, ", ")
}
