// Package collectortest is an OTLP collector for tests. It reads what it is sent with the official protobuf types.
package collectortest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was received.
type Span struct {
	Name, Kind        string // Kind is SERVER or CLIENT
	Trace, ID, Parent string // in hexadecimal digits; Parent is "" for none
	Links             []string
	Attributes        map[string]string // lists are joined by spaces
	Status            string            // the description of an error; "" for none
	Failed            bool
	Resource          map[string]string
}

// Collector receives spans. Make it with [New].
type Collector struct {
	URL string
	// Refuse answers a request instead of receiving it, if it returns true.
	Refuse func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	spans    []Span
	requests []http.Header
}

// New starts a Collector that ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := new(Collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Header.Clone())
	if c.Refuse != nil && c.Refuse(w, r) {
		return
	}
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, of := range m.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, spanOf(s, of.GetResource().GetAttributes()))
			}
		}
	}
}

func spanOf(s *tracepb.Span, resource []*common.KeyValue) Span {
	out := Span{
		Name: s.Name, Kind: s.Kind.String()[len("SPAN_KIND_"):], Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
		Parent: hex.EncodeToString(s.ParentSpanId), Attributes: attributes(s.Attributes), Resource: attributes(resource),
		Status: s.GetStatus().GetMessage(), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.SpanId))
	}
	return out
}

func attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = text(a.Value)
	}
	return out
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_ArrayValue:
		s := ""
		for i, e := range v.ArrayValue.Values {
			if i > 0 {
				s += " "
			}
			s += text(e)
		}
		return s
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	}
	return ""
}

// Requests returns the headers of the requests so far.
func (c *Collector) Requests() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Spans waits until n spans have come, and returns them.
func (c *Collector) Spans(t *testing.T, n int) []Span {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		spans := c.spans
		c.mu.Unlock()
		if len(spans) >= n {
			return spans
		}
		if time.Now().After(end) {
			t.Fatalf("%d spans, want %d: %+v", len(spans), n, spans)
		}
	}
}
