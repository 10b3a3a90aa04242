package adapterrt

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func say(status int, contentType, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// answers are answers of a server and their results, over real sockets.
var answers = []struct {
	name    string
	handler http.HandlerFunc
	want    string // the result after "success":
}{
	{"JSON as it came", say(200, "application/json", " { \"a\" : 1.50 , \"a\":\"\\u00e9\" }\n"), `true,"data":{ "a" : 1.50 , "a":"\u00e9" }}`},
	{"JSON whatever the type", say(201, "text/html", `"x"`), `true,"data":"x"}`},
	{"BOM", say(200, "application/json", "\ufeff[1]"), `true,"data":[1]}`},
	{"only a BOM", say(200, "application/json", "\ufeff"), `true,"data":null}`},
	{"two BOMs", say(200, "application/json", "\ufeff\ufeff[1]"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character","details":{"content_type":"application/json","body_preview":"[1]","offset":0,"http_status":200}}}`},
	{"empty", say(200, "application/json", ""), `true,"data":null}`},
	{"blank", say(200, "", " \r\n\t"), `true,"data":null}`},
	{"no content", say(204, "", ""), `true,"data":null}`},
	{"HTML", say(502, "text/html; charset=utf-8", "<html><body>Bad</body></html>"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 502)","details":{"content_type":"text/html; charset=utf-8","body_preview":"<html><body>Bad</body></html>","http_status":502,"mapped_code":"INTERNAL_ERROR"}}}`},
	{"HTML for not found", say(404, "application/xhtml+xml", "<p>no"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 404)","details":{"content_type":"application/xhtml+xml","body_preview":"<p>no","http_status":404,"mapped_code":"NOT_FOUND_RESOURCE"}}}`},
	{"cut off", say(200, "application/json", `{"a":[1,2`), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected end of input","details":{"content_type":"application/json","body_preview":"{\"a\":[1,2","offset":9,"http_status":200}}}`},
	{"trailing", say(200, "application/json", `{} {}`), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: trailing data","details":{"content_type":"application/json","body_preview":"{} {}","offset":3,"http_status":200}}}`},
	{"text", say(200, "", `oops`), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character","details":{"content_type":"","body_preview":"oops","offset":0,"http_status":200}}}`},
	{"invalid UTF-8 in JSON", say(200, "application/json", "{\"a\":\"\xff\"}"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: invalid UTF-8","details":{"content_type":"application/json","body_preview":"{\"a\":\"\"}","offset":6,"http_status":200}}}`},
	{"invalid UTF-8", say(200, "text/plain", "\xff\xfe{\x00}\x00"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'text/plain'","details":{"content_type":"text/plain","http_status":200}}}`},
	{"binary", say(200, "image/png", "\x89PNG"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'image/png'","details":{"content_type":"image/png","http_status":200}}}`},
	{"JSON in Latin-1", say(200, "application/json; charset=ISO-8859-1", "{\"a\":\"caf\xe9\"}\r\n"), `true,"data":{"a":"café"}}`},
	{"JSON in UTF-16", say(200, "application/json; charset=utf-16", "\xff\xfe{\x00}\x00\n\x00"), `true,"data":{}}`},
	{"JSON in Latin-1 that is UTF-8", say(200, "application/json; charset=ISO-8859-1", `{"a":"café"}`), `true,"data":{"a":"café"}}`},
	{"cut JSON in Latin-1", say(200, "application/json; charset=ISO-8859-1", "{\"a\":\"caf\xe9"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'application/json'","details":{"content_type":"application/json; charset=ISO-8859-1","http_status":200}}}`},
	{"an error in Latin-1", say(404, "application/problem+json; charset=windows-1252", "{\"message\":\"caf\xe9\"}"), `false,"error":{"code":"NOT_FOUND_RESOURCE","message":"Not found: café","details":{"http_status":404,"upstream_error":"café","operation":"get_status"}}}`},
	{"other charset", say(200, "text/plain; charset=utf-16", "x"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'text/plain'","details":{"content_type":"text/plain; charset=utf-16","http_status":200}}}`},
	{"too deep", say(200, "application/json", strings.Repeat("[", 600)), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: nesting too deep","details":{"content_type":"application/json","body_preview":"` + strings.Repeat("[", 200) + `","offset":512,"http_status":200}}}`},
	{"redirect", say(302, "", "", "Location", "https://user:pw@evil.example/x?k=v"), `false,"error":{"code":"INTERNAL_ERROR","message":"HTTP 302: redirect not followed","details":{"http_status":302,"operation":"get_status","location_host":"evil.example"}}}`},
	{"error without a body", say(503, "", ""), `false,"error":{"code":"INTERNAL_ERROR","message":"Service unavailable: 503 Service Unavailable","details":{"http_status":503,"upstream_error":"503 Service Unavailable","operation":"get_status"}}}`},
	{"message", say(404, "application/json", `{"error":"b","message":"a"}`), `false,"error":{"code":"NOT_FOUND_RESOURCE","message":"Not found: a","details":{"http_status":404,"upstream_error":"a","operation":"get_status","upstream_body":{"error":"b"}}}}`},
	{"limited", say(429, "application/json", `{}`, "Retry-After", "7"), `false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: 429 Too Many Requests","details":{"http_status":429,"upstream_error":"429 Too Many Requests","operation":"get_status","retry_after_seconds":7,"resets_at":"2026-01-02T03:04:12Z"}}}`},
	{"limited as forbidden", say(403, "application/json", `{}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1767323055"), `false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: 403 Forbidden","details":{"http_status":403,"upstream_error":"403 Forbidden","operation":"get_status","retry_after_seconds":10,"resets_at":"2026-01-02T03:04:15Z"}}}`},
}

func someTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func TestResponsesBecomeResults(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			s := api(t, c.handler)
			rt := one(t, Options{Now: someTime}, s.URL, status)
			got := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
			if want := `{"success":` + c.want; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if !json.Valid([]byte(got)) {
				t.Error("not JSON")
			}
		})
	}
}

func TestStatusTable(t *testing.T) {
	for status, want := range map[int][2]string{
		400: {"VALIDATION_INVALID_TYPE", "Invalid request: no"},
		401: {"PERMISSION_DENIED", "Authentication required: no"},
		402: {"VALIDATION_INVALID_TYPE", "HTTP 402: no"},
		403: {"PERMISSION_DENIED", "Permission denied: no"},
		404: {"NOT_FOUND_RESOURCE", "Not found: no"},
		408: {"TRANSPORT_TIMEOUT", "HTTP 408: no"},
		409: {"CONFLICT_ALREADY_EXISTS", "Conflict: no"},
		410: {"NOT_FOUND_RESOURCE", "Not found: no"},
		412: {"CONFLICT_VERSION_MISMATCH", "HTTP 412: no"},
		413: {"VALIDATION_PAYLOAD_TOO_LARGE", "HTTP 413: no"},
		418: {"VALIDATION_INVALID_TYPE", "HTTP 418: no"},
		422: {"VALIDATION_INVALID_TYPE", "Validation failed: no"},
		429: {"RATE_LIMIT_EXCEEDED", "Rate limit exceeded: no"},
		500: {"INTERNAL_ERROR", "Server error: no"},
		501: {"INTERNAL_ERROR", "HTTP 501: no"},
		502: {"INTERNAL_ERROR", "Bad gateway: no"},
		503: {"INTERNAL_ERROR", "Service unavailable: no"},
		504: {"INTERNAL_ERROR", "Gateway timeout: no"},
		599: {"INTERNAL_ERROR", "HTTP 599: no"},
	} {
		rt, _ := New(Options{})
		op := &file.Operation{Name: "op", Adapter: &file.Adapter{}, Target: &file.Target{Base: mustURL("https://api.example.com")}}
		_, f := (&httpcall.Call{Op: op}).Read(&httpcall.Reply{Status: status, Header: http.Header{}, Body: []byte(`{"message":"no"}`)}, rt.reading)
		if f == nil || string(f.Code) != want[0] || f.Message != want[1] {
			t.Errorf("%d: got %v, want %v", status, f, want)
		}
	}
}

// TestErrorsInAdditionToAMessageAreShown shows that a caller receives the errors in the body of an
// API whose message only says that something was wrong.
func TestErrorsInAdditionToAMessageAreShown(t *testing.T) {
	body := `{"message":"Validation Failed","errors":[{"field":"title","code":"missing"},{"message":"no such label, see /srv/api/labels.rb"}]}`
	handler := say(422, "application/json", body)
	rt := one(t, Options{}, api(t, handler).URL, status)
	got := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
	if want := `"upstream_error":"Validation Failed","operation":"get_status","upstream_body":{"errors":[{"field":"title","code":"missing"},{"message":"no such label, see [path]"}]}}`; !strings.Contains(got, want) {
		t.Error(got)
	}
	rt = one(t, Options{NoErrorBody: true}, api(t, handler).URL, status)
	got = ask(rt, Endpoint{}, `{"operation":"get_status"}`)
	if want := `"upstream_error":"Validation Failed","operation":"get_status","upstream_errors":"{\"field\":\"title\",\"code\":\"missing\"}; no such label, see [path]"}`; !strings.Contains(got, want) {
		t.Error(got)
	}
	rt = one(t, Options{NoErrorBody: true}, api(t, say(422, "application/json", `{"errors":["a"]}`)).URL, status)
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); strings.Contains(got, "upstream_errors") || strings.Contains(got, "upstream_body") {
		t.Error("told twice", got)
	}
}

// TestErrorRules shows that the error rules of a file count before the status of an answer, and that a rule can make a
// failure of a success.
func TestErrorRules(t *testing.T) {
	const rules = `error_mapping:
- {when: {path: error, is: channel_not_found}, code: NOT_FOUND_RESOURCE, message: There is no such channel, hint: list_channels has them}
- {when: {path: ok, is: false}, code: VALIDATION_INVALID_VALUE}
- {status: 418, code: CONFLICT_ALREADY_EXISTS}
- {status: 422, when: {path: errors.0.code, is: 7}, code: PERMISSION_DENIED}`
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{200, `{"ok":true,"n":1}`, `{"success":true,"data":{"ok":true,"n":1}}`},
		{200, `{"ok":false,"error":"channel_not_found"}`, `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE","message":"There is no such channel","details":{"http_status":200,"upstream_error":"channel_not_found","operation":"get_status","hint":"list_channels has them","upstream_body":{"ok":false}}}}`},
		{200, `{"ok":false,"error":"too_long"}`, `"code":"VALIDATION_INVALID_VALUE","message":"Invalid request: too_long"`},
		{418, `{"message":"m"}`, `"code":"CONFLICT_ALREADY_EXISTS","message":"HTTP 418: m"`},
		{422, `{"errors":[{"code":7.0}]}`, `"code":"PERMISSION_DENIED"`},
		{422, `{"errors":[{"code":8}]}`, `"code":"VALIDATION_INVALID_TYPE"`},
		{200, `[]`, `{"success":true,"data":[]}`},
	} {
		rt := one(t, Options{}, api(t, say(c.status, "application/json", c.body)).URL, status, rules)
		if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.body, got, c.want)
		}
	}
	for _, m := range []struct{ rule, path string }{
		{`{status: 404, code: NOT_FOUND}`, "error_mapping[0].code"}, {`{code: PERMISSION_DENIED}`, "error_mapping[0].when"}, {`{status: 200, code: PERMISSION_DENIED}`, "error_mapping[0].when"},
		{`{status: 404, cod: x}`, "error_mapping[0].cod"}, {`{when: {path: a}}`, "error_mapping[0].when.is"}, {`{when: {path: a..b, is: 1}}`, "error_mapping[0].when.path"}, {`5`, "error_mapping[0]"},
	} {
		a, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "error_mapping: ["+m.rule+"]")), &Options{})
		if a != nil || len(problems) == 0 || problems[0].Path != m.path {
			t.Errorf("%s: %v", m.rule, problems)
		}
	}
}

func TestResponseSizeLimit(t *testing.T) {
	const limit = 10 << 20
	body := func(n int) []byte { return append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, n-2)...), '"') }
	for _, announced := range []bool{true, false} {
		for _, c := range []struct {
			size int
			good bool
		}{{limit - 1, true}, {limit, true}, {limit + 1, false}, {limit * 2, false}} {
			s := api(t, func(w http.ResponseWriter, _ *http.Request) {
				if !announced {
					w.(http.Flusher).Flush()
				} else {
					w.Header().Set("Content-Length", fmt.Sprint(c.size))
				}
				w.Write(body(c.size))
			})
			rt := one(t, Options{}, s.URL, status)
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			if good := r.Failure == nil && len(r.Data) == c.size; good != c.good {
				t.Errorf("%d announced %v: %v", c.size, announced, r.Failure)
			}
			if !c.good && (r.Failure.Message != "Payload exceeds response_size limit of 10485760" || r.HTTPStatus() != 502) {
				t.Error(r.Failure)
			}
		}
	}
}

