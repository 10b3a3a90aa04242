package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// keeping configures the cache of results.
func keeping(c *config.Config) {
	c.Bridge.Cache = config.Cache{Bytes: 1 << 20, Entries: 100}
	c.Bridge.TTL = time.Minute
}

// clock is a time that does not pass by itself.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// standStill gives the cache of srv a clock that the test controls.
func (srv testServer) standStill() *clock {
	c := &clock{at: time.Unix(1_800_000_000, 0)}
	srv.Results.Now = c.now
	return c
}

// libraryResult returns a handshake server's result for each method whose results may be cached.
func libraryResult(method, m string) string {
	switch method {
	case "tools/list":
		return `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`
	case "prompts/list":
		return `"prompts":[]`
	case "resources/list":
		return `"resources":[]`
	case "resources/templates/list":
		return `"resourceTemplates":[]`
	case "resources/read":
		return `"contents":[{"uri":` + gjson.Get(m, "params.uri").Raw + `,"text":"x"}]`
	}
	return ""
}

const everything = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{}}`

func library() *fakeServer {
	return legacyServer(everything, func(id, method, m string) ([]string, error) {
		return one(result(id, libraryResult(method, m)))
	})
}

func modernRead(id, uri string, capabilities string) string {
	return modernRequestOf(id, "resources/read", fmt.Sprintf(`"uri":%q,`, uri)+meta(capabilities))
}

func modernList(id, method string) string { return modernRequestOf(id, method, meta(`{}`)) }

func TestResultsAreKeptForTheirTime(t *testing.T) {
	f := library()
	srv := front(t, f, keeping)
	clock := srv.standStill()
	for n, c := range []struct {
		passes time.Duration
		left   int64
		asked  int
	}{{0, 60_000, 1}, {0, 60_000, 1}, {time.Second, 59_000, 1}, {58_999 * time.Millisecond, 1, 1}, {time.Millisecond, 60_000, 2}, {time.Second, 59_000, 2}} {
		clock.pass(c.passes)
		id := fmt.Sprintf(`"%d"`, n)
		sameJSON(t, srv.modernly(modernList(id, "tools/list")).body,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":%d,"cacheScope":"private",%s}}`, id, c.left, identity))
		if got := len(f.said("tools/list")); got != c.asked {
			t.Errorf("%d: the server was asked %d times, want %d", n, got, c.asked)
		}
	}
	if hits := counted(t, srv.Metrics, "dragoman_cache_lookups_total", "outcome=hit"); hits != 4 {
		t.Errorf("%d hits", hits)
	}
}

