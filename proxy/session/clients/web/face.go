// Package web serves clients over Streamable HTTP: [Face] handles POST, GET and DELETE.
//
//   - face.go has the requests of clients with a session, and initialize, with which begin.go begins one;
//   - withoutsession.go has those of clients that begin none, which share pooled sessions;
//   - modern.go has those of clients of 2026-07-28, which have no session;
//   - standing.go has the streams of GETs;
//   - batch.go answers the batches of 2025-03-26; owner.go forwards a request to the process that holds its session.
package web

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Face handles the requests of clients over Streamable HTTP.
type Face struct {
	*clients.Proxy

	standing standingStreams
	pooled   pooledSessions
	ending   atomic.Int32 // sessions that the server has not ended yet, but their clients have
}

// mostEnding is how many of the server's answers to DELETE are awaited without a client. Clients wait for further ones, so that a server
// that answers none does not get more connections than dragoman has.
const mostEnding = 64

// Post handles one message, or a batch.
func (f *Face) Post(req *downstream.Request, resp *downstream.Response) {
	defer f.Rescue(req, resp)
	if f.forwardToOwner("POST", req, resp) {
		return
	}
	if err := f.post(req, resp); err != nil {
		f.Refuse(req, resp, err)
	}
}

// Get opens the standing stream of a session, or resumes a stream.
func (f *Face) Get(req *downstream.Request, resp *downstream.Response) {
	defer f.Rescue(req, resp)
	if f.forwardToOwner("GET", req, resp) {
		return
	}
	if err := f.get(req, resp); err != nil {
		f.Refuse(req, resp, err)
	}
}

// Delete ends a session.
func (f *Face) Delete(req *downstream.Request, resp *downstream.Response) {
	defer f.Rescue(req, resp)
	if f.forwardToOwner("DELETE", req, resp) {
		return
	}
	s, err := f.SessionOf(req)
	switch {
	case err != nil || s != nil:
	case stateless.NamesModern(req.Version):
		err = clients.OnlyPost("clients of this revision have no session")
	case f.answersWithoutSession():
		err = clients.OnlyPost("the request names no session")
	default:
		err = mcp.Fail(mcp.NotInitialized, "no session to end")
	}
	if err != nil {
		f.Refuse(req, resp, err)
		return
	}
	defer s.Leave()
	if !s.Local && s.Bridge == nil && s.Renewing == nil {
		refused := mcp.Fail(mcp.NotDeleted, "")
		refused.Header = []mcp.Header{{Name: "Allow", Value: "GET, POST"}}
		f.Refuse(req, resp, refused)
		return
	}
	f.Table.DropForGood(s)
	why := mcp.Fail(mcp.SessionUnknown, "its client has ended it")
	if s.Renewing == nil || s.Local {
		f.End(s, why)
		return
	}
	s.ReleaseEnded(why) // so that no user is asked again
	header := f.AppendPassed(nil, req.Header)
	end := func() {
		defer f.ending.Add(-1)
		f.endAtServer(s, header)
	}
	if f.ending.Add(1) > mostEnding {
		end()
		return
	}
	f.Host.Spawn(end)
}

// endAtServer sends the server DELETE for a session that its client has ended. The client does not wait for the answer, which only the log
// has if it is an error.
func (f *Face) endAtServer(s *session.Session, header []mcp.Header) {
	ctx, cancel := f.Host.Ending()
	defer cancel()
	if err := s.Renewing.Delete(ctx, header, nil); err != nil {
		f.Host.Report.FailedAs("server did not end a session that its client has ended", err, report.At{Client: s.ClientRevision, Server: s.ServerRevision, Session: s.Named, Header: header})
	}
}

// Rescue writes the error response for a request whose handler panicked.
func (face *Face) Rescue(req *downstream.Request, resp *downstream.Response) {
	if p := recover(); p != nil {
		face.Host.Report.Panicked(p)
		f := mcp.Fail(mcp.Panicked, "").About(exchange.IDOf(req.Body))
		if f.ID != nil && req.Session != "" && !stateless.NamesModern(req.Version) {
			f = f.WithinSession()
		}
		face.Refuse(req, resp, f)
	}
}

// SessionOf returns the session that a request names, marked as in use. It returns nil if the
// request names none, or if the client is modern.
func (face *Face) SessionOf(req *downstream.Request) (*session.Session, error) {
	if req.Twice != "" {
		f := mcp.Fail(mcp.VersionUnknown, "").About(exchange.IDOf(req.Body))
		f.Text = mcpheader.Repeated(req.Twice)
		return nil, f
	}
	if req.Session == "" {
		return nil, nil
	}
	rev := translate.Lookup(req.Version)
	s, err := face.Table.Find(req.Session, face.OwnerOf(req), &downstream.Sender{Guest: req.Guest})
	switch {
	case err != nil:
		return nil, mcp.Fail(mcp.TooManySessions, "").About(exchange.IDOf(req.Body))
	case s == nil && stateless.NamesModern(req.Version):
		return nil, nil // a modern server ignores the header
	case s == nil:
		return nil, mcp.Fail(mcp.SessionUnknown, "").About(exchange.IDOf(req.Body))
	case req.Version != "" && rev == nil:
		s.Leave()
		return nil, mcp.Fail(mcp.VersionUnknown, "").About(exchange.IDOf(req.Body))
	}
	return s, nil
}

