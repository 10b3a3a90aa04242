package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// instant answers every request with the same bytes and keeps nothing.
type instant struct {
	answer []byte
	given  bool
	buf    []byte
}

func (c *instant) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	c.given = false
	return c, nil
}

func (c *instant) Next() (sse.Event, error) {
	c.given = true
	c.buf = append(c.buf[:0], c.answer...) // it may be changed in place
	return sse.Event{Data: c.buf}, nil
}

func (c *instant) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (c *instant) Close() error { return nil }

type instantConn struct{ *instant }

func (c instantConn) Close(context.Context) error { return nil }

// BenchmarkPost is the road of one request and its answer, without transports.
func BenchmarkPost(b *testing.B) {
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool-%d","title":"Tool %d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
			i, i, strings.Repeat("words ", 100)))
	}
	answers := map[string]string{
		"ping":       pingAnswer,
		"tools/list": `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(tools, ",") + `]}}`,
	}
	for method, answer := range answers {
		for _, vc := range []string{"2025-06-18", "2024-11-05"} {
			b.Run(method+" for "+vc, func(b *testing.B) {
				conn := &instant{answer: []byte(initAnswer)}
				srv, err := newServer(DefaultConfig(), zap.NewNop(), opened(false, func(context.Context) (upstream.Conn, error) { return instantConn{conn}, nil }))
				if err != nil {
					b.Fatal(err)
				}
				defer srv.close()
				f := (*face)(srv)
				var resp downstream.Response
				f.Post(&downstream.Request{Ctx: b.Context(), Body: []byte(initialize(vc, `{}`))}, &resp)
				resp.Done()
				session := resp.Header[0].Value
				conn.answer = []byte(answer)
				in := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method))
				body := make([]byte, len(in))
				req := &downstream.Request{Ctx: b.Context(), Session: session, Header: func(string) string { return "" }}
				b.SetBytes(int64(len(answer)))
				b.ReportAllocs()
				for b.Loop() {
					req.Body = append(body[:0], in...)
					resp = downstream.Response{}
					f.Post(req, &resp)
					if resp.Body == nil {
						b.Fatal("no answer")
					}
					resp.Done()
				}
			})
		}
	}
}

const initAnswer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`
