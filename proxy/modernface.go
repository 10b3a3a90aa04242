package proxy

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// isModernPost reports whether a message is from a modern client, and scans it into m. A modern
// client's session id is ignored. A client with a session may also name a modern revision in the
// header, the newest one that it knows.
func (srv *face) isModernPost(req *downstream.Request, m *wire.Message) bool {
	if m.Scan(req.Body, nil) != nil || m.Kind == wire.Request && m.Method == wire.Initialize && !stateless.IsModern(m) {
		return false
	}
	if m.Kind == wire.Request && stateless.IsModern(m) {
		return true
	}
	if !stateless.NamesModern(req.Version) {
		return false
	}
	if req.Session == "" {
		return true
	}
	s, err := srv.Table.Find(req.Session, srv.OwnerOf(req), &downstream.Sender{Guest: req.Guest})
	if s != nil {
		s.Leave()
	}
	return s == nil && err == nil
}

// onlyPost returns the error for a GET or DELETE of a client without a session.
func onlyPost() error {
	f := mcp.Fail(mcp.NoStream, "")
	f.Text = "clients of this revision have no session: only POST is accepted"
	f.Header = []mcp.Header{{Name: "Allow", Value: "POST"}}
	return f
}

// postModern answers one message of a modern client.
func (srv *face) postModern(req *downstream.Request, m *wire.Message, resp *downstream.Response) (err error) {
	if m.Kind != wire.Request {
		if m.Kind.Response() {
			return mcp.Fail(mcp.Malformed, "a response belongs into inputResponses")
		}
		resp.Status = 202 // no notification of a modern client needs an action
		return nil
	}
	if req.Version == "" {
		srv.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		return stateless.MissingVersion().About(m.ID())
	}
	q, err := stateless.Read(m, req.Version)
	if err != nil {
		srv.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		return srv.listing(err, srv.AppendPassed(nil, req.Header))
	}
	from := srv.AppendPassed(nil, req.Header)
	span := srv.spanWithout(m, from, req.Peer)
	if span != nil {
		req.Ctx = span.Within(req.Ctx)
	}
	defer q.Count(srv.Metrics).Release()
	q.Counts.Trace(span)
	defer func() {
		if err != nil {
			known := isReported(err)
			f := srv.Host.Report.Failed(err, q.At(from))
			if !known {
				srv.ObserveRefusal(req.Body, translate.Lookup(req.Version), "http", f)
			}
			q.Counts.Fail(f)
			err = f
		}
	}()
	q.NoteHeaders(req)
	if err := q.CheckHeaders(req.Header); err != nil {
		return clienterror.Of(err).About(q.ID)
	}
	if stateless.IsHandshakeOnly(q.Method) {
		return stateless.UnknownMethod(q.Name).About(q.ID)
	}
	if q.PlainName {
		srv.Host.Report.Quirk(report.RawName)
	}
	if srv.Now().Shaping != nil {
		q.MaxTokens = shape.Budget(req.Header(shape.BudgetHeader))
	}
	q.Timed = req.Header(trace.TimingHeader) != ""
	by := srv.Now().Config.Bridge.Principal
	who := principal.Of(req, by)
	q.User, q.RunsFor = principal.User(req, by, who), srv.runsFor(req)
	q.Address = req.Peer
	q.Sender = downstream.SenderOf(req.Guest, req.Header, srv.Adapters.CallerHeaders())
	q.Unknown = req.Guest == "" && (who == "" || !strings.HasPrefix(by, "header:")) // a header that bridge.principal names is set by a trusted proxy
	direct := false
	if !srv.isOurs(q) {
		if direct, err = srv.isDirect(req.Ctx, from); err != nil {
			return clienterror.Of(err).About(q.ID)
		}
	}
	for again := false; ; again = true {
		if direct {
			err = srv.postDirect(req, q, who, from, resp)
		} else {
			var own *stateless.Request
			if own, err = q.Clone(req.Ctx, srv.Host.Memory()); err == nil {
				err = srv.modern.Post(req, own, who, from, resp)
			}
		}
		if err == nil || again || srv.isOurs(q) || !srv.Eras.Changed(req.Ctx, from, direct, err) {
			return err
		}
		if direct = !direct; resp.Done != nil {
			resp.Done()
			resp.Done, resp.Header = nil, nil
		}
	}
}

