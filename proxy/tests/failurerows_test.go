package tests

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// failureRow is one kind of failure, and what the client, the log and the metrics report.
type failureRow struct {
	name      string
	cause     failures.Cause
	status    int
	code      int    // the error code; 0 for none
	text      string // the beginning of the error's message
	header    string // a header of the response
	logged    string // the message of the log line; "" for "request failed"
	says      string // a part of the line's field error
	told      string // what the client's error ends with instead of the advice; "" for the advice
	advice    string // the beginning of the advice; "" for that of the cause
	method    string // the line's field method; "" for initialize
	uncounted bool   // not counted, since no request has failed
	twice     bool   // counted twice, since a second session was refused as well
	play      func(t *testing.T) failurePlayed
}

// failurePlayed is the outcome of a row.
type failurePlayed struct {
	heardAll
	srv  *proxy.Server
	logs *observer.ObservedLogs
}

// played sends a request of c and returns the outcome.
func (c *webClient) played(h heardAll) failurePlayed { return failurePlayed{h, c.srv, c.logs} }

// begins sends initialize to a proxy in front of a Streamable HTTP server at this URL.
func begins(url string, change ...func(*config.Config)) func(*testing.T) failurePlayed {
	return func(t *testing.T) failurePlayed {
		client := serving(t, func(cfg *config.Config) {
			cfg.Upstream.URL, cfg.Upstream.Transport = url, "http"
			for _, c := range change {
				c(cfg)
			}
		})
		return client.played(client.initialize())
	}
}

// runs is begins for a server that is a command.
func runs(command ...string) func(*testing.T) failurePlayed { return runsFor(patience, command...) }

// runsFor is runs with a limit for the handshake.
func runsFor(limit time.Duration, command ...string) func(*testing.T) failurePlayed {
	return func(t *testing.T) failurePlayed {
		client := serving(t, func(cfg *config.Config) {
			cfg.Upstream.Command = command
			cfg.Upstream.HandshakeTimeout = limit
			cfg.Upstream.Env = map[string]string{"API_TOKEN": "c4n4ry-of-ours"}
		})
		return client.played(client.initialize())
	}
}

// fails causes the fault, at initialize or within a session.
func fails(f fault, method string) func(*testing.T) failurePlayed {
	return func(t *testing.T) failurePlayed {
		s := newFaultyServer(t, method, false)
		client := s.proxyOf(t, f)
		if method != "initialize" {
			client.initialize()
			s.begin(f)
			return client.played(client.ask("POST", callOne))
		}
		s.begin(f)
		return client.played(client.initialize())
	}
}

// TestEachCauseOfFailure: each cause of failure has a log line at its level with advice, and a
// count, and the client gets a status and an error.
func TestEachCauseOfFailure(t *testing.T) {
	waits(t)
	rows := slices.Concat(unreachableRows(t), refusedRows(), brokenRows(t), commandRows(), revisionRows(), ownRows())
	seen := map[failures.Cause]bool{}
	for _, r := range rows {
		seen[r.cause] = true
		runTogether(t, r.name, r.walk)
	}
	for _, c := range failures.All() {
		if !seen[c] {
			t.Errorf("no row for %s", c)
		}
	}
}