func TestNothingIsKeptUnlessWanted(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"by default": func(*config.Config) {},
		"no room":    func(c *config.Config) { keeping(c); c.Bridge.Cache.Bytes = 0 },
		"no time":    func(c *config.Config) { keeping(c); c.Bridge.TTL = 0 },
		"too large":  func(c *config.Config) { keeping(c); c.Bridge.Cache.Bytes = 100 },
	} {
		f := library()
		srv := front(t, f, change)
		for range 3 {
			srv.modernly(modernList("1", "tools/list"))
		}
		if n := len(f.said("tools/list")); n != 3 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// TestOnlyCacheableResultsAreCached: errors, calls, retries and results with other params are not cached.
func TestOnlyCacheableResultsAreCached(t *testing.T) {
	f := library()
	script := f.Script
	f.Script = func(u *peertest.Turn) {
		if gjson.Get(u.Text, "params.uri").String() == "bad:" {
			u.Say(rpcError(u.ID, `"code":-32002,"message":"no"`))
			return
		}
		script(u)
	}
	srv := front(t, f, keeping)
	for _, body := range []string{
		modernRead("1", "bad:", `{}`),
		modernRequestOf("1", "resources/read", `"uri":"u:1","inputResponses":{},`+meta(`{}`)),
		modernRequestOf("1", "tools/call", `"name":"t",`+meta(`{}`)),
		modernRequestOf("1", "prompts/get", `"name":"t",`+meta(`{}`)),
	} {
		before := len(f.sent())
		for range 3 {
			srv.modernly(body)
		}
		method := gjson.Get(body, "method").String()
		n := 0
		for _, m := range f.sent()[before:] {
			if gjson.Get(m, "method").String() == method {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%s: asked %d times", body, n)
		}
	}
	before := len(f.said("resources/list"))
	for n := range 3 {
		srv.modernly(modernRequestOf("1", "resources/list", fmt.Sprintf(`"cursor":"%d",`, n)+meta(`{}`)))
	}
	if n := len(f.said("resources/list")) - before; n != 3 {
		t.Errorf("three pages of a list were asked for %d times", n)
	}
	if entries, _ := srv.Results.Size(); entries != 3 {
		t.Errorf("%d entries", entries)
	}
}

// TestCachedResultsAreNotSharedBetweenClients: a request with another token, or of another client, does not
// get a cached result, whatever cacheScope says.
func TestCachedResultsAreNotSharedBetweenClients(t *testing.T) {
	f := library()
	srv := front(t, f, keeping)
	asks := func(capabilities string, header ...string) {
		srv.modernly(modernRequestOf("1", "tools/list", meta(capabilities)), header...)
	}
	for range 2 {
		asks(`{}`)
		asks(`{}`, "Authorization", "Bearer a")
		asks(`{}`, "Authorization", "Bearer b")
		asks(`{"elicitation":{}}`, "Authorization", "Bearer b")
	}
	if n := len(f.said("tools/list")); n != 4 {
		t.Errorf("asked %d times", n)
	}
}

// TestTokensDoNotShareTheCacheByName: two tokens do not share cached results, even if a trusted proxy
// names one user for both.
func TestTokensDoNotShareTheCacheByName(t *testing.T) {
	f := library()
	srv := front(t, f, keeping, func(c *config.Config) { c.Bridge.Principal = "header:X-User" })
	for range 2 {
		srv.modernly(modernList("1", "tools/list"), "X-User", "ada", "Authorization", "Bearer a")
		srv.modernly(modernList("1", "tools/list"), "X-User", "ada", "Authorization", "Bearer b")
		srv.modernly(modernList("1", "tools/list"), "X-User", "eve", "Authorization", "Bearer a")
	}
	if n := len(f.said("tools/list")); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

func TestWhatHasChangedIsAskedForAgain(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := library()
		f.piped = piped
		srv := front(t, f, keeping)
		asked := func() (counts [5]int) {
			srv.modernly(modernList("1", "tools/list"))
			srv.modernly(modernList("1", "prompts/list"))
			srv.modernly(modernList("1", "resources/list"))
			srv.modernly(modernRead("1", "u:1/a", `{}`))
			srv.modernly(modernRead("1", "u:2", `{}`))
			for n, method := range [...]string{"tools/list", "prompts/list", "resources/list"} {
				counts[n] = len(f.said(method))
			}
			for _, m := range f.said("resources/read") {
				if gjson.Get(m, "params.uri").String() == "u:2" {
					counts[4]++
				} else {
					counts[3]++
				}
			}
			return counts
		}
		want := asked()
		if want != [5]int{1, 1, 1, 1, 1} {
			t.Fatal(want)
		}
		for _, c := range []struct {
			what, body string
			again      [5]int
		}{
			{"tools", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, [5]int{1}},
			{"prompts", `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, [5]int{0, 1}},
			{"resources", `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`, [5]int{0, 0, 1}},
			{"a resource", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u:2"}}`, [5]int{0, 0, 0, 0, 1}},
			{"what a resource is part of", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u:1"}}`, [5]int{0, 0, 0, 1}},
		} {
			entries, _ := srv.Results.Size()
			f.Unasked(c.body)
			eventually(t, c.what+" is dropped", func() bool { now, _ := srv.Results.Size(); return now < entries })
			for n, more := range c.again {
				want[n] += more
			}
			if got := asked(); got != want {
				t.Errorf("%s: asked %v, want %v", c.what, got, want)
			}
		}
	})
}

// TestAChangeDuringTheRequest: a result that was requested before a change is not cached.
func TestAChangeDuringTheRequest(t *testing.T) {
	f := library()
	f.on("tools/list", func(u *peertest.Turn) {
		u.Say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, result(u.ID, libraryResult(u.Method, "")))
	})
	srv := front(t, f, keeping)
	for range 2 {
		srv.modernly(modernList("1", "tools/list"))
	}
	if n := len(f.said("tools/list")); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestCacheIsDroppedWithoutAStandingStream: without a standing stream, changes are not noticed, so
// cached results are dropped.
func TestCacheIsDroppedWithoutAStandingStream(t *testing.T) {
	t.Run("the stream breaks", func(t *testing.T) {
		f := library()
		srv := front(t, f, keeping)
		srv.modernly(modernList("1", "tools/list"))
		f.lose(upstream.ErrClosed)
		eventually(t, "dropped", func() bool { n, _ := srv.Results.Size(); return n == 0 })
	})
	t.Run("the session ends", func(t *testing.T) {
		srv := front(t, library(), keeping)
		srv.modernly(modernList("1", "tools/list"))
		srv.Modern.Tend(time.Now().Add(24 * time.Hour))
		if n, bytes := srv.Results.Size(); n != 0 || bytes != 0 {
			t.Errorf("%d entries of %d bytes", n, bytes)
		}
	})
	t.Run("a new configuration", func(t *testing.T) {
		srv := front(t, library(), keeping)
		srv.modernly(modernList("1", "tools/list"))
		if err := srv.Reload(srv.Now().Config); err != nil {
			t.Fatal(err)
		}
		if n, _ := srv.Results.Size(); n != 0 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestKeptResultsAreBounded(t *testing.T) {
	f := library()
	srv := front(t, f, keeping, func(c *config.Config) { c.Bridge.Cache = config.Cache{Bytes: 4 << 10, Entries: 5} })
	read := func(n int) { srv.modernly(modernRead("1", fmt.Sprintf("u:%d", n), `{}`)) }
	for n := range 50 {
		read(n)
		read(0) // recently used results stay
		if entries, bytes := srv.Results.Size(); entries > 5 || bytes > 4<<10 || entries == 0 {
			t.Fatalf("%d entries of %d bytes", entries, bytes)
		}
	}
	if n := len(f.said("resources/read")); n != 50 {
		t.Errorf("asked %d times", n)
	}
	read(1)
	if n := len(f.said("resources/read")); n != 51 {
		t.Error("the oldest one is still there")
	}
}

// held is a server whose responses to resources/read wait for the gate.
func held(before ...string) (*fakeServer, chan struct{}) {
	gate := make(chan struct{}, 100)
	f := legacyServer(`{"resources":{}}`, nil)
	f.on("resources/read", func(u *peertest.Turn) {
		u.Say(before...)
		if u.Until(gate) {
			u.Say(result(u.ID, libraryResult(u.Method, u.Text)))
		}
	})
	f.NoGet = true
	return f, gate
}

// TestOneRequestAtATime: concurrent requests get the response to the first one, each with its own
// id.
func TestOneRequestAtATime(t *testing.T) {
	f, gate := held()
	srv := front(t, f, keeping)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			id := fmt.Sprint(n)
			if r := srv.modernly(modernRead(id, "u:1", `{}`)); gjson.Get(r.body, "id").Raw != id || !strings.Contains(r.body, `"text":"x"`) {
				t.Errorf("%+v", r)
			}
		})
	}
	eventually(t, "all wait", func() bool { return srv.Modern.Counts().Uses == 20 })
	close(gate)
	all.Wait()
	if n := len(f.said("resources/read")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestWaitingRequestsOutliveTheFirst: if the client of the first request leaves, the others still get
// the response.
func TestWaitingRequestsOutliveTheFirst(t *testing.T) {
	f, gate := held()
	srv := front(t, f, keeping)
	leaving, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	body := modernRead("1", "u:1", `{}`)
	all.Go(func() { srv.exchange(leaving, "POST", "", body, modernHeader(body)...) })
	eventually(t, "it asks", func() bool { return len(f.said("resources/read")) == 1 })
	for range 5 {
		all.Go(func() {
			if r := srv.modernly(modernRead("2", "u:1", `{}`)); !strings.Contains(r.body, `"text":"x"`) {
				t.Errorf("%+v", r)
			}
		})
	}
	eventually(t, "all wait", func() bool { return srv.Modern.Counts().Uses == 6 })
	leave()
	close(gate)
	all.Wait()
}

// TestWaitingRequestMayEndFirst: if a waiting client leaves, the first request continues.
func TestWaitingRequestMayEndFirst(t *testing.T) {
	f, gate := held()
	srv := front(t, f, keeping)
	var all sync.WaitGroup
	all.Go(func() {
		if r := srv.modernly(modernRead("1", "u:1", `{}`)); !strings.Contains(r.body, `"text":"x"`) {
			t.Errorf("%+v", r)
		}
	})
	eventually(t, "it asks", func() bool { return len(f.said("resources/read")) == 1 })
	leaving, leave := context.WithCancel(t.Context())
	body := modernRead("2", "u:1", `{}`)
	left := make(chan struct{})
	go func() {
		defer close(left)
		srv.exchange(leaving, "POST", "", body, modernHeader(body)...)
	}()
	eventually(t, "it waits", func() bool { return srv.Modern.Counts().Uses == 2 })
	leave()
	<-left
	close(gate)
	all.Wait()
	if n := len(f.said("resources/read")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestRequestsDoNotWaitForAnotherUsersAnswer: if the server asks the user, the other requests no longer wait
// for that call's result.
func TestRequestsDoNotWaitForAnotherUsersAnswer(t *testing.T) {
	f, gate := held(`{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}}`)
	srv := front(t, f, keeping)
	capabilities := `{"elicitation":{}}`
	asked := srv.modernly(modernRead("1", "u:1", capabilities))
	if gjson.Get(asked.body, "result.resultType").String() != "input_required" {
		t.Fatalf("%+v", asked)
	}
	other := srv.modernly(modernRead("2", "u:1", capabilities))
	if gjson.Get(other.body, "result.resultType").String() != "input_required" {
		t.Fatalf("%+v", other)
	}
	close(gate)
	done := srv.modernly(modernRequestOf("3", "resources/read", `"uri":"u:1","inputResponses":{"elicitation-1":{"action":"accept","content":{}}},"requestState":`+gjson.Get(asked.body, "result.requestState").Raw+`,`+meta(capabilities)))
	if !strings.Contains(done.body, `"text":"x"`) {
		t.Fatalf("%+v", done)
	}
	if n, _ := srv.Results.Size(); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestAnotherPrincipalDoesNotWait: its request goes to the server while the first one has no
// response.
func TestAnotherPrincipalDoesNotWait(t *testing.T) {
	f, gate := held()
	srv := front(t, f, keeping)
	var all sync.WaitGroup
	for n := range 2 {
		all.Go(func() { srv.modernly(modernRead("1", "u:1", `{}`), "Authorization", fmt.Sprint("Bearer ", n)) })
	}
	eventually(t, "both ask", func() bool { return len(f.said("resources/read")) == 2 })
	close(gate)
	all.Wait()
}
