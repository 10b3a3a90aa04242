package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// settings is what the OTEL_ variables say. See
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
type settings struct {
	endpoint string // the URL for traces; "" if there are no spans
	header   http.Header
	timeout  time.Duration
	tls      *tls.Config // nil for the system's certificates
	sampler  sampler
}

// read reads the variables. An error names the variable, but never its value.
func read(getenv func(string) string) (s settings, err error) {
	of := func(name string) (value, variable string) {
		if v := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v, "OTEL_EXPORTER_OTLP_TRACES_" + name
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name), "OTEL_EXPORTER_OTLP_" + name
	}
	var variable string
	if s.endpoint, variable = of("ENDPOINT"); s.endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return settings{}, nil
	}
	switch getenv("OTEL_TRACES_EXPORTER") {
	case "none":
		return settings{}, nil
	case "", "otlp":
	default:
		return s, errors.New("OTEL_TRACES_EXPORTER: dragoman sends traces by otlp only; set it to otlp or none")
	}
	if p, name := of("PROTOCOL"); p != "" && p != "http/protobuf" {
		return s, fmt.Errorf("%s: dragoman sends traces by http/protobuf only, to port 4318 of most collectors; unset it or set it to http/protobuf", name)
	}
	at, err := url.Parse(s.endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return s, fmt.Errorf("%s: not an http or https URL", variable)
	}
	if variable == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		at.Path = strings.TrimSuffix(at.Path, "/") + "/v1/traces"
	}
	s.endpoint = at.String()
	list, variable := of("HEADERS")
	if s.header, err = headers(list); err != nil {
		return s, fmt.Errorf("%s: %w", variable, err)
	}
	s.timeout = 10 * time.Second
	if v, variable := of("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("%s: not a number of milliseconds above 0", variable)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	if file, variable := of("CERTIFICATE"); file != "" {
		pem, err := config.ReadSmall(file)
		if err != nil {
			return s, fmt.Errorf("%s: %w", variable, err)
		}
		s.tls = &tls.Config{RootCAs: x509.NewCertPool()}
		if !s.tls.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return s, fmt.Errorf("%s: no certificate in %s", variable, file)
		}
	}
	s.sampler, err = newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
	return s, err
}

// headers reads name=value pairs that are separated by commas, with values in percent-encoding.
func headers(list string) (http.Header, error) {
	h := make(http.Header)
	for _, pair := range strings.Split(list, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, errors.New("not a list of name=value, separated by commas")
		}
		h.Set(name, value)
	}
	return h, nil
}
