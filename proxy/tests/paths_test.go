package tests

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestHealthOfAListenerForOthers: the paths of health checks answer where other machines connect, under any name and without a token,
// although the server is away. The others of operators do not.
func TestHealthOfAListenerForOthers(t *testing.T) {
	waits(t)
	cfg := config.Default()
	cfg.Upstream.URL, cfg.HealthPaths, cfg.Auth.Tokens = "http://127.0.0.1:1/mcp", []string{"/", "/health/live"}, []string{"GYyTszHzLoNSj5Mj"}
	base, _ := startServingAt(t, newOf(t, cfg, zap.NewNop()), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1})
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	t.Cleanup(client.CloseIdleConnections)
	for path, want := range map[string]int{"/healthz": 200, "/ping": 200, "/": 200, "/health/live": 200, "/livez": 403, "/health": 403, "/mcp": 403} {
		req, err := http.NewRequest("GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "balancer.example"
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := bufio.NewReader(res.Body).ReadString(0)
		res.Body.Close()
		if res.StatusCode != want || (want == 200) != (body == "ok") {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// TestStreamAtAnotherPathBehindAGateway: sse_path says where clients on HTTP+SSE connect, and what they are told has the path of the
// gateway before it.
func TestStreamAtAnotherPathBehindAGateway(t *testing.T) {
	waits(t)
	f := newFake(initializing("2024-11-05", obliging))
	base, _ := listening(t, f, func(c *config.Config) {
		c.SSEPath, c.OAuth.PublicURL = "/events", "https://gw.example/team/mcp"
	})
	client := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(client.CloseIdleConnections)
	res, err := client.Get(base + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	told := ""
	for told == "" && lines.Scan() {
		told, _ = strings.CutPrefix(lines.Text(), "data: ")
		if !strings.Contains(lines.Text(), "data: ") {
			told = ""
		}
	}
	uri, ok := strings.CutPrefix(told, "/team")
	if !ok || !strings.HasPrefix(uri, "/messages?session=") {
		t.Fatalf("%q", told)
	}
	if status, _, body := visit(t, client, "POST", base+uri, initialize("2024-11-05", `{}`)); status != 202 {
		t.Errorf("%d %s", status, body)
	}
	for lines.Scan() && !strings.Contains(lines.Text(), `"protocolVersion"`) {
	}
	if !strings.Contains(lines.Text(), "2024-11-05") {
		t.Errorf("no answer: %q", lines.Text())
	}
	if status, _, body := visit(t, client, "GET", base+"/mcp", ""); status != 400 || !strings.Contains(body, "HTTP+SSE clients use /events") {
		t.Errorf("%d %s", status, body)
	}
}
