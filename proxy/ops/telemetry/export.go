package telemetry

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// exporter sends spans to a collector. See https://opentelemetry.io/docs/specs/otlp/#otlphttp. Only one goroutine at a
// time may use it.
type exporter struct {
	endpoint string
	header   http.Header
	timeout  time.Duration
	client   *http.Client
	log      *zap.Logger

	resource, scope []byte       // the fields that stand before the spans
	zip             *gzip.Writer // nil if requests are not compressed
	zipped          bytes.Buffer

	warned time.Time // when the last failure was logged
	lost   int       // spans lost since then
	why    error     // the last reason
}

const (
	warnEvery = time.Minute
	firstWait = time.Second // before the first retry; doubled for each further one
)

func newExporter(s settings, log *zap.Logger) *exporter {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = s.tls
	t.DialContext = (&dial.Dialer{Timeout: s.timeout}).DialContext
	x := &exporter{
		endpoint: s.endpoint, header: s.header, timeout: s.timeout, log: log,
		client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if !s.plain {
		x.zip, _ = gzip.NewWriterLevel(&x.zipped, gzip.BestSpeed) // the level is valid
	}
	return x
}

// describe sets what all spans have in common.
func (x *exporter) describe(resource []pair, version string) {
	x.resource = nested(nil, resourceSpansResource, func(b []byte) []byte {
		a := attributes{b, resourceAttributes}
		for _, p := range resource {
			a.text(p.name, p.value)
		}
		a.text("service.version", version)
		a.text("telemetry.sdk.name", "dragoman")
		a.text("telemetry.sdk.language", "go")
		a.text("telemetry.sdk.version", version)
		return a.to
	})
	x.scope = nested(nil, scopeSpansScope, func(b []byte) []byte {
		return text(text(b, scopeName, "dragoman"), scopeVersion, version)
	})
}

// room returns how many bytes may stand before the spans of a request.
func (x *exporter) room() int { return len(x.resource) + len(x.scope) + 4*binary.MaxVarintLen64 }

// errFull says that spans were dropped because others waited.
var errFull = errors.New("the queue was full: OTEL_BSP_MAX_QUEUE_SIZE, or sample less with OTEL_TRACES_SAMPLER")

// export sends n encoded spans, which stand in batch behind the room. dropped spans did not fit the queue before.
func (x *exporter) export(ctx context.Context, batch []byte, n, dropped int) {
	if dropped > 0 {
		x.lost, x.why = x.lost+dropped, errFull
	}
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	if err := x.send(ctx, x.encoded(x.request(batch))); err != nil {
		x.lost, x.why = x.lost+n, err
	}
	if x.lost == 0 || time.Since(x.warned) < warnEvery {
		return
	}
	x.log.Warn("cannot send traces: check OTEL_EXPORTER_OTLP_ENDPOINT and the collector", zap.Int("spans_lost", x.lost), zap.Error(x.why))
	x.warned, x.lost = time.Now(), 0
}

// request returns the ExportTraceServiceRequest of the spans behind the room, in the same memory.
func (x *exporter) request(batch []byte) []byte {
	room := x.room()
	head := appendRequest(make([]byte, 0, room), x.resource, x.scope, len(batch)-room)
	begin := room - len(head)
	copy(batch[begin:], head)
	return batch[begin:]
}

// encoded returns the body of a request, which is valid until the next call.
func (x *exporter) encoded(request []byte) []byte {
	if x.zip == nil {
		return request
	}
	x.zipped.Reset()
	x.zip.Reset(&x.zipped)
	x.zip.Write(request) // a Buffer takes everything
	x.zip.Close()
	return x.zipped.Bytes()
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
	req.Header.Set("User-Agent", mcp.UserAgent())
	maps.Copy(req.Header, x.header)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if x.zip != nil {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if n, why := rejected(said); n > 0 {
			return never, fmt.Errorf("the collector rejected %d spans: %.200q", n, why)
		}
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, &StatusError{resp.StatusCode, resp.Header, said}
	}
	return never, &StatusError{resp.StatusCode, resp.Header, said}
}

// StatusError says that a collector has refused an export.
type StatusError struct {
	Code   int
	Header http.Header
	Body   []byte // at most 64 KiB of it
}

// Error implements error. It quotes nothing of the answer.
func (e *StatusError) Error() string {
	said := strings.TrimSpace(fmt.Sprintf("the collector answers %d %s", e.Code, http.StatusText(e.Code)))
	if e.Code == http.StatusNotFound {
		said += ": OTEL_EXPORTER_OTLP_ENDPOINT is the address without /v1/traces, which is added"
	}
	return said
}
