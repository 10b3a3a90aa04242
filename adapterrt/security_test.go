package adapterrt

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// allOf returns everything that a result shows or could have logged.
func allOf(r *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%+v\n%+v", r.JSON(), r.Call, r.Failure)
	for err := r.Call.Cause; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&b, "\n%v %+v", err, err)
	}
	return b.String()
}

// TestNoEchoedCredentialIsShown has an API, or a server in its place, repeat each credential in
// every part of a response whose text people see. The credential must not be in a result, a
// cause or a record.
func TestNoEchoedCredentialIsShown(t *testing.T) {
	const secret = "s3cr3t+value/of&some~kind"
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte("user-name:" + secret))}
	// seen returns the credentials as they were in the request's head.
	seen := func(head string) string {
		for _, f := range forms[1:] {
			if strings.Contains(head, f) {
				return f
			}
		}
		return secret
	}
	write := func(format string) func(net.Conn, string) {
		return func(c net.Conn, head string) {
			s := seen(head)
			fmt.Fprint(c, strings.ReplaceAll(strings.ReplaceAll(format, "LENGTH", fmt.Sprint(1000)), "SECRET", s))
		}
	}
	answers := map[string]func(net.Conn, string){
		"message":       write("HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n{\"message\":\"you sent SECRET\"}"),
		"errors":        write("HTTP/1.1 422 Bad\r\nConnection: close\r\n\r\n{\"message\":\"no\",\"errors\":[{\"value\":\"SECRET\"}]}"),
		"other fields":  write("HTTP/1.1 500 Bad\r\nConnection: close\r\n\r\n{\"title\":{\"k\":[\"SECRET\"]}}"),
		"reason phrase": write("HTTP/1.1 418 SECRET\r\nConnection: close\r\n\r\n"),
		"content type":  write("HTTP/1.1 200 OK\r\nContent-Type: text/SECRET\r\nConnection: close\r\n\r\nno"),
		"type's words":  write("HTTP/1.1 200 OK\r\nContent-Type: image/png; k=\"SECRET\"\r\nConnection: close\r\n\r\nno"),
		"preview":       write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<b>SECRET</b>"),
		"location":      write("HTTP/1.1 302 Found\r\nLocation: https://SECRET.example.com/?k=SECRET\r\nConnection: close\r\n\r\n"),
		"no HTTP":       write("SECRET is what you sent\r\n\r\n"),
		"bad header":    write("HTTP/1.1 200 OK\r\nSECRET without a colon\r\n\r\n"),
		"bad length":    write("HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n"),
		"bad encoding":  write("HTTP/1.1 200 OK\r\nTransfer-Encoding: SECRET\r\n\r\n"),
		"cut off":       write("HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\n\r\n\"SECRET"),
		"bad chunk":     write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n"),
		"bad status":    write("HTTP/1.1 SECRET OK\r\n\r\n"),
		"retry after":   write("HTTP/1.1 429 No\r\nRetry-After: SECRET\r\nConnection: close\r\n\r\n{}"),
	}
	auths := map[string]string{
		"bearer": "{type: bearer, token_env: S}",
		"header": "{type: api_key, header_name: X-Key, key_env: S}",
		"query":  "{type: api_key, in: query, query_name: k, key_env: S}",
		"basic":  "{type: basic, username_env: U, password_env: S}",
	}
	for name, answer := range answers {
		base := "http://" + raw2(t, answer)
		for kind, auth := range auths {
			for _, dev := range []bool{false, true} {
				opt := fromEnv("S", secret, "U", "user-name")
				opt.DevErrors = dev
				rt := one(t, opt, base, status, "auth: "+auth)
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
				if r.Failure == nil {
					t.Fatalf("%s: no failure: %s", name, r.JSON())
				}
				all := allOf(&r)
				for _, f := range forms {
					if strings.Contains(strings.ToLower(all), strings.ToLower(f)) {
						t.Errorf("%s, %s, dev %v: %q shows in\n%s", name, kind, dev, f, all)
					}
				}
			}
		}
	}
}