func (r failureRow) walk(t *testing.T) {
	p := r.play(t)
	if p.status != r.status {
		t.Errorf("status %d, want %d: %q", p.status, r.status, p.messages)
	}
	if r.code != 0 {
		if len(p.messages) == 0 {
			t.Fatal("no answer")
		}
		e := gjson.Get(p.messages[len(p.messages)-1], "error")
		text := e.Get("message").String()
		if e.Get("code").Int() != int64(r.code) || !strings.HasPrefix(text, r.text) {
			t.Errorf("%s, want %d %q", e.Raw, r.code, r.text)
		}
		place := " (at " + p.srv.Now().Config.Upstream.URL
		if command := p.srv.Now().Config.Upstream.Command; len(command) > 0 {
			place = " (command: " + command[0]
		}
		if r.cause.Explained() && !(strings.Contains(text, place) && strings.Contains(text, "; "+cmp.Or(r.told, r.advice, r.cause.Advice()))) {
			t.Errorf("%q does not say where the server is and what to do", text)
		}
	}
	if r.header != "" && p.header.Get(r.header) == "" {
		t.Errorf("no %s: %v", r.header, p.header)
	}
	if r.logged == "" {
		r.logged = "request failed"
	}
	var logged *observer.ObservedLogs
	eventually(t, "a line", func() bool { // with any cause: another one is a mistake, and no reason to wait
		logged = p.logs.FilterMessage(r.logged)
		return logged.Len() > 0
	})
	lines := logged.FilterField(zap.String("cause", string(r.cause))).All()
	if len(lines) != 1 || lines[0].Level != r.cause.Level() {
		t.Fatalf("%d lines about it: %v", len(lines), logged.All())
	}
	is := lines[0].ContextMap()
	advice, _ := is["advice"].(string)
	said, _ := is["error"].(string)
	if !strings.HasPrefix(advice, cmp.Or(r.advice, r.cause.Advice())) || !strings.Contains(said, r.says) {
		t.Errorf("%v, want an error with %q", is, r.says)
	}
	if r.logged == "request failed" && is["method"] != cmp.Or(r.method, "initialize") && r.method != "-" {
		t.Errorf("method %v", is["method"])
	}
	if text := fmt.Sprint(is, p.messages); strings.Contains(text, "c4n4ry") {
		t.Errorf("a secret: %s", text)
	}
	want := 1
	switch {
	case r.uncounted:
		want = 0
	case r.twice:
		want = 2
	}
	if n := counted(t, p.srv.Metrics, "dragoman_upstream_failures_total", "cause="+string(r.cause)); n != want {
		t.Errorf("counted %d", n)
	}
	if r.method == "" && r.logged == "request failed" {
		if n := counted(t, p.srv.Metrics, "dragoman_handshakes_total", "cause="+string(r.cause), "outcome=failed", "server=unknown"); n != 1 {
			t.Errorf("%d handshakes", n)
		}
	}
}

// unreachableRows are about servers to which no connection can be made.
func unreachableRows(t *testing.T) []failureRow {
	const closed = "127.0.0.1:1"                    // not a port that was free a moment ago: another test may listen there now
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	secure := tlsServer(t, nil)
	named, certificate := secure.URL, writePEM(t, secure.Certificate().Raw)
	expired := certificateUntil(t, time.Now().Add(-time.Hour))
	old := tlsServer(t, &expired)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	const distrust = "upstream request failed: server certificate not trusted"
	trusting := func(file string) func(*config.Config) { return func(cfg *config.Config) { cfg.Upstream.CAFile = file } }
	return []failureRow{
		{name: "dns", cause: failures.DNS, status: 502, code: -32603, text: "upstream request failed: server name not found",
			says: "no such host", play: begins("http://no..host:1/mcp")},
		{name: "refused", cause: failures.Refused, status: 502, code: -32603, text: "upstream request failed: connection refused",
			says: closed, play: begins("http://" + closed + "/mcp")},
		{name: "connect_timeout", cause: failures.ConnectTimeout, status: 504, code: -32603, text: "upstream timed out",
			says: silent.Addr().String(), play: begins("https://"+silent.Addr().String(), func(cfg *config.Config) { cfg.Upstream.ConnectTimeout = 100 * time.Millisecond })},
		{name: "tls_unknown_ca", cause: failures.TLSUnknownCA, status: 502, code: -32603, text: distrust + ": its authority is not known (", says: "unknown authority", play: begins(secure.URL)},
		{name: "tls_name", cause: failures.TLSName, status: 502, code: -32603, text: distrust + ": it is for another name (", says: "localhost",
			play: begins(strings.Replace(named, "127.0.0.1", "localhost", 1), trusting(certificate))},
		{name: "tls_expired", cause: failures.TLSExpired, status: 502, code: -32603, text: distrust + ": it has expired", says: "expired",
			play: begins(old.URL, trusting(writePEM(t, expired.Certificate[0])))},
		{name: "tls_plain server", cause: failures.TLSPlain, status: 502, code: -32603, text: "upstream request failed: the server speaks no TLS (", advice: "use http:// in the URL",
			play: begins(strings.Replace(plain.URL, "http:", "https:", 1))},
		{name: "tls_plain client", cause: failures.TLSPlain, status: 400, code: -32603, text: "upstream answered 400 Bad Request",
			says: "HTTPS server", advice: "the server speaks TLS at this port: use https://", play: begins(strings.Replace(secure.URL, "https:", "http:", 1))},
		{name: "tls_refused", cause: failures.TLSRefused, status: 502, code: -32603, text: "upstream request failed", play: func(t *testing.T) failurePlayed {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS11} //nolint:gosec // which ours refuse
			s.StartTLS()
			t.Cleanup(s.Close)
			return begins(s.URL)(t)
		}},
		{name: "tls_refused for lack of a client certificate", cause: failures.TLSRefused, status: 502, code: -32603, text: "upstream request failed: tls: certificate required",
			says: "certificate required", play: func(t *testing.T) failurePlayed {
				s := httptest.NewUnstartedServer(http.NotFoundHandler())
				s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
				s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert} // whose refusal comes behind the handshake
				s.StartTLS()
				t.Cleanup(s.Close)
				return begins(s.URL, trusting(writePEM(t, s.Certificate().Raw)))(t)
			}},
	}
}

