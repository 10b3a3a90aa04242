package command

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLoginWhereNoServerAsksForIt: login says in the words of the other commands why the server did not ask for a sign-in.
func TestLoginWhereNoServerAsksForIt(t *testing.T) {
	answers := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirects":
			http.Redirect(w, r, "https://login.example/start?key=c4n4ry", http.StatusFound)
		case "/fails":
			w.WriteHeader(http.StatusBadGateway)
		case "/wants":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}
	plain, secure := httptest.NewServer(http.HandlerFunc(answers)), httptest.NewTLSServer(http.HandlerFunc(answers))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	const dead = "http://127.0.0.1:1/mcp"
	for name, c := range map[string]struct {
		url  string
		env  []string
		want string
	}{
		"dead":         {dead, nil, "cannot log in: " + dead + " refuses connections; start it, or correct the URL\n"},
		"no such name": {"http://no..host:1/mcp", nil, "upstream request failed: server name not found (at http://no..host:1/mcp); check the host"},
		"plain":        {strings.Replace(plain.URL, "http:", "https:", 1), nil, "upstream request failed: the server speaks no TLS (at https://"},
		"untrusted":    {secure.URL, nil, "upstream request failed: server certificate not trusted: its authority is not known (at " + secure.URL + "); name the file with the certificate"},
		"wrong path":   {plain.URL + "/x?key=c4n4ry", nil, "upstream endpoint not found (at " + plain.URL + "/x?…); no MCP endpoint at this path"},
		"redirect":     {plain.URL + "/redirects", nil, "upstream answered 302 Found (at " + plain.URL + "/redirects, which redirects to https://login.example/start); dragoman follows no redirects"},
		"gateway":      {plain.URL + "/fails", nil, "upstream answered 502 Bad Gateway (at " + plain.URL + "/fails); the server, or a gateway before it, fails"},
		"token":        {plain.URL + "/wants", nil, plain.URL + "/wants wants a token and does not say where to get one"},
		"dead web proxy": {"https://server.example/mcp", []string{"HTTPS_PROXY=http://u:c4n4ry@127.0.0.1:1"},
			"upstream request failed: the web proxy on the way cannot be used: connection refused (at https://server.example/mcp by way of the web proxy 127.0.0.1:1); is the web proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, environ(append(c.env, "DRAGOMAN_CREDENTIALS="+t.TempDir())...), "login", "--no-browser", c.url)
			<-p.ended
			_, said, _ := strings.Cut(p.log.String(), "dragoman: ")
			if p.ProcessState.ExitCode() != exitServer || !strings.HasPrefix(said, c.want) || strings.Contains(said, "c4n4ry") {
				t.Errorf("%d %s, want %s", p.ProcessState.ExitCode(), said, c.want)
			}
		})
	}
}
