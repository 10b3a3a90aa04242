package report

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestErrorsSayWhereAndWhatToDo: the text for a client names the server's address or command, without secrets, if clients are on this
// machine, and says in any case what to do.
func TestErrorsSayWhereAndWhatToDo(t *testing.T) {
	refused := &upstream.Error{Op: "connect", Addr: "internal.example:80", Err: syscall.ECONNREFUSED}
	const cause = "upstream request failed: connection refused"
	for name, c := range map[string]struct {
		upstream  config.Upstream
		err       error
		near, far string
	}{
		"URL": {config.Upstream{URL: "http://internal.example/mcp"}, refused,
			cause + " (at http://internal.example/mcp); " + failures.Refused.Advice(), cause + "; " + failures.Refused.Advice()},
		"URL with secrets": {config.Upstream{URL: "http://u:c4n4ry@internal.example/the-secret-of-the-file/mcp?key=c4n4ry#c4n4ry"}, refused,
			cause + " (at http://internal.example/[redacted]/mcp?…); ", cause + "; "},
		"web proxy": {config.Upstream{URL: "https://mcp.example/mcp"}, &upstream.Error{Op: "connect", Addr: "mcp.example:443", Via: "internal.example:3128", Err: syscall.ECONNREFUSED},
			"upstream request failed: the web proxy on the way cannot be used: connection refused (at https://mcp.example/mcp by way of the web proxy internal.example:3128); is the web proxy of HTTPS_PROXY",
			"upstream request failed: the web proxy on the way cannot be used: connection refused; is the web proxy of HTTPS_PROXY"},
		"redirect": {config.Upstream{URL: "https://mcp.example/mcp"}, &upstream.StatusError{Code: 302, Target: "https://internal.example/start"},
			"upstream answered 302 Found (at https://mcp.example/mcp, which redirects to https://internal.example/start); dragoman follows no redirects: ",
			"upstream answered 302 Found; dragoman follows no redirects: "},
		"redirect within the server": {config.Upstream{URL: "https://mcp.example/mcp"}, &upstream.StatusError{Code: 308, Target: "/mcp/"},
			"upstream answered 308 Permanent Redirect (at https://mcp.example/mcp, which redirects to https://mcp.example/mcp/); dragoman follows no redirects: use the target ", "upstream answered 308 Permanent Redirect; "},
		"initialize is cut": {config.Upstream{URL: "http://internal.example/mcp"}, &upstream.Error{Op: "read", Unanswered: true, Err: io.ErrUnexpectedEOF},
			"upstream request failed: the connection ended before the answer was complete (at http://internal.example/mcp); does this port speak TLS?", "upstream request failed: the connection ended before the answer was complete; does this port"},
		"command": {config.Upstream{Command: []string{"serve", "--token", "c4n4ry", "--key=the-secret-of-the-file", "--db", "https://u:c4n4ry@db/x", "-c", "a\n\x1b[1mb"}},
			&upstream.ExitError{Command: "serve", Status: "exit status 1"},
			`upstream process ended: upstream "serve" ended (exit status 1) (command: serve --token [redacted] --key=[redacted] --db https://db/x -c a b); `, `upstream process ended: upstream "serve" ended (exit status 1); ` + failures.CommandExit.Advice()},
		"no program": {config.Upstream{Command: []string{"serve"}}, &upstream.Error{Op: "start", Addr: "serve", Err: errors.Join(syscall.ENOENT)},
			"upstream request failed: the command cannot be started: no such file or directory (command: serve); ", "upstream request failed: the command cannot be started: no such file or directory; "},
		"error of the server": {config.Upstream{URL: "http://internal.example/mcp"},
			&upstream.StatusError{Code: 403, Body: []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`)}, "no", "no"},
		"a token that is refused": {config.Upstream{URL: "http://internal.example/mcp", Headers: map[string]string{"Authorization": "Bearer c4n4ry"}}, &upstream.StatusError{Code: 401},
			"upstream answered 401 Unauthorized (at http://internal.example/mcp); the server refused the token of --header (upstream.headers): is it complete and still valid?", "upstream answered 401 Unauthorized; the server refused"},
		"limit": {config.Upstream{URL: "http://internal.example/mcp"}, mcp.Fail(mcp.TooManyOpen, ""), mcp.TooManyOpen.Text(), mcp.TooManyOpen.Text()},
	} {
		for _, near := range []bool{true, false} {
			cfg := config.Default()
			cfg.Upstream = c.upstream
			none := func() float64 { return 0 }
			r := New(zap.NewNop(), metrics.New("v0", none, none), "v0", func() Setup {
				return Setup{Config: &cfg, Secrets: secret.Known{Configured: secret.NewSet("the-secret-of-the-file")}}
			})
			want := c.far
			if near {
				r.Near()
				want = c.near
			}
			f := r.Failed(FailureOf(c.err), At{Method: "initialize"})
			if !strings.HasPrefix(f.Text, want) {
				t.Errorf("%s: %q, want %q", name, f.Text, want)
			}
			if strings.Contains(f.Text, "c4n4ry") || strings.Contains(f.Text, "the-secret") || strings.ContainsAny(f.Text, "\n\x1b") || !near && strings.Contains(f.Text, "internal.example") || len(f.Text) > 600 {
				t.Errorf("%s: %q", name, f.Text)
			}
			if again := r.Failed(f, At{}); again.Text != f.Text {
				t.Errorf("%s: explained twice: %q", name, again.Text)
			}
			f.Reported = false // as of the end of a session that a request has shown
			if again := r.Failed(f, At{}); again.Text != f.Text {
				t.Errorf("%s: explained twice, as it is reported again: %q", name, again.Text)
			}
		}
	}
}

// TestWhatALookHasFoundIsTold: the advice of a look at the server stands in the log, and in what clients on this machine get, about
// failures of its cause at the beginning of a session alone.
func TestWhatALookHasFoundIsTold(t *testing.T) {
	const advice = "there is an endpoint at http://internal.example/mcp: use it as the URL (upstream.url)"
	cut := &upstream.Error{Op: "read", Unanswered: true, Err: io.ErrUnexpectedEOF}
	for _, c := range []struct {
		found failures.Cause
		err   error
		at    At
		near  bool
		told  bool
	}{
		{failures.NotFound, mcp.Fail(mcp.UpstreamRefused, ""), At{}, true, false},
		{failures.NotFound, &upstream.StatusError{Code: 404}, At{}, true, true},
		{failures.NotFound, &upstream.StatusError{Code: 404}, At{}, false, false},
		{failures.TLSPlain, cut, At{}, true, true},
		{failures.TLSPlain, cut, At{Server: translate.Latest()}, true, false}, // which has answered
		{failures.NotFound, cut, At{}, true, false},
		{"", &upstream.StatusError{Code: 404}, At{}, true, false},
	} {
		cfg := config.Default()
		cfg.Upstream.URL = "http://internal.example/x"
		none := func() float64 { return 0 }
		core, logs := observer.New(zap.DebugLevel)
		r := New(zap.New(core), metrics.New("v0", none, none), "v0", func() Setup { return Setup{Config: &cfg} })
		if c.near {
			r.Near()
		}
		r.Found(failures.NotFound, "of an earlier look")
		if r.Found(c.found, advice); c.found == "" {
			r.Found("", "")
		}
		if got := r.Failed(FailureOf(c.err), c.at).Text; strings.HasSuffix(got, "; "+advice) != c.told || strings.Contains(got, "earlier") {
			t.Errorf("%v: %q", c.err, got)
		}
		for _, l := range logs.All() {
			if is := l.ContextMap()["advice"] == advice; is != (c.told || !c.near) {
				t.Errorf("%v: %v", c.err, l.ContextMap())
			}
		}
	}
}
