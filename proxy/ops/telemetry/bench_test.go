package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// BenchmarkCall measures the spans of a tool call, which are sent to a collector in this process.
func BenchmarkCall(b *testing.B) {
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer to.Close()
	tr, err := New(environment("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL), options, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	one := tracedCall(b, tr)
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
}

// tracedCall returns what makes the spans of one tool call.
func tracedCall(tb testing.TB, tr *Tracer) func() {
	params := []byte(`{"name":"add","arguments":{"a":1,"b":2}}`)
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + string(params) + `}`)
	header := []mcp.Header{{Name: "Authorization", Value: "Bearer x"}}
	var request, answer wire.Message
	if err := request.Scan(body, nil); err != nil {
		tb.Fatal(err)
	}
	if err := answer.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`), nil); err != nil {
		tb.Fatal(err)
	}
	return func() {
		p, _ := tr.Samples(params, header, nil)
		call := tr.Begin(p, MessageOf(&request, time.Now()), client, server)
		call.Sent(body, header)
		call.Answered(&answer)
		call.End("ok", "")
	}
}
