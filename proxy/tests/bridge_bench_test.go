package tests

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// prompt answers every request at once, according to its method.
type prompt struct{ results map[string]string }

func (c *prompt) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	said := gjson.GetManyBytes(m.Body, "id", "method")
	body := append(append([]byte(`{"jsonrpc":"2.0","id":`), said[0].Raw...), `,`...)
	return &promptStream{body: append(append(body, c.results[said[1].Str]...), '}')}, nil
}

func (c *prompt) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (c *prompt) Close(context.Context) error { return nil }

type promptStream struct {
	upstream.Plain
	body []byte
}

func (s *promptStream) Events(yield func(sse.Event, error) bool) {
	for yield(sse.Event{Data: s.body}, nil) {
	}
}
func (s *promptStream) Close() error       { return nil }
func (s *promptStream) CanInterrupt() bool { return true } // Events does not wait

// eraCall is one call of a tool between clients and servers of two eras, without transports.
type eraCall struct {
	name   string
	server *prompt
	body   string
	client string // its revision
}

// eraCalls returns the combinations of eras: the call has these arguments, and the response this text.
func eraCalls(arguments, text string) []eraCall {
	const (
		listed   = `"tools":[{"name":"x","inputSchema":{"type":"object"}}]`
		complete = `"resultType":"complete",`
	)
	tool := `"content":[{"type":"text","text":"` + text + `"}]`
	legacy := &prompt{map[string]string{
		"initialize": `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`,
		"tools/call": `"result":{` + tool + `}`, "tools/list": `"result":{` + listed + `}`,
		"server/discover": `"error":{"code":-32601,"message":"Method not found"}`,
	}}
	modern := &prompt{map[string]string{
		"initialize":      `"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`,
		"server/discover": `"result":{` + complete + `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`,
		"tools/call":      `"result":{` + complete + tool + `}`, "tools/list": `"result":{` + complete + `"ttlMs":0,"cacheScope":"private",` + listed + `}`,
	}}
	params := `"name":"x","arguments":` + arguments
	session := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
	return []eraCall{
		{"legacy to legacy", legacy, session, "2024-11-05"},
		{"modern to legacy", legacy, modernRequestOf("1", "tools/call", params+","+meta(`{}`)), "2026-07-28"},
		{"modern that can be asked to legacy", legacy, modernRequestOf("1", "tools/call", params+","+meta(`{"elicitation":{}}`)), "2026-07-28"},
		{"legacy to modern", modern, session, "2024-11-05"},
		{"newest legacy to modern", modern, session, "2025-11-25"},
	}
}

// begin starts a proxy, and returns a function that makes the call once.
func (c *eraCall) begin(t testing.TB) (call func()) {
	srv, err := proxy.NewWith(config.Default(), zap.NewNop(), origin.Opened(false, func(context.Context) (upstream.Conn, error) { return c.server, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	f := srv.Handler()
	req := &downstream.Request{Ctx: t.Context(), Header: func(string) string { return "" }}
	if translate.WithHandshake(c.client) == nil {
		header := modernHeader(c.body)
		req.Version = c.client
		req.Header = func(name string) string {
			for i := 0; i < len(header); i += 2 {
				if header[i] == name {
					return header[i+1]
				}
			}
			return ""
		}
	} else {
		var resp downstream.Response
		f.Post(&downstream.Request{Ctx: t.Context(), Header: req.Header, Body: []byte(initialize(c.client, `{}`))}, &resp)
		resp.Done()
		req.Session = resp.Header[0].Value
	}
	body := make([]byte, len(c.body))
	var resp downstream.Response
	return func() {
		req.Body = append(body[:0], c.body...)
		resp = downstream.Response{}
		f.Post(req, &resp)
		if !bytes.Contains(resp.Body, []byte("It will rain.")) {
			t.Fatalf("status %d: %.300s", resp.Status, resp.Body)
		}
		resp.Done()
	}
}

// BenchmarkEras measures one call and its response for each combination of eras, without
// transports.
func BenchmarkEras(b *testing.B) {
	for _, c := range eraCalls(`{"query":"what the weather will be","limit":20}`, "It will rain.") {
		b.Run(c.name, func(b *testing.B) {
			call := c.begin(b)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// TestCopiesOfACall: between two eras a request is copied once, for the server or because it may have to be sent again,
// and a response never. The server of this test allocates each response.
func TestCopiesOfACall(t *testing.T) {
	if effort > 1 {
		t.Skip("with the race detector, pools forget on purpose")
	}
	const size, calls = 32 << 10, 100
	long := strings.Repeat("x", size)
	for _, big := range []struct {
		name string
		all  []eraCall
	}{
		{"request", eraCalls(`{"query":"`+long+`"}`, "It will rain.")},
		{"response", eraCalls(`{}`, "It will rain."+long)},
	} {
		for _, c := range big.all {
			call := c.begin(t)
			call()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				call()
			}
			runtime.ReadMemStats(&after)
			const most = 1.7 // with all other memory, and what the allocator adds
			if copies := float64(after.TotalAlloc-before.TotalAlloc) / calls / size; copies > most {
				t.Errorf("%s, a long %s: %.2f copies", c.name, big.name, copies)
			}
		}
	}
}