func TestDecompressionBombIsRefused(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range 64 / effort {
		z.Write(chunk)
	}
	z.Close()
	s := api(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	})
	rt := one(t, Options{}, s.URL, status)
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":false,"error":{"code":"VALIDATION_PAYLOAD_TOO_LARGE","message":"Payload exceeds response_size limit of 10485760","details":{"limit_type":"response_size","limit_value":10485760,"actual_value":10485761,"unit":"bytes"}}}` {
		t.Error(got)
	}
	var good bytes.Buffer
	z = gzip.NewWriter(&good)
	io.WriteString(z, `{"a":1}`)
	z.Close()
	s2 := api(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(good.Bytes())
	})
	if got := ask(one(t, Options{}, s2.URL, status), Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":{"a":1}}` {
		t.Error(got)
	}
}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// raw starts a server that answers with arbitrary bytes.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			c.Read(buf)
			answer(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestTransportFailures(t *testing.T) {
	const gone = peertest.NoListener
	block := make(chan struct{})
	slow := api(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(block) })
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(say(200, "", "1"))
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	t.Cleanup(secure.Close)
	trusting := x509.NewCertPool()
	trusting.AddCert(secure.Certificate())
	_, securePort, _ := net.SplitHostPort(secure.Listener.Addr().String())
	old := httptest.NewUnstartedServer(say(200, "", "1"))
	old.Config.ErrorLog = quiet
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	t.Cleanup(old.Close)
	plain := api(t, say(200, "", "1"))
	for _, c := range []struct{ name, base, code, message string }{
		{"refused", "http://" + gone, "TRANSPORT_CONNECTION_REFUSED", "Connection refused: the API accepts no connections now. Try again later"},
		{"refused, for the operator", "http://" + gone + "#named", "TRANSPORT_CONNECTION_REFUSED", "Connection refused: " + gone},
		{"DNS", "https://no-such-host.invalid", "TRANSPORT_DNS_ERROR", "Could not resolve host: the name of the API is not known now"},
		{"DNS, for the operator", "https://no-such-host.invalid#named", "TRANSPORT_DNS_ERROR", "Could not resolve host: no-such-host.invalid"},
		{"timeout", slow.URL, "TRANSPORT_TIMEOUT", "Request timed out after 300ms"},
		{"unknown authority", secure.URL, "TRANSPORT_TLS_ERROR", "TLS error: unknown authority"},
		{"name mismatch", "https://localhost:" + securePort + "#trust", "TRANSPORT_TLS_ERROR", "TLS error: name mismatch"},
		{"old TLS", old.URL, "TRANSPORT_TLS_ERROR", "TLS error: handshake failed"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "TRANSPORT_TLS_ERROR", "TLS error: handshake failed"},
		{"cut off", "http://" + raw(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":") }), "TRANSPORT_NETWORK_ERROR", "Network error: response ended early"},
		{"silence", "http://" + raw(t, func(net.Conn) {}), "TRANSPORT_NETWORK_ERROR", "Network error: "},
		{"no HTTP", "http://" + raw(t, func(c net.Conn) { io.WriteString(c, "hello there\r\n\r\n") }), "TRANSPORT_NETWORK_ERROR", "Network error: malformed response"},
		{"huge header", "http://" + raw(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}), "TRANSPORT_NETWORK_ERROR", "Network error: "},
		{"bad gzip", "http://" + raw(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nnot gzip at ")
		}), "TRANSPORT_NETWORK_ERROR", "Network error: malformed response"},
		{"denied", "https://169.254.169.254", "TRANSPORT_NETWORK_ERROR", "Network error: address not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, trust := strings.CutSuffix(c.base, "#trust")
			base, named := strings.CutSuffix(base, "#named")
			opt := Options{KeepAddresses: named}
			if trust {
				opt.RootCAs = trusting
			}
			ops := status
			if c.name == "timeout" {
				ops = "read:\n- {name: get_status, maps_to: GET /status, description: S, timeout_ms: 300}"
			}
			if c.name == "name mismatch" && len(secure.Certificate().DNSNames) > 0 && secure.Certificate().VerifyHostname("localhost") == nil {
				t.Skip("the test certificate is good for localhost")
			}
			rt := one(t, opt, base, ops)
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			if r.Failure == nil || string(r.Failure.Code) != c.code || !strings.HasPrefix(r.Failure.Message, c.message) {
				t.Fatalf("got %v (%v), want %s %s", r.Failure, r.Call.Cause, c.code, c.message)
			}
			at, _ := url.Parse(base)
			if said := string(r.Failure.Message) + string(r.Failure.Details); !named && strings.Contains(said, at.Hostname()) {
				t.Errorf("%s names the host", said)
			}
			if c.code != "TRANSPORT_TIMEOUT" && (r.Call.Cause == nil || !strings.Contains(r.Call.Cause.Error(), at.Hostname())) {
				t.Errorf("the log says %v", r.Call.Cause)
			}
		})
	}
}

