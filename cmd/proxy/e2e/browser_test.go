package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestWebPagesLogInThroughTheProxy lets a page of another origin log in through the proxy and call a tool, in a real browser,
// which sends preflight requests and hides answers that CORS does not allow the page to read.
func TestWebPagesLogInThroughTheProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts peers")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here: what browsers make of cors.origins is not tested")
	}
	m := nodePeers(t)
	proxy := build(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			fmt.Fprint(w, "logged in")
			return
		}
		http.ServeFile(w, r, "peers/page.html")
	}))
	t.Cleanup(web.Close)
	for _, c := range []struct {
		name, origins string
		want          []string
	}{
		{"listed", web.URL, []string{"initialize 401 challenge Bearer", "prm 200", "asm 200", "register 201", "authorize true", "token 200", "initialize 200 session true", "call 200 true", "end"}},
		{"not listed", "https://page.example", []string{"failed: TypeError: Failed to fetch", "end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			port := freePort(t)
			to := endpoint{over: streamable, url: "http://127.0.0.1:" + port + "/mcp", stderr: &output{}}
			flags := []string{"--config", config(t, "cors: {origins: ['"+c.origins+"']}\n")}
			err := proxy.serve(ctx, streamable, to, flags, func(served endpoint) error {
				defer guardedServer(t, m, port, served.url, "own")()
				page := web.URL + "/?base=" + url.QueryEscape(strings.TrimSuffix(served.url, "/mcp"))
				dom, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
					"--virtual-time-budget=15000", "--dump-dom", page).Output()
				if err != nil {
					return err
				}
				_, said, _ := strings.Cut(string(dom), `<pre id="out">`)
				said, _, _ = strings.Cut(said, "</pre>")
				lines := strings.Split(strings.TrimSpace(said), "\n")
				for i, want := range c.want {
					if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
						t.Errorf("no %q in\n%s", want, said)
						break
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v\n%s", err, to.stderr)
			}
		})
	}
}
