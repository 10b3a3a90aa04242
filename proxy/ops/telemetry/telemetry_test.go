package telemetry

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// environment returns a function like os.Getenv.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func tracer(t *testing.T, c *collectortest.Collector, log *zap.Logger, more ...string) *Tracer {
	t.Helper()
	tr, err := New(environment(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL}, more...)...), options, log)
	if err != nil || tr == nil {
		t.Fatalf("%v, %v", tr, err)
	}
	return tr
}

// planted is a secret of the configuration.
const planted = "planted-secret"

var options = Options{
	Version: "v1",
	Quote:   func(text string) string { return failures.Quote(text, secret.NewSet(planted)) },
	Cause:   func(error) string { return "refused" },
	Address: func() string { return "mcp.example.com:8443" },
}

const (
	parent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	declined = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	another  = "00-1bf7651916cd43dd8448eb211c80319c-c8ad6b7169203331-01"
)

var (
	client = Edge{Revision: "2024-11-05", Session: "0123456789abcdef", Address: "192.0.2.1"}
	server = Edge{Revision: "2025-11-25", Address: "mcp.example.com:8443"}
)

// TestSpansOfACall: the spans say what the conventions ask for, the second is the child of the first, and the server
// receives the context of the second.
func TestSpansOfACall(t *testing.T) {
	c := collectortest.New(t)
	tr := tracer(t, c, zap.NewNop())
	params := []byte(`{"name":"add","_meta":{"traceparent":"` + parent + `","tracestate":"a=b"}}`)
	header := []mcp.Header{{Name: "Authorization", Value: "x"}, {Name: "Traceparent", Value: another}}
	p, yes := tr.Samples(params, header, nil)
	if !yes {
		t.Fatal("not sampled")
	}
	call := tr.Begin(p, Message{Method: "tools/call", ID: []byte(`"7"`), Params: params, Began: time.Now()}, client, server)
	body, sent := call.Sent([]byte(`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":`+string(params)+`}`), header)
	call.Lost([]wire.Loss{{Rule: "C01", Count: 3, Lost: 2}, {Rule: "C01", Count: 1, Lost: 1}, {Rule: "C02", Count: 4}})
	call.End("ok", "")
	tr.Close()
	spans := c.Spans(t, 2)
	out, in := spans[0], spans[1]
	if in.Name != "tools/call add" || out.Name != in.Name || in.Kind != "SERVER" || out.Kind != "CLIENT" || in.Failed || out.Failed {
		t.Errorf("%+v\n%+v", in, out)
	}
	if in.Trace != "0af7651916cd43dd8448eb211c80319c" || in.Parent != "b7ad6b7169203331" || out.Trace != in.Trace || out.Parent != in.ID {
		t.Errorf("%+v\n%+v", in, out)
	}
	if len(in.Links) != 1 || in.Links[0] != "c8ad6b7169203331" || len(out.Links) != 0 {
		t.Errorf("links %q, %q", in.Links, out.Links)
	}
	for name, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "add", "gen_ai.operation.name": "execute_tool", "jsonrpc.request.id": "7",
	} {
		if in.Attributes[name] != want || out.Attributes[name] != want {
			t.Errorf("%s: %q and %q, want %q", name, in.Attributes[name], out.Attributes[name], want)
		}
	}
	for name, want := range map[string]string{
		"mcp.protocol.version": "2024-11-05", "mcp.session.id": "0123456789abcdef", "network.transport": "tcp", "client.address": "192.0.2.1",
		"dragoman.rules": "C01 C02", "dragoman.losses": "3", "server.address": "",
	} {
		if in.Attributes[name] != want {
			t.Errorf("%s of the client's edge: %q, want %q", name, in.Attributes[name], want)
		}
	}
	for name, want := range map[string]string{"mcp.protocol.version": "2025-11-25", "server.address": "mcp.example.com", "server.port": "8443", "client.address": ""} {
		if out.Attributes[name] != want {
			t.Errorf("%s of the server's edge: %q, want %q", name, out.Attributes[name], want)
		}
	}
	if in.Resource["service.name"] != "dragoman" || in.Resource["service.version"] != "v1" {
		t.Errorf("%v", in.Resource)
	}
	context := "00-" + out.Trace + "-" + out.ID + "-01"
	if got := gjson.GetBytes(body, "params._meta"); got.Get("traceparent").String() != context || got.Get("tracestate").String() != "a=b" {
		t.Errorf("%s, want %s", body, context)
	}
	if mcp.HeaderValue(sent, "traceparent") != context || mcp.HeaderValue(sent, "Authorization") != "x" || len(sent) != 3 {
		t.Errorf("%v", sent)
	}
}