func TestCancelledCallsHaveNoResult(t *testing.T) {
	arrived := make(chan struct{})
	s := api(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	rt := one(t, Options{}, s.URL, status)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-arrived; cancel() }()
	if r := rt.Dispatch(ctx, Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)}); !r.Cancelled {
		t.Error(r.Failure)
	}
}

func TestAddressPolicyOfTheOptions(t *testing.T) {
	s := api(t, say(200, "", "1"))
	rt := one(t, Options{PublicOnly: true}, s.URL, status)
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, "address not allowed") {
		t.Error(got)
	}
}

func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	hits := 0
	other := api(t, func(w http.ResponseWriter, r *http.Request) { hits++ })
	s := api(t, say(307, "", "", "Location", other.URL))
	rt := one(t, fromEnv("KEY", "k-123456789012"), s.URL, status, "auth: {type: api_key, header_name: X-Key, key_env: KEY}")
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, "redirect not followed") || hits != 0 {
		t.Error(got, hits)
	}
	var secure *httptest.Server
	secure = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status":
			http.Redirect(w, r, "/two", 302)
		case "/two":
			io.WriteString(w, `"there"`)
		case "/away":
			http.Redirect(w, r, other.URL, 302)
		case "/loop":
			http.Redirect(w, r, secure.URL+"/loop", 302)
		}
	}))
	t.Cleanup(secure.Close)
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	ops := status + "\n- {name: away, maps_to: GET /away, description: A}\n- {name: loop, maps_to: GET /loop, description: L}\ncreate:\n- {name: post, maps_to: POST /status, description: P}"
	rt = one(t, Options{SameOriginRedirects: true, RootCAs: pool}, secure.URL, ops)
	for op, want := range map[string]string{"get_status": `"there"`, "away": "not followed", "loop": "not followed", "post": "not followed"} {
		if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); !strings.Contains(got, want) || hits != 0 {
			t.Error(op, got, hits)
		}
	}
}

