package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/restart"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// face handles the requests of clients over Streamable HTTP.
type face Server

// Post handles one message, or a batch.
func (f *face) Post(req *downstream.Request, resp *downstream.Response) {
	srv := (*Server)(f)
	defer srv.rescue(req, resp)
	if srv.forwardToOwner("POST", req, resp) {
		return
	}
	if err := srv.post(req, resp); err != nil {
		srv.refuse(req, resp, err)
	}
}

// Get opens the standing stream of a session, or resumes a stream.
func (f *face) Get(req *downstream.Request, resp *downstream.Response) {
	srv := (*Server)(f)
	defer srv.rescue(req, resp)
	if srv.forwardToOwner("GET", req, resp) {
		return
	}
	if err := srv.get(req, resp); err != nil {
		srv.refuse(req, resp, err)
	}
}

// Delete ends a session.
func (f *face) Delete(req *downstream.Request, resp *downstream.Response) {
	srv := (*Server)(f)
	defer srv.rescue(req, resp)
	if srv.forwardToOwner("DELETE", req, resp) {
		return
	}
	s, err := srv.sessionOf(req)
	switch {
	case err != nil || s != nil:
	case namesModern(req.Version):
		err = onlyPost()
	default:
		err = mcp.Fail(mcp.NotInitialized, "no session to end")
	}
	if err != nil {
		srv.refuse(req, resp, err)
		return
	}
	defer s.Leave()
	if !s.Local {
		if err := srv.endUpstream(s, req); err != nil {
			srv.refuse(req, resp, err)
			return
		}
	}
	srv.Table.DropForGood(s)
	srv.End(s, mcp.Fail(mcp.SessionUnknown, "it was ended"))
}

// endUpstream sends DELETE to a server that has given the session an id.
func (srv *Server) endUpstream(s *session.Session, req *downstream.Request) error {
	if _, ok := s.Conn.(*legacyclient.Conn); ok {
		return nil // the server does not know the session
	}
	c, ok := s.Conn.(interface {
		Delete(ctx context.Context, header []upstream.Header) error
	})
	if !ok || s.Named == "" {
		f := mcp.Fail(mcp.NotDeleted, "")
		f.Header = []mcp.Header{{Name: "Allow", Value: "GET, POST"}}
		return f
	}
	err := c.Delete(req.Ctx, srv.AppendPassed(nil, req.Header))
	switch status, _ := errors.AsType[*upstream.StatusError](err); {
	case status != nil && status.Code == fasthttp.StatusNotFound:
		srv.Table.DropForGood(s)
		srv.Retire(s, err)
	case err == nil:
		s.Release(mcp.Fail(mcp.SessionUnknown, "it was ended")) // so that no user is asked again
	}
	return err
}

// refuse writes a JSON-RPC error response.
func (srv *Server) refuse(req *downstream.Request, resp *downstream.Response, err error) {
	known := isReported(err)
	f := srv.Host.Report.Failed(err, report.At{Client: translate.Lookup(req.Version)})
	if !known {
		srv.observeRefusal(req.Body, translate.Lookup(req.Version), "http", f)
	}
	resp.Listen = nil
	resp.Status, resp.Header = f.Status, append(resp.Header, f.Header...)
	if f.Status == fasthttp.StatusAccepted {
		return
	}
	resp.Body = f.BodyTo(translate.Lookup(req.Version))
	if f.Status == fasthttp.StatusServiceUnavailable && !slices.ContainsFunc(resp.Header, isRetryAfter) {
		resp.Header = append(resp.Header, mcp.Header{Name: fasthttp.HeaderRetryAfter, Value: "1"})
	}
}

// isReported reports whether err was reported, by an exchange that has observed it, too.
func isReported(err error) bool {
	f, ok := errors.AsType[*mcp.Failure](err)
	return ok && f.Reported
}

func isRetryAfter(h mcp.Header) bool {
	return strings.EqualFold(h.Name, fasthttp.HeaderRetryAfter)
}

// rescue writes the error response for a request whose handler panicked.
func (srv *Server) rescue(req *downstream.Request, resp *downstream.Response) {
	if p := recover(); p != nil {
		srv.Host.Report.Panicked(p)
		f := mcp.Fail(mcp.Panicked, "").About(idOf(req.Body))
		if f.ID != nil && req.Session != "" && !namesModern(req.Version) {
			f = f.WithinSession()
		}
		srv.refuse(req, resp, f)
	}
}

