package downstream

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// TestPlainHTTPAtThePortForTLSIsAnswered, so that its client learns what is wrong.
func TestPlainHTTPAtThePortForTLSIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		admin   bool
	}{
		"POST": {request: post("{}")}, "GET": {request: getHead + "\r\n"}, "DELETE": {request: "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"preflight":        {request: "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"while it is sent": {request: post(strings.Repeat("x", 1<<20))},
		"probe":            {request: "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", admin: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := HTTPConfig{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}
			s := serveLivez(t, c.admin, cfg)
			nc := dial(t, s.addr)
			go func() { _, _ = io.WriteString(nc, c.request) }()
			res, body := answer(t, bufio.NewReader(nc), "GET")
			if res.StatusCode != 400 || !res.Close || !json.Valid([]byte(body)) || !strings.Contains(body, "https://") {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			if !strings.Contains(s.logs.String(), PlainHTTP) {
				t.Errorf("log: %s", &s.logs)
			}
			nc = tls.Client(dial(t, s.addr), &tls.Config{InsecureSkipVerify: true})
			_, _ = io.WriteString(nc, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if res, _ := answer(t, bufio.NewReader(nc), "GET"); res.StatusCode != 200 {
				t.Errorf("with TLS: %d", res.StatusCode)
			}
		})
	}
}

// serveLivez serves /livez on a listener for clients or for operators.
func serveLivez(t *testing.T, admin bool, cfg HTTPConfig) *server {
	t.Helper()
	cfg.Routes = map[string]fasthttp.RequestHandler{"/livez": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok") }}
	return startHTTP(t, func(cfg HTTPConfig) *HTTP {
		if admin {
			return NewAdmin(cfg.Routes, cfg)
		}
		return NewHTTP(fakeHandler{post: echo, get: echo}, cfg)
	}, cfg)
}

// TestTLSAtAPortWithoutItIsAnsweredAtOnce, and logged: the client would wait for the time limit.
func TestTLSAtAPortWithoutItIsAnsweredAtOnce(t *testing.T) {
	for name, admin := range map[string]bool{"clients": false, "operators": true} {
		t.Run(name, func(t *testing.T) {
			s := serveLivez(t, admin, HTTPConfig{ReadTimeout: time.Hour, IdleTimeout: time.Hour})
			err := tls.Client(dial(t, s.addr), &tls.Config{InsecureSkipVerify: true}).Handshake()
			if record, ok := errors.AsType[tls.RecordHeaderError](err); !ok || string(record.RecordHeader[:]) != "HTTP/" {
				t.Errorf("the handshake ended with %v", err)
			}
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") // the beginning of a hello
			if res, body := answer(t, bufio.NewReader(nc), "GET"); res.StatusCode != 400 || !res.Close || !strings.Contains(body, "use http://") {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			if logged := s.logs.String(); !strings.Contains(logged, TLSAtPlain) || !strings.Contains(logged, "at "+s.addr+": its URL must begin with http://") {
				t.Errorf("log: %s", logged)
			}
		})
	}
}

// TestWhatIsNeitherTLSNorHTTPIsNotAnswered: its client may not be able to read it.
func TestWhatIsNeitherTLSNorHTTPIsNotAnswered(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	for _, sent := range []string{"SSH-2.0-x\r\n", "\x00\x01\x02\x03\x04\x05", "{\"jsonrpc\":\"2.0\"}\n", "GETTING /"} {
		nc := dial(t, s.addr)
		_, _ = io.WriteString(nc, sent)
		if got, _ := io.ReadAll(nc); strings.Contains(string(got), "HTTP/") {
			t.Errorf("%q is answered with %q", sent, got)
		}
	}
}

// TestHeadThatDoesNotEndInCRLFIsRefusedAtOnce: fasthttp would wait for the end until the time is over, or take it from what follows.
func TestHeadThatDoesNotEndInCRLFIsRefusedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		request []string // what is sent, one after the other
		admin   bool
	}{
		"LF":                             {request: []string{strings.ReplaceAll(getHead+"\r\n", "\r", "")}},
		"in pieces":                      {request: []string{"GET /mcp HTTP/1.1\nHost: loc", "alhost\n", "\n"}},
		"at the end only":                {request: []string{strings.Replace(post("{}"), "\r\n\r\n", "\n\n", 1)}},
		"after CRLF":                     {request: []string{strings.Replace(post("{}"), "\r\n\r\n", "\r\n\n", 1)}},
		"before CRLF":                    {request: []string{strings.Replace(post("{}"), "\r\n\r\n", "\n\r\n", 1)}},
		"with an end in the body":        {request: []string{strings.Replace(post("{}\r\n\r\n"), "\r\n\r\n", "\n\n", 1)}},
		"with another request behind it": {request: []string{strings.Replace(post("{}"), "\r\n\r\n", "\n\n", 1) + post("{}")}},
		"after empty lines":              {request: []string{"\r\n\nPOST /mcp HTTP/1.1\nHost: localhost\n\n"}},
		"no header":                      {request: []string{"GET /mcp HTTP/1.1\n\n"}},
		"probe":                          {request: []string{"GET /livez HTTP/1.1\nHost: localhost\n\n"}, admin: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveLivez(t, c.admin, HTTPConfig{ReadTimeout: time.Hour, IdleTimeout: time.Hour})
			nc := dial(t, s.addr)
			for _, piece := range c.request {
				_, _ = io.WriteString(nc, piece)
			}
			in := bufio.NewReader(nc)
			res, body := answer(t, in, "GET")
			if res.StatusCode != 400 || !res.Close || !strings.Contains(body, "CRLF") {
				t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
			}
			if rest, _ := io.ReadAll(in); len(rest) > 0 {
				t.Errorf("behind it: %q", rest)
			}
		})
	}
}

// TestHeadBehindAnotherRequestThatDoesNotEndInCRLFIsRefused, even if fasthttp finds an end in what follows.
func TestHeadBehindAnotherRequestThatDoesNotEndInCRLFIsRefused(t *testing.T) {
	s := start(t, fakeHandler{post: echo, get: echo}, HTTPConfig{})
	first := strings.Replace(post("{}"), "Accept:", "Connection: TE\r\nAccept:", 1) // not on the fast path
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, first)
	in := bufio.NewReader(nc)
	answer(t, in, "POST")
	_, _ = io.WriteString(nc, strings.Replace(post("{}\r\n\r\n"), "\r\n\r\n", "\n\n", 1))
	if res, body := answer(t, in, "POST"); res.StatusCode != 400 || !res.Close || !strings.Contains(body, "CRLF") {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
}

// TestLinesOfAHeadMayEndInLF if the head ends in CRLF, as before.
func TestLinesOfAHeadMayEndInLF(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{})
	request := strings.Replace(post("{}"), "application/json\r", "application/json", 1)
	if res, body := ask(t, s.addr, request); res.StatusCode != 200 || body != "{}" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}
