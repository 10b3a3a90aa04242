package replicas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ErrNotTaken says that no replica has begun to serve a forwarded request.
var ErrNotTaken = errors.New("no replica took the request")

// errDraining ends standing streams, which would not end by themselves during a shutdown.
var errDraining = errors.New("dragoman is shutting down")

// The outcomes, as metrics name them.
const (
	Served  Outcome = "served"
	Lost    Outcome = "lost"
	Nowhere Outcome = "nowhere"
)

// Request is a client's request on its way to the process that shall serve it.
type Request struct {
	*downstream.Request
	Method string            // POST, GET or DELETE
	Header []upstream.Header // headers that the replica which serves it may need
	Lost   mcp.Cause         // cause of the call's failure if its answer is lost

	Answers string // the address of the replica that answers, which Forward sets
}

// Forward sends a client's request to the process that can serve it, and answers with the
// response of that process. The error is ErrNotTaken if the request may be served in
// another way.
func (r *Replicas) Forward(to sealed.ID, req *Request, resp *downstream.Response) error {
	at, err := r.find(to)
	if err != nil {
		r.Count(Nowhere)
		return ErrNotTaken
	}
	l, err := r.link(at)
	if err != nil {
		r.Unreachable(fmt.Errorf("replica %s: %w", at.at, err))
		return ErrNotTaken
	}
	req.Answers = at.at
	a := &answer{of: r, link: l, at: at, lost: mcp.Fail(req.Lost, "")}
	var m wire.Message
	switch {
	case req.Method != "POST":
	case wire.IsArray(req.Body):
		a.id = []byte("null") // an error about the whole batch
	case m.Scan(req.Body, nil) == nil && m.Kind == wire.Request:
		a.id, a.method = bytes.Clone(m.ID()), string(m.MethodName())
	}
	err = a.begin(req.Request, sealed.Forward{
		To: to, At: time.Now(), Digest: sha256.Sum256(req.Body), Method: req.Method,
		Session: req.Session, Version: req.Version, LastEventID: req.LastEventID, Guest: req.Guest,
		Header: req.Header,
	})
	if err == nil {
		r.Count(Served)
		r.tried(at, true, 1)
		a.respond(req.Client, resp)
		return nil
	}
	a.end()
	status, refused := errors.AsType[*upstream.StatusError](err)
	if req.Ctx.Err() == nil {
		r.tried(at, refused || errors.Is(err, io.EOF) || errors.Is(err, upstream.ErrNoStream), 0)
	}
	switch {
	case errors.Is(context.Cause(req.Ctx), downstream.ErrStopped):
		f := mcp.Fail(mcp.ShuttingDown, "").About(a.id)
		f.Err = context.Cause(req.Ctx)
		return f
	case req.Ctx.Err() != nil:
		return context.Cause(req.Ctx)
	case refused && status.Code == fasthttp.StatusMisdirectedRequest, upstream.NeverSent(err):
		r.lose(to)
		r.Count(Lost)
		return ErrNotTaken // another process is at this address now, or none
	case errors.Is(err, io.EOF): // the call was cancelled: no answer is owed
		r.Count(Served)
		resp.Status = fasthttp.StatusAccepted
		return nil
	case refused:
		r.Count(Served)
		respondStatus(status, resp)
		return nil
	case errors.Is(err, upstream.ErrNoStream):
		r.Count(Served)
		f := mcp.Fail(mcp.NoStream, "")
		f.Header = []mcp.Header{{Name: "Allow", Value: "POST, DELETE"}}
		return f
	}
	r.doubt(to) // a connection was lost, and perhaps nothing else
	r.Count(Lost)
	return a.loss(err)
}

// respondStatus copies a response that is an error, or has no body.
func respondStatus(status *upstream.StatusError, resp *downstream.Response) {
	resp.Status = status.Code
	for _, h := range status.Header {
		if h.Name != fasthttp.HeaderContentType {
			resp.Header = append(resp.Header, mcp.Header{Name: h.Name, Value: h.Value})
		}
	}
	appendHeaders(resp, status.Passed)
	if gjson.ValidBytes(status.Body) {
		resp.Body = status.Body
	}
}