// sessionOf returns the session that a request names, marked as in use. It returns nil if the
// request names none, or if the client is modern.
func (srv *Server) sessionOf(req *downstream.Request) (*session.Session, error) {
	if req.VersionTwice && !namesModern(req.Version) { // a modern request is checked with the rest of its message
		f := mcp.Fail(mcp.VersionUnknown, "").About(idOf(req.Body))
		f.Text = "the MCP-Protocol-Version header occurs more than once"
		return nil, f
	}
	if req.Session == "" {
		return nil, nil
	}
	rev := translate.Lookup(req.Version)
	s, err := srv.Table.Find(req.Session, srv.OwnerOf(req), &downstream.Sender{Guest: req.Guest})
	switch {
	case err != nil:
		return nil, mcp.Fail(mcp.TooManySessions, "").About(idOf(req.Body))
	case s == nil && namesModern(req.Version):
		return nil, nil // a modern server ignores the header
	case s == nil:
		return nil, mcp.Fail(mcp.SessionUnknown, "").About(idOf(req.Body))
	case req.Version != "" && rev == nil:
		s.Leave()
		return nil, mcp.Fail(mcp.VersionUnknown, "").About(idOf(req.Body))
	}
	return s, nil
}

// idOf returns the id of the request in body, or nil if there is none.
func idOf(body []byte) []byte {
	var m wire.Message
	if m.Scan(body, nil) != nil || m.Kind != wire.Request {
		return nil
	}
	return m.ID()
}

func (srv *Server) post(req *downstream.Request, resp *downstream.Response) error {
	if req.Session == "" || namesModern(req.Version) {
		m := new(wire.Message) // allocated only for requests outside a session
		if srv.isModernPost(req, m) {
			return srv.postModern(req, m, resp)
		}
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := srv.newExchange(ctx, stop)
	resp.Done = x.release
	s, err := srv.sessionOf(req)
	if err != nil {
		return err
	}
	x.s = s
	x.headers(req)
	x.client = httpClient{x: x, to: req.Client}
	if s == nil {
		x.who, x.owner, x.runsFor = "http "+principal.Of(req, srv.Now().Config.Bridge.Principal), srv.OwnerOf(req), srv.runsFor(req)
	}
	switch r := translate.Lookup(req.Version); {
	case wire.IsArray(req.Body) && s == nil && r != nil && r.Modern:
		err = noBatches(r.Name)
	case wire.IsArray(req.Body):
		err = srv.postBatch(x, req, resp)
	case s == nil:
		err = srv.postInitialize(x, req, resp)
	default:
		if err = x.post(req.Body, resp); err != nil && !x.isInitialized() {
			err = srv.Host.Report.Failed(err, x.requestInfo()).WithinSession()
		}
	}
	if !x.streamed {
		resp.Header = x.clock.AppendTo(resp.Header)
	}
	return err
}

// post handles one message of a session: it translates and forwards the message, and writes the
// server's response, or starts a stream. It runs on the goroutine of the HTTP request.
func (x *exchange) post(raw []byte, resp *downstream.Response) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = x.panicked(p, raw)
		}
	}()
	out, v, err := x.fromClient(raw)
	switch {
	case err != nil:
		return x.refused(err)
	case v == wire.Answer:
		x.outcome = metrics.Local
		x.observeLocal(out)
		resp.Body = out
		return nil
	case v != wire.Forward:
		resp.Status = fasthttp.StatusAccepted
		return nil
	}
	st, err := x.forward(out)
	if err != nil {
		return x.srv.answerFor(x, err)
	}
	if st == nil {
		resp.Status = fasthttp.StatusAccepted
		return nil
	}
	x.attach(st)
	x.client.resp = resp
	last, err := x.answer(&x.client)
	switch {
	case x.streamed:
		owed := true
		if err != nil {
			last, owed = x.late(err)
		}
		if owed && x.buffer != nil {
			x.buffer.Record(&last, true)
		}
		resp.Last = last
	case errors.Is(err, io.EOF): // cancelled: no response is owed
		resp.Status = fasthttp.StatusAccepted
	case err != nil:
		return x.srv.answerFor(x, err)
	default:
		resp.Status, resp.Body = x.directStatus(last.Data), last.Data
	}
	return nil
}

