package doctor

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// grpcOnly listens like a gRPC server: it begins with HTTP/2 frames, and ends a connection that has another preface.
func grpcOnly(t *testing.T) string {
	t.Helper()
	return peertest.Accept(t, func(conn net.Conn) {
		conn.Read(make([]byte, 24))
		io.WriteString(conn, "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00")
	})
}

// TestTraces checks the lines about the collector.
func TestTraces(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the texts of errors differ")
	}
	ca, now := newAuthority(t), time.Now()
	secure := func(name string, from, until time.Time) string {
		pair, _, _ := ca.issue(name, from, until)
		return serveTLS(t, pair)
	}
	refuses := func(status int, body string, header ...string) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body+r.Header.Get("Authorization"))
		}))
	}
	collector := collectortest.New(t)
	takes := strings.TrimPrefix(collector.URL, "http://")
	release := make(chan struct{})
	slow := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release) }) // before serve's own clean-up, which waits for the request
	valid := secure("127.0.0.1", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	const trust = "OTEL_EXPORTER_OTLP_CERTIFICATE names a file with the certificate of its authority"
	const wrongPath = "OTEL_EXPORTER_OTLP_ENDPOINT is the address without /v1/traces, which is added; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is"
	const token = "OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer%20TOKEN', or what the collector asks for"
	for name, c := range map[string]struct {
		scheme, host string
		more         []string
		want         string // HOST is the host and port, URL where spans are sent
	}{
		"none":              {"", "", nil, ""},
		"disabled":          {"http", takes, []string{"OTEL_SDK_DISABLED=true"}, ""},
		"disabled later":    {"http", takes, []string{"OTEL_SDK_DISABLED=false", "OTEL_SDK_DISABLED=true"}, ""},
		"takes it":          {"http", takes, nil, "ok URL: the collector takes an export in TIME"},
		"takes it over TLS": {"https", valid, []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=" + ca.file}, "ok URL: the collector takes an export in TIME"},
		"grpc named": {"http", takes, []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
			"FAIL OTEL_EXPORTER_OTLP_PROTOCOL: dragoman sends traces by http/protobuf only, to port 4318 of most collectors → unset it or set it to http/protobuf"},
		"port of gRPC": {"http", grpcOnly(t), nil, "FAIL URL: the collector speaks only gRPC at this port → OTEL_EXPORTER_OTLP_ENDPOINT: its port for http/protobuf, which is mostly 4318"},
		"down":         {"http", peertest.NoListener, nil, "FAIL URL: connection refused → is the collector running at this host and port? most take http/protobuf at 4318; check OTEL_EXPORTER_OTLP_ENDPOINT"},
		"unknown name": {"http", "no-such-host.invalid:4318", nil, "FAIL URL: the name no-such-host.invalid cannot be resolved: *"},
		"slow": {"http", slow, []string{"OTEL_EXPORTER_OTLP_TIMEOUT=100"},
			"FAIL URL: no answer in time → is the collector overloaded? may this machine reach it (firewall, network policy)? OTEL_EXPORTER_OTLP_TIMEOUT is the limit in ms"},
		"wrong path":     {"http", takes + "/v1/traces", nil, "FAIL URL: 404 Not Found: 404 page not found → " + wrongPath},
		"not by POST":    {"http", refuses(405, ""), nil, "FAIL URL: 405 Method Not Allowed → " + wrongPath},
		"no token":       {"http", refuses(401, "", "WWW-Authenticate", "Bearer"), nil, `FAIL URL: 401 Unauthorized, WWW-Authenticate: Bearer → ` + token},
		"wrong token":    {"http", refuses(403, "no: "), []string{"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20planted"}, `FAIL URL: 403 Forbidden: no: Bearer [redacted] → ` + token},
		"redirect":       {"http", refuses(307, "", "Location", "https://ann:secret@c.example/t?k=secret"), nil, "FAIL URL: 307 Temporary Redirect to https://c.example/t?… → *"},
		"overloaded":     {"http", refuses(503, ""), nil, "warn URL: 503 Service Unavailable → the collector or what is behind it is overloaded or down; dragoman tries again and drops spans that do not fit its queue"},
		"no collector":   {"http", refuses(415, "<html>"), nil, `FAIL URL: 415 Unsupported Media Type: <html> → is this a collector that takes OTLP as http/protobuf? check OTEL_EXPORTER_OTLP_ENDPOINT`},
		"untrusted":      {"https", valid, nil, "FAIL URL: the collector's certificate is signed by an authority that this machine does not trust → " + trust},
		"another's name": {"https", secure("elsewhere.example", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0)), []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=" + ca.file}, "FAIL URL: the collector's certificate is for elsewhere.example, not for 127.0.0.1 → OTEL_EXPORTER_OTLP_ENDPOINT: use a name that the certificate has"},
		"expired":        {"https", secure("127.0.0.1", now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1)), []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=" + ca.file}, "FAIL URL: the collector's certificate has expired or is not valid yet → renew it; is this machine's clock right?"},
		"plain":          {"https", takes, nil, "FAIL URL: the collector answers in plain HTTP, not TLS → OTEL_EXPORTER_OTLP_ENDPOINT: http://HOST"},
		"TLS":            {"http", valid, nil, "FAIL URL: 400 Bad Request: Client sent an HTTP request to an HTTPS server. → OTEL_EXPORTER_OTLP_ENDPOINT with https://"},
		"broken file":    {"https", valid, []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=" + fileWith(t, "none", "x", 0o600)}, "FAIL OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in *"},
		"password":       {"http", "ann:planted@" + takes, nil, "ok http://" + takes + "/v1/traces: the collector takes an export in TIME"},
	} {
		t.Run(name, func(t *testing.T) {
			o := atURL("http://127.0.0.1:1/")
			o.Sources.Environ = c.more
			if c.scheme != "" {
				o.Sources.Environ = append(c.more, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.scheme+"://"+c.host)
			}
			got := examine(t, o, "traces")
			for i := range got {
				if strings.HasPrefix(got[i], "ok ") {
					got[i] = someTime.ReplaceAllString(got[i], "TIME")
				}
			}
			var wanted []string
			if c.want != "" {
				wanted = []string{replaceHost(strings.Replace(c.want, "URL:", c.scheme+"://"+c.host+"/v1/traces:", 1), c.host)}
			}
			want(t, got, wanted...)
		})
	}
}
