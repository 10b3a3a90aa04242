package failures

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

func TestCauses(t *testing.T) {
	at := func(op string, err error) error { return &upstream.Error{Op: op, Addr: "host:1", Err: err} }
	for _, c := range []struct {
		err  error
		want Cause
	}{
		{at("connect", &net.DNSError{Err: "no such host", Name: "host"}), DNS},
		{at("connect", context.DeadlineExceeded), ConnectTimeout},
		{at("tls", context.DeadlineExceeded), ConnectTimeout},
		{at("connect", errors.New("no route to host")), Refused},
		{at("connect", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}), Refused},
		{at("connect", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}), Refused},
		{at("tls", x509.HostnameError{Certificate: new(x509.Certificate), Host: "host"}), TLSName},
		{at("tls", x509.CertificateInvalidError{Reason: x509.Expired}), TLSExpired},
		{at("tls", x509.UnknownAuthorityError{}), TLSUnknownCA},
		{at("tls", errors.New("remote error: tls: protocol version not supported")), TLSRefused},
		{at("read", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), TLSRefused},
		{at("connect", &upstream.ProxyError{Code: 407}), WebProxy},
		{at("connect", &upstream.ProxyError{Code: 403}), WebProxy},
		{at("read", &dial.DeadError{}), ConnectionDead},
		{at("read", fmt.Errorf("%w: %w", upstream.ErrLost, &dial.DeadError{})), SessionLost},
		{at("start", fs.ErrPermission), CommandNotFound},
		{at("start", syscall.ENOEXEC), CommandNotFound},
		{at("read", upstream.ErrLost), SessionLost},
		{&upstream.NoiseError{}, CommandMute},
		{&upstream.MuteError{}, CommandMute},
		{&upstream.ExitError{Err: &upstream.UnreadError{}}, CommandUnread},
		{&upstream.SpreadError{}, CommandMute},
		{&upstream.HeaderError{}, ""},
	} {
		if is := Of(c.err); is != c.want {
			t.Errorf("%v: %q, want %q", c.err, is, c.want)
		}
	}
	for c, is := range about {
		if (is.advice == "") != (is.level == zapcore.DebugLevel) {
			t.Errorf("%s: advice %q", c, is.advice)
		}
	}
}

// TestQuotesAreShortAndWithoutSecrets: a quote is one short line that contains no secret, even if the text was cut in the
// middle of one.
func TestQuotesAreShortAndWithoutSecrets(t *testing.T) {
	if is := Line("a\n\x1b[1mb\u202ec\xff"); is != "a bc" {
		t.Errorf("%q", is)
	}
	if is := Line(strings.Repeat("é", 400)); len(is) > MaxQuote+3 || !strings.HasSuffix(is, "…") {
		t.Errorf("%d %q", len(is), is)
	}
	is := Quote("https://u:p4ss@h/x?key=p4ss and bearer p4ssp4ss and Token p4ss-of-a-client", secret.NewSet("Token p4ss-of-a-client"))
	if strings.Contains(is, "p4ss") {
		t.Errorf("%q", is)
	}
	for text, want := range map[string]string{ // as in what is shown of messages
		"login failed: password=p4ss-of-mine": "login failed: password=[redacted]", "key ghp_0123456789abcdefp4ss is bad": "key [redacted] is bad",
		"a -----BEGIN EC PRIVATE KEY-----\np4ss\n-----END EC PRIVATE KEY----- b": "a [redacted] b", "the token expired": "the token expired", "invalid token: expired": "invalid token: expired",
	} {
		if is := Quote(text); is != want {
			t.Errorf("%q: %q, want %q", text, is, want)
		}
	}
	const long = "p4ss-which-is-rather-long"
	for at := range long {
		text := "https://h/?" + strings.Repeat("x", maxRead-at-len("https://h/? ")) + " " + long
		if is := Quote(text, secret.NewSet(long)); strings.Contains(is, "p4ss") {
			t.Errorf("cut behind %d bytes: %q", at, is)
		}
	}
}

func TestTextOfAnHTMLPage(t *testing.T) {
	page := `<!DOCTYPE HTML><html><head><title>Error</title><style>p{}</style></head><body><h1>No &amp; no</h1><!-- x --><p>Not here.</p></body></html>`
	if is := Line(PageText([]byte(page))); is != "No & no Not here." {
		t.Errorf("%q", is)
	}
}

