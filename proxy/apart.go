package proxy

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// apart keeps clients without sessions apart that one process serves: their requests
// get ids and progress tokens that no two of them share, and what the process says
// about a request has the client's own again. All other bytes stay.
type apart struct {
	*lanes
	srv  *Server
	last atomic.Int64
}

// apartShape is where ids, tokens and the ids of subscriptions stand, in messages of
// both directions.
var apartShape = func() *wire.Shape {
	s := new(wire.Shape)
	for _, path := range []string{"id", "params._meta.progressToken", "params.progressToken"} {
		s.At(wire.ParsePath(path)...)
	}
	for _, in := range []wire.Name{wire.Params, wire.ResultKey} {
		s.At(wire.Step{Name: in}, wire.Step{Name: wire.Meta}, wire.Step{Name: wire.MetaSubscriptionID})
	}
	return s
}()

// Send passes a request on under an id of ours. Notifications go no further: they
// would be about a request that the process knows by another id, or by none.
func (a *apart) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	var m wire.Message
	if err := m.Scan(out.Body, apartShape); err != nil {
		return nil, err
	}
	switch {
	case m.Kind == wire.Notification && m.Method == wire.Cancelled:
		return nil, nil // the end of the stream has said so
	case m.Kind != wire.Request:
		return a.lanes.Send(ctx, out)
	}
	st := &apartStream{of: a, id: string(m.ID()), given: strconv.FormatInt(a.last.Add(1), 10)}
	putAll(m.Root(), wire.ID, st.given)
	if params := m.Root().Get(wire.Params); params.OK() {
		if token := params.Get(wire.Meta).Get(wire.ProgressTokenKey); token.OK() {
			st.token = string(token.Raw())
		}
		putInMeta(params, wire.ProgressTokenKey, st.given)
	}
	own := *out
	own.Body = m.AppendTo(make([]byte, 0, len(out.Body)+2*len(st.given)))
	inner, err := a.lanes.Send(ctx, &own)
	if err != nil {
		return nil, err
	}
	st.inner = inner
	return st, nil
}

// apartStream is what the process says about one request.
type apartStream struct {
	of        *apart
	inner     upstream.Stream
	id, token string // as the client has them; token "" for none
	given     string // what stands for both towards the process

	msg  wire.Message
	buf  []byte
	over atomic.Bool // the answer was there
	once sync.Once
}

// Next is the next message, with the client's id.
func (st *apartStream) Next() (sse.Event, error) {
	e, err := st.inner.Next()
	if err != nil {
		st.over.Store(st.over.Load() || st.of.reason() != nil || restarts(err)) // whoever was asked is gone
		return e, err
	}
	m := &st.msg
	if m.Scan(e.Data, apartShape) != nil {
		return e, nil // it was read before: this one tells of it
	}
	switch {
	case m.Kind.Response():
		st.over.Store(true)
		putAll(m.Root(), wire.ID, st.id)
		putInMeta(m.Root().Get(wire.ResultKey), wire.MetaSubscriptionID, st.id)
	default:
		params := m.Root().Get(wire.Params)
		if m.Method == wire.Progress && st.token != "" {
			putAll(params, wire.ProgressTokenKey, st.token)
		}
		putInMeta(params, wire.MetaSubscriptionID, st.id)
	}
	if m.Edited() {
		st.buf = m.AppendTo(st.buf[:0])
		e.Data = st.buf
	}
	return e, nil
}

// putInMeta puts a value in the place of every member of that name in _meta.
func putInMeta(in wire.Node, name wire.Name, value string) {
	if !in.OK() {
		return
	}
	for meta := in.First(); meta.OK(); meta = meta.Next() {
		if meta.Name() == wire.Meta {
			putAll(meta, name, value)
		}
	}
}

// Close gives the stream up. Without an answer the process is told that none is
// wanted. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation.
func (st *apartStream) Close() error {
	st.once.Do(func() {
		if st.over.Load() {
			return
		}
		st.of.srv.spawn(func() {
			ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
			defer cancel()
			body := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + st.given + `}}`)
			if _, err := st.of.lanes.Send(ctx, &upstream.Outgoing{Body: body}); err != nil {
				st.of.srv.log.Debug("the server was not told of a cancellation", zap.Error(err))
			}
		})
	})
	return st.inner.Close()
}
