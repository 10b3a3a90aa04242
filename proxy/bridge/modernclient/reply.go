package modernclient

import (
	"context"
	"errors"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Reply is what the client receives for one request. Only one goroutine at a time may use it. The caller ends it with
// End.
type Reply interface {
	// Answer sends the client the messages that come before the response, and returns the response. It returns soon
	// after the request's context has ended. The error is io.EOF if no response is owed or the client gets no more
	// messages; any other error comes before the first message.
	Answer(client mcp.Peer) (response []byte, err error)
	// Cut reports whether the response ended a subscription that had something to listen for.
	Cut() bool
	// End ends the request. If there was no response yet, the client has left.
	End()

	// http makes resp end the request, and returns the memory for its client.
	http(resp *downstream.Response) *httpClient
	fill(resp *downstream.Response) // sets the status and the headers of an HTTP response that is not an event stream
}

// Begin sends q, which has a header of from, to the server. The error has the id of q.
func (br *Bridge) Begin(ctx context.Context, q *stateless.Request, who string, from []mcp.Header) (Reply, error) {
	c := caller{ctx, q, who, from}
	if q.Method == wire.SubscriptionsListen {
		l, err := br.subscribe(c)
		if err != nil {
			return nil, err
		}
		q.Counts.Settle(metrics.Local)
		return l, nil
	}
	r, err := br.ask(c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Post answers q, which came over HTTP in req. If another replica holds the call that q continues, that replica
// answers it. The error has the id of q.
func (br *Bridge) Post(req *downstream.Request, q *stateless.Request, who string, from []mcp.Header, resp *downstream.Response) error {
	if to, ok := br.parked.heldBy(q); ok && !req.Forwarded {
		if done, err := br.proxy.Forward(to, req, resp); done || err != nil {
			return err
		}
	}
	if br.tasks.forward(req, q, who, resp) {
		return nil
	}
	r, err := br.Begin(req.Ctx, q, who, from)
	if err != nil {
		return err
	}
	client := r.http(resp)
	*client = httpClient{Peer: req.Client, streams: br.streams}
	defer client.leave()
	answer, err := r.Answer(client)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case client.streamed:
		resp.Last.Data = answer
	case err != nil: // the client has left
		resp.Status = 202
	default:
		resp.Body = answer
		r.fill(resp)
	}
	return nil
}
