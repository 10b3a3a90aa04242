package replicas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
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
	Method string       // POST, GET or DELETE
	Header []mcp.Header // headers that the replica which serves it may need
	Lost   mcp.Cause    // cause of the call's failure if its answer is lost

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
	if req.Method == "POST" {
		a.await(req.Body)
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
		f := mcp.Fail(mcp.ShuttingDown, "")
		f.Err = context.Cause(req.Ctx)
		return a.refuse(f, req.Request, resp)
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
	return a.refuse(a.loss(err), req.Request, resp)
}

// respondStatus copies a response that is an error, or has no body.
func respondStatus(status *upstream.StatusError, resp *downstream.Response) {
	resp.Status = status.Code
	for _, h := range status.Header {
		if h.Name != fasthttp.HeaderContentType {
			resp.Header = append(resp.Header, h)
		}
	}
	resp.Header = append(resp.Header, status.Passed...)
	if gjson.ValidBytes(status.Body) {
		resp.Body = status.Body
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
	batch    bool
	open     [][]byte     // the ids of the requests whose answers the client waits for
	lost     *mcp.Failure // failure of a request if its answer is lost
	first    sse.Event
	pending  bool         // pass has not sent first yet
	standing bool         // this is the stream of a GET
	told     []mcp.Header // that the client gets
}

// begin sends the request. For a standing stream it returns when the replica has granted
// the stream, otherwise with the first event.
func (a *answer) begin(req *downstream.Request, f sealed.Forward) (err error) {
	ctx, stop := context.WithCancelCause(req.Ctx)
	a.stop, a.free = stop, func() bool { return true }
	conn := a.link.http.Session("", "")
	header := func(method string) []mcp.Header {
		return []mcp.Header{{Name: sealed.ForwardHeader, Value: a.of.Settings().Sealer.SealForward(method, f)}}
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
	resp.Header = append(resp.Header, a.told...)
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
		resp.Listen = func(client mcp.Peer, _ mcp.Waker) error { return a.pass(client) }
		return
	}
	resp.Cut = a.pass(client)
}

// pass sends the client the events of the replica until they end.
func (a *answer) pass(client mcp.Peer) error {
	if a.pending {
		a.pending = false
		a.received(a.first.Data)
		if err := client.Send(a.first); err != nil {
			return err
		}
	}
	for e, err := range a.st.Events {
		switch {
		case err == nil:
			a.received(e.Data)
			err = client.Send(e)
		case a.standing, errors.Is(err, io.EOF): // a client that listens reconnects
			return nil
		case len(a.open) > 0 && !errors.Is(err, upstream.ErrClosed): // else no answer is owed
			return a.tellLost(a.loss(err), client)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await notes which requests in a message, or a batch, the client waits for.
func (a *answer) await(body []byte) {
	var m wire.Message
	all := [][]byte{body}
	if a.batch = wire.IsArray(body); a.batch {
		all, _ = wire.AppendElements(nil, body, len(body))
	}
	for _, raw := range all {
		if m.Scan(raw, nil) == nil && m.Kind == wire.Request {
			a.open, a.method = append(a.open, bytes.Clone(m.ID())), string(m.MethodName())
		}
	}
}

// received notes which requests a message, or an array, of the replica answers.
func (a *answer) received(data []byte) {
	if len(a.open) == 0 || len(data) == 0 {
		return
	}
	var m wire.Message
	all := [][]byte{data}
	if wire.IsArray(data) {
		all, _ = wire.AppendElements(nil, data, len(data))
	}
	for _, raw := range all {
		if m.Scan(raw, nil) != nil || !m.Kind.Response() {
			continue
		}
		if !a.batch {
			a.open = nil
			return
		}
		key := wire.AppendIDKey(nil, m.ID())
		a.open = slices.DeleteFunc(a.open, func(id []byte) bool { return bytes.Equal(wire.AppendIDKey(nil, id), key) })
	}
}

// refuse answers the requests that are open with f. Where they are not a batch, it returns f as the error for the one.
func (a *answer) refuse(f *mcp.Failure, req *downstream.Request, resp *downstream.Response) error {
	if !a.batch || len(a.open) == 0 {
		if len(a.open) > 0 {
			f = f.About(a.open[0])
		}
		return f
	}
	if req.Settle != nil {
		if _, begun := req.Settle(); begun {
			resp.Cut = a.tellLost(f, req.Client)
			return nil
		}
	}
	all := make([][]byte, len(a.open))
	for i, id := range a.open {
		own := *f
		all[i] = own.About(id).Body()
	}
	resp.Body = slices.Concat([]byte{'['}, bytes.Join(all, []byte{','}), []byte{']'})
	return nil
}

// tellLost sends the client f for each request that is open.
func (a *answer) tellLost(f *mcp.Failure, client mcp.Peer) error {
	for _, id := range a.open {
		own := *f
		if err := client.Send(sse.Event{Data: own.About(id).Body()}); err != nil {
			return err
		}
	}
	a.open = nil
	return nil
}

// loss returns the failure of a request of the client after the replica was lost, and reports the loss.
func (a *answer) loss(err error) *mcp.Failure {
	gone := mcp.Fail(mcp.PeerLost, "")
	gone.Err = fmt.Errorf("replica %s: %w", a.at.at, err)
	f := *a.lost
	f.Reported, f.Why = true, a.of.Report(gone, a.method)
	return &f
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
