package modernclient

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
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

	fill(resp *downstream.Response) // sets the status and the headers of an HTTP response that is not an event stream
}

// Begin sends q, which has a header of from, to the server. The error has the id of q.
func (br *Bridge) Begin(ctx context.Context, q *stateless.Request, who string, from []upstream.Header) (Reply, error) {
	switch q.Method {
	case wire.ServerDiscover:
		body, err := br.discover(ctx, q, who, from)
		if err != nil {
			return nil, err
		}
		q.Counts.Settle(metrics.Local)
		return discovered{body}, nil
	case wire.SubscriptionsListen:
		l, err := br.subscribe(ctx, q, who, from)
		if err != nil {
			return nil, err
		}
		q.Counts.Settle(metrics.Local)
		return l, nil
	}
	r, err := br.ask(ctx, q, who, from)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Post answers q, which came over HTTP in req. If another replica holds the call that q continues, that replica
// answers it. The error has the id of q.
func (br *Bridge) Post(req *downstream.Request, q *stateless.Request, who string, from []upstream.Header, resp *downstream.Response) error {
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
	var client *httpClient
	if relay, ok := r.(*relay); ok {
		resp.Done, client = relay.memory.end, &relay.web
	} else {
		resp.Done, client = r.End, new(httpClient)
	}
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

// httpClient is a client over HTTP, whose response becomes an event stream when it receives the first message.
type httpClient struct {
	mcp.Peer
	streams  *atomic.Int64 // counts the event streams
	streamed bool
}

// Send implements [mcp.Peer].
func (c *httpClient) Send(e sse.Event) error {
	if !c.streamed {
		c.streamed = true
		c.streams.Add(1)
	}
	return c.Peer.Send(e)
}

func (c *httpClient) leave() {
	if c.streamed {
		c.streams.Add(-1)
	}
}

// discover answers server/discover from the server's InitializeResult. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (br *Bridge) discover(ctx context.Context, q *stateless.Request, who string, from []upstream.Header) ([]byte, error) {
	b, err := br.pool.get(ctx, q, who, from)
	if err != nil {
		return nil, clienterror.Of(err).WithID(q.ID)
	}
	defer br.pool.release(b)
	seen := b.observe(q, from)
	out := []byte(`{"resultType":"complete","supportedVersions":[`)
	for n, r := range translate.All() {
		if n > 0 {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, r.Name)
	}
	out = append(append(out, `],"capabilities":`...), b.said.capabilities...)
	if len(b.said.instructions) > 0 {
		out = append(append(out, `,"instructions":`...), b.said.instructions...)
	}
	out = append(out, `,"ttlMs":0,"cacheScope":"private","_meta":{"`+mcp.MetaPrefix+`serverInfo":`...)
	out = append(append(out, b.said.server...), `}}`...)
	out = mcp.AppendResult(nil, q.ID, out)
	observed(seen, out)
	seen.End(string(metrics.Local), "")
	return out, nil
}

// observe begins the observation of a request that dragoman answers itself.
func (b *pooledSession) observe(q *stateless.Request, from []upstream.Header) *observe.Call {
	seen := b.s.Observe(q, from)
	seen.Note(observe.Note{By: observe.Bridge, What: "answered", Detail: "the server has a handshake, and no such method: dragoman answers from what the server said there, and from its notifications"})
	return seen
}

// seenPeer is a client that is observed.
type seenPeer struct {
	mcp.Peer
	seen *observe.Call
}

// Send implements [mcp.Peer].
func (p *seenPeer) Send(e sse.Event) error {
	observed(p.seen, e.Data)
	return p.Peer.Send(e)
}

// observed adds a message that the client gets.
func observed(seen *observe.Call, body []byte) {
	if seen != nil {
		seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: seen.Keep(body), Method: seen.Method})
	}
}

// discovered is the reply to server/discover.
type discovered struct{ body []byte }

// Answer implements [Reply].
func (d discovered) Answer(mcp.Peer) ([]byte, error) { return d.body, nil }

func (d discovered) Cut() bool                 { return false }
func (d discovered) End()                      {}
func (d discovered) fill(*downstream.Response) {}