// isInitialized reports whether x's message is notifications/initialized, whose failure is reported
// like that of initialize.
func (x *exchange) isInitialized() bool {
	return x.msg.Kind == wire.Notification && x.msg.Method == wire.Initialized
}

// refused returns the error for the client if err prevents its message from being sent.
func (x *exchange) refused(err error) *mcp.Failure {
	x.outcome = metrics.Refused
	f := x.failed(err)
	switch {
	case x.call != nil:
		f.About([]byte(x.call.ID))
	case x.msg.Kind == wire.Request && x.tally == nil:
		x.srv.Metrics.Request(&metrics.Operation{
			Client: x.s.ClientRevision, Server: x.s.ServerRevision, Method: x.msg.Method, Tool: x.toolOf(&x.msg),
			Outcome: metrics.Refused, Fault: x.fault, Began: x.clock.Began(),
		})
	}
	x.observeFailure(f)
	return f
}

// forward sends a message to the server. The stream is nil if no response is expected.
func (x *exchange) forward(body []byte) (upstream.Stream, error) {
	if x.ownCall != nil {
		return x.startHere(), nil
	}
	marked, header := x.span.Sent(body, x.from)
	x.observeForward(marked)
	x.send = upstream.Outgoing{Body: marked, Request: x.call != nil, Header: header, Stale: x.isStale, Logs: x.crossing.WantsLogs()}
	if x.call != nil {
		limit := x.srv.Now().Silence[x.call.Method]
		x.send.FirstByte, x.send.Silence = limit.FirstByte, limit.Silence
		if x.call.Method == wire.SubscriptionsListen {
			x.send.Silence = bridge.MaxQuiet
		}
		if more := x.crossing.Patience(); more > 0 {
			x.send.FirstByte, x.send.Silence = lengthened(limit.FirstByte, more), lengthened(limit.Silence, more)
		}
	}
	var over *session.Call // the cancelled call, whose id the client may use again once the server has the cancellation
	if x.cancels {
		over = x.s.Open.Newest(x.key)
	}
	st, err := upstream.Stream(nil), error(nil)
	if e := x.enquire(body); e != nil {
		st, err = x.sendKept(e, marked)
	} else {
		if c, ok := x.s.Conn.(*restart.HTTP); ok {
			x.began = c.Number()
		}
		st, err = x.s.Conn.Send(x.seenWithin(), &x.send)
	}
	x.clock.Lap(&x.clock.Upstream)
	if err != nil && x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	if err != nil && x.listAlone(body, err) {
		return x.startHere(), nil
	}
	if err == nil && over != nil && x.s.Open.CancelThis(over) && over.Stop == nil {
		o := x.s.Operation(over, metrics.Cancelled, metrics.Fault{})
		x.srv.EndCall(over, &o)
	}
	return st, err
}

// lengthened returns limit extended by the given time. 0 means no limit and stays 0.
func lengthened(limit, by time.Duration) time.Duration {
	if limit <= 0 {
		return limit
	}
	return limit + by
}

// postInitialize handles initialize and begins a session.
func (srv *Server) postInitialize(x *exchange, req *downstream.Request, resp *downstream.Response) (err error) {
	raw := req.Body
	if err := x.msg.Scan(raw, nil); err != nil {
		return err
	}
	m := &x.msg
	id := bytes.Clone(m.ID())
	defer func() {
		if p := recover(); p != nil {
			srv.Host.Report.Panicked(p)
			err = mcp.Fail(mcp.Panicked, "").About(id)
		}
	}()
	switch {
	case m.Kind == wire.Request && isModern(m):
		return mcp.Uninitialized(mcp.ModernRefused).About(m.ID())
	case m.Kind != wire.Request:
		return mcp.Uninitialized(mcp.NotInitialized)
	case m.Method != wire.Initialize:
		return mcp.Uninitialized(mcp.NotInitialized).About(m.ID())
	case !srv.Table.Reserve():
		return mcp.Fail(mcp.TooManySessions, "").About(m.ID())
	}
	s, answer, early, err := srv.begin(x, raw)
	if s == nil {
		srv.Table.Release()
		resp.Body = answer
		return err
	}
	srv.Table.Add(s)
	x.span.InSession(session.Fingerprint(s.ID))
	s.ObserveSession(x.seen)
	if l := lanesOf(s.Conn); l != nil {
		l.WhenLost(func() {
			srv.Host.Report.ServerFailed("session lost", report.CauseOfLoss(&srv.Now().Config, clienterror.Of(l.Reason())), l.Reason(), nil)
			srv.Forget(s, l.Reason())
		})
	}
	resp.Header = append(resp.Header, mcp.Header{Name: "Mcp-Session-Id", Value: s.ID})
	if len(early) == 0 {
		resp.Body = answer
		return nil
	}
	s.Enter()
	x.s = s
	x.startStream()
	for _, message := range early { // what the server sent before its answer
		if out, ok := x.fromServer(message); ok && req.Client.Send(sse.Event{Data: out}) != nil {
			return nil // the client has left
		}
	}
	resp.Body = answer
	return nil
}

