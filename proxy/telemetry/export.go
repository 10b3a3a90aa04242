package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// exporter sends spans to a collector. See
// https://opentelemetry.io/docs/specs/otlp/#otlphttp. The queue in front of it is the SDK's: it is bounded, and drops.
type exporter struct {
	endpoint string
	header   http.Header
	timeout  time.Duration
	client   *http.Client
	log      *zap.Logger

	mu     sync.Mutex
	warned time.Time // when the last failure was logged
	lost   int       // spans lost since then
}

const (
	warnEvery = time.Minute
	firstWait = time.Second // before the first retry; doubled for each further one
)

func newExporter(s settings, log *zap.Logger) *exporter {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = s.tls
	return &exporter{
		endpoint: s.endpoint, header: s.header, timeout: s.timeout, log: log,
		client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// ExportSpans implements [sdk.SpanExporter]. It never returns an error, which the SDK would write to standard error.
func (x *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	body, err := encode(spans)
	if err == nil {
		err = x.send(ctx, body)
	}
	if err != nil {
		x.failed(err, len(spans))
	}
	return nil
}

// Shutdown implements [sdk.SpanExporter].
func (x *exporter) Shutdown(context.Context) error {
	x.client.CloseIdleConnections()
	return nil
}

// failed logs a failure, at most once a minute.
func (x *exporter) failed(err error, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost += n
	if time.Since(x.warned) < warnEvery {
		return
	}
	x.log.Warn("cannot send traces: check OTEL_EXPORTER_OTLP_ENDPOINT and the collector", zap.Int("spans_lost", x.lost), zap.Error(err))
	x.warned, x.lost = time.Now(), 0
}

// send posts one request, and repeats it while the collector asks for that and there is time.
func (x *exporter) send(ctx context.Context, body []byte) error {
	for wait := firstWait; ; wait *= 2 {
		after, err := x.post(ctx, body)
		if err == nil || after < 0 {
			return err
		}
		timer := time.NewTimer(max(after, wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// never says that a request is not to be repeated.
const never time.Duration = -1

// post posts one request. If it failed and may be repeated, after is how long the collector wants to be left alone.
func (x *exporter) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.endpoint, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	for name, values := range x.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		var r collector.ExportTraceServiceResponse
		if proto.Unmarshal(said, &r) == nil && r.GetPartialSuccess().GetRejectedSpans() > 0 {
			return never, fmt.Errorf("the collector rejected %d spans: %.200q", r.GetPartialSuccess().GetRejectedSpans(), r.GetPartialSuccess().GetErrorMessage())
		}
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, &StatusError{resp.StatusCode, resp.Header, said}
	}
	return never, &StatusError{resp.StatusCode, resp.Header, said}
}

// encode returns a compressed ExportTraceServiceRequest. All spans are dragoman's, and have its resource.
func encode(spans []sdk.ReadOnlySpan) ([]byte, error) {
	scope := &tracepb.ScopeSpans{}
	for _, s := range spans {
		scope.Spans = append(scope.Spans, encoded(s))
		scope.Scope = &common.InstrumentationScope{Name: s.InstrumentationScope().Name, Version: s.InstrumentationScope().Version}
	}
	all := new(collector.ExportTraceServiceRequest)
	if len(spans) > 0 {
		of := &resourcepb.Resource{Attributes: attributesOf(spans[0].Resource().Attributes())}
		all.ResourceSpans = []*tracepb.ResourceSpans{{Resource: of, ScopeSpans: []*tracepb.ScopeSpans{scope}}}
	}
	raw, err := proto.Marshal(all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func encoded(s sdk.ReadOnlySpan) *tracepb.Span {
	at, parent := s.SpanContext(), s.Parent()
	trID, spID := at.TraceID(), at.SpanID()
	p := &tracepb.Span{
		TraceId: trID[:], SpanId: spID[:], TraceState: at.TraceState().String(),
		Name: s.Name(), Kind: kindOf(s.SpanKind()), Flags: flagsOf(parent),
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributesOf(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
		Status: &tracepb.Status{Message: s.Status().Description},
	}
	if s.Status().Code == codes.Error {
		p.Status.Code = tracepb.Status_STATUS_CODE_ERROR
	}
	if id := parent.SpanID(); id.IsValid() {
		p.ParentSpanId = id[:]
	}
	for _, l := range s.Links() {
		tr, sp := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		p.Links = append(p.Links, &tracepb.Span_Link{TraceId: tr[:], SpanId: sp[:], Attributes: attributesOf(l.Attributes)})
	}
	return p
}

// flagsOf returns the W3C flags, which say whether the parent is in another process.
func flagsOf(parent trace.SpanContext) uint32 {
	flags := uint32(trace.FlagsSampled) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if parent.IsRemote() {
		flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return flags
}

func kindOf(k trace.SpanKind) tracepb.Span_SpanKind {
	if k == trace.SpanKindClient {
		return tracepb.Span_SPAN_KIND_CLIENT
	}
	return tracepb.Span_SPAN_KIND_SERVER
}

func attributesOf(list []attribute.KeyValue) (out []*common.KeyValue) {
	for _, a := range list {
		v := &common.AnyValue{}
		switch a.Value.Type() {
		case attribute.INT64:
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.STRINGSLICE:
			values := &common.ArrayValue{}
			for _, s := range a.Value.AsStringSlice() {
				values.Values = append(values.Values, &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}})
			}
			v.Value = &common.AnyValue_ArrayValue{ArrayValue: values}
		default:
			v.Value = &common.AnyValue_StringValue{StringValue: a.Value.String()}
		}
		out = append(out, &common.KeyValue{Key: string(a.Key), Value: v})
	}
	return out
}
