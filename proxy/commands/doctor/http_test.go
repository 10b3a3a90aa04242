package doctor

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// answering returns a handler that answers each request with a status, a content type and a body.
func answering(status int, kind, body string, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// TestHTTPAnswers checks the line about each answer that is no answer to initialize.
func TestHTTPAnswers(t *testing.T) {
	const tried = "; nor is there one at /mcp/, /sse*"
	const otherHost = "the server takes requests for certain host names only: use one of them in the URL (upstream.url), or let the server allow this one"
	for name, c := range map[string]struct {
		h    http.Handler
		want string
	}{
		"401": {answering(401, "text/plain", "", "WWW-Authenticate", `Bearer resource_metadata="https://as.example/x"`),
			"FAIL URL: 401 Unauthorized → dragoman login URL, whose login doctor, probe, footprint and stdio use (and serve with upstream.auth: {type: login}); or --header 'Authorization: Bearer ${TOKEN}' (upstream.headers)\n" + `info WWW-Authenticate: Bearer resource_metadata="https://as.example/x"`},
		"403": {answering(403, "text/plain", "no"),
			"FAIL URL: 403 Forbidden: no → the server may want credentials (--header 'Authorization: Bearer ${TOKEN}'), or allow only some host names or addresses: try its name instead of its address in the URL (upstream.url), and its list of allowed hosts"},
		"host":             {answering(403, "text/plain", "Access is only allowed at localhost:8931"), "FAIL URL: 403 Forbidden: Access is only allowed at localhost:8931 → " + otherHost},
		"host of Python":   {answering(421, "text/plain", "Invalid Host header"), "FAIL URL: 421 Misdirected Request: Invalid Host header → " + otherHost},
		"host, web server": {answering(400, "text/html", "<h2>Bad Request - Invalid Hostname</h2>"), "FAIL URL: 400 Bad Request: Bad Request - Invalid Hostname → " + otherHost},
		"host, and gone":   {answering(421, "text/plain", ""), "FAIL URL: 421 Misdirected Request → " + otherHost},
		"404":              {answering(404, "text/plain", "nothing"), "FAIL URL: 404 Not Found: no MCP endpoint at this path" + tried},
		"405":              {answering(405, "text/plain", "GET only"), "FAIL URL: 405 Method Not Allowed: this path takes no POST, and has no event stream" + tried},
		"page":             {answering(200, "text/html; charset=utf-8", "<h1>Log in</h1>"), "FAIL URL: the answer is a web page (text/html), not MCP" + tried},
		"text":             {answering(200, "text/plain", "hello"), `FAIL URL: response of type "text/plain", expected application/json or text/event-stream` + tried},
		"garbled":          {answering(200, "application/json", "{nonsense"), "FAIL URL: the answer is not JSON-RPC: {nonsense" + tried},
		"no rpc":           {answering(200, "application/json", `{"status":"up"}`), `FAIL URL: the answer is not JSON-RPC: {"status":"up"}` + tried},
		"moved": {answering(308, "text/plain", "", "Location", "https://new.example/api/mcp?key=k"),
			"FAIL URL: redirects (308) to https://new.example/api/mcp, which dragoman does not follow → use it as the URL (upstream.url)"},
		"login page": {answering(302, "text/plain", "", "Location", "/login?next=%2Fmcp"), "FAIL URL: redirects (302) to http://HOST/login, which dragoman does not follow → if that is the server, use it as the URL (upstream.url); if a login page, --header 'Authorization: Bearer ${TOKEN}' (upstream.headers), or what the gateway takes"},
		"slash":      {answering(307, "text/plain", "", "Location", "/mcp/"), "FAIL URL: redirects (307) to http://HOST/mcp/, which dragoman does not follow → use it as the URL (upstream.url)"},
		"no target":  {answering(302, "text/plain", ""), "FAIL URL: 302 Found" + tried},
		"broken":     {answering(500, "text/html", "<p>stack &amp; trace</p>"), "FAIL URL: 500 Internal Server Error: stack & trace → the server, or a gateway before it, fails: its own log says more"},
		"busy":       {answering(429, "text/plain", ""), "FAIL URL: 429 Too Many Requests: the server limits the rate of requests → wait, and try again"},
		"teapot":     {answering(418, "text/plain", "short and stout"), "FAIL URL: 418 I'm a teapot: short and stout" + tried},
		"works":      {newFake(t), "ok URL: answers over Streamable HTTP"},
		"refuses":    {answering(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}`), "ok URL: answers with a JSON-RPC error"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, c.h)
			url := "http://" + addr + "/mcp"
			got := examine(t, atURL(url), "http")
			want(t, got, strings.Split(strings.NewReplacer("FAIL URL", "FAIL "+url, "ok URL", "ok "+url, "login URL", "login "+url, "HOST", addr).Replace(c.want), "\n")...)
		})
	}
}

// TestRedirects: the target is proposed only where it is an endpoint of the same kind.
func TestRedirects(t *testing.T) {
	const login = "if that is the server, use it as the URL (upstream.url); if a login page, --header*"
	for _, c := range []struct {
		status   int
		from, to string
		want     string
	}{
		{301, "http://a.example/mcp", "https://a.example/mcp", "use it as the URL (upstream.url)"},
		{302, "http://a.example:8080/mcp", "https://a.example/mcp", "use it as the URL (upstream.url)"},
		{307, "https://a.example/mcp", "https://A.example/mcp/", "use it as the URL (upstream.url)"},
		{301, "http://a.example/mcp?key=k", "https://a.example/mcp", "use it as the URL (upstream.url), with the query of this one"},
		{308, "https://a.example/mcp/", "https://a.example/mcp", "use it as the URL (upstream.url)"},
		{308, "https://a.example/mcp", "https://b.example/api/mcp", "use it as the URL (upstream.url)"},
		{301, "https://a.example/", "https://a.example/sse", "use it as the URL (upstream.url)"},
		{301, "https://a.example/tools", "https://b.example/tools?key=k", "use it as the URL (upstream.url)"},
		{301, "https://a.example/mcp", "https://a.example/login", login},
		{302, "https://a.example/mcp", "https://b.example/mcp", login},
		{303, "https://a.example/mcp", "https://sso.example/start?rd=https://a.example/mcp", login},
		{307, "https://a.example/mcp", "https://a.example/v2/mcp", login},
		{302, "https://a.example", "https://a.example/", "use it as the URL (upstream.url)"},
		{307, "https://a.example/mcp", "http://a.example/mcp/", "use https://a.example/mcp/ (upstream.url); the server does not know that its clients use https*"},
		{301, "https://a.example/mcp", "http://a.example/mcp", "do not follow it: the target is not encrypted*"},
		{308, "https://a.example/mcp", "http://b.example/mcp", "do not follow it: the target is not encrypted*"},
	} {
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := from.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(c.status, " ", c.from, " ", c.to), func(t *testing.T) {
			want(t, []string{afterRedirect(c.status, from, to, "")}, c.want)
		})
	}
	want(t, []string{afterRedirect(302, &url.URL{Scheme: "https", Host: "a", Path: "/mcp"}, &url.URL{Scheme: "https", Host: "a", Path: "/login"}, "upstream.headers.X-Api-Key")},
		"if that is the server, use it as the URL (upstream.url); if a login page, the server, or a gateway before it, refuses the credential of upstream.headers.X-Api-Key")
}

func TestRefusedCredentialIsNamed(t *testing.T) {
	for said, wanted := range map[string]string{
		"401 ":                        "FAIL URL: 401 Unauthorized → the server refuses the credential of upstream.headers.Authorization: is it complete, current, and for this server?",
		"403 Invalid Host: 127.0.0.1": "FAIL URL: 403 Forbidden: Invalid Host: 127.0.0.1 → the server takes requests for certain host names only*", // whatever it carries
		"403 ":                        "FAIL URL: 403 Forbidden → the server knows the credential of upstream.headers.Authorization, or does not; check what it is allowed to do (its scopes)",
	} {
		status, _ := strconv.Atoi(said[:3])
		addr := serve(t, answering(status, "text/plain", said[4:]))
		got := examine(t, with(func(c *config.Config) {
			c.Upstream.URL, c.Upstream.Headers = "http://"+addr+"/mcp", map[string]string{"Authorization": "Bearer canary-canary"}
		}), "http")
		want(t, got, strings.ReplaceAll(wanted, "URL", "http://"+addr+"/mcp"))
	}
}

// TestUsualPathsAreTried checks that the endpoint of a server is found at the paths at which most have it.
func TestUsualPathsAreTried(t *testing.T) {
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for at, h := range map[string]http.Handler{"/mcp": newFake(t), "/api/mcp": newFake(t), "/sse": stream, "/mcp ": answering(401, "text/plain", "")} {
		at = strings.TrimSpace(at)
		mux := http.NewServeMux()
		mux.Handle(at, h)
		mux.HandleFunc("/messages", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		addr := serve(t, mux)
		o := atURL("http://" + addr + "/api")
		got := examine(t, o, "http")
		want(t, got, fmt.Sprintf("FAIL http://%s/api: 404 Not Found: no MCP endpoint at this path → there is an endpoint at http://%s%s: use it as the URL (upstream.url)", addr, addr, at))
	}
}

// TestSlashAtTheEndIsTried: an endpoint that differs from the URL by the slash at its end is found.
func TestSlashAtTheEndIsTried(t *testing.T) {
	for at, asked := range map[string]string{"/mcp/": "/mcp", "/mcp": "/mcp/", "/v1/tools/": "/v1/tools"} {
		server := newFake(t)
		addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != at {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			server.ServeHTTP(w, r)
		}))
		want(t, examine(t, atURL("http://"+addr+asked), "http"),
			fmt.Sprintf("FAIL http://%s%s: 404 Not Found: no MCP endpoint at this path → there is an endpoint at http://%s%s: use it as the URL (upstream.url)", addr, asked, addr, at))
	}
}

// TestTLSBehindPlainURL checks that a server that speaks TLS is recognized behind an http URL, whether it says so or only closes the
// connection.
func TestTLSBehindPlainURL(t *testing.T) {
	addr := serveTLS(t)
	want(t, examine(t, atURL("http://"+addr+"/mcp"), "http"),
		fmt.Sprintf("FAIL http://%s/mcp: the server speaks TLS, and this URL begins with http:// → use https://%s/mcp (upstream.url)", addr, addr))
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	ending := make(chan struct{})
	addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ending:
		}
	}))
	defer close(ending)
	o := atURL("http://" + addr + "/mcp")
	o.CheckTime = 300 * time.Millisecond
	want(t, examine(t, o, "http"), "FAIL http://"+addr+"/mcp: no answer to initialize within 300ms → is this an MCP endpoint? the server's own log says more; upstream.handshake_timeout if it needs so long")
	closing := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	want(t, examine(t, atURL("http://"+closing+"/mcp"), "http"), "FAIL http://"+closing+"/mcp: upstream "+closing+": *")
}
