package command

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWhereItListens: a port alone is one of this machine.
func TestWhereItListens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "listen: 127.0.0.1:9001\n")
	for args, want := range map[string]string{
		"http://a/":                              "127.0.0.1:8808",
		"--port 9000 http://a/":                  "127.0.0.1:9000",
		"--port 0 http://a/":                     "127.0.0.1:0",
		"--listen 9000 http://a/":                "127.0.0.1:9000",
		"--listen :9000 http://a/":               ":9000",
		"--config " + file + " http://a/":        "127.0.0.1:9001",
		"--config " + file + " --port 9000 -- x": "127.0.0.1:9000",
	} {
		if got := settingsOf(t, strings.Fields(args)...).Listen; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// TestOriginsOnTheCommandLine: --cors takes an origin, in the same argument or in the next one, and alone means every page.
func TestOriginsOnTheCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "cors: {origins: [https://of.the.file], headers: [X-Tenant]}\n")
	for args, want := range map[string]string{
		"http://a/mcp":                                "",
		"--cors http://a/mcp":                         "*",
		"http://a/mcp --cors":                         "*",
		"--cors -- x":                                 "*",
		"--cors * http://a/mcp":                       "*",
		"--cors https://page.example http://a/mcp":    "https://page.example",
		"--cors=https://page.example http://a/mcp":    "https://page.example",
		"http://a/mcp --cors https://page.example":    "https://page.example",
		"--cors https://a:1 --cors https://b -- x":    "https://a:1 https://b",
		"--cors -- x --cors https://page.example":     "*",
		"--config " + file + " --cors https://b -- x": "https://of.the.file https://b",
	} {
		cfg := settingsOf(t, withOrigins(strings.Fields(args))...)
		if got := strings.Join(cfg.CORS.Origins, " "); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
		if strings.HasSuffix(args, "--cors https://page.example") && len(cfg.Upstream.Command) > 0 && !slices.Equal(cfg.Upstream.Command, []string{"x", "--cors", "https://page.example"}) {
			t.Errorf("%s: %q", args, cfg.Upstream.Command)
		}
	}
}

// TestEveryPageMayConnect: with --cors a page of any origin calls a server, but not without a token where one is needed.
func TestEveryPageMayConnect(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "GYyTszHzLoNSj5Mj"} {
		p := startProcess(t, environ("DRAGOMAN_AUTH_TOKENS="+token, "DRAGOMAN_CORS_HEADERS=X-Tenant"), "serve", "--port", "0", "--cors", "http://127.0.0.1:1/mcp")
		url := p.runs(t)
		if _, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")); err != nil || port == "0" {
			t.Errorf("serving at %s", url)
		}
		const warning = "any web page in a browser that reaches this listener can use the server"
		client := &http.Client{Transport: new(http.Transport)}
		defer client.CloseIdleConnections()
		ask := func(method, authorization string) *http.Response {
			req, err := http.NewRequest(method, url, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Origin": {"https://page.example"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if method == "OPTIONS" {
				req.Header.Set("Access-Control-Request-Method", "POST")
				req.Header.Set("Access-Control-Request-Headers", "authorization, x-tenant, x-other")
			}
			if authorization != "" {
				req.Header.Set("Authorization", authorization)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if got := res.Header.Get("Access-Control-Allow-Origin"); got != "https://page.example" {
				t.Errorf("%s: Access-Control-Allow-Origin: %q", method, got)
			}
			return res
		}
		if got := ask("OPTIONS", "").Header.Get("Access-Control-Allow-Headers"); got != "authorization, x-tenant" {
			t.Errorf("Access-Control-Allow-Headers: %q", got)
		}
		if status := ask("POST", "").StatusCode; (status == 401) != (token != "") {
			t.Errorf("token %q: %d without it", token, status)
		}
		if status := ask("POST", "Bearer "+token).StatusCode; status == 401 {
			t.Errorf("token %q: %d with it", token, status)
		}
		if told := len(p.lines(warning)) > 0; told != (token == "") {
			t.Errorf("token %q: warned %v", token, told)
		}
	}
}