func appendHeaders(resp *downstream.Response, list []upstream.Header) {
	for _, h := range list {
		resp.Header = append(resp.Header, mcp.Header{Name: h.Name, Value: h.Value})
	}
}

// answer is the response of another replica to a request, forwarded as it comes.
type answer struct {
	of   *Replicas
	link *link
	at   address
	st   upstream.Stream
	stop context.CancelCauseFunc
	free func() bool
	once sync.Once

	method   string
	id       []byte       // of the request whose answer the client waits for; nil for none
	lost     *mcp.Failure // failure of the request if its answer is lost
	first    sse.Event
	pending  bool              // pass has not sent first yet
	standing bool              // this is the stream of a GET
	told     []upstream.Header // that the client gets
}

// begin sends the request. For a standing stream it returns when the replica has granted
// the stream, otherwise with the first event.
func (a *answer) begin(req *downstream.Request, f sealed.Forward) (err error) {
	ctx, stop := context.WithCancelCause(req.Ctx)
	a.stop, a.free = stop, func() bool { return true }
	conn := a.link.http.Session("", "")
	header := func(method string) []upstream.Header {
		return []upstream.Header{{Name: sealed.ForwardHeader, Value: a.of.Settings().Sealer.SealForward(method, f)}}
	}
	if f.Method == "GET" {
		a.free = context.AfterFunc(a.of.Draining, func() { stop(errDraining) })
		a.standing = true
		a.st, err = conn.Listen(ctx, upstream.ListenOptions{Header: header("GET"), Told: &a.told})
		return err
	}
	out := upstream.Outgoing{Body: req.Body, Request: f.Method == "POST", Header: header("POST"), Told: &a.told}
	if a.st, err = conn.Send(ctx, &out); a.st == nil { // the end of a session has no answer
		return err
	}
	a.first, err = upstream.First(a.st)
	a.pending = true
	return err
}

// respond gives the response the same form as at the other replica: one body, or a
// stream.
func (a *answer) respond(client mcp.Peer, resp *downstream.Response) {
	appendHeaders(resp, a.told)
	if a.st == nil {
		resp.Done = a.end
		return
	}
	if !a.standing && a.st.Whole() {
		resp.Body, resp.Done = a.first.Data, a.end // the body is valid until the stream is closed
		return
	}
	a.of.Streams.Add(1)
	resp.Done = func() { a.of.Streams.Add(-1); a.end() }
	if a.standing {
		resp.Listen = func(client mcp.Peer, _ downstream.Waker) error { return a.pass(client) }
		return
	}
	resp.Cut = a.pass(client)
}

// pass sends the client the events of the replica until they end.
func (a *answer) pass(client mcp.Peer) error {
	if a.pending {
		a.pending = false
		e, _ := a.received(a.first, nil)
		if err := client.Send(e); err != nil {
			return err
		}
	}
	for e, err := range a.st.Events {
		over := err != nil
		if e, err = a.received(e, err); err == nil {
			err = client.Send(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if over || err != nil {
			return err
		}
	}
	return nil
}

// received returns what the client gets of e and err, which the replica's stream has given. If the replica is lost during a
// call, received returns an error response for the call.
func (a *answer) received(e sse.Event, err error) (sse.Event, error) {
	switch {
	case a.standing && err != nil:
		return sse.Event{}, io.EOF // a client that listens reconnects
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

// loss returns the failure of the client's request after the replica was lost, and
// reports the loss.
func (a *answer) loss(err error) *mcp.Failure {
	gone := mcp.Fail(mcp.PeerLost, "")
	gone.Err = fmt.Errorf("replica %s: %w", a.at.at, err)
	f := *a.lost
	f.Reported, f.Why = true, a.of.Report(gone, a.method)
	return f.About(a.id)
}

// end releases everything that the answer holds.
func (a *answer) end() {
	a.once.Do(func() {
		a.free()
		if a.st != nil {
			_ = a.st.Close() // to the other replica, the client has left
		}
		a.stop(downstream.ErrOver)
		a.of.unlink(a.at, a.link)
	})
}
