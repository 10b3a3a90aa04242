package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// instant answers every request with the same bytes and keeps nothing.
type instant struct {
	upstream.Plain
	answer []byte
	tools  string // the answer to tools/list if it is another one; "" for answer
	asked  []byte // the id of a tools/list that Events answers with tools
	buf    []byte
}

func (c *instant) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	c.asked = nil
	if c.tools != "" && gjson.GetBytes(m.Body, "method").Str == "tools/list" {
		c.asked = []byte(gjson.GetBytes(m.Body, "id").Raw)
	}
	return c, nil
}

func (c *instant) Events(yield func(sse.Event, error) bool) {
	for more := true; more; {
		if c.asked != nil {
			more = yield(sse.Event{Data: mcp.AppendResult(nil, c.asked, c.tools)}, nil)
			continue
		}
		c.buf = append(c.buf[:0], c.answer...) // the caller may change it in place
		more = yield(sse.Event{Data: c.buf}, nil)
	}
}

func (c *instant) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (c *instant) Close() error { return nil }

type instantConn struct{ *instant }

func (c instantConn) Close(context.Context) error { return nil }

// BenchmarkPost measures one request and its response, without transports.
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
				srv, err := proxy.NewWith(config.Default(), zap.NewNop(), origin.Opened(false, func(context.Context) (upstream.Conn, error) { return instantConn{conn}, nil }))
				if err != nil {
					b.Fatal(err)
				}
				defer srv.Close()
				f := srv.Handler()
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

// BenchmarkDirect compares a tool call between a modern client and a modern server with the same
// call between a client and a server of the newest handshake revision.
func BenchmarkDirect(b *testing.B) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}}`
	for _, c := range []struct {
		name, version, body, began string
	}{
		{"without sessions", modernOnly, modernRequestOf("1", "tools/call", `"name":"t","arguments":{},`+meta(`{}`)), ""},
		{"with sessions", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`, initialize("2025-11-25", `{}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			conn := &instant{answer: []byte(strings.Replace(initAnswer, "2025-06-18", c.version, 1))}
			o := origin.Opened(false, func(context.Context) (upstream.Conn, error) { return instantConn{conn}, nil })
			o.Open = func(context.Context) (*upstream.Begun, error) { return &upstream.Begun{Conn: instantConn{conn}}, nil }
			cfg := config.Default()
			cfg.Upstream.Version = c.version
			srv, err := proxy.NewWith(cfg, zap.NewNop(), o)
			if err != nil {
				b.Fatal(err)
			}
			defer srv.Close()
			f := srv.Handler()
			header := map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "t"}
			req := &downstream.Request{
				Ctx: b.Context(), Cancel: func(error) {}, Version: c.version, Header: func(name string) string { return header[name] },
				Headers: func(_ string, do func(name, value string)) { do("Mcp-Method", "tools/call"); do("Mcp-Name", "t") },
			}
			var resp downstream.Response
			if c.began != "" {
				req.Body = []byte(c.began)
				f.Post(req, &resp)
				resp.Done()
				req.Session = resp.Header[0].Value
			}
			conn.answer = []byte(answer)
			conn.tools = `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
			body := make([]byte, len(c.body))
			b.ReportAllocs()
			for b.Loop() {
				req.Body = append(body[:0], c.body...)
				resp = downstream.Response{}
				f.Post(req, &resp)
				if len(resp.Body) != len(answer) {
					b.Fatalf("%s", resp.Body)
				}
				resp.Done()
			}
		})
	}
}
