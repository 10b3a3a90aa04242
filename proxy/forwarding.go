package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// errNotTaken says that nobody has begun to serve a forwarded request.
var errNotTaken = errors.New("no replica took the request")

// forward has the process to serve a client's request by this method, and answers
// with what that says. The error is errNotTaken where it may be served in another way.
func (srv *Server) forward(to sealed.ID, method string, req *downstream.Request, resp *downstream.Response) error {
	p := srv.peers
	at, err := p.find(to)
	if err != nil {
		srv.metrics.forwarded.WithLabelValues("nowhere").Inc()
		return errNotTaken
	}
	link, err := p.link(at)
	if err != nil {
		srv.failing("replica cannot be reached", failures.ReplicaLost, fmt.Errorf("replica %s: %w", at.at, err), nil)
		return errNotTaken
	}
	a := &peerAnswer{srv: srv, link: link, at: at, lost: mcp.Fail(mcp.PeerLost, "")}
	var m wire.Message
	if method == "POST" && m.Scan(req.Body, nil) == nil && m.Kind == wire.Request {
		a.id, a.method = bytes.Clone(m.ID()), string(m.MethodName())
		if isModern(&m) {
			a.lost = mcp.Fail(mcp.StateInvalid, "")
		}
	}
	err = a.begin(req, sealed.Forward{
		To: to, At: time.Now(), Digest: sha256.Sum256(req.Body), Method: method,
		Session: req.Session, Version: req.Version, LastEventID: req.LastEventID, Guest: req.Guest,
		Header: srv.carriedHeaders(req),
	})
	if err == nil {
		srv.metrics.forwarded.WithLabelValues("served").Inc()
		a.respond(resp)
		return nil
	}
	a.end()
	status, refused := errors.AsType[*upstream.StatusError](err)
	switch {
	case req.Ctx.Err() != nil:
		return context.Cause(req.Ctx)
	case refused && status.Code == fasthttp.StatusMisdirectedRequest, neverSent(err):
		err = errNotTaken // another process is there now, or none
	case errors.Is(err, io.EOF): // the call was cancelled: no answer is owed
		srv.metrics.forwarded.WithLabelValues("served").Inc()
		resp.Status = fasthttp.StatusAccepted
		return nil
	case refused:
		srv.metrics.forwarded.WithLabelValues("served").Inc()
		respondStatus(status, resp)
		return nil
	case errors.Is(err, upstream.ErrNoStream):
		srv.metrics.forwarded.WithLabelValues("served").Inc()
		f := mcp.Fail(mcp.NoStream, "")
		f.Header = []mcp.Header{{Name: "Allow", Value: "POST, DELETE"}}
		return f
	default:
		err = a.loss(err)
	}
	p.lose(to)
	srv.metrics.forwarded.WithLabelValues("lost").Inc()
	return err
}

// carriedHeaders are those of a client's request that may matter to who serves it.
func (srv *Server) carriedHeaders(req *downstream.Request) (list []upstream.Header) {
	if req.Headers != nil {
		req.Headers(mcpPrefix, func(name, value string) {
			if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") { // which have their place
				list = append(list, upstream.Header{Name: name, Value: value})
			}
		})
	}
	if req.Header == nil {
		return list
	}
	list = srv.appendPassed(list, req.Header)
	for _, name := range []string{principalHeader(srv.now().cfg.Bridge.Principal), "Mcp-Method", "Mcp-Name", maxTokensHeader, timingHeader} {
		if v := req.Header(name); v != "" && headerIn(list, name) == "" {
			list = append(list, upstream.Header{Name: name, Value: v})
		}
	}
	return list
}

