package telemetry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
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
	plain    bool        // requests are not compressed
	ignored  string      // what is wrong with a setting that does not count; "" for nothing
	tls      *tls.Config // nil for the system's certificates
	sampler  sampler
	batching batching
	resource []pair // in the order in which they were named
}

// pair is a name with its value.
type pair struct{ name, value string }

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
	switch v, variable := of("COMPRESSION"); strings.ToLower(v) {
	case "none":
		s.plain = true
	case "", "gzip":
	default: // "MUST generate a warning and gracefully ignore the setting"
		s.ignored = variable + ": dragoman compresses traces with gzip, or not at all with none; the value is ignored"
	}
	if file, variable := of("CERTIFICATE"); file != "" {
		roots, err := config.Certificates(file)
		if err != nil {
			return s, fmt.Errorf("%s: %w", variable, err)
		}
		s.tls = &tls.Config{RootCAs: roots}
	}
	if s.batching, err = readBatching(getenv); err != nil {
		return s, err
	}
	if s.resource, err = readResource(getenv); err != nil {
		return s, err
	}
	s.sampler, err = newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG"))
	return s, err
}

// readBatching reads the OTEL_BSP_ variables.
func readBatching(getenv func(string) string) (b batching, err error) {
	of := func(name string, otherwise int) int {
		v := getenv("OTEL_BSP_" + name)
		if v == "" {
			return otherwise
		}
		n, wrong := strconv.Atoi(v)
		if wrong != nil || n <= 0 || n > 1<<20 {
			err = fmt.Errorf("OTEL_BSP_%s: not a number from 1 to %d", name, 1<<20)
		}
		return n
	}
	b.delay = time.Duration(of("SCHEDULE_DELAY", 5000)) * time.Millisecond
	b.timeout = time.Duration(of("EXPORT_TIMEOUT", 30000)) * time.Millisecond
	b.queue = of("MAX_QUEUE_SIZE", 2048)
	b.batch = min(of("MAX_EXPORT_BATCH_SIZE", 512), b.queue)
	return b, err
}

// readResource reads what describes this process: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES. See
// https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable.
func readResource(getenv func(string) string) (list []pair, err error) {
	set := func(name, value string) {
		list = slices.DeleteFunc(list, func(p pair) bool { return p.name == name })
		list = append(list, pair{name, value})
	}
	set("service.name", "dragoman")
	if host, err := os.Hostname(); err == nil {
		set("host.name", host)
	}
	named, err := pairs(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	for _, p := range named {
		set(p.name, p.value)
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		set("service.name", name)
	}
	return list, nil
}

// headers reads a list of headers.
func headers(list string) (http.Header, error) {
	h := make(http.Header)
	all, err := pairs(list)
	for _, p := range all {
		h.Set(p.name, p.value)
	}
	return h, err
}

// pairs reads name=value pairs that are separated by commas, with values in percent-encoding.
func pairs(list string) (all []pair, err error) {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		name, value, ok := strings.Cut(one, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, errors.New("not a list of name=value, separated by commas")
		}
		all = append(all, pair{name, value})
	}
	return all, nil
}