// raw2 starts a server whose answer may contain the head of the request.
func raw2(t *testing.T, answer func(net.Conn, string)) string {
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
			buf := make([]byte, 8192)
			n, _ := c.Read(buf)
			answer(c, string(buf[:n]))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// TestACredentialInPlaceOfItsNameIsNotShown puts a credential where the name of its variable belongs.
// The problems, the log and the client must not contain it.
func TestACredentialInPlaceOfItsNameIsNotShown(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	text := front("https://api.example.com", status, "auth: {type: bearer, token_env: "+secret+"}")
	a, problems := Parse("test-api-adapter.md", []byte(text), &Options{Getenv: environment()})
	if a == nil || len(problems) != 2 {
		t.Fatal(problems)
	}
	rt := start(t, Options{Getenv: environment()}, map[string]string{"test-api-adapter.md": text})
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	info := rt.Adapters()[0]
	if told := fmt.Sprint(problems, string(r.JSON()), r.Call.Cause, info); r.Call.Cause == nil || strings.Contains(told, secret) {
		t.Error(told)
	}
}

// TestNoCredentialInAPanic shows that a panic does not reveal the credentials in its text.
func TestNoCredentialInAPanic(t *testing.T) {
	const secret = "plain-words-as-a-secret"
	rt := one(t, fromEnv("S", secret), "https://api.example.com", status, "auth: {type: bearer, token_env: S}")
	rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		panic(fmt.Sprintf("broken by %+v", o.Headers))
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), ID: "r-1"})
	if all := allOf(&r); strings.Contains(all, secret) || !strings.Contains(all, "panic") {
		t.Error(all)
	}
}

// TestNoCredentialOfATokenEndpoint has a token endpoint repeat the credentials of OAuth.
func TestNoCredentialOfATokenEndpoint(t *testing.T) {
	const id, secret = "client-id-value", "client+secret/value"
	elsewhere := 0
	other := api(t, func(http.ResponseWriter, *http.Request) { elsewhere++ })
	for name, answer := range map[string]func(net.Conn, string){
		"refused":  func(c net.Conn, head string) { fmt.Fprintf(c, "HTTP/1.1 400 No\r\nConnection: close\r\n\r\n%s", head) },
		"garbage":  func(c net.Conn, head string) { io.WriteString(c, head) },
		"a header": func(c net.Conn, head string) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", secret) },
		"redirect": func(c net.Conn, _ string) {
			fmt.Fprintf(c, "HTTP/1.1 307 Away\r\nLocation: %s\r\nConnection: close\r\n\r\n", other.URL)
		},
	} {
		for _, follow := range []bool{false, true} {
			opt := fromEnv("I", id, "S", secret)
			opt.SameOriginRedirects = follow
			rt := one(t, opt, "https://api.example.com", status, `auth: {type: oauth, token_url: "http://`+raw2(t, answer)+`/token", client_id_env: I, client_secret_env: S}`)
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			all := allOf(&r)
			if r.Failure == nil || r.Failure.Code != failure.AuthTokenFailed || elsewhere > 0 {
				t.Errorf("%s: %s, %d elsewhere", name, all, elsewhere)
			}
			for _, f := range []string{id, secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))} {
				if strings.Contains(all, f) {
					t.Errorf("%s: %q shows in\n%s", name, f, all)
				}
			}
		}
	}
	rt := one(t, fromEnv("I", id, "S", secret), "https://api.example.com", status, `auth: {type: oauth, token_url: "https://169.254.169.254/token", client_id_env: I, client_secret_env: S}`)
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if r.Call.Cause == nil || !strings.Contains(r.Call.Cause.Error(), "address not allowed") {
		t.Error("a token endpoint on the link was called", allOf(&r))
	}
}