func TestSecretsOfAnEnvironment(t *testing.T) {
	got := Secrets([]string{"GITHUB_TOKEN=abcdefgh", "LOG=abcdefgh", "DB_PASSWORD=12345678910", "API_KEY=short", "APIKEY=longer"})
	if want := []string{"12345678910", "abcdefgh", "longer"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNamesOfSecrets: the words are found in any case, with and without an underscore.
func TestNamesOfSecrets(t *testing.T) {
	for _, name := range []string{
		"TOKEN", "my_Token_1", "clientSecret", "PASSWD", "password", "PassPhrase", "AWS_CREDENTIALS", "HTTP_AUTHORIZATION", "Cookies", "api_key", "ApiKey",
		"AWS_ACCESS_KEY_ID", "accesskey", "PRIVATE_KEY_FILE", "privateKey", "API-KEY", "API__KEY", "PASS", "DB_PASS", "SIGNING_KEY",
	} {
		if !namesSecret(name, "") {
			t.Errorf("%s is none", name)
		}
	}
	for _, name := range []string{"", "PATH", "KEY", "TOKE", "COMPASS", "SSH_AUTH_SOCK", "PWD", "OLDPWD"} {
		if namesSecret(name, "") {
			t.Errorf("%s is one", name)
		}
	}
	if namesSecret("MAX_TOKENS", "100000") {
		t.Error("a number of tokens is one")
	}
}

// TestAdviceKeepsItsVariables checks that the name of a variable in advice is not struck out as the credential that it stands for.
func TestAdviceKeepsItsVariables(t *testing.T) {
	for text, want := range map[string]string{
		"say --header 'Authorization: Bearer ${TOKEN}' or log in": "say --header 'Authorization: Bearer ${TOKEN}' or log in",
		"Bearer ${TOKEN}abcdef":                                   "Bearer [redacted]",
		"Bearer $TOKEN-abcdef":                                    "Bearer [redacted]",
		"Bearer abcdefgh and Bearer ${A_TOKEN}":                   "Bearer [redacted] and Bearer ${A_TOKEN}",
	} {
		if got := Redacted(text, nil); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Redacted("Bearer ${SECRET_WITH_BRACES}", secret.NewSet("${SECRET_WITH_BRACES}")); got != "Bearer [redacted]" {
		t.Errorf("a known secret: %q", got)
	}
}

// TestRefusedHosts: what servers say that take requests for certain host names only, and what they say of other things.
func TestRefusedHosts(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Cause
	}{
		{403, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Invalid Host: 10.0.0.7"},"id":null}`, HostRefused},                 // TypeScript SDK
		{403, `Forbidden: invalid Host header "x" (DNS rebinding protection)`, HostRefused},                                          // Go SDK
		{421, `Invalid Host header`, HostRefused},                                                                                    // Python SDK
		{403, `Forbidden: Host header is not allowed`, HostRefused},                                                                  // Rust SDK
		{403, `Access is only allowed at localhost:39471`, HostRefused},                                                              // Playwright's server
		{403, `Invalid Host header`, HostRefused},                                                                                    // webpack
		{403, `Blocked request. This host ("x.example") is not allowed.`, HostRefused},                                               // Vite
		{403, `Blocked hosts: x.example`, HostRefused},                                                                               // Rails
		{400, `Invalid host header`, HostRefused},                                                                                    // Starlette
		{400, `<h2>Bad Request - Invalid Hostname</h2>`, HostRefused},                                                                // ASP.NET, IIS
		{400, `Invalid HTTP_HOST header: 'x'.`, HostRefused},                                                                         // Django
		{403, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the Host header names a host that is not allowed"}}`, HostRefused}, // dragoman
		{403, `host x.example is not allowed`, HostRefused},
		{403, `Host not allowed`, HostRefused},
		{421, ``, HostRefused},
		{403, `{"message":"Forbidden"}`, Forbidden},
		{403, `the token is not allowed to read this host's files`, Forbidden},
		{403, `access is only allowed to members of the team`, Forbidden},
		{403, ``, Forbidden},
		{400, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"unknown host in argument url"},"id":1}`, HTTPStatus},
		{500, `Invalid Host header`, HTTPStatus},
	} {
		if got := Of(&upstream.StatusError{Code: c.status, Body: []byte(c.body)}); got != c.want {
			t.Errorf("%d %s: %s, want %s", c.status, c.body, got, c.want)
		}
	}
}
