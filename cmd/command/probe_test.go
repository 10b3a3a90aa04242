package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// probed starts a server of the newest revision with a handshake that has these tools.
func probed(t *testing.T, tools string) string {
	t.Helper()
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		result := `{"tools":[` + tools + `]}`
		if u.Method == "initialize" {
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s\u001b[2J","version":"2"}}`
		}
		if u.ID != "" {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":`+result+`}`)
		}
	})
	s.NoGet = true
	return s.At().URL
}

// TestServerErrorsSayWhatToDo checks what probe and footprint print for servers that cannot be asked.
func TestServerErrorsSayWhatToDo(t *testing.T) {
	refusing := func(status int, reason string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, reason, status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	for args, want := range map[string]string{
		"probe " + refusing(403, "Access is only allowed at localhost:8931"):                          "403 Forbidden: Access is only allowed at localhost:8931; the server takes requests for certain host names only",
		"footprint " + refusing(421, "Invalid Host header"):                                           "421 Misdirected Request: Invalid Host header; the server takes requests for certain host names only",
		"probe " + refusing(403, "no access for c4n4ry-c4n4ry") + " --header X-Api-Key:c4n4ry-c4n4ry": "403 Forbidden: no access for [redacted]; the server knows the credential of upstream.headers.X-Api-Key, or does not",
		"probe http://127.0.0.1:1/mcp":                                                                "connection refused; start the server, or correct its URL (upstream.url)",
		"footprint http://127.0.0.1:1/mcp":                                                            "connection refused; start the server, or correct its URL (upstream.url)",
		"probe -- false":                                                                              "ended (exit status 1); the last lines of the server's standard error say why",
		"probe -- no-such-program":                                                                    "executable file not found in $PATH; no directory of PATH has this program: install it",
	} {
		_, _, err := run(t.Context(), "", strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitServer {
			t.Errorf("%s: %d %v; want %q", args, exitCode(err), err, want)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := serverFailed(late, config.Default(), late.Err()); !strings.HasPrefix(err.Error(), "the server has not answered within 1m0s: ") || !strings.HasSuffix(err.Error(), "dragoman doctor with the same arguments looks for the cause") {
		t.Error(err)
	}
	lacks := fmt.Errorf("upstream.ca_file: %w", fs.ErrNotExist)
	if err := serverFailed(t.Context(), config.Default(), lacks); exitCode(err) != exitUsage || strings.Contains(err.Error(), "PATH") {
		t.Error(err)
	}
}

func TestProbe(t *testing.T) {
	const plain, titled, task = `{"name":"a","inputSchema":{"type":"object"}}`, `{"name":"b","title":"B","inputSchema":{"type":"object"}}`,
		`{"name":"c","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`
	for _, c := range []struct {
		tools string
		err   error
		lines []string
	}{
		{plain, nil, []string{"server        s [2J 2", "revision      2025-11-25 over http", "tools         1", "era           legacy: with a handshake",
			"clients of 2026-07-28 get everything, bridged between the eras", "  offered: tools",
			"  if the server asks outside of a call: it waits for the next call, or is refused", "  if a client reports progress to the server: dropped", "  if the stream of an answer breaks: not told again",
			"clients of 2025-11-25 get everything as it is", "clients of 2024-11-05 get everything as it is", "  if the server asks the user (elicitation): refused, these clients cannot ask"}},
		{plain + "," + titled, nil, []string{"tools         2", "clients of 2025-06-18 get everything as it is",
			"clients of 2025-03-26 get everything, with changes:", "  C01  title  changed to annotations.title  tools (1: b)", "clients of 2024-11-05 get every entry of the lists, with losses:"}},
		{plain + "," + titled + "," + task, errMissing, []string{"tools         3", "clients of 2024-11-05 do not get:", "  tools: c",
			"and the rest with losses:", "and the rest with losses and changes:", "  C01  title           lost  tools (1: b)", "  C07  task-only tool  lost  tools (1: c)"}},
	} {
		url := probed(t, c.tools)
		out, _, err := run(t.Context(), "", "probe", url)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.tools, err)
		}
		lines := strings.Split(out, "\n")
		for _, want := range c.lines {
			if !slices.Contains(lines, want) {
				t.Errorf("no line %q in\n%s", want, out)
			}
		}
		out, _, err = run(t.Context(), "", "probe", "--json", url)
		var r probe.Report
		if e := json.Unmarshal([]byte(out), &r); e != nil || !errors.Is(err, c.err) || r.Works() != (c.err == nil) {
			t.Errorf("%s: %v, %v, %s", c.tools, e, err, out)
		}
	}
}

// TestProbeSaysAFactOnce: what a rule does to a capability is said by its rule alone, and completions work without one.
func TestProbeSaysAFactOnce(t *testing.T) {
	replies := peertest.Replies{Results: map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}},"completions":{}},"serverInfo":{"name":"s","version":"2"}}`,
	}}
	s := peertest.NewServer(t, peertest.HTTP, replies.Answer)
	s.NoGet = true
	out, _, err := run(t.Context(), "", "probe", s.At().URL)
	if err != nil || strings.Contains(out, "the capability") ||
		!strings.Contains(out, "clients of 2025-03-26 get every entry of the lists, with losses:\n  C20  tasks  lost  initialize\n") ||
		!strings.Contains(out, "clients of 2024-11-05 get every entry of the lists, with losses and changes:\n  C20  tasks        lost     initialize\n  C15  completions  changed  initialize\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestProbeOfASilentCommand checks that the error for a command that is not a server contains what it wrote.
func TestProbeOfASilentCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	peertest.Within(t, 200*time.Millisecond, func(limit time.Duration) error { // the command has written within it
		t.Setenv("DRAGOMAN_UPSTREAM_HANDSHAKE_TIMEOUT", limit.String())
		_, _, err := run(t.Context(), "", "probe", "--", "sh", "-c", "echo Usage: x; echo trouble >&2; cat >/dev/null")
		if err == nil || exitCode(err) != exitServer {
			t.Fatalf("exit code %d: %v", exitCode(err), err)
		}
		for _, want := range []string{`upstream "sh" has sent no message for`, `its standard output is not JSON: ["Usage: x"]`, `standard error: "trouble"`} {
			if !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%w; want %s", err, want)
			}
		}
		return nil
	})
}

// TestProbeOfAServerThatWantsALogin checks that the report says what a login needs.
func TestProbeOfAServerThatWantsALogin(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := "http://" + r.Host
		switch r.URL.Path {
		case "/mcp":
			w.Header().Set("WWW-Authenticate", "Bearer resource_metadata="+origin+"/here")
			w.WriteHeader(401)
		case "/here":
			fmt.Fprintf(w, `{"resource":"https://other.example/mcp","authorization_servers":[%q]}`, origin)
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer":%q,"registration_endpoint":"x","code_challenge_methods_supported":["S256"]}`, origin)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	out, _, err := run(t.Context(), "", "probe", web.URL+"/mcp")
	if code, ok := errors.AsType[*exitError](err); !ok || code.code != exitServer {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"the server requires a login", "resource              https://other.example/mcp", "authorization server  " + web.URL, "PKCE with S256",
		"the server's metadata is for https://other.example/mcp, but was read at " + web.URL + "/mcp"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, _ = run(t.Context(), "", "probe", "--json", web.URL+"/mcp")
	var r struct {
		Challenge []string
		Login     struct{ Resource string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Challenge) != 1 || r.Login.Resource != "https://other.example/mcp" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServerIsLookedInto: probe and footprint say as doctor does what answers in place of an MCP server, and where that is.
func TestServerIsLookedInto(t *testing.T) {
	endpoint := probed(t, "")
	to, _ := url.Parse(endpoint)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp":
			forward.ServeHTTP(w, r)
		case "/moved":
			http.Redirect(w, r, "/mcp?key=c4n4ry", http.StatusTemporaryRedirect)
		case "/login":
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(401)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	silent := tls.NewListener(listener(t), secure.TLS) // ends a connection without TLS without a word
	go func() {
		for c, err := silent.Accept(); err == nil; c, err = silent.Accept() {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	for at, want := range map[string]string{
		plain.URL + "/wrong": plain.URL + "/wrong: 404 Not Found: no MCP endpoint at this path; there is an endpoint at " + plain.URL + "/mcp: use it as the URL (upstream.url)",
		plain.URL + "/mcp/":  plain.URL + "/mcp/: 404 Not Found: no MCP endpoint at this path; there is an endpoint at " + plain.URL + "/mcp: use it as the URL (upstream.url)",
		plain.URL + "/moved": plain.URL + "/moved: redirects (307) to " + plain.URL + "/mcp, which dragoman does not follow; if that is the server, use it as the URL (upstream.url); if a login page, --header 'Authorization: Bearer ${TOKEN}' (upstream.headers), or what the gateway takes",
		plain.URL + "/login": "401 Unauthorized; dragoman login " + plain.URL + "/login, whose login doctor, probe, footprint and stdio use (and serve with upstream.auth: {type: login}); or --header 'Authorization: Bearer ${TOKEN}' (upstream.headers)",
		"http://" + secure.Listener.Addr().String() + "/mcp": "http://" + secure.Listener.Addr().String() + "/mcp: the server speaks TLS, and this URL begins with http://; use https://" + secure.Listener.Addr().String() + "/mcp (upstream.url)",
		"http://" + silent.Addr().String() + "/mcp":          "http://" + silent.Addr().String() + "/mcp: the server speaks TLS, and this URL begins with http://; use https://" + silent.Addr().String() + "/mcp (upstream.url)",
	} {
		for _, command := range []string{"probe", "footprint"} {
			if _, _, err := run(t.Context(), "", command, at); err == nil || err.Error() != want || exitCode(err) != exitServer {
				t.Errorf("%s %s: %d %v\nwant %s", command, at, exitCode(err), err, want)
			}
		}
	}
}

func listener(t *testing.T) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestProbeOfAServerThatRefusesAList: a list that the server refuses is marked in the report, and ends it as a failure only where it
// is that of the tools.
func TestProbeOfAServerThatRefusesAList(t *testing.T) {
	replies := peertest.Replies{
		Results: map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"s","version":"2"}}`,
			"tools/list": `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, "prompts/list": `{"prompts":[]}`,
		},
		Errors: map[string]string{"resources/list": `{"code":-32603,"message":"the database is down"}`},
	}
	s := peertest.NewServer(t, peertest.HTTP, replies.Answer)
	s.NoGet = true
	url := s.At().URL
	out, _, err := run(t.Context(), "", "probe", url)
	if err != nil || !strings.Contains(out, "resources  ") || !strings.Contains(out, "WARNING: the server refuses this list: the database is down\n") || !strings.Contains(out, "clients of 2024-11-05 get everything as it is\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = run(t.Context(), "", "probe", "--json", url)
	var r probe.Report
	if err != nil || json.Unmarshal([]byte(out), &r) != nil || len(r.Lists) != 4 || r.Lists[2].Refused != "the database is down" || len(r.Clients) != 5 {
		t.Errorf("%v\n%s", err, out)
	}
	replies.Errors["tools/list"] = `{"code":-32603,"message":"log in first"}`
	out, _, err = run(t.Context(), "", "probe", url)
	if exitCode(err) != exitServer || err.Error() != "the server refuses tools/list: log in first" || !strings.Contains(out, "WARNING: the server refuses this list: log in first\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestProbeNamesAVariableThatTheServerDidNotGet checks that the advice is about what the server asks for, without its value.
func TestProbeNamesAVariableThatTheServerDidNotGet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	t.Setenv("SOME_API_KEY", "of-the-user")
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, `upstream: {command: [sh, -c, '[ "$SOME_API_KEY" ] || { echo "Error: SOME_API_KEY is not set" >&2; exit 1; }']}`)
	_, _, err := run(t.Context(), "", "probe", "--config", file)
	if err == nil || !strings.HasSuffix(err.Error(), "; the server did not get SOME_API_KEY: pass it with -e SOME_API_KEY (upstream.env)") || strings.Contains(err.Error(), "of-the-user") {
		t.Errorf("%v", err)
	}
}