// TestARequestIDThatIsNoHeaderValue shows that an id that is not a valid header value is not sent as a
// header, and that the call succeeds.
func TestARequestIDThatIsNoHeaderValue(t *testing.T) {
	var got http.Header
	s := api(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header; io.WriteString(w, "1") })
	rt := one(t, Options{}, s.URL, status)
	for _, id := range []string{"a\r\nX-Evil: 1", "a\x00b", "\x7f", strings.Repeat("x", 300)} {
		got = nil
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), ID: id})
		if r.Failure != nil || got == nil || got.Get("X-Evil") != "" || got.Get("X-Request-Id") != "" {
			t.Errorf("%q: %s %v", id, r.JSON(), got)
		}
	}
	rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), ID: "r-1"})
	if got.Get("X-Request-Id") != "r-1" {
		t.Error(got)
	}
}

// TestHeaderParametersInjectNothing tries to turn one header into several, or into a header
// of the connection.
func TestHeaderParametersInjectNothing(t *testing.T) {
	var got http.Header
	s := api(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header; io.WriteString(w, "1") })
	rt := one(t, Options{}, s.URL, "read:\n- {name: op, maps_to: GET /q, description: O, params: {h: {type: string, in: header, wire_name: X-H}, l: {type: array, in: header, wire_name: X-L}}}")
	for _, v := range []string{`"a\r\nX-Evil: 1"`, `"a\nX-Evil: 1"`, `"a\rX-Evil: 1"`, `"\u0001"`, `"\u007f"`} {
		for _, params := range []string{`{"h":` + v + `}`, `{"l":["x",` + v + `]}`} {
			got = nil
			if answer := ask(rt, Endpoint{}, `{"operation":"op","params":`+params+`}`); !strings.Contains(answer, "VALIDATION_INVALID_VALUE") || got != nil {
				t.Error(params, answer, got)
			}
		}
	}
	for _, v := range []string{`"a: b, c; d"`, `"\t"`, `"é \u2028 😀"`, `""`} {
		got = nil
		if answer := ask(rt, Endpoint{}, `{"operation":"op","params":{"h":`+v+`}}`); got.Get("X-Evil") != "" || got == nil {
			t.Error(v, answer, got)
		}
	}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Cookie", "Authorization", "Proxy-Authorization", "TE", "Upgrade", "Trailer", "bad name", "a:b", "X\r\nY"} {
		ops := "read:\n- {name: op, maps_to: GET /q, description: O, params: {h: {type: string, in: header, wire_name: " + fmt.Sprintf("%q", name) + "}}}"
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", ops)), &Options{}); a != nil {
			t.Errorf("%q may be a parameter", name)
		}
	}
}

