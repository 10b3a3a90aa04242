package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
)

func hasTraces(e *exam) bool {
	c, err := telemetry.CollectorOf(e.Sources.Getenv)
	return c != nil || err != nil
}

// traces sends an export without spans to the collector.
func traces(ctx context.Context, e *exam) {
	c, err := telemetry.CollectorOf(e.Sources.Getenv)
	if err != nil {
		what, do, _ := strings.Cut(err.Error(), "; ")
		e.fail(what, "", do)
		return
	}
	e.secrets = append(e.secrets, c.Secrets()...)
	at, err := url.Parse(c.URL())
	if err != nil {
		return // CollectorOf has refused it
	}
	place, begun := config.SafeURL(c.URL()), time.Now()
	err = c.Try(ctx)
	if err == nil {
		e.ok("the collector takes an export in "+millis(time.Since(begun)), place)
		return
	}
	if refused, ok := errors.AsType[*telemetry.StatusError](err); ok {
		e.collectorRefuses(refused, place)
		return
	}
	what, do := unreachable(err, at)
	e.fail(what, place, do)
}

const (
	endpoint    = "OTEL_EXPORTER_OTLP_ENDPOINT"
	certificate = "OTEL_EXPORTER_OTLP_CERTIFICATE names a file with the certificate of its authority"
)

// unreachable says why no collector answers at a URL, and what to do.
func unreachable(err error, at *url.URL) (what, do string) {
	name, misnamed := errors.AsType[x509.HostnameError](err)
	invalid, is := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case isA[*net.DNSError](err):
		return "the name " + at.Hostname() + " cannot be resolved: " + cause(err), endpoint + ": check the name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", "is the collector running at this host and port? most take http/protobuf at 4318; check " + endpoint
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time", "is the collector overloaded? may this machine reach it (firewall, network policy)? OTEL_EXPORTER_OTLP_TIMEOUT is the limit in ms"
	case isPlainHTTP(err):
		return "the collector answers in plain HTTP, not TLS", endpoint + ": " + withScheme(&url.URL{Scheme: at.Scheme, Host: at.Host}, "http")
	case isA[x509.UnknownAuthorityError](err):
		return "the collector's certificate is signed by an authority that this machine does not trust", certificate
	case misnamed:
		return "the collector's certificate is for " + namesOf(name.Certificate) + ", not for " + at.Hostname(), endpoint + ": use a name that the certificate has"
	case is && invalid.Reason == x509.Expired:
		return "the collector's certificate has expired or is not valid yet", "renew it; is this machine's clock right?"
	case strings.Contains(err.Error(), "malformed HTTP response"), strings.Contains(err.Error(), "HTTP/2"):
		return "the collector speaks only gRPC at this port", endpoint + ": its port for http/protobuf, which is mostly 4318"
	}
	if op, ok := errors.AsType[*url.Error](err); ok { // without the URL, which may have a password
		err = op.Err
	}
	return "no export is possible: " + cause(err), "check " + endpoint + " and the collector"
}

// collectorRefuses says what an HTTP status of the collector means.
func (e *exam) collectorRefuses(r *telemetry.StatusError, place string) {
	what := strings.TrimSpace(fmt.Sprintf("%d %s", r.Code, http.StatusText(r.Code)))
	if wanted := r.Header.Get("WWW-Authenticate"); wanted != "" {
		what += ", WWW-Authenticate: " + e.quote(wanted)
	}
	if line, _, _ := bytes.Cut(bytes.TrimSpace(r.Body), []byte("\n")); len(line) > 0 {
		what += ": " + e.first(line)
	}
	switch {
	case r.Code == 401, r.Code == 403:
		e.fail(what, place, "OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer%20TOKEN', or what the collector asks for")
	case r.Code == 404, r.Code == 405:
		e.fail(what, place, endpoint+" is the address without /v1/traces, which is added; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is")
	case r.Code == 400 && strings.Contains(string(r.Body), "HTTPS"):
		e.fail(what, place, endpoint+" with https://")
	case r.Code >= 300 && r.Code < 400:
		e.fail(what+" to "+config.SafeURL(r.Header.Get("Location")), place, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the target; redirects are not followed, since they would take credentials along")
	case r.Code == 429, r.Code == 502, r.Code == 503, r.Code == 504:
		e.warn(what, place, "the collector or what is behind it is overloaded or down; dragoman tries again and drops spans that do not fit its queue")
	default:
		e.fail(what, place, "is this a collector that takes OTLP as http/protobuf? check "+endpoint)
	}
}