// modern handles a modern request on a pipe. It does not wait for the response.
func (p *pipe) modern(m *wire.Message) {
	q, err := stateless.Read(m, "")
	if err == nil {
		q.Sender = p.sender
	}
	if err == nil && stateless.IsHandshakeOnly(q.Method) {
		err = stateless.UnknownMethod(q.Name).About(q.ID)
	}
	if err != nil {
		p.srv.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		p.refuse(p.srv.listing(err, p.from), m.Raw)
		return
	}
	counts := q.Count(p.srv.Metrics)
	defer counts.Release()
	refuse := func(err error) {
		known := isReported(err)
		f := p.srv.Host.Report.Failed(err, q.At(p.from)).About(q.ID)
		if !known {
			p.srv.ObserveRefusal(m.Raw, translate.Lookup(translate.Modern()), p.srv.PipeTransport(), f)
		}
		counts.Fail(f)
		p.refuse(f, nil)
	}
	direct := false
	if !p.srv.isOurs(q) {
		if direct = p.straight != nil; !direct {
			direct, err = p.srv.isDirect(p.ctx, p.from)
		}
		if err != nil {
			refuse(err)
			return
		}
	}
	if direct {
		if p.straight == nil {
			err = p.openDirect(q)
		}
		switch {
		case err == nil:
			p.straight.forward(m.Raw, nil, 0)
			return
		case clienterror.Of(err).Cause != mcp.UpstreamLegacy:
			refuse(err)
			return
		}
	}
	span := p.srv.spanWithout(m, p.from, "")
	counts.Trace(span)
	if q, err = q.Clone(p.ctx, p.srv.Host.Memory()); err != nil {
		refuse(err)
		return
	}
	ctx, stop := context.WithCancelCause(span.Within(p.ctx))
	key := string(wire.AppendIDKey(nil, q.ID))
	p.mu.Lock()
	if p.running == nil {
		p.running = map[string]context.CancelCauseFunc{}
	}
	taken := p.running[key] != nil
	full := len(p.running) >= p.srv.Now().Config.Limits.OpenRequests
	if !taken && !full {
		p.running[key] = stop
	}
	p.mu.Unlock()
	if taken || full {
		stop(nil)
		c := mcp.DuplicateID
		if full {
			c = mcp.TooManyOpen
		}
		refuse(mcp.Fail(c, ""))
		return
	}
	if q.Method != wire.SubscriptionsListen { // a subscription does not end by itself
		p.calls.Add(1)
	}
	free := sync.OnceFunc(func() {
		p.mu.Lock()
		delete(p.running, key)
		p.mu.Unlock()
	})
	counts.Hold()
	p.spawn(func() {
		defer counts.Release()
		defer func() {
			if q.Method != wire.SubscriptionsListen {
				p.calls.Done()
			}
			stop(nil)
			free()
		}()
		p.runModern(ctx, q, free)
	})
}

// runModern answers a modern request. It calls free before the client receives the response, since
// the client may then use the id again.
func (p *pipe) runModern(ctx context.Context, q *stateless.Request, free func()) {
	defer func() {
		if r := recover(); r != nil {
			p.srv.Host.Report.Panicked(r)
			free()
			p.refuse(mcp.Fail(mcp.Panicked, "").About(q.ID), q.Raw)
		}
	}()
	r, err := p.srv.modern.Begin(ctx, q, "", nil)
	if err != nil {
		known := isReported(err)
		f := p.srv.Host.Report.Failed(err, q.At(nil)).WithID(q.ID)
		if !known {
			p.srv.ObserveRefusal(q.Raw, translate.Lookup(translate.Modern()), p.srv.PipeTransport(), f)
		}
		q.Counts.Fail(f)
		free()
		p.refuse(f, nil)
		return
	}
	defer r.End()
	answer, err := r.Answer(until{ctx, p})
	if err != nil || ctx.Err() != nil {
		return // cancelled: no response is owed
	}
	free()
	p.write(answer)
	if r.Cut() { // see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
		p.write(mcp.Cancelled(q.ID, ""))
	}
}

// until is the client of a pipe until a request is cancelled: it gets no further message about the request.
type until struct {
	ctx context.Context
	p   *pipe
}

// Send implements [mcp.Peer].
func (u until) Send(e sse.Event) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	u.p.write(e.Data)
	return nil
}

// cancelModern cancels the request that a notifications/cancelled names, if it is a modern one. It
// reports whether it is.
func (p *pipe) cancelModern(m *wire.Message) bool {
	key := string(exchange.AppendCancelled(nil, m, true))
	p.mu.Lock()
	stop := p.running[key]
	p.mu.Unlock()
	if stop == nil {
		return false
	}
	stop(downstream.ErrClientLeft)
	return true
}

// listing returns err for a client of a modern server: if err lists the supported revisions,
// listing replaces them by those in the server's own DiscoverResult.
func (srv *fronts) listing(err error, from []upstream.Header) error {
	f, ok := errors.AsType[*mcp.Failure](err)
	if !ok || f.Cause != mcp.RevisionUnsupported {
		return err
	}
	known := srv.Eras.Peek(from)
	if known == nil || !known.Modern() {
		return err
	}
	names := []byte{'['}
	gjson.GetBytes(known.Discovered, "supportedVersions").ForEach(func(_, v gjson.Result) bool {
		if translate.Lookup(v.String()) != nil {
			names = append(mcp.AppendString(names, v.String()), ',')
		}
		return true
	})
	if len(names) == 1 {
		names = append(mcp.AppendString(names, known.Revision.Name), ',')
	}
	names[len(names)-1] = ']'
	if data, err := sjson.SetRawBytes(f.Data, "supported", names); err == nil {
		f.Data = data
	}
	return f
}
