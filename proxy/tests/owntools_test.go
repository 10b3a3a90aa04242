package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// fakeTools are own tools whose calls answer as do says.
type fakeTools struct {
	names []string
	words string
	do    func(ctx context.Context, c *owntools.Call) string

	mu    sync.Mutex
	ended []string
}

// echoing returns the name and the arguments of the call.
func echoing(names ...string) *fakeTools {
	return &fakeTools{names: names, do: func(_ context.Context, c *owntools.Call) string { return c.Tool + string(c.Arguments) }}
}

func (f *fakeTools) Grants() []string { return nil }

func (f *fakeTools) Tools(string) (all []owntools.Tool) {
	for _, name := range f.names {
		all = append(all, owntools.Tool{Name: name, JSON: fmt.Appendf(nil, `{"name":%q,"title":"Ours","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, name)})
	}
	return all
}

func (f *fakeTools) Call(ctx context.Context, c *owntools.Call) ([]byte, error) {
	return c.Answer(ctx, []byte(`{"content":[{"type":"text","text":`+string(wire.AppendQuoted(nil, f.do(ctx, c)))+`}]}`))
}

func (f *fakeTools) Instructions(string) string { return f.words }

func (f *fakeTools) EndSession(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, session)
}

func (f *fakeTools) sessionsEnded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ended...)
}

// page answers tools/list with tools of these names, and with the cursor next if it is not "".
func page(m, next string, names ...string) string {
	var tools []string
	for _, n := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, n))
	}
	result := `{"tools":[` + strings.Join(tools, ",") + `]`
	if next != "" {
		result += fmt.Sprintf(`,"nextCursor":%q`, next)
	}
	return string(mcp.AppendResult(nil, []byte(gjson.Get(m, "id").Raw), result+"}"))
}

// listing is a server with two pages of tools.
func listing(version string, first, second []string) *fakeServer {
	return newFake(initializing(version, func(m string) ([]string, error) {
		switch {
		case gjson.Get(m, "method").String() == "tools/call":
			return one(string(mcp.AppendResult(nil, []byte(gjson.Get(m, "id").Raw), `{"content":[{"type":"text","text":"theirs"}]}`)))
		case gjson.Get(m, "params.cursor").String() == "2":
			return one(page(m, "", second...))
		}
		return one(page(m, "2", first...))
	}))
}

func names(list string) string {
	var out []string
	for _, n := range gjson.Get(list, "result.tools.#.name").Array() {
		out = append(out, n.String())
	}
	return strings.Join(out, " ")
}

const (
	listTools  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	listSecond = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}`
)

func callOurs(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
}

// beside starts a proxy with these own tools in front of f.
func beside(t *testing.T, f *fakeServer, own ...owntools.Source) testServer {
	t.Helper()
	return frontWith(t, f.origin(), own)
}

func frontWith(t *testing.T, o origin.Origin, own []owntools.Source, change ...func(*config.Config)) testServer {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	for _, c := range change {
		c(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.NewWith(cfg, zap.New(core), o, own...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return testServer{srv, t, logs}
}

func TestOwnToolsAreOnTheLastPage(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-11-25"} {
		srv := beside(t, listing("2025-06-18", []string{"a", "b"}, []string{"c"}), echoing("ours_b", "ours_a"))
		session := srv.initialize(version)
		first := srv.post(session, listTools).body
		if names(first) != "a b" || gjson.Get(first, "result.nextCursor").String() != "2" {
			t.Errorf("first page for %s: %s", version, first)
		}
		second := srv.post(session, listSecond).body
		if names(second) != "c ours_b ours_a" {
			t.Errorf("last page for %s: %s", version, second)
		}
		if got := gjson.Get(second, "result.tools.1.annotations").Exists(); got != (version != "2024-11-05") {
			t.Errorf("annotations of our tool for %s: %v", version, got)
		}
	}
}

func TestOwnToolIsCalledHere(t *testing.T) {
	f := listing("2025-06-18", nil, nil)
	srv := beside(t, f, echoing("ours"))
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		session := srv.initialize(version)
		sameJSON(t, srv.post(session, callOurs(7, "ours", `{"a":[1,"ä"]}`)).body,
			`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"ours{\"a\":[1,\"ä\"]}"}]}}`)
	}
	for _, m := range f.sent() {
		if strings.Contains(m, "tools/call") {
			t.Errorf("the server got %s", m)
		}
	}
	if n := srv.outcomes(metrics.Local, "tools/call"); n != 4 {
		t.Errorf("%d calls counted as answered here", n)
	}
}

func TestCallOfAToolOfTheServerGoesThere(t *testing.T) {
	srv := beside(t, listing("2025-06-18", nil, nil), echoing("ours"))
	session := srv.initialize("2025-06-18")
	if got := srv.post(session, callOurs(7, "theirs", `{}`)).body; !strings.Contains(got, "theirs") {
		t.Errorf("got %s", got)
	}
}

func TestServersToolWithAnOwnToolsNameIsHidden(t *testing.T) {
	f := listing("2025-06-18", []string{"ours", "b"}, []string{"c", "ours"})
	srv := beside(t, f, echoing("ours"))
	session := srv.initialize("2025-06-18")
	if got := names(srv.post(session, listTools).body); got != "b" {
		t.Errorf("first page: %s", got)
	}
	if got := names(srv.post(session, listSecond).body); got != "c ours" {
		t.Errorf("last page: %s", got)
	}
	for _, call := range []string{
		callOurs(3, "ours", `{}`),
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"n\u0061me":"\u006furs","arguments":{}}}`,
	} {
		if got := srv.post(session, call).body; !strings.Contains(got, `"ours{}"`) {
			t.Errorf("%s got %s", call, got)
		}
	}
	for _, call := range []string{
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b","name":"ours","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ours","name":"b","arguments":{}}}`,
	} {
		if got := srv.post(session, call).body; gjson.Get(got, "error.code").Int() != -32600 {
			t.Errorf("%s got %s", call, got)
		}
	}
	if n := counted(t, srv.Metrics, "dragoman_shadowed_tools_total", "tool=ours"); n != 2 {
		t.Errorf("counted %d", n)
	}
	if n := srv.logs.FilterMessageSnippet("has the name of an adapter tool").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestInitializeSpeaksOfOwnTools(t *testing.T) {
	f := newFake(replies(func(m string) ([]string, error) {
		return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":null,"prompts":{}},"serverInfo":{"name":"s","version":"2"},"instructions":"Theirs."}}`, gjson.Get(m, "id").Raw))
	}))
	own := echoing("ours")
	own.words = "Ours."
	srv := beside(t, f, own)
	for _, version := range []string{"2024-11-05", "2025-11-25"} {
		got := srv.post("", initialize(version, `{}`)).body
		if !gjson.Get(got, "result.capabilities.tools.listChanged").Bool() || !gjson.Get(got, "result.capabilities.prompts").Exists() {
			t.Errorf("capabilities for %s: %s", version, got)
		}
		if text := gjson.Get(got, "result.instructions").String(); text != "Theirs.\n\nOurs." {
			t.Errorf("instructions for %s: %q", version, text)
		}
	}
}

func TestServerWithoutToolsIsNotAskedForThem(t *testing.T) {
	f := newFake(replies(func(m string) ([]string, error) {
		if gjson.Get(m, "method").String() != "initialize" {
			return nil, errors.New("asked")
		}
		return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`, gjson.Get(m, "id").Raw))
	}))
	srv := beside(t, f, echoing("ours"))
	session := srv.initialize("2025-03-26")
	if got := names(srv.post(session, listTools).body); got != "ours" {
		t.Errorf("list: %s", got)
	}
	sameJSON(t, srv.post(session, listSecond).body, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Unknown cursor: the list has changed; ask for it again without a cursor"}}`)
	sameJSON(t, srv.post(session, callOurs(3, "other", `{}`)).body, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool"}}`)
	if n := len(f.sent()); n != 1 {
		t.Errorf("the server got %d messages", n)
	}
}

func TestOwnToolsRemainWhenTheServerIsAway(t *testing.T) {
	f := listing("2025-06-18", []string{"a"}, []string{"b"})
	srv := beside(t, f, echoing("ours"))
	session := srv.initialize("2025-06-18")
	f.First = failing(func(string) error { return &upstream.Error{Op: "connect", Err: errors.New("refused")} })
	if got := srv.post(session, listTools); names(got.body) != "ours" {
		t.Errorf("list: %+v", got)
	}
	if got := srv.post(session, listSecond); got.status != 200 || gjson.Get(got.body, "error.code").Int() != -32603 {
		t.Errorf("a page in the middle: %+v", got)
	}
	if got := srv.post(session, callOurs(3, "ours", `{}`)).body; !strings.Contains(got, `"ours{}"`) {
		t.Errorf("call: %s", got)
	}
}

func TestOwnToolsRemainWhenTheServersPipeIsBroken(t *testing.T) {
	broken := func(string) error { return &upstream.Error{Op: "write", Err: errors.New("broken pipe")} }
	f := listing("2025-06-18", []string{"a"}, nil)
	f.piped = true
	srv := beside(t, f, echoing("ours"))
	session := srv.initialize("2025-06-18")
	f.First = failing(broken)
	if got := srv.post(session, listTools); names(got.body) != "ours" {
		t.Errorf("over HTTP: %+v", got)
	}

	f = listing("2025-06-18", []string{"a"}, nil)
	f.piped = true
	c := beside(t, f, echoing("ours")).pipe()
	c.say(initialize("2025-06-18", `{}`))
	c.hear()
	f.First = failing(broken)
	c.say(listTools)
	if got := c.hear(); names(got) != "ours" {
		t.Errorf("on a pipe: %s", got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestPanicInAnOwnToolIsAnErrorOfTheTool(t *testing.T) {
	own := echoing("ours")
	own.do = func(context.Context, *owntools.Call) string { panic("no") }
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	session := srv.initialize("2025-06-18")
	sameJSON(t, srv.post(session, callOurs(3, "ours", `{}`)).body,
		`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"internal error"}],"isError":true}}`)
	if srv.logs.FilterMessage("panic").Len() != 1 {
		t.Error("the panic was not logged")
	}
}

// blocking answers only when its context ends, and reports that.
func blocking(name string) (own *fakeTools, begun, over chan string) {
	begun, over = make(chan string, 10), make(chan string, 10)
	own = echoing(name)
	own.do = func(ctx context.Context, c *owntools.Call) string {
		begun <- c.Tool
		<-ctx.Done()
		over <- context.Cause(ctx).Error()
		return "late"
	}
	return own, begun, over
}

func TestOwnCallEndsWhenItsClientCancels(t *testing.T) {
	own, begun, over := blocking("ours")
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	session := srv.initialize("2025-06-18")
	got := make(chan reply)
	go func() { got <- srv.post(session, callOurs(3, "ours", `{}`)) }()
	<-begun
	srv.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	if why := <-over; why != requests.ErrCancelled.Error() {
		t.Errorf("ended by %s", why)
	}
	if r := <-got; r.status != 202 || r.body != "" {
		t.Errorf("got %+v", r)
	}
	if n := srv.outcomes(metrics.Cancelled, "tools/call"); n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestOwnCallEndsWhenItsClientLeaves(t *testing.T) {
	own, begun, over := blocking("ours")
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	session := srv.initialize("2025-06-18")
	ctx, leave := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.exchange(ctx, "POST", session, callOurs(3, "ours", `{}`))
	}()
	<-begun
	leave(downstream.ErrClientLeft)
	<-over
	<-done
	if n := srv.outcomes(metrics.Left, "tools/call"); n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestOwnCallsCountAsOpenRequests(t *testing.T) {
	own, begun, _ := blocking("ours")
	srv := frontWith(t, listing("2025-06-18", nil, nil).origin(), []owntools.Source{own}, func(c *config.Config) { c.Limits.OpenRequests = 1 })
	session := srv.initialize("2025-06-18")
	ctx, leave := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.exchange(ctx, "POST", session, callOurs(3, "ours", `{}`))
	}()
	<-begun
	if r := srv.post(session, callOurs(4, "ours", `{}`)); r.status != 503 {
		t.Errorf("got %+v", r)
	}
	leave(downstream.ErrClientLeft)
	<-done
}

func TestOwnCallInABatch(t *testing.T) {
	srv := beside(t, listing("2025-06-18", []string{"a"}, nil), echoing("ours"))
	session := srv.initialize("2025-03-26")
	got := srv.post(session, "["+callOurs(1, "ours", `{"n":1}`)+","+callOurs(2, "theirs", `{}`)+","+callOurs(3, "ours", `{"n":3}`)+"]").body
	var texts []string
	for _, answer := range gjson.Parse(got).Array() {
		texts = append(texts, answer.Get("result.content.0.text").String())
	}
	if strings.Join(texts, " ") != `ours{"n":1} theirs ours{"n":3}` {
		t.Errorf("got %s", got)
	}
}

func TestOwnCallsOnAPipe(t *testing.T) {
	for _, piped := range []bool{false, true} {
		own, begun, over := blocking("slow")
		quick := echoing("quick")
		f := listing("2025-06-18", []string{"a"}, []string{"quick", "b"})
		f.piped = piped
		c := beside(t, f, own, quick).pipe()
		c.say(initialize("2024-11-05", `{}`))
		c.hear()
		c.say(callOurs(1, "slow", `{}`))
		<-begun
		c.say(callOurs(2, "quick", `{"n":2}`)) // not after the slow one
		c.hears(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"quick{\"n\":2}"}]}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if why := <-over; why != requests.ErrCancelled.Error() {
			t.Errorf("piped %v: ended by %s", piped, why)
		}
		c.say(listSecond)
		if got := names(c.hear()); got != "b slow quick" {
			t.Errorf("piped %v: listed %s", piped, got)
		}
		c.say("[" + callOurs(5, "quick", `{}`) + "]")
		if got := c.hear(); !strings.HasPrefix(got, "[") && !strings.Contains(got, "batching") {
			t.Errorf("piped %v: array got %s", piped, got)
		}
		if err := c.end(); err != nil {
			t.Errorf("piped %v: %v", piped, err)
		}
		if ended := quick.sessionsEnded(); len(ended) != 1 {
			t.Errorf("piped %v: sessions ended: %q", piped, ended)
		}
	}
}

func TestOwnToolsLearnThatASessionEnded(t *testing.T) {
	own := echoing("ours")
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	session := srv.initialize("2025-06-18")
	var caller owntools.Call
	own.do = func(_ context.Context, c *owntools.Call) string { caller = *c; return "" }
	srv.post(session, callOurs(1, "ours", `{}`), "Authorization", "Bearer secret", "traceparent", "00-1-2-01")
	if caller.Session != session || caller.Caller == "" || strings.Contains(caller.Caller, "secret") ||
		len(caller.Header) != 1 || caller.Header[0].Value != "00-1-2-01" {
		t.Errorf("the call was %+v", caller)
	}
	if r := srv.exchange(context.Background(), "DELETE", session, ""); r.status >= 300 && r.status != 405 {
		t.Fatalf("%+v", r)
	}
	srv.Close()
	if got := own.sessionsEnded(); len(got) != 1 || got[0] != session {
		t.Errorf("ended: %q", got)
	}
}

func TestTwoOwnToolsWithOneName(t *testing.T) {
	_, err := proxy.NewWith(config.Default(), zap.NewNop(), newFake(nil).origin(), echoing("a", "b"), echoing("b"))
	if err == nil || !strings.Contains(err.Error(), "b") {
		t.Errorf("error %v", err)
	}
}
