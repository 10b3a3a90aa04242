package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// newPlainServer starts a server on a real socket that answers every request as it is told. What it gets is compared byte
// by byte.
func newPlainServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *peertest.Server {
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		u.Begun = true
		answer(u.Web, u.Request, u.Text)
	})
	s.Every = true
	s.At()
	return s
}

func sayJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// before returns a proxy in front of a server at url.
func before(t *testing.T, url string, change ...func(*config.Config)) *webClient {
	t.Helper()
	return serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Version = url, modernOnly
		for _, c := range change {
			c(cfg)
		}
	})
}

// postAs posts a body with these headers; a name may occur twice.
func postAs(ctx context.Context, t *testing.T, c *webClient, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", c.base+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// plainMeta is an unusually formatted _meta that every request must have.
const plainMeta = `"_meta" : {"io.modelcontextprotocol/protocolVersion":"2026-07-28", "x":1.0,"io.modelcontextprotocol/clientCapabilities":{"roots":{ }}, "progressToken":7e0}`

func TestModernToModernOverHTTPIsByteForByte(t *testing.T) {
	const answer = `{ "result":{"resultType":"complete","content":[],"x":1.50,"x":2,"requestState":"é"} ,"id":"a\u0062","jsonrpc":"2.0"}`
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { sayJSON(w, 200, answer) })
	client := before(t, up.URL)
	for _, c := range []struct{ method, target, name string }{
		{"tools/call", `"name":"größe","arguments":{"n":1.0,"n":2},"inputResponses":{"a":{"action":"accept"}},"requestState":"\u00e9",`, "=?base64?Z3LDtsOfZQ==?="},
		{"resources/read", `"uri":"file:///a",`, "file:///a"},
		{"tools/list", ``, ""},
		{"x/own", ``, ""},
		{"server/discover", ``, ""},
	} {
		body := `{"params":{` + c.target + plainMeta + ` } , "id":"a\u0062","method":"` + c.method + `","jsonrpc":"2.0"}`
		header := []string{"MCP-Protocol-Version", modernOnly, "Mcp-Method", c.method, "Mcp-Param-Unknown", "é", "traceparent", "00-1", "Authorization", "Bearer x", "Mcp-Session-Id", "ignored", "Cookie", "secret"}
		if c.name != "" {
			header = append(header, "Mcp-Name", c.name)
		}
		before := up.Count(c.method)
		resp := postAs(t.Context(), t, client, body, header...)
		if got := read(t, resp); got != answer || resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", c.method, resp.StatusCode, got)
		}
		if resp.Header.Get("Mcp-Session-Id") != "" {
			t.Error("a session")
		}
		got, head := up.Last().Text, up.Last().Header
		if got != body {
			t.Errorf("the server got\n     %s\nwant %s", got, body)
		}
		for name, want := range map[string]string{
			"Mcp-Method": c.method, "Mcp-Name": c.name, "Mcp-Param-Unknown": "é", "Traceparent": "00-1",
			"Mcp-Protocol-Version": modernOnly, "Authorization": "Bearer x", "Mcp-Session-Id": "", "Cookie": "",
		} {
			if got := strings.Join(head.Values(name), "|"); got != want {
				t.Errorf("%s: %s: %q, want %q", c.method, name, got, want)
			}
		}
		if n := up.Count(c.method) - before; n != 1 && c.method != "tools/list" {
			t.Errorf("%s: %d requests for one", c.method, n)
		}
	}
	if n := up.Count("initialize"); n != 0 {
		t.Error("initialize was sent")
	}
}

func plainRequest(id, method, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, more, plainMeta)
}

// postsPlain posts a request with the headers that a modern request needs.
func postsPlain(ctx context.Context, t *testing.T, c *webClient, body string, more ...string) *http.Response {
	t.Helper()
	name := gjson.Get(body, "params.name").String() + gjson.Get(body, "params.uri").String()
	return postAs(ctx, t, c, body, append([]string{"MCP-Protocol-Version", modernOnly, "Mcp-Method", gjson.Get(body, "method").String(), "Mcp-Name", mcpheader.Encode(name)}, more...)...)
}

func TestModernErrorsComeAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{
		{404, `{"jsonrpc":"2.0","id":1,"error":{"message":"no such", "code":-32601}}`},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"h"}}`},
		{400, `{"error":{"code":-32021,"message":"c","data":{"requiredCapabilities":{"sampling":{ }}}},"id":1,"jsonrpc":"2.0"}`},
		{200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"with 200"}}`},
		{429, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"slow down"}}`},
		{403, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not you"}}`},
	} {
		up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("WWW-Authenticate", "Bearer x")
			w.Header().Set("Retry-After", "3")
			sayJSON(w, c.status, c.body)
		})
		resp := postsPlain(t.Context(), t, before(t, up.URL), plainRequest("1", "prompts/get", `"name":"p",`))
		if got := read(t, resp); got != c.body || resp.StatusCode != c.status {
			t.Errorf("%d %s: got %d %s", c.status, c.body, resp.StatusCode, got)
		}
		if c.status >= 400 && (resp.Header.Get("WWW-Authenticate") != "Bearer x" || resp.Header.Get("Retry-After") != "3") {
			t.Errorf("%d: %v", c.status, resp.Header)
		}
	}
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { http.Error(w, "gone", 404) })
	resp := postsPlain(t.Context(), t, before(t, up.URL), plainRequest("1", "prompts/list", ""))
	if got := read(t, resp); resp.StatusCode != 404 || gjson.Get(got, "id").Raw != "1" || gjson.Get(got, "error.code").Int() != -32603 {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
}

// TestModernStreamGoesThroughEventByEvent: the client receives each event before the server sends
// the next one, and then the end of the stream.
func TestModernStreamGoesThroughEventByEvent(t *testing.T) {
	events := []string{
		`{"jsonrpc":"2.0", "method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1.0}}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/x","params":{ }}`,
		`{"id":1,"result":{"resultType":"complete"},"jsonrpc":"2.0"}`,
	}
	next := make(chan string, 1)
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for e := range next {
			io.WriteString(w, "data: "+e+"\n\n")
			w.(http.Flusher).Flush()
		}
	})
	next <- events[0]
	resp := postsPlain(t.Context(), t, before(t, up.URL), plainRequest("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", resp.Header)
	}
	in := bufio.NewScanner(resp.Body)
	for i, want := range events {
		if i > 0 {
			next <- want
		}
		for in.Scan() && in.Text() == "" {
		}
		if got := in.Text(); got != "data: "+want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	close(next)
	for in.Scan() {
		if in.Text() != "" {
			t.Errorf("more: %s", in.Text())
		}
	}
}

func TestClosingTheStreamClosesTheServers(t *testing.T) {
	for _, method := range []string{"prompts/get", "subscriptions/listen"} {
		gone := make(chan struct{})
		up := newPlainServer(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":7,\"progress\":1}}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(gone)
		})
		ctx, leave := context.WithCancel(t.Context())
		resp := postsPlain(ctx, t, before(t, up.URL), plainRequest("1", method, `"name":"p","notifications":{"toolsListChanged":true},`))
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil || !strings.Contains(line, "progress") {
			t.Fatalf("%q %v", line, err)
		}
		leave()
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatalf("%s: the server still sends messages without a client", method)
		}
		if n := up.Count("notifications/cancelled"); n != 0 {
			t.Error("a notification as well")
		}
	}
}

// TestDoubledHeaderIsRefused: a request with a doubled header is refused, since a proxy in between
// may read either value.
func TestDoubledHeaderIsRefused(t *testing.T) {
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) { sayJSON(w, 200, `{}`) })
	client := before(t, up.URL)
	for _, name := range []string{"Mcp-Name", "mcp-param-region", "Mcp-Method"} {
		resp := postsPlain(t.Context(), t, client, plainRequest("1", "prompts/get", `"name":"p",`), name, "p", name, "q")
		if got := read(t, resp); resp.StatusCode != 400 || gjson.Get(got, "error.code").Int() != -32020 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
	if got := up.Heard(); len(got) != 0 {
		t.Errorf("the server got %q", got)
	}
}