func (f *Face) post(req *downstream.Request, resp *downstream.Response) error {
	if req.Session == "" || stateless.NamesModern(req.Version) {
		m := messages.Get().(*wire.Message)
		defer func() {
			m.Trim()
			messages.Put(m)
		}()
		if f.isModernPost(req, m) {
			return f.postModern(req, m, resp)
		}
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := f.New(ctx, stop)
	resp.Done = x.Release
	s, err := f.SessionOf(req)
	if err != nil {
		return err
	}
	x.Session = s
	x.TakeHeaders(req)
	x.AnswerTo(req)
	if s == nil {
		x.Principal, x.Owner, x.RunsFor = "http "+principal.Of(req, f.Now().Config.Bridge.Principal), f.OwnerOf(req), f.RunsFor(req)
	}
	if s == nil && f.answersWithoutSession() && f.namesNoSession(x, req) {
		if done, err := f.postWithoutSession(x, req, resp); done {
			return err
		}
		s = x.Session
	}
	switch {
	case wire.IsArray(req.Body) && s == nil && stateless.NamesModern(req.Version):
		err = clients.NoBatches(translate.Modern())
	case wire.IsArray(req.Body):
		err = f.postBatch(x, req, resp)
	case s == nil:
		err = f.postInitialize(x, req, resp)
	default:
		if err = x.Post(req.Body, resp); err != nil && !x.IsInitialized() {
			err = f.Host.Report.Failed(err, x.At()).WithinSession()
		}
	}
	if s != nil && s.Pooled && err != nil {
		err = lostPooled(err)
	}
	if !x.Streamed {
		resp.Header = x.Clock.AppendTo(resp.Header)
	}
	return err
}

// postInitialize handles initialize and begins a session.
func (f *Face) postInitialize(x *exchange.Exchange, req *downstream.Request, resp *downstream.Response) (err error) {
	raw := req.Body
	if err := x.Msg.Scan(raw, nil); err != nil {
		return err
	}
	m := &x.Msg
	id := bytes.Clone(m.ID())
	defer func() {
		if p := recover(); p != nil {
			f.Host.Report.Panicked(p)
			err = mcp.Fail(mcp.Panicked, "").About(id)
		}
	}()
	switch {
	case m.Kind == wire.Request && stateless.IsModern(m):
		return mcp.Uninitialized(mcp.ModernRefused).About(m.ID())
	case m.Kind != wire.Request:
		return clients.NotInitialized()
	case m.Method != wire.Initialize:
		return clients.NotInitialized().About(m.ID())
	}
	if err := f.reserve(x); err != nil {
		return err.About(m.ID())
	}
	s, answer, early, told, err := f.begin(x, raw)
	resp.Header = append(resp.Header, told...)
	if s == nil {
		f.Table.Release(x.Owner)
		resp.Body = answer
		return err
	}
	f.add(x, s)
	resp.Header = append(resp.Header, mcp.Header{Name: "Mcp-Session-Id", Value: s.ID})
	if len(early) == 0 {
		resp.Body = answer
		return nil
	}
	s.Enter()
	x.Session = s
	x.StartStream()
	for _, message := range early { // what the server sent before its answer
		if out, ok := x.FromServer(message); ok && req.Client.Send(sse.Event{Data: out}) != nil {
			return nil // the client has left
		}
	}
	resp.Body = answer
	return nil
}

func (face *Face) get(req *downstream.Request, resp *downstream.Response) error {
	s, err := face.SessionOf(req)
	if err != nil {
		return err
	}
	if s == nil && stateless.NamesModern(req.Version) {
		return clients.OnlyPost("clients of this revision have no session")
	}
	if s == nil && face.answersWithoutSession() {
		return clients.OnlyPost("the request names no session, and HTTP+SSE clients use " + face.Now().Config.SSEPath)
	}
	if s == nil {
		f := clients.NotInitialized()
		f.Text += "; HTTP+SSE clients use " + face.Now().Config.SSEPath
		return f
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := face.New(ctx, stop)
	standing := face.standing.begin(x, s, resp, face.Host.Draining)
	x.TakeHeaders(req)
	x.StartStream()
	if s.Lanes != nil && s.Bridge == nil {
		if err := x.ResumeStream(s.Lanes, req.LastEventID); err != nil {
			f := face.Failed(x, err)
			if f.Cause == mcp.UpstreamLost {
				f = mcp.Fail(mcp.SessionUnknown, "")
			}
			return f
		}
		resp.Listen = standing.Listen
		return nil
	}
	o := upstream.ListenOptions{LastEventID: req.LastEventID, Header: x.From, Parks: true, Told: new([]mcp.Header)}
	st, err := face.Listen(ctx, s, o)
	switch {
	case errors.Is(err, upstream.ErrNoStream):
		f := mcp.Fail(mcp.NoStream, "")
		f.Header = []mcp.Header{{Name: "Allow", Value: "POST, DELETE"}}
		return f
	case err != nil:
		f := face.Failed(x, err)
		switch {
		case f.Cause == mcp.UpstreamLost:
			return mcp.Fail(mcp.SessionUnknown, "")
		case f.Status < fasthttp.StatusInternalServerError && !exchange.MayListenLater(err):
			return f
		}
		standing.OpenLater(upstream.ListenOptions{LastEventID: req.LastEventID, Header: slices.Clone(x.From), Parks: true})
		resp.Listen = standing.Listen
		return nil
	}
	x.Stream = st
	resp.Header, resp.Listen = append(resp.Header, *o.Told...), standing.Listen
	return nil
}
