package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
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
	params := []byte(`{"name":"add","arguments":{"a":1,"b":2}}`)
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + string(params) + `}`)
	header := []upstream.Header{{Name: "Authorization", Value: "Bearer x"}}
	var answer wire.Message
	if err := answer.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p, _ := tr.Samples(params, header, nil)
		call := tr.Begin(p, Message{Method: "tools/call", ID: []byte("7"), Params: params, Began: time.Now()}, client, server)
		call.Sent(body, header)
		call.Answered(&answer)
		call.End("ok", "")
	}
}
