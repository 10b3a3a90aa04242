package modernclient

import (
	"context"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Reply is what the client receives for one request: messages that end with the response. Only one goroutine at a
// time may use it, except for Close, which makes Next return. The caller ends it with End.
type Reply interface {
	downstream.Stream
	// Answered reports whether Next has returned the response.
	Answered() bool
	// Cut reports whether the response ended a subscription that had something to listen for.
	Cut() bool
	// End ends the request. If there was no response yet, the client has left.
	End()

	respond(resp *downstream.Response) error // as an HTTP response
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
		return &discovered{body: body}, nil
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
	r, err := br.Begin(req.Ctx, q, who, from)
	if err != nil {
		return err
	}
	resp.Done = r.End
	return r.respond(resp)
}

// discover answers server/discover from the server's InitializeResult. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (br *Bridge) discover(ctx context.Context, q *stateless.Request, who string, from []upstream.Header) ([]byte, error) {
	b, err := br.pool.get(ctx, q, who, from)
	if err != nil {
		return nil, clienterror.Of(err).WithID(q.ID)
	}
	defer br.pool.release(b)
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
	return mcp.AppendResult(nil, q.ID, out), nil
}

// discovered is the reply to server/discover.
type discovered struct {
	body []byte
	done bool
}

// Next returns the response, then io.EOF.
func (d *discovered) Next() (sse.Event, error) {
	if d.done {
		return sse.Event{}, io.EOF
	}
	d.done = true
	return sse.Event{Data: d.body}, nil
}

func (d *discovered) Close() error   { return nil }
func (d *discovered) Answered() bool { return d.done }
func (d *discovered) Cut() bool      { return false }
func (d *discovered) End()           {}

func (d *discovered) respond(resp *downstream.Response) error {
	resp.Body = d.body
	return nil
}

// Answered implements [Reply].
func (l *subscription) Answered() bool { return l.ended }

// Cut implements [Reply].
func (l *subscription) Cut() bool { return l.cut }

// respond makes l the event stream of the HTTP response.
func (l *subscription) respond(resp *downstream.Response) error {
	l.br.streams.Add(1)
	free := context.AfterFunc(l.br.host.Draining, l.finish)
	resp.Stream, resp.Done = l, func() { free(); l.End(); l.br.streams.Add(-1) }
	return nil
}

// Answered implements [Reply].
func (r *relay) Answered() bool { return r.done }

// Cut implements [Reply].
func (r *relay) Cut() bool { return false }