// TestAdapterTextIsClean puts characters that hide or reorder text into every text of a file,
// and searches for them in everything that a model reads.
func TestAdapterTextIsClean(t *testing.T) {
	const dirt = "\u202eevil\u2066\u200f\u061c\u00ad\u2063\ufeff\U000e0041\U000e0101"
	file := strings.ReplaceAll(`---
name: test-api
type: adapter
version: "1.0.0"
description: "DIRT description DIRT"
author: "DIRT"
tags: ["DIRT"]
triggers: ["DIRT"]
created: "DIRT"
target: {base_url: "https://api.example.com", transport: http, protocol: rest, serialization: json}
trust: {level: certified, verified_by: "DIRT", validation_report: {note: "DIRT", "DIRT": 1}}
presets: {"DIRT": [a]}
types:
- {name: Colour, kind: enum, description: "DIRT", values: ["DIRT"]}
- {name: Thing, kind: object, description: "DIRT", fields: [{name: "DIRT", type: "DIRT", description: "DIRT"}]}
operations:
  read:
  - name: op
    maps_to: "GET /q/DIRT"
    description: "DIRT"
    response: {type: object, description: "DIRT", fields: {"DIRT": "DIRT"}}
    deprecated: {since: "DIRT", replacement: "DIRT", removal_date: "DIRT"}
    lifecycle: {states: ["DIRT"]}
    supports_fields: true
    default_fields: ["DIRT"]
    params:
      e: {type: string, enum: ["DIRT"], default: "DIRT", description: "DIRT", format: "DIRT"}
      p: {type: string, pattern: "DIRT", description: "DIRT"}
  delete:
  - name: gone
    maps_to: "DELETE /q"
    description: "DIRT"
    danger: {level: destructive, requires_confirmation: true, confirmation_message: "DIRT", reasons: ["DIRT"]}
---
`, "DIRT", dirt)
	rt := start(t, Options{TrustOverrides: map[string]string{"test-api": "certified"}}, map[string]string{"test-api-adapter.md": file})
	var all strings.Builder
	all.WriteString(rt.Instructions(""))
	for _, tool := range rt.Tools("") {
		all.Write(tool.JSON)
	}
	for _, request := range []string{
		`{"operation":"introspect","params":{"query":"operations"}}`, `{"operation":"introspect","params":{"query":"operations","name":"op"}}`,
		`{"operation":"introspect","params":{"query":"operations","name":"gone"}}`, `{"operation":"introspect","params":{"query":"types"}}`,
		`{"operation":"introspect","params":{"query":"types","name":"Colour"}}`, `{"operation":"introspect","params":{"query":"types","name":"Thing"}}`,
		`{"operation":"introspect","params":{"query":"types","name":"OpE"}}`, `{"operation":"introspect","params":{"query":"types","name":"OpParams"}}`,
		`{"operation":"introspect","params":{"query":"adapter_info"}}`, `{"operation":"introspect","params":{"query":"quota_status"}}`,
		`{"operation":"op","params":{"e":"x"}}`, `{"operation":"op","params":{"p":"x"}}`, `{"operation":"gone"}`, `{"operation":"op","params":{"zz":1}}`,
	} {
		all.WriteString(ask(rt, Endpoint{}, request))
	}
	all.Write(rt.HTTP(context.Background(), &HTTPRequest{Method: "GET", Path: "/adapters"}).Body)
	text := all.String()
	if strings.Count(text, "evil") < 20 {
		t.Errorf("most of the text is lost: %s", text)
	}
	for i, r := range text {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\n' || r == 0x2028 || r >= 0xe0000 && r <= 0xe0fff {
			t.Fatalf("%U at …%s…", r, text[max(0, i-120):min(len(text), i+40)])
		}
	}
	// Values do not change; they are shown escaped.
	if !strings.Contains(text, `"enum":["\u202eevil\u2066`) || !strings.Contains(text, `\udb40\udc41`) {
		t.Errorf("the value is not there to be used: %s", text)
	}
	sends := capture(rt, "1")
	for _, value := range []string{dirt, `\u202eevil\u2066\u200f\u061c\u00ad\u2063\ufeff\udb40\udc41\udb40\udd01`} {
		*sends = nil
		if got := ask(rt, Endpoint{}, `{"operation":"op","params":{"e":"`+value+`"}}`); len(*sends) != 1 || !strings.HasSuffix((*sends)[0].url, "?e="+url.QueryEscape(dirt)) {
			t.Error(got, *sends)
		}
	}
}

// TestTheDialledAddressIsChecked resolves a name to an address that is not allowed. The
// address that is dialled is checked, not an earlier one of the name.
func TestTheDialledAddressIsChecked(t *testing.T) {
	hit := false
	s := api(t, func(http.ResponseWriter, *http.Request) { hit = true })
	rt := one(t, Options{PublicOnly: true}, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), status)
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, "address not allowed") || hit {
		t.Error(got, hit)
	}
}