func TestRequestHeaders(t *testing.T) {
	type seen struct {
		h http.Header
		r *http.Request
		n int64
	}
	var got seen
	s := api(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = seen{r.Header, r, int64(len(b))}
	})
	env := environment("T", "tok-en\n", "U", "me", "EMPTY", " ", "CTL", "a\x01b")
	ops := "create:\n- {name: op, maps_to: POST /q, description: O, params: {a: {type: string}}}"
	for _, c := range []struct{ auth, header, value, query, failure string }{
		{"type: none", "Authorization", "", "", ""},
		{"type: bearer, token_env: T", "Authorization", "Bearer tok-en", "", ""},
		{"type: bearer, token_env: T, header: X-Auth, prefix: ''", "X-Auth", "tok-en", "", ""},
		{"type: api_key, header_name: X-API-Key, key_env: T", "X-Api-Key", "tok-en", "", ""},
		{"type: api_key, in: query, query_name: key, key_env: T", "Authorization", "", "key=tok-en", ""},
		{"type: basic, username_env: U, password_env: T", "Authorization", "Basic bWU6dG9rLWVu", "", ""},
		{"type: bearer, token_env: UNSET", "", "", "", `"AUTH_CREDENTIAL_MISSING","message":"Credential for adapter 'test-api' is not configured","details":{"adapter":"test-api"}}}`},
		{"type: bearer, token_env: EMPTY", "", "", "", "AUTH_CREDENTIAL_MISSING"},
		{"type: bearer, token_env: CTL", "", "", "", "AUTH_CONFIG_INVALID"},
	} {
		text := strings.Replace(front(s.URL, ops, "auth: {"+c.auth+"}"), "serialization: json", "serialization: json, headers: {X-Version: 2022-06-28}", 1)
		rt := start(t, Options{Getenv: env, UserAgent: "dragoman/1"}, map[string]string{"test-api-adapter.md": text})
		got = seen{}
		answer := ask(rt, Endpoint{}, `{"operation":"op","params":{}}`)
		if c.failure != "" {
			if !strings.Contains(answer, c.failure) || got.r != nil || strings.Contains(answer, "UNSET") {
				t.Error(c.auth, answer)
			}
			continue
		}
		if got.h.Get(c.header) != c.value && c.header != "" || got.r.URL.RawQuery != c.query {
			t.Error(c.auth, got.h, got.r.URL)
		}
		if got.h.Get("Accept") != "application/json" || got.h.Get("User-Agent") != "dragoman/1" || got.h.Get("X-Version") != "2022-06-28" {
			t.Error(got.h)
		}
		if got.h.Get("Content-Type") != "" || got.h.Get("Content-Length") != "0" || got.n != 0 {
			t.Error("a body where there is none", got.h)
		}
	}
}

