package web

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// isModernPost reports whether a message is from a modern client, and scans it into m. A modern
// client's session id is ignored. A client with a session may also name a modern revision in the
// header, the newest one that it knows.
func (f *Face) isModernPost(req *downstream.Request, m *wire.Message) bool {
	if m.Scan(req.Body, f.Shape.Load()) != nil || m.Kind == wire.Request && m.Method == wire.Initialize && !stateless.IsModern(m) {
		return false
	}
	named := stateless.NamesModern(req.Version)
	if named && req.Session == "" { // first, as it is known at once
		return true
	}
	if m.Kind == wire.Request && stateless.IsModern(m) {
		return true
	}
	if !named {
		return false
	}
	s, err := f.Table.Find(req.Session, f.OwnerOf(req), &downstream.Sender{Guest: req.Guest})
	if s != nil {
		s.Leave()
	}
	return s == nil && err == nil
}

// postModern answers one message of a modern client.
func (face *Face) postModern(req *downstream.Request, m *wire.Message, resp *downstream.Response) (err error) {
	if m.Kind != wire.Request {
		if m.Kind.Response() {
			return mcp.Fail(mcp.Malformed, "a response belongs into inputResponses")
		}
		resp.Status = 202 // no notification of a modern client needs an action
		return nil
	}
	if req.Await != nil && m.Method != wire.ServerDiscover {
		req.Await(wire.View(m.ID()))
	}
	if req.Version == "" {
		face.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		return stateless.MissingVersion().About(m.ID())
	}
	q, err := stateless.Read(m, req.Version)
	if err != nil {
		face.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		return face.Listing(err, face.AppendPassed(nil, req.Header))
	}
	from := face.AppendPassed(nil, req.Header)
	span := face.SpanWithout(m, from, req.Peer)
	if span != nil {
		req.Ctx = span.Within(req.Ctx)
	}
	defer q.Count(face.Metrics).Release()
	q.Counts.Trace(span)
	defer func() {
		if err != nil {
			known := clients.IsReported(err)
			f := face.Host.Report.Failed(err, q.At(from))
			if !known {
				face.ObserveRefusal(req.Body, translate.Lookup(req.Version), "http", f)
			}
			q.Counts.Fail(f)
			err = f
		}
	}()
	if req.Twice != "" {
		f := mcp.Fail(mcp.HeaderMismatch, "")
		f.Text = mcpheader.Repeated(req.Twice)
		return f.About(q.ID)
	}
	q.NoteHeaders(req)
	if face.Observer.Watched() {
		q.Heard = session.Heard(from, req)
	}
	if err := q.CheckHeaders(req.Header); err != nil {
		return report.FailureOf(err).About(q.ID)
	}
	if stateless.IsHandshakeOnly(q.Method) {
		return stateless.UnknownMethod(q.Name).About(q.ID)
	}
	if q.PlainName {
		face.Host.Report.Quirk(report.RawName)
	}
	if face.Now().Shaping != nil {
		q.MaxTokens = shape.Budget(req.Header(shape.BudgetHeader))
	}
	q.Timed = req.Header(trace.TimingHeader) != ""
	by := face.Now().Config.Bridge.Principal
	who := principal.Of(req, by)
	q.User, q.Owner = principal.User(req, by, who), face.OwnerOf(req)
	q.Address = req.Peer
	q.Sender = downstream.SenderOf(req.Guest, req.Header, face.Adapters.CallerHeaders())
	q.Unknown = req.Guest == "" && (who == "" || !strings.HasPrefix(by, "header:")) // a header that bridge.principal names is set by a trusted proxy
	direct, bridged := false, face.NeedsSession(q, who)
	if !bridged {
		if direct, err = face.NeedsNoSession(req.Ctx, from, q); err != nil {
			return report.FailureOf(err).About(q.ID)
		}
	}
	for again := false; ; again = true {
		if direct {
			err = face.Modern.Pass(req, q, who, from, resp)
		} else {
			if err = q.Own(req.Ctx, face.Host.Memory()); err == nil {
				q.Scanned = m
				err = face.Modern.Post(req, q, who, from, resp)
				q.Scanned = nil
			}
		}
		if err == nil || again || bridged || !face.Eras.Changed(req.Ctx, from, direct, err) {
			return err
		}
		if direct = !direct; resp.Done != nil {
			resp.Done()
			resp.Done, resp.Header = nil, nil
		}
	}
}