// lanesOf returns the lanes of a connection, or nil if it has none.
func lanesOf(conn upstream.Conn) *session.Lanes {
	switch c := conn.(type) {
	case *session.Lanes:
		return c
	case *legacyclient.Conn:
		l, _ := c.Beneath().(*session.Lanes)
		return l
	}
	return nil
}

// begin sends initialize on a new connection. If no session begins, s is nil and answer is the
// server's response.
func (srv *Server) begin(x *exchange, raw []byte) (s *session.Session, answer []byte, early [][]byte, err error) {
	id := x.msg.ID()
	h := &handshake{srv: srv.handshakes, sender: x.sender, who: x.who, owner: x.owner, runsFor: x.runsFor, peer: x.peer, bridges: true, Opening: server.Opening{Of: srv.Host, Header: x.from}}
	s, answer, err = h.negotiate(x.ctx, raw)
	switch {
	case s == nil && h.Conn != nil:
		srv.Host.Spawn(func() { srv.EndConn(h.Conn) })
	case s != nil && s.Piped:
		s.Conn = srv.OpenLanes(h.Conn, h.Standing)
	}
	err = h.concluded(s, answer, err)
	h.observeEnd(s, err)
	x.seen, x.span = h.seen, h.span
	if err != nil {
		err = clienterror.Of(err).About(id)
	}
	return s, answer, h.Early, err
}

func (srv *Server) get(req *downstream.Request, resp *downstream.Response) error {
	s, err := srv.sessionOf(req)
	if err != nil {
		return err
	}
	if s == nil && namesModern(req.Version) {
		return onlyPost()
	}
	if s == nil {
		return mcp.Uninitialized(mcp.NotInitialized)
	}
	ctx, stop := context.WithCancelCause(req.Ctx)
	x := srv.newExchange(ctx, stop)
	x.free = context.AfterFunc(srv.Host.Draining, func() { stop(clienterror.ErrShutdown) }) // a standing stream would not end by itself
	resp.Done = x.release
	x.s = s
	x.headers(req)
	x.startStream()
	if l, ok := s.Conn.(*session.Lanes); ok {
		if err := x.resumeStream(l, req.LastEventID); err != nil {
			f := srv.answerFor(x, err)
			if f.Cause == mcp.UpstreamLost {
				f = mcp.Fail(mcp.SessionUnknown, "")
			}
			return f
		}
		resp.Listen = x.listen
		return nil
	}
	st, err := srv.Listen(ctx, s, upstream.ListenOptions{LastEventID: req.LastEventID, Header: x.from})
	switch {
	case errors.Is(err, upstream.ErrNoStream):
		f := mcp.Fail(mcp.NoStream, "")
		f.Header = []mcp.Header{{Name: "Allow", Value: "POST, DELETE"}}
		return f
	case err != nil:
		f := srv.answerFor(x, err)
		switch {
		case f.Cause == mcp.UpstreamLost:
			return mcp.Fail(mcp.SessionUnknown, "")
		case f.Status < fasthttp.StatusInternalServerError:
			return f
		}
		o := upstream.ListenOptions{LastEventID: req.LastEventID, Header: slices.Clone(x.from)}
		resp.Listen = func(client mcp.Peer) error { return x.listenLater(o, client) }
		return nil
	}
	x.attach(st)
	resp.Listen = x.listen
	return nil
}
