package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// modernHeaders returns the headers of a modern request.
func modernHeaders(body string, more ...string) []string {
	h := []string{"MCP-Protocol-Version", modernOnly, "Mcp-Method", gjson.Get(body, "method").String()}
	if uri := gjson.Get(body, "params.uri").String(); uri != "" {
		h = append(h, "Mcp-Name", uri)
	}
	return append(h, more...)
}

// TestDirectResultsAreCached: results are cached as the server's cacheScope and
// ttlMs allow, and returned with the request's id and the remaining ttlMs.
func TestDirectResultsAreCached(t *testing.T) {
	for _, c := range []struct {
		hints string
		asked int // requests that the server gets if each of two principals asks twice
	}{
		{`"ttlMs":3600000,"cacheScope":"public",`, 1},
		{`"ttlMs":3600000,"cacheScope":"private",`, 2},
		{`"ttlMs":0,"cacheScope":"public",`, 4},
		{`"cacheScope":"public",`, 4},
	} {
		up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
			sayJSON(w, 200, result(gjson.Get(body, "id").Raw, `"resultType":"complete","x":1.50,`+c.hints+`"contents":[]`))
		})
		client := before(t, up.URL, keeping, func(c *config.Config) { c.Bridge.TTL = time.Millisecond })
		last := int64(3_600_001)
		for n, who := range []string{"a", "a", "b", "b"} {
			id := fmt.Sprintf(`"%d"`, n)
			body := modernRead(id, "u:1", `{}`)
			got := read(t, postAs(t.Context(), t, client, body, modernHeaders(body, "Authorization", who)...))
			if gjson.Get(got, "id").Raw != id || !strings.Contains(got, `"x":1.50`) {
				t.Errorf("%s: %s", c.hints, got)
			}
			if left := gjson.Get(got, "result.ttlMs").Int(); c.asked == 1 && (left > last || left < 3_000_000) {
				t.Errorf("%d ms are left, of %d", left, last)
			} else {
				last = left
			}
		}
		if n := up.Count("resources/read"); n != c.asked {
			t.Errorf("%s: asked %d times, want %d", c.hints, n, c.asked)
		}
	}
}

// TestDirectRetriesAreNotCached: neither input_required results nor the
// results of their retries are cached.
func TestDirectRetriesAreNotCached(t *testing.T) {
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		id := gjson.Get(body, "id").Raw
		if gjson.Get(body, "params.inputResponses").Exists() || gjson.Get(body, "params.requestState").Exists() {
			sayJSON(w, 200, result(id, `"resultType":"complete","ttlMs":3600000,"cacheScope":"public","contents":[]`))
			return
		}
		sayJSON(w, 200, result(id, `"resultType":"input_required","ttlMs":3600000,"cacheScope":"public","inputRequests":{},"requestState":"s"`))
	})
	client := before(t, up.URL, keeping)
	for n := range 3 {
		for _, more := range []string{"", `"inputResponses":{},`, `"requestState":"s",`} {
			body := modernRequestOf("1", "resources/read", `"uri":"u:1",`+more+meta(`{}`))
			got := read(t, postAs(t.Context(), t, client, body, modernHeaders(body)...))
			if is := gjson.Get(got, "result.resultType").String(); (is == "complete") != (more != "") {
				t.Errorf("%s: %s", more, got)
			}
		}
		if got := up.Count("resources/read"); got != 3*(n+1) {
			t.Errorf("asked %d times", got)
		}
	}
}

// TestDirectCacheIsInvalidatedByChanges: a change notification on any stream invalidates
// cached results.
func TestDirectCacheIsInvalidatedByChanges(t *testing.T) {
	up := newPlainServer(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		id := gjson.Get(body, "id").Raw
		if gjson.Get(body, "method").String() == "tools/call" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, result(id, `"resultType":"complete","content":[]`))
			return
		}
		sayJSON(w, 200, result(id, `"resultType":"complete","ttlMs":3600000,"prompts":[]`))
	})
	client := before(t, up.URL, keeping)
	list := func() {
		body := modernList("1", "prompts/list")
		read(t, postAs(t.Context(), t, client, body, modernHeaders(body)...))
	}
	list()
	list()
	body := modernRequestOf("2", "tools/call", `"name":"t",`+meta(`{}`))
	read(t, postAs(t.Context(), t, client, body, modernHeaders(body, "Mcp-Name", "t")...))
	list()
	if n := up.Count("prompts/list"); n != 2 {
		t.Errorf("asked %d times", n)
	}
}