func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	n := 0
	s := api(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n < 3 {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, "1")
	})
	ops := status + "\ncreate:\n- {name: post, maps_to: POST /q, description: P}\n- {name: put_twice, maps_to: POST /q, description: P, non_idempotent: false}\nexecute:\n- {name: run, maps_to: GET /run, description: R}"
	text := strings.Replace(front(s.URL, ops), "serialization: json", "serialization: json, retries: 5, retry_delay_ms: 1", 1)
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text})
	for op, want := range map[string]int{"get_status": 3, "put_twice": 3, "post": 1, "run": 1} {
		n = 0
		if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); n != want {
			t.Error(op, n, got)
		}
	}
}

func TestCredentialsNeverShow(t *testing.T) {
	const secret = "very-secret-value-1234"
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"message":"you sent %s%s"}`, r.Header.Get("X-Key"), r.URL.RawQuery)
	})
	for _, auth := range []string{"type: api_key, header_name: X-Key, key_env: KEY", "type: api_key, in: query, query_name: k, key_env: KEY"} {
		rt := one(t, fromEnv("KEY", secret), s.URL, status, "auth: {"+auth+"}")
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
		if got := string(r.JSON()); strings.Contains(got, secret) || !strings.Contains(got, "[redacted]") {
			t.Error(got)
		}
		refused := one(t, fromEnv("KEY", secret), "http://127.0.0.1:1", status, "auth: {"+auth+"}")
		r = refused.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
		if r.Failure == nil || strings.Contains(string(r.JSON())+errors.Join(r.Call.Cause).Error(), secret) {
			t.Error(r.Call.Cause)
		}
	}
}

// TestTheOriginalErrorIsKeptForTheLog shows that the API's full text is kept for the log, with
// secrets masked.
func TestTheOriginalErrorIsKeptForTheLog(t *testing.T) {
	const secret = "very-secret-value-1234"
	s := api(t, say(500, "application/json", `{"message":"no disk at /var/lib/app/data for `+secret+`"}`))
	rt := one(t, fromEnv("KEY", secret), s.URL, status, "auth: {type: bearer, token_env: KEY}")
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if r.Failure == nil || r.Call.Cause != nil || r.Call.Original != "no disk at /var/lib/app/data for [redacted]" {
		t.Errorf("%+v", r.Call)
	}
	if got := string(r.JSON()); strings.Contains(got, "/var/lib") {
		t.Error(got)
	}
	s = api(t, say(500, "application/json", `{"message":"plain"}`))
	rt = one(t, Options{}, s.URL, status)
	if r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)}); r.Call.Original != "" {
		t.Error("the same twice", r.Call.Original)
	}
}
