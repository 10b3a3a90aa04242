package adapterrt

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// zipped returns a text in gzip format.
func zipped(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts { // each part becomes a gzip member
		z := gzip.NewWriter(&b)
		io.WriteString(z, p)
		z.Close()
	}
	return b.String()
}

// encoded returns a response whose Content-Encoding is how.
func encoded(status int, how, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", status, how, len(body), body)
}

// TestCompressedAnswersThatMisbehave shows that the limit applies to the decompressed size of
// an answer, with each status, and that an incomplete answer is a failure.
func TestCompressedAnswersThatMisbehave(t *testing.T) {
	blanks := strings.Repeat(" ", 1<<20)
	bomb := zipped(strings.Repeat(blanks, 64/effort))
	good := zipped(`{"a":1}`)
	broken := []byte(good)
	broken[len(broken)-5] ^= 1 // the checksum
	for name, c := range map[string]struct{ answer, want string }{
		"valid gzip":                {encoded(200, "gzip", good), `{"success":true,"data":{"a":1}}`},
		"two members":               {encoded(200, "gzip", zipped(`{"a":`, `1}`)), `{"success":true,"data":{"a":1}}`},
		"nothing":                   {encoded(200, "gzip", zipped("")), `{"success":true,"data":null}`},
		"no body at all":            {encoded(200, "gzip", ""), `"success":`},
		"a bomb":                    {encoded(200, "gzip", bomb), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"a bomb with an error":      {encoded(500, "gzip", bomb), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"a bomb of many members":    {encoded(200, "gzip", strings.Repeat(zipped(blanks), 64/effort)), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"members without end":       {encoded(200, "gzip", strings.Repeat(zipped(""), 100_000/effort)+good), `"success":true`},
		"cut off":                   {encoded(200, "gzip", good[:len(good)-9]), `"TRANSPORT_NETWORK_ERROR","message":"Network error: `},
		"a wrong checksum":          {encoded(200, "gzip", string(broken)), `"TRANSPORT_NETWORK_ERROR"`},
		"text behind it":            {encoded(200, "gzip", good+"more"), `"TRANSPORT_NETWORK_ERROR"`},
		"packed twice, said once":   {encoded(200, "gzip", zipped(good)), `"SERIALIZATION_PARSE_ERROR"`},
		"plain, said to be packed":  {encoded(200, "gzip", `{"a":1}`), `"TRANSPORT_NETWORK_ERROR"`},
		"packed in a way not asked": {encoded(200, "br", "\x0b\x02\x80{}\x03"), `"SERIALIZATION_PARSE_ERROR"`},
		"deflated":                  {encoded(200, "deflate", "\x78\x9c\xab\x56\x4a"), `"SERIALIZATION_PARSE_ERROR"`},
		"two encodings":             {encoded(200, "gzip, gzip", zipped(good)), `"SERIALIZATION_PARSE_ERROR"`},
	} {
		t.Run(name, func(t *testing.T) {
			rt := one(t, Options{}, "http://"+raw2(t, func(conn net.Conn, _ string) { io.WriteString(conn, c.answer) }), status)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
			runtime.ReadMemStats(&after)
			if !strings.Contains(got, c.want) {
				t.Errorf("got %.300s, want %s", got, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("took %d MiB", took>>20)
			}
		})
	}
}

// TestServersThatCloseTheConnection closes the connection before, during and after an answer. A request
// that may have had an effect must not be sent twice.
func TestServersThatCloseTheConnection(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"a\":12}"
	reset := func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }
	for name, f := range map[string]func(c net.Conn){
		"resets at once":         func(c net.Conn) { reset(c) },
		"resets within the head": func(c net.Conn) { io.WriteString(c, answer[:20]); time.Sleep(20 * time.Millisecond); reset(c) },
		"resets within the body": func(c net.Conn) {
			io.WriteString(c, answer[:len(answer)-3])
			time.Sleep(20 * time.Millisecond)
			reset(c)
		},
		"closes within the body": func(c net.Conn) { io.WriteString(c, answer[:len(answer)-3]) },
		"closes half of itself": func(c net.Conn) {
			io.WriteString(c, answer[:len(answer)-3])
			c.(*net.TCPConn).CloseWrite()
			time.Sleep(20 * time.Millisecond)
		},
		"closes behind the head": func(c net.Conn) { io.WriteString(c, answer[:len(answer)-8]) },
		"100, then closed":       func(c net.Conn) { io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") },
		"ends a chunk too early": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\":12}\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			base := "http://" + raw2(t, func(c net.Conn, _ string) { requests.Add(1); f(c) })
			rt := one(t, Options{}, base, "create:\n- {name: add, maps_to: POST /x, description: A, params: {a: {type: string}}}")
			first := ""
			if name == "closes within the body" || strings.Contains(name, "behind the head") || strings.Contains(name, "chunk") || strings.Contains(name, "half") {
				first = "The request was carried out (HTTP 200): do not send it again. Its answer cannot be read: " // its head was read
			}
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"add","params":{"a":"b"}}`)})
			got := string(r.JSON())
			if name == "resets within the body" { // its head may have been read before
				got = strings.Replace(got, "The request was carried out (HTTP 200): do not send it again. Its answer cannot be read: ", "", 1)
			}
			if !strings.Contains(got, `"TRANSPORT_NETWORK_ERROR","message":"`+first+`Network error: `) || strings.Contains(got, "127.0.0.1") {
				t.Error(got)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// TestIdleConnectionsClosedByTheAPIAreReplaced shows that the runtime opens a new connection if the API has
// closed an idle one.
func TestIdleConnectionsClosedByTheAPIAreReplaced(t *testing.T) {
	var requests atomic.Int32
	idle, closed := make(chan net.Conn, 1), make(chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		requests.Add(1)
		io.WriteString(w, "1")
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle:
			idle <- c
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	s.Start()
	defer s.Close()
	rt := one(t, Options{}, s.URL, "create:\n- {name: add, maps_to: POST /x, description: A, params: {a: {type: string}}}")
	for i := range 5 {
		if got := ask(rt, Endpoint{}, `{"operation":"add","params":{"a":"b"}}`); got != `{"success":true,"data":1}` {
			t.Error(i, got)
		}
		// A request written before the client sees the close would not be sent again.
		(<-idle).(*net.TCPConn).CloseWrite()
		<-closed // by the client, which has seen it
	}
	if n := requests.Load(); n != 5 {
		t.Errorf("%d requests of 5", n)
	}
}

// TestServersThatDoNotRead shows that a request to a server that does not read it ends with
// its timeout, and that an answer is used even if it comes before the request was read.
func TestServersThatDoNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // never accepts a connection
	const ops = "create:\n- {name: add, maps_to: POST /x, description: A, timeout_ms: 300, params: {a: {type: array}}}"
	body := `{"operation":"add","params":{"a":["` + strings.Repeat(strings.Repeat("x", 999_000)+`","`, 7) + `"]}}`
	rt := one(t, Options{MaxRequestBytes: 10 << 20}, "http://"+l.Addr().String(), ops)
	if got := ask(rt, Endpoint{}, body); !strings.Contains(got, `"TRANSPORT_TIMEOUT"`) {
		t.Errorf("%.300s", got)
	}
	early := "http://" + raw2(t, func(c net.Conn, _ string) {
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 22\r\nConnection: close\r\n\r\n{\"message\":\"too much\"}")
		c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		io.Copy(io.Discard, c)
	})
	rt = one(t, Options{MaxRequestBytes: 10 << 20}, early, strings.Replace(ops, "300", "5000", 1))
	if got := ask(rt, Endpoint{}, body); !strings.Contains(got, `"VALIDATION_PAYLOAD_TOO_LARGE","message":"HTTP 413: too much"`) {
		t.Errorf("%.300s", got)
	}
}

// TestRedirectsThatMisbehave shows that bad redirects are not followed, and that failures do
// not reveal what their URLs contain.
func TestRedirectsThatMisbehave(t *testing.T) {
	var away atomic.Int32
	other := api(t, func(http.ResponseWriter, *http.Request) { away.Add(1) })
	for name, location := range map[string]string{
		"elsewhere": other.URL, "no scheme": "//" + strings.TrimPrefix(other.URL, "http://") + "/x", "metadata": "http://169.254.169.254/latest",
		"a file": "file:///etc/passwd", "script": "javascript:alert(1)", "nothing": "", "nonsense": "http://[::1", "blanks": "  ",
		"user": "http://user:hunter22@example.com/", "long": "/" + strings.Repeat("x", 100_000), "itself": "/status", "a fragment": "#x",
	} {
		t.Run(name, func(t *testing.T) {
			for _, follow := range []bool{false, true} {
				for _, code := range []int{302, 308} {
					var requests atomic.Int32
					s := api(t, func(w http.ResponseWriter, _ *http.Request) {
						requests.Add(1)
						w.Header()["Location"] = []string{location}
						w.WriteHeader(code)
					})
					opt := fromEnv("KEY", "k-123456789012")
					opt.SameOriginRedirects = follow
					rt := one(t, opt, s.URL, status, "auth: {type: api_key, header_name: X-Key, key_env: KEY}")
					got := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
					if !strings.Contains(got, `"success":false`) || len(got) > 1000 || strings.Contains(got, "hunter22") || away.Load() > 0 || requests.Load() != 1 {
						t.Errorf("%d, follow %v: %d requests, %d away: %.300s", code, follow, requests.Load(), away.Load(), got)
					}
					conforms(t, "result", got)
				}
			}
		})
	}
}