// TestTargetsThatViolateHTTP calls targets that violate HTTP.
func TestTargetsThatViolateHTTP(t *testing.T) {
	// endless writes until the connection is closed.
	endless := func(head, chunk string) func(net.Conn, string) {
		return func(c net.Conn, _ string) {
			for _, err := io.WriteString(c, head); err == nil; _, err = io.WriteString(c, chunk) {
			}
		}
	}
	// trickle writes a little at a time.
	trickle := func(head, drop string) func(net.Conn, string) {
		return func(c net.Conn, _ string) {
			for _, err := io.WriteString(c, head); err == nil; _, err = io.WriteString(c, drop) {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	once := func(s string) func(net.Conn, string) { return func(c net.Conn, _ string) { io.WriteString(c, s) } }
	for name, c := range map[string]struct {
		answer func(net.Conn, string)
		want   string
	}{
		"a body drop by drop":     {trickle("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n[", "1,"), `"TRANSPORT_TIMEOUT","message":"Request timed out after 300ms"`},
		"a head drop by drop":     {trickle("HTTP/1.1 200 OK\r\n", "X: 1\r\n"), `"TRANSPORT_TIMEOUT"`},
		"chunks drop by drop":     {trickle("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"), `"TRANSPORT_TIMEOUT"`},
		"an endless body":         {endless("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", strings.Repeat(" ", 64<<10)), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"endless chunks":          {endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat(" ", 64<<10)+"\r\n"), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"an endless head":         {endless("HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: 1\r\n", 1000)), `"TRANSPORT_NETWORK_ERROR"`},
		"an endless line":         {endless("HTTP/1.1 200 ", strings.Repeat("K", 64<<10)), `"TRANSPORT_NETWORK_ERROR"`},
		"endless continues":       {endless("", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)), `"TRANSPORT_NETWORK_ERROR"`},
		"early hints for ever":    {endless("", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 1000)), `"TRANSPORT_NETWORK_ERROR"`},
		"an announced gigabyte":   {once("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{"), `"VALIDATION_PAYLOAD_TOO_LARGE"`},
		"a negative length":       {once("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n1"), `"TRANSPORT_NETWORK_ERROR"`},
		"two lengths":             {once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12"), `"TRANSPORT_NETWORK_ERROR"`},
		"a chunk of no length":    {once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n1\r\n0\r\n\r\n"), `"TRANSPORT_NETWORK_ERROR"`},
		"a chunk cut off":         {once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12"), `"TRANSPORT_NETWORK_ERROR","message":"Network error: response ended early"`},
		"closed at once":          {once(""), `"TRANSPORT_NETWORK_ERROR"`},
		"closed within the head":  {once("HTTP/1.1 200 OK\r\nContent-Ty"), `"TRANSPORT_NETWORK_ERROR"`},
		"switching protocols":     {once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), `"success":false`},
		"HTTP/0.9":                {once("<html>hello</html>"), `"TRANSPORT_NETWORK_ERROR"`},
		"HTTP/2 unasked":          {once("\x00\x00\x12\x04\x00\x00\x00\x00\x00"), `"TRANSPORT_NETWORK_ERROR"`},
		"SMTP":                    {once("220 mail.example.com ESMTP\r\n"), `"TRANSPORT_NETWORK_ERROR"`},
		"status 999":              {once("HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}"), `"INTERNAL_ERROR","message":"HTTP 999: `},
		"an answer, then garbage": {once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"), `{"success":true,"data":1}`},
		"deep JSON":               {once("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), `"SERIALIZATION_PARSE_ERROR"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := one(t, Options{}, "http://"+raw2(t, c.answer), "read:\n- {name: get_status, maps_to: GET /status, description: S, timeout_ms: 300}\n- {name: in_time, maps_to: GET /status, description: S, timeout_ms: 60000}")
			op := "in_time"
			if strings.Contains(c.want, "TIMEOUT") {
				op = "get_status"
			}
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"` + op + `"}`)})
			if got := r.JSON(); !bytes.Contains(got, []byte(c.want)) {
				t.Errorf("got %.300s (%v), want %s", got, r.Call.Cause, c.want)
			}
		})
	}
}