func headerIn(list []upstream.Header, name string) string {
	for _, h := range list {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// respondStatus is the answer of a replica that is an error, or has no body.
func respondStatus(status *upstream.StatusError, resp *downstream.Response) {
	resp.Status = status.Code
	for _, h := range status.Header {
		if h.Name != fasthttp.HeaderContentType {
			resp.Header = append(resp.Header, mcp.Header{Name: h.Name, Value: h.Value})
		}
	}
	if gjson.ValidBytes(status.Body) {
		resp.Body = status.Body
	}
}

// peerAnswer is what another replica says to a request, handed on as it comes.
type peerAnswer struct {
	srv  *Server
	link *peerLink
	at   peerAddress
	st   upstream.Stream
	stop context.CancelCauseFunc
	free func() bool
	once sync.Once

	method   string
	id       []byte       // of the request whose answer the client waits for; nil for none
	lost     *mcp.Failure // where it does not come
	first    sse.Event
	pending  bool // first is to be handed out
	standing bool // it is the stream of a GET
}

// begin sends the request. For a standing stream it returns when that is granted,
// else with the first thing that is said.
func (a *peerAnswer) begin(req *downstream.Request, f sealed.Forward) (err error) {
	ctx, stop := context.WithCancelCause(req.Ctx)
	a.stop, a.free = stop, func() bool { return true }
	conn := a.link.http.Session("", "")
	header := func(method string) []upstream.Header {
		return []upstream.Header{{Name: sealed.ForwardHeader, Value: a.srv.now().sealer.SealForward(method, f)}}
	}
	if f.Method == "GET" {
		a.free = context.AfterFunc(a.srv.draining, func() { stop(errShutdown) }) // standing streams would never drain
		a.standing = true
		a.st, err = conn.Listen(ctx, upstream.ListenOptions{Header: header("GET")})
		return err
	}
	out := upstream.Outgoing{Body: req.Body, Request: f.Method == "POST", Header: header("POST")}
	if a.st, err = conn.Send(ctx, &out); a.st == nil { // the end of a session has no answer
		return err
	}
	a.first, err = a.st.Next()
	a.pending = true
	return err
}

// respond makes the answer what it is at the other replica: one body, or a stream.
func (a *peerAnswer) respond(resp *downstream.Response) {
	if a.st == nil {
		resp.Done = a.end
		return
	}
	if st, ok := a.st.(upstream.SessionStream); ok && !a.standing && st.Whole() {
		resp.Body, resp.Done = a.first.Data, a.end // which lives as long as the stream
		return
	}
	a.srv.streams.Add(1)
	resp.Stream, resp.Done = a, func() { a.srv.streams.Add(-1); a.end() }
}

// Next is the next thing that the replica says. A call that is lost with it is
// answered here.
func (a *peerAnswer) Next() (sse.Event, error) {
	e, err := a.first, error(nil)
	if !a.pending {
		e, err = a.st.Next()
	}
	a.pending = false
	switch {
	case a.standing && err != nil:
		return sse.Event{}, io.EOF // a client that listens comes again
	case a.id == nil:
		return e, err
	case err == nil:
		var m wire.Message
		if m.Scan(e.Data, nil) == nil && m.Kind.Response() {
			a.id = nil
		}
		return e, nil
	case errors.Is(err, upstream.ErrClosed), errors.Is(err, io.EOF): // the call was cancelled: no answer is owed
		return e, err
	}
	f := a.loss(err)
	a.id = nil
	return sse.Event{Data: f.Body()}, nil
}

// loss is the failure of the client's request when the replica is lost, which it reports.
func (a *peerAnswer) loss(err error) *mcp.Failure {
	gone := mcp.Fail(mcp.PeerLost, "")
	gone.Err = fmt.Errorf("replica %s: %w", a.at.at, err)
	f := *a.lost
	f.Reported, f.Why = true, a.srv.report(gone, requestInfo{method: a.method}).Why
	return f.About(a.id)
}

// Close gives the answer up, which to the other replica is a client that leaves.
func (a *peerAnswer) Close() error {
	if a.st != nil {
		return a.st.Close()
	}
	return nil
}

// end lets go of everything.
func (a *peerAnswer) end() {
	a.once.Do(func() {
		a.free()
		_ = a.Close()
		a.stop(downstream.ErrOver)
		a.srv.peers.unlink(a.at, a.link)
	})
}