// refusedRows are about HTTP error statuses.
func refusedRows() []failureRow {
	refusal := func(status int, more string) fault {
		return fault{says: fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Type: text/plain\r\n", status, http.StatusText(status), more) + ofLength("the first line\nthe second")}
	}
	return []failureRow{
		{name: "no_credential", cause: failures.NoCredential, status: 502, code: -32603, text: "the proxy has no valid credential for the server", says: "no such file", told: "dragoman's log says why",
			play: begins("http://127.0.0.1:1/mcp", func(cfg *config.Config) {
				cfg.Upstream.Auth.Type, cfg.Upstream.Auth.TokenFile = config.AuthTokenFile, "/nowhere/token"
			})},
		{name: "unauthorized", cause: failures.Unauthorized, status: 401, code: -32603, text: "upstream answered 401 Unauthorized", header: "WWW-Authenticate",
			says: "the first line", play: fails(refusal(401, "WWW-Authenticate: Bearer realm=\"r\"\r\n"), "initialize")},
		{name: "forbidden", cause: failures.Forbidden, status: 403, code: -32603, text: "upstream answered 403 Forbidden", header: "WWW-Authenticate",
			says: "the first line", play: fails(refusal(403, "WWW-Authenticate: Bearer scope=\"s\"\r\n"), "initialize")},
		{name: "host_refused", cause: failures.HostRefused, status: 403, code: -32603, text: "upstream answered 403 Forbidden", says: "Invalid Host: 10.0.0.7",
			play: fails(fault{says: "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n" + ofLength("Invalid Host: 10.0.0.7")}, "initialize")},
		{name: "host_refused 421", cause: failures.HostRefused, status: 421, code: -32603, text: "upstream answered 421 Misdirected Request", says: "Invalid Host header",
			play: fails(fault{says: "HTTP/1.1 421 Misdirected Request\r\nContent-Type: text/plain\r\n" + ofLength("Invalid Host header")}, "initialize")},
		{name: "not_found", cause: failures.NotFound, status: 502, code: -32603, text: "upstream endpoint not found", says: "404", play: fails(refusal(404, ""), "initialize")},
		{name: "session_lost", cause: failures.SessionLost, status: 404, code: -32603, text: "upstream answered 404 Not Found", method: "tools/call", says: "404", twice: true, play: fails(refusal(404, ""), "tools/call")},
		{name: "http_status 302", cause: failures.HTTPStatus, status: 502, code: -32603, text: "upstream answered 302 Found",
			advice: "dragoman follows no redirects: if the target is the server, use it as the URL", says: "302 Found to https://login.example/start", play: fails(refusal(302, "Location: https://u:c4n4ry@login.example/start?key=c4n4ry\r\n"), "initialize")},
		{name: "http_status 418", cause: failures.HTTPStatus, status: 418, code: -32603, text: "upstream answered 418", says: "the first line", play: fails(refusal(418, ""), "initialize")},
		{name: "http_status 524", cause: failures.HTTPStatus, status: 524, code: -32603, text: "upstream answered 524", advice: "the server, or a gateway before it, fails", says: "upstream answered 524: the first line", play: fails(refusal(524, ""), "initialize")},
		{name: "web_proxy", cause: failures.WebProxy, status: 502, code: -32603, text: "upstream request failed: the web proxy answered 407 Proxy Authentication Required",
			says: "407", play: fails(refusal(407, "Proxy-Authenticate: Basic\r\n"), "initialize")},
		{name: "http_status 500", cause: failures.HTTPStatus, status: 500, code: -32603, text: "upstream answered 500", advice: "the server, or a gateway before it, fails", says: "the first line", play: fails(refusal(500, ""), "initialize")},
		{name: "http_status 500 in a session", cause: failures.HTTPStatus, status: 200, code: -32603, text: "upstream answered 500", advice: "the server, or a gateway before it, fails", method: "tools/call", says: "the first line", play: fails(refusal(500, ""), "tools/call")},
		{name: "rate_limited", cause: failures.RateLimited, status: 429, code: -32603, text: "upstream answered 429", header: "Retry-After", method: "tools/call",
			says: "the first line", play: fails(refusal(429, "Retry-After: 7\r\n"), "tools/call")},
	}
}

// brokenRows are about servers that do not answer, or not with MCP.
func brokenRows(t *testing.T) []failureRow {
	tools := func(name string, cause failures.Cause, text, says string, f fault) failureRow {
		f.cause = cause
		return failureRow{name: name, cause: cause, status: 200, code: -32603, text: text, says: says, method: "tools/call", play: fails(f, "tools/call")}
	}
	deep := `{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`
	const garbled = "upstream sent something that is not JSON-RPC"
	return []failureRow{
		{name: "not_mcp", cause: failures.NotMCP, status: 502, code: -32603, text: `upstream request failed: response of type "text/html"`, says: "text/html",
			play: fails(fault{says: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + ofLength("<html>")}, "initialize")},
		{name: "malformed at initialize", cause: failures.Malformed, status: 502, code: -32603, text: garbled, says: "Bad Gateway", play: fails(fault{says: jsonHead + ofLength("Bad Gateway")}, "initialize")},
		tools("malformed no JSON", failures.Malformed, garbled, "Bad Gateway", fault{says: jsonHead + ofLength("Bad Gateway")}),
		tools("malformed no JSON-RPC", failures.Malformed, garbled, `{"error":"quota"}`, fault{says: jsonHead + ofLength(`{"error":"quota"}`)}),
		tools("malformed too deep", failures.Malformed, garbled, "deep", fault{says: jsonHead + ofLength(deep)}),
		tools("malformed too large", failures.Malformed, "upstream request failed: message is larger than the limit", "65536 bytes", fault{says: eventHead + "data: " + strings.Repeat("x", 1<<20) + "\n\n"}),
		{name: "unknown_id", cause: failures.UnknownID, status: 200, code: -32603, text: "upstream closed the stream without answering",
			logged: "response with unknown request id", uncounted: true, play: fails(fault{says: jsonHead + ofLength(wrongAnswer)}, "tools/call")},
		tools("timeout_first_byte", failures.TimeoutFirstByte, "upstream timed out", "", fault{hangs: true}),
		tools("timeout_silence", failures.TimeoutSilence, "upstream timed out", "", fault{says: eventHead + "data: " + logLine + "\n\n", hangs: true}),
		tools("connection_dead", failures.ConnectionDead, "upstream request failed: the connection was dead (no acknowledgement for 1 s); the server may have done what was asked", "no acknowledgement for 1 s", fault{deaf: true}),
		tools("stream_closed", failures.StreamClosed, "upstream closed the stream without answering", "", fault{says: eventHead}),
	}
}

// indents is a server, as a script of the shell, that prints the answers to this method over several lines.
func indents(method string) string {
	return `while read l; do
		id=${l##*'"id":'}; id=${id%%[,\}]*}
		case $l in
		*'"` + method + `"'*) printf '{\n  "jsonrpc": "2.0",\n  "id": %s,\n  "result": {}\n}\n' "$id";;
		*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
		*'"id"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no"}}';;
		esac
	done`
}

// commandRows are about servers that are commands.
func commandRows() []failureRow {
	return []failureRow{
		{name: "command_not_found", cause: failures.CommandNotFound, status: 502, code: -32603, text: "upstream request failed: ", advice: "correct its path in the command (upstream.command), or install it", says: "no such file", play: runs("/nowhere/server-of-none", "--token=c4n4ry")},
		{name: "command_exit", cause: failures.CommandExit, status: 502, code: -32603,
			text: `upstream process ended: upstream "sh" ended (exit status 7); standard error: "no licence for [redacted]"`,
			says: "exit status 7", play: func(t *testing.T) failurePlayed {
				p := runs("sh", "-c", `for n in $(seq 30); do echo "line $n" >&2; done; printf 'no \033[1mlicence for %s\n' "$API_TOKEN" >&2; exit 7`)(t)
				logged := p.logs.FilterMessage("request failed").All()[0].ContextMap()
				if is, _ := logged["error"].(string); strings.Count(is, "exit status 7") != 1 {
					t.Errorf("the error is %q", is)
				}
				tail, _ := logged["stderr"].([]any)
				if len(tail) != 20 || tail[0] != "line 12" || !strings.HasSuffix(fmt.Sprint(tail[19]), "licence for [redacted]") {
					t.Errorf("last lines %q", tail)
				}
				return p
			}},
		{name: "command_unread", cause: failures.CommandUnread, status: 200, code: -32603, method: "-",
			text: "upstream process ended and is being restarted; the request was lost: upstream ", says: "it has read nothing of its standard input for 100ms",
			play: func(t *testing.T) failurePlayed {
				client := serving(t, func(cfg *config.Config) {
					cfg.Upstream.Command = []string{"sh", "-c", `read l; id=${l##*'"id":'}; id=${id%%[,\}]*}
						echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'; exec sleep 1000`}
					cfg.Upstream.UnreadTimeout = 100 * time.Millisecond
				})
				client.initialize()
				return client.played(client.ask("POST", callOf(1, "t", `,"arguments":{"x":"`+strings.Repeat("x", 1<<20)+`"}`)))
			}},
		{name: "command_mute over several lines", cause: failures.CommandMute, status: 502, code: -32603,
			text: "upstream request failed: it has printed a message over the lines 1 to 5 of its standard output, where each must be on one line, without indentation: { ",
			says: `"jsonrpc": "2.0"`, play: runs("sh", "-c", indents("initialize"))},
		{name: "command_mute over several lines in a session", cause: failures.CommandMute, status: 200, code: -32603, method: "-",
			text: "upstream sent something that is not JSON-RPC: it has printed a message over the lines", says: `"jsonrpc": "2.0"`,
			play: func(t *testing.T) failurePlayed {
				client := serving(t, func(cfg *config.Config) { cfg.Upstream.Command = []string{"sh", "-c", indents("tools/call")} })
				client.initialize()
				return client.played(client.ask("POST", callOne))
			}},
		{name: "command_mute", cause: failures.CommandMute, status: 504, code: -32603, text: `upstream timed out; its standard output is not JSON: ["hello [redacted]"]`,
			says: "hello", play: func(t *testing.T) (p failurePlayed) {
				for limit := 100 * time.Millisecond; limit < patience; limit *= 2 { // until the command can say something within it
					p = runsFor(limit, "sh", "-c", `echo "hello $API_TOKEN"; while read message; do :; done`)(t)
					if strings.Contains(strings.Join(p.messages, ""), "standard output") {
						break
					}
				}
				return p
			}},
	}
}

// revisionRows are about revisions, and messages that cannot be translated.
func revisionRows() []failureRow {
	return []failureRow{
		{name: "revision", cause: failures.Revision, status: 200, code: -32602, text: "Unsupported protocol version",
			play: fails(fault{says: jsonHead + ofLength(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`)}, "initialize")},
		{name: "initialize_refused", cause: failures.Refusal, status: 200, code: -32000, text: "no licence", logged: "server refused initialize", uncounted: true,
			says: "no licence", play: fails(fault{says: jsonHead + ofLength(`{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no licence"}}`)}, "initialize")},
		{name: "era_changed", cause: failures.EraChanged, status: 404, code: -32600, text: "Session not found: the server is another one by now", method: "tools/call", play: func(t *testing.T) failurePlayed {
			r := newReplaceable(t)
			r.by("2025-06-18")
			client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = r.url })
			t.Cleanup(func() {
				for _, s := range r.all {
					for session := range s.Sessions() {
						session.Close()
					}
				}
			})
			client.initialize()
			client.ask("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			r.by(modernOnly)
			return client.played(client.ask("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{}}}`))
		}},
		{name: "untranslatable", cause: failures.Untranslatable, status: 200, code: -32603, text: "translation 2025-06-18->2024-11-05 failed for tools/call", says: "result: not an object", method: "tools/call", play: func(t *testing.T) failurePlayed {
			s := newFaultyServer(t, "tools/call", false)
			client := s.proxyOf(t, fault{})
			client.session = client.ask("POST", initialize("2024-11-05", `{}`)).header.Get("Mcp-Session-Id")
			s.begin(fault{says: jsonHead + ofLength(`{"jsonrpc":"2.0","id":1,"result":[]}`)})
			return client.played(client.ask("POST", callOne))
		}},
	}
}

// ownRows are about limits and bugs of dragoman, and about the client.
func ownRows() []failureRow {
	return []failureRow{
		{name: "busy", cause: failures.Busy, status: 503, code: -32603, text: "too many open requests", header: "Retry-After", says: "1 requests of this session are open", method: "-", play: func(t *testing.T) failurePlayed {
			client, s := hanging(t, func(cfg *config.Config) { cfg.Limits.OpenRequests = 1 })
			call := client.during(s, callOne)
			defer call()
			return client.played(client.ask("POST", strings.Replace(callOne, `"id":1`, `"id":2`, 1)))
		}},
		{name: "no_token", cause: failures.NoToken, status: 401, code: -32600, text: "a token is required", header: "WWW-Authenticate", logged: "client refused", uncounted: true, play: func(t *testing.T) failurePlayed {
			client := serving(t, func(cfg *config.Config) {
				cfg.Upstream.URL, cfg.Auth.Tokens = "http://127.0.0.1:1/mcp", []string{"a-token-that-is-long-enough"}
			})
			defer client.ask("POST", callOne, "Authorization", "Bearer c4n4ry") // merged into the next line
			return client.played(client.ask("POST", callOne))
		}},
		{name: "not_allowed", cause: failures.NotAllowed, status: 403, code: -32600, text: "the Origin header names an origin that is not allowed", logged: "client refused", uncounted: true, play: func(t *testing.T) failurePlayed {
			client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = "http://127.0.0.1:1/mcp" })
			return client.played(client.ask("POST", callOne, "Origin", "https://evil.example"))
		}},
		{name: "replica_lost", cause: failures.ReplicaLost, status: 200, code: -32603, text: "the replica that served the request was lost", says: "replica 127.0.0.1:", method: "tools/call", play: replicaLost},
		{name: "client_left", cause: failures.ClientLeft, status: 0, logged: "request ended without an answer", uncounted: true, play: func(t *testing.T) failurePlayed {
			client, s := hanging(t, nil)
			client.during(s, callOne)() // and disconnects
			eventually(t, "the count", func() bool {
				return counted(t, client.srv.Metrics, "dragoman_requests_total", "method=tools/call", "outcome=left") == 1
			})
			return client.played(heardAll{})
		}},
		{name: "cancelled", cause: failures.Cancelled, status: 202, logged: "request ended without an answer", uncounted: true, play: func(t *testing.T) failurePlayed {
			client, s := hanging(t, nil)
			call := client.during(s, callOne)
			defer call()
			h := client.ask("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			eventually(t, "the count", func() bool {
				return counted(t, client.srv.Metrics, "dragoman_requests_total", "method=tools/call", "outcome=cancelled") == 1
			})
			return client.played(h)
		}},
		{name: "slow_client", cause: failures.SlowClient, status: 0, logged: "client reads too slowly: its oldest notification was dropped", uncounted: true, play: func(t *testing.T) failurePlayed {
			f := silentPipe()
			srv := front(t, f, func(c *config.Config) { c.Limits.Queue = 2 })
			srv.initialize("2025-06-18")
			for range 3 {
				f.Unasked(logLine)
			}
			return failurePlayed{heardAll{}, srv.Server, srv.logs}
		}},
		{name: "dropped", cause: failures.Dropped, status: 0, logged: "message dropped", says: "late_answer", uncounted: true, play: func(t *testing.T) failurePlayed {
			f := silentPipe()
			srv := front(t, f)
			srv.initialize("2025-06-18")
			f.Unasked(answer(`9`))
			return failurePlayed{heardAll{}, srv.Server, srv.logs}
		}},
		{name: "panic", cause: failures.Panic, status: 200, code: -32603, text: "internal error", logged: "panic", play: func(t *testing.T) failurePlayed {
			f := newFake(initializing("2025-06-18", nil))
			f.on("tools/call", func(u *peertest.Turn) { u.Reads(func() { panic(boom) }) })
			srv := front(t, f)
			r := srv.post(srv.initialize("2025-06-18"), callOne)
			if id := gjson.Get(r.body, "id").Raw; id != "1" {
				t.Errorf("id %s", id)
			}
			return failurePlayed{heardAll{status: r.status, messages: []string{r.body}}, srv.Server, srv.logs}
		}},
	}
}

// hanging returns a client in front of a server that does not answer tools/call.
func hanging(t *testing.T, change func(*config.Config)) (*webClient, *badServer) {
	s := badWeb(t, func(c *net.TCPConn) { stay(c) })
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Transport = s.URL, "http"
		if change != nil {
			change(cfg)
		}
	})
	client.initialize()
	return client, s
}

// during makes a call, and returns when the server has got it. leave cancels it.
func (c *webClient) during(s *badServer, call string) (leave func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	before := len(s.heard())
	go func() {
		defer close(ended)
		req, _ := http.NewRequestWithContext(ctx, "POST", c.base+"/mcp", strings.NewReader(call))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", c.session)
		if res, err := c.http.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	eventually(c.t, "the server has the call", func() bool { return len(s.heard()) > before })
	return func() { stop(); <-ended }
}

// replicaLost makes a call to a session at another replica, which breaks off the connection.
func replicaLost(t *testing.T) failurePlayed {
	s := newSessionServer(t, "2025-11-25", nameQuestion)
	upstream := s.At().URL
	first := true
	all := acquainted(t, 2, func(w origin.World, cfg config.Config, log *zap.Logger) (*proxy.Server, error) {
		cfg.Upstream.URL = upstream
		if first {
			first = false
			to, _ := url.Parse("http://" + cfg.Store.Advertise)
			way := httputil.NewSingleHostReverseProxy(to)
			between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if bytes.Contains(body, []byte("tools/call")) {
					panic(http.ErrAbortHandler)
				}
				r.Body, r.Host = io.NopCloser(bytes.NewReader(body)), to.Host
				way.ServeHTTP(w, r)
			}))
			t.Cleanup(between.Close)
			cfg.Store.Advertise = between.Listener.Addr().String()
		}
		return proxy.NewIn(w, cfg, log)
	})
	r := all[1].post(all[0].initialize("2025-11-25"), callOne)
	return failurePlayed{heardAll{status: r.status, messages: []string{r.body}}, all[1].Server, all[1].logs}
}

// tlsServer is a server with this certificate; with nil, one for 127.0.0.1.
func tlsServer(t *testing.T, certificate *tls.Certificate) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	if certificate != nil {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// certificateUntil returns a certificate for 127.0.0.1 that expires at the given time.
func certificateUntil(t *testing.T, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func writePEM(t *testing.T, certificate []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