// TestOutcomes: how a message ends is the status of both spans.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		answer string // of the server; "" for none
		cause  string
		how    string
		want   string // error.type
		status string
	}{
		"ok":         {answer: `{"jsonrpc":"2.0","id":1,"result":{}}`, how: "ok"},
		"local":      {how: "local"},
		"error":      {answer: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool: planted-secret"}}`, how: "error", want: "-32602", status: "no such tool: [redacted]"},
		"tool error": {answer: `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`, how: "tool_error", want: "tool_error"},
		"cause":      {how: "failed", cause: "timeout_silence", want: "timeout_silence", status: "timeout_silence"},
		"cancelled":  {how: "cancelled", want: "cancelled", status: "cancelled"},
	} {
		to := collectortest.New(t)
		tr := tracer(t, to, zap.NewNop())
		call := tr.Begin(Parent{}, Message{Method: "tools/call", ID: []byte("1"), Params: []byte(`{"name":"x"}`), Began: time.Now()}, client, Edge{Revision: "2025-11-25"})
		call.Sent([]byte(`{}`), nil)
		if c.answer != "" {
			var m wire.Message
			if err := m.Scan([]byte(c.answer), nil); err != nil {
				t.Fatal(err)
			}
			m.ToolError = strings.Contains(c.answer, "isError")
			call.Answered(&m)
		}
		call.End(c.how, c.cause)
		tr.Close()
		for _, s := range to.Spans(t, 2) {
			if s.Attributes["error.type"] != c.want || s.Failed != (c.want != "") || s.Status != c.status {
				t.Errorf("%s: %+v", name, s)
			}
			if s.Kind == "CLIENT" && s.Attributes["network.transport"] != "pipe" {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// TestSampling: the parent decides, else the ratio. Invalid contexts are none.
func TestSampling(t *testing.T) {
	within := func(traceparent string) []byte { return []byte(`{"_meta":{"traceparent":"` + traceparent + `"}}`) }
	for _, c := range []struct {
		sampler, arg, parent string
		want                 bool
	}{
		{"", "", "", true},
		{"", "", parent, true},
		{"", "", declined, false},
		{"", "", "00-nonsense", true},
		{"always_on", "", declined, true},
		{"always_off", "", parent, false},
		{"parentbased_always_off", "", "", false},
		{"parentbased_always_off", "", parent, true},
		{"parentbased_traceidratio", "0", "", false},
		{"parentbased_traceidratio", "0", parent, true},
		{"traceidratio", "1", declined, true},
		{"traceidratio", "0", parent, false},
	} {
		s, err := newSampler(c.sampler, c.arg)
		if err != nil {
			t.Fatal(err)
		}
		tr := &Tracer{sampler: s}
		if _, yes := tr.Samples(within(c.parent), nil, nil); yes != c.want {
			t.Errorf("%+v: %t", c, yes)
		}
		if _, yes := tr.Samples(nil, []mcp.Header{{Name: "traceparent", Value: c.parent}}, nil); yes != c.want {
			t.Errorf("%+v, in the headers: %t", c, yes)
		}
	}
	half, err := newSampler("parentbased_traceidratio", "0.5")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 1000 {
		if _, yes := (&Tracer{sampler: half}).Samples(nil, nil, nil); yes {
			n++
		}
	}
	if n < 350 || n > 650 {
		t.Errorf("%d of 1000", n)
	}
}

// TestUnsampledMessagesCostNothing: no allocation, and nothing is changed.
func TestUnsampledMessagesCostNothing(t *testing.T) {
	tr := &Tracer{sampler: sampler{}}
	params := []byte(`{"name":"add","arguments":{"a":1}}`)
	if n := testing.AllocsPerRun(100, func() { tr.Samples(params, nil, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Call
	body := []byte(`{}`)
	if out, header := none.Sent(body, nil); &out[0] != &body[0] || header != nil {
		t.Error("changed")
	}
	if out, _ := none.Again(body, nil); &out[0] != &body[0] {
		t.Error("changed")
	}
	ctx := t.Context()
	own := upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)}
	if n := testing.AllocsPerRun(100, func() {
		if none.Within(ctx) != ctx || Ask(ctx, &own, "2025-11-25") != nil {
			t.Error("a request of dragoman's own has a span")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a request of dragoman's own", n)
	}
	if Ask(none.Within(tr.Alone(ctx)), &own, "") != nil || Ask(tr.Alone(ctx), &own, "") != nil {
		t.Error("the sampler takes none, and a request of dragoman's own has a span")
	}
	none.Answered(nil)
	none.Lost(nil)
	none.Done(nil)
	none.Continues(none)
	none.Asked()
	none.InSession("x")
	none.End("", "")
	var off *Tracer
	off.Close()
	if off.Alone(ctx) != ctx {
		t.Error("a context for spans without a tracer")
	}
	if _, yes := off.Samples(params, nil, nil); yes || none.TraceID() != "" {
		t.Error("sampled")
	}
}

// TestEnvironment: what is refused has a sentence that names the variable, and no value.
func TestEnvironment(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pairs []string
		want  string // of the error; "" for none
		at    string // the endpoint
	}{
		"nothing":       {nil, "", ""},
		"base":          {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, "", "http://c:4318/v1/traces"},
		"base, slash":   {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/x/"}, "", "http://c:4318/x/v1/traces"},
		"for traces":    {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/t", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://d"}, "", "https://c/t"},
		"disabled":      {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318", "OTEL_SDK_DISABLED", "true"}, "", ""},
		"none":          {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318", "OTEL_TRACES_EXPORTER", "none"}, "", ""},
		"other":         {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318", "OTEL_TRACES_EXPORTER", "zipkin"}, "OTEL_TRACES_EXPORTER: dragoman sends traces by otlp only", ""},
		"grpc":          {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL: dragoman sends traces by http/protobuf only, to port 4318", ""},
		"no URL":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "secret-host:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: not an http or https URL", ""},
		"headers":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_HEADERS", "secret"}, "OTEL_EXPORTER_OTLP_HEADERS: not a list of name=value", ""},
		"timeout":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT", "1s"}, "OTEL_EXPORTER_OTLP_TIMEOUT: not a number of milliseconds", ""},
		"sampler":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_TRACES_SAMPLER", "jaeger_remote"}, "OTEL_TRACES_SAMPLER: dragoman has", ""},
		"ratio":         {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "2"}, "OTEL_TRACES_SAMPLER_ARG: not a number from 0 to 1", ""},
		"batches":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_BSP_MAX_QUEUE_SIZE", "0"}, "OTEL_BSP_MAX_QUEUE_SIZE: not a number from 1 to", ""},
		"resource":      {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_RESOURCE_ATTRIBUTES", "secret"}, "OTEL_RESOURCE_ATTRIBUTES: not a list of name=value", ""},
		"no file":       {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE", none}, "OTEL_EXPORTER_OTLP_CERTIFICATE: ", ""},
		"a broken file": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_CERTIFICATE", bad}, "OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in", ""},
	} {
		s, err := read(environment(c.pairs...))
		switch {
		case c.want == "" && (err != nil || s.endpoint != c.at):
			t.Errorf("%s: %q, %v", name, s.endpoint, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v", name, err)
		}
	}
	h, err := headers("Authorization=Bearer%20t, x-scope = a")
	if err != nil || h.Get("Authorization") != "Bearer t" || h.Get("X-Scope") != "a" {
		t.Errorf("%v, %v", h, err)
	}
}

// TestResource: what describes the process can be set, and OTEL_SERVICE_NAME goes first.
func TestResource(t *testing.T) {
	c := collectortest.New(t)
	tr := tracer(t, c, zap.NewNop(), "OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment.name=a%20b", "OTEL_SERVICE_NAME", "front")
	tr.Begin(Parent{}, Message{Method: "ping", Began: time.Now()}, client, server).End("ok", "")
	tr.Close()
	got := c.Spans(t, 1)[0].Resource
	host, _ := os.Hostname()
	for name, want := range map[string]string{
		"service.name": "front", "deployment.environment.name": "a b", "host.name": host, "service.version": "v1", "telemetry.sdk.language": "go",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// sendOne sends one span, and returns the lines that were logged.
func sendOne(t *testing.T, c *collectortest.Collector, more ...string) *observer.ObservedLogs {
	core, logs := observer.New(zapcore.WarnLevel)
	tr := tracer(t, c, zap.New(core), more...)
	tr.Begin(Parent{}, Message{Method: "ping", Began: time.Now()}, client, server).End("ok", "")
	tr.Close()
	return logs
}

// TestCompression: requests are compressed with gzip unless the variables say otherwise, and an unknown value is ignored with one
// warning, which does not show it.
func TestCompression(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION"
	for name, c := range map[string]struct {
		pairs []string
		want  string // Content-Encoding
		warns string // the variable; "" for no warning
	}{
		"nothing":            {nil, "gzip", ""},
		"gzip":               {[]string{all, "gzip"}, "gzip", ""},
		"none":               {[]string{all, "none"}, "", ""},
		"upper case":         {[]string{all, "NONE"}, "", ""},
		"for traces":         {[]string{all, "gzip", traces, "none"}, "", ""},
		"traces on":          {[]string{all, "none", traces, "gzip"}, "gzip", ""},
		"unknown":            {[]string{all, "zstd-secret"}, "gzip", all},
		"unknown for traces": {[]string{all, "none", traces, "zstd-secret"}, "gzip", traces},
	} {
		at := collectortest.New(t)
		logs := sendOne(t, at, c.pairs...)
		at.Spans(t, 1)
		if got := at.Requests()[0].Values("Content-Encoding"); strings.Join(got, " ") != c.want {
			t.Errorf("%s: Content-Encoding %q, want %q", name, got, c.want)
		}
		said := ""
		for _, line := range logs.All() {
			said += line.Message
		}
		if (said != "") != (c.warns != "") || !strings.HasPrefix(said, c.warns) || strings.Contains(said, "secret") || logs.Len() > 1 {
			t.Errorf("%s: warnings %q", name, said)
		}
	}
}

// TestBusyCollector: a request is repeated when the collector asks for that, with the headers of the configuration.
func TestBusyCollector(t *testing.T) {
	c := collectortest.New(t)
	n := 0
	c.Refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		if n++; n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n == 1
	}
	logs := sendOne(t, c, "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20t")
	if len(c.Spans(t, 1)) != 1 || logs.Len() != 0 {
		t.Errorf("%v", logs.All())
	}
	for _, h := range c.Requests() {
		if h.Get("Authorization") != "Bearer t" || h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v", h)
		}
	}
}

// TestCollectorThatRefuses: one warning, without the credential; a redirect is not followed, since it would take the
// credential along.
func TestCollectorThatRefuses(t *testing.T) {
	for status, want := range map[int]string{400: "the collector answers 400", 401: "401", 404: "without /v1/traces", 307: "307"} {
		c := collectortest.New(t)
		c.Refuse = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			return true
		}
		logs := sendOne(t, c, "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20planted")
		if logs.Len() != 1 || len(c.Requests()) != 1 {
			t.Fatalf("%d: %d requests, %v", status, len(c.Requests()), logs.All())
		}
		line := logs.All()[0]
		if said := line.ContextMap()["error"].(string); !strings.Contains(said, want) || strings.Contains(said, "planted") || line.Level != zapcore.WarnLevel {
			t.Errorf("%d: %v", status, said)
		}
	}
}

// TestCollectorThatIsDown: Close does not wait for it, and there is one warning for many spans.
func TestCollectorThatIsDown(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	tr, err := New(environment("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT", "100"), options, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2000 {
		tr.Begin(Parent{}, Message{Method: "ping", Began: time.Now()}, client, server).End("ok", "")
	}
	tr.Close()
	if took := time.Since(began); took > closeTime+10*time.Second {
		t.Errorf("took %v", took)
	}
	if logs.Len() != 1 {
		t.Errorf("%v", logs.All())
	}
}

// TestWarningSaysWhySpansWereLost: a collector that has refused spans within the minute after a warning is not taken for a full
// queue when it accepts spans again.
func TestWarningSaysWhySpansWereLost(t *testing.T) {
	c := collectortest.New(t)
	refused := true
	c.Refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		if refused {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return refused
	}
	core, logs := observer.New(zapcore.WarnLevel)
	s, err := read(environment("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL))
	if err != nil {
		t.Fatal(err)
	}
	x := newExporter(s, zap.New(core))
	export := func(n, dropped int) { x.export(t.Context(), make([]byte, x.room()), n, dropped) }
	export(1, 0)
	export(2, 0) // no second warning in this minute
	refused = false
	x.warned = x.warned.Add(-warnEvery)
	export(4, 0)
	x.warned = x.warned.Add(-warnEvery)
	export(4, 8)
	for i, want := range []struct {
		lost int64
		why  string
	}{{1, "401"}, {2, "401"}, {8, "queue was full"}} {
		if logs.Len() != 3 {
			t.Fatalf("%v", logs.All())
		}
		said := logs.All()[i].ContextMap()
		if said["spans_lost"] != want.lost || !strings.Contains(said["error"].(string), want.why) {
			t.Errorf("%d: %v", i, said)
		}
	}
}

// TestURIsHaveNoCredentials: neither a query nor a password gets into a span.
func TestURIsHaveNoCredentials(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a/b":              "file:///a/b",
		"https://h/p?token=x":      "https://h/p",
		"https://ann:pass@h:1/p@q": "https://h:1/p@q",
		"postgres://u:p@w@db":      "postgres://db",
		"note:7":                   "note:7",
		"":                         "",
	} {
		if got := plainURI(uri); got != want {
			t.Errorf("%q: %q, want %q", uri, got, want)
		}
	}
}

// TestFailureWhileSending: a call may end while it is being sent.
func TestFailureWhileSending(t *testing.T) {
	c := collectortest.New(t)
	tr := tracer(t, c, zap.NewNop())
	call := tr.Begin(Parent{}, Message{Method: "ping", ID: []byte("1"), Began: time.Now()}, client, server)
	var both sync.WaitGroup
	both.Go(func() { call.Sent([]byte(`{}`), nil) })
	both.Go(func() { call.End("failed", "command_exit") })
	both.Wait()
	tr.Close()
	if s := c.Spans(t, 1)[0]; s.Attributes["error.type"] != "command_exit" {
		t.Errorf("%+v", s)
	}
}

// TestOwnRequests: how a request of dragoman's own ends is the status of its span. What a message without spans has caused
// has none either, whatever the sampler says.
func TestOwnRequests(t *testing.T) {
	for err, want := range map[error]string{nil: "", context.Canceled: "cancelled", &mcp.ServerError{Raw: []byte(`{"code":-32601,"message":"planted-secret"}`)}: "-32601", io.EOF: "refused"} {
		c := collectortest.New(t)
		tr := tracer(t, c, zap.NewNop())
		own := upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"o","method":"tools/list","params":{}}`)}
		var none *Call
		if Ask(none.Within(tr.Alone(t.Context())), &own, "2025-11-25") != nil {
			t.Error("it has a span")
		}
		Ask(tr.Alone(t.Context()), &own, "2025-11-25").Done(err)
		tr.Close()
		s := c.Spans(t, 1)[0]
		if s.Name != "tools/list" || s.Kind != "CLIENT" || s.Attributes["error.type"] != want || strings.Contains(s.Status, "planted") ||
			s.Attributes["server.address"] != "mcp.example.com" || s.Attributes["mcp.protocol.version"] != "2025-11-25" || s.Attributes["jsonrpc.request.id"] != "o" {
			t.Errorf("%v: %+v", err, s)
		}
	}
}
