package tests

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
)

// sharing is a server whose sessions share one process.
func sharing(t *testing.T, kids *family, change ...func(*config.Config)) testServer {
	t.Helper()
	o := kids.origin()
	o.Share()
	return frontOf(t, o, append([]func(*config.Config){quickly}, change...)...)
}

// last returns the id of the last message of a method that the server got.
func last(t *testing.T, f *fakeServer, method string) string {
	t.Helper()
	return gjson.Get(got(t, f, `"`+method+`"`), "id").Raw
}

func TestSessionsShareOneProcessAndItsHandshake(t *testing.T) {
	kids := newFamily(func(int) *fakeServer {
		f := silentPipe()
		f.Script = replies(func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() != "initialize" {
				return nil, nil
			}
			return one(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{},"tasks":{}},"serverInfo":{"name":"s","version":"2"}}}`)
		})
		return f
	})
	srv := sharing(t, kids)
	for i, version := range []string{"2024-11-05", "2025-11-25", "2025-06-18"} {
		r := srv.post("", strings.Replace(initialize(version, `{"sampling":{},"roots":{}}`), `"id":0`, fmt.Sprintf(`"id":"c%d"`, i), 1))
		result := gjson.Get(r.body, "result")
		if gjson.Get(r.body, "id").String() != fmt.Sprintf("c%d", i) || result.Get("protocolVersion").String() != version {
			t.Errorf("%s", r.body)
		}
		if c := result.Get("capabilities"); !c.Get("tools").Exists() || c.Get("logging").Exists() || c.Get("tasks").Exists() {
			t.Errorf("capabilities %s", c.Raw)
		}
		srv.post(r.header["Mcp-Session-Id"], initializedNotice)
	}
	f := kids.child(t, 0)
	hello := f.sent()
	if len(hello) != 2 || gjson.Get(hello[0], "params.capabilities").Raw != "{}" || hello[1] != initializedNotice || kids.count() != 1 {
		t.Errorf("%d processes, told %q", kids.count(), hello)
	}
}

func TestSharedProcessSeesEachIDOnce(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	one, two := srv.initialize("2025-06-18"), srv.initialize("2024-11-05")
	f := kids.child(t, 0)
	a := srv.call(f, one, callTool(`"x"`, `"t"`))
	ida := last(t, f, "tools/call")
	// Whatever names and doubled members a client sends, only dragoman's token reaches the server.
	b := srv.call(f, two, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","_meta":{"progressToken":`+ida+
		`,"progress\u0054oken":"t"}}}`)
	m := got(t, f, `\u0054`)
	idb := gjson.Get(m, "id").Raw
	if ida == idb || strings.Count(m, ":"+idb) != 3 {
		t.Errorf("ids %s and %s, in %s", ida, idb, m)
	}
	f.Unasked(progress(idb))
	f.Unasked(progress(ida))
	f.Unasked(progress(`99`))
	f.Unasked(answer(idb))
	f.Unasked(progress(idb)) // after the response: for no session
	f.Unasked(answer(ida))
	f.Unasked(answer(`99`))
	sameList(t, "one", (<-a.reply).events, []string{progress(`"t"`), answer(`"x"`)})
	sameList(t, "two", (<-b.reply).events, []string{progress(`"t"`), answer(`"x"`)})
	eventually(t, "the unrequested message is counted", func() bool {
		return counted(t, srv.Metrics, "dragoman_messages_dropped_total", "reason=unattributed") == 2 &&
			counted(t, srv.Metrics, "dragoman_messages_dropped_total", "reason=late_answer") == 1
	})
}

func TestSharedProcessMessagesThatBelongToNoRequest(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	one, two := srv.initialize("2025-06-18"), srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	subscribe := func(s, method string) {
		t.Helper()
		n := len(f.sent())
		reply := make(chan reply, 1)
		go func() {
			reply <- srv.post(s, `{"jsonrpc":"2.0","id":1,"method":"resources/`+method+`","params":{"uri":"a:b"}}`)
		}()
		eventually(t, "sent", func() bool { return len(f.sent()) > n })
		f.Unasked(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, last(t, f, "resources/"+method)))
		if r := <-reply; !strings.Contains(r.body, `"result":{}`) {
			t.Errorf("%+v", r)
		}
	}
	a, b := srv.open("GET", one, ""), srv.open("GET", two, "")
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	const updated = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`
	f.Unasked(logLine) // may be about the other session's call
	f.Unasked(changed)
	a.hears(changed)
	b.hears(changed)
	subscribe(one, "subscribe")
	f.Unasked(updated)
	f.Unasked(changed)
	a.hears(updated, changed)
	b.hears(changed)
	subscribe(two, "subscribe")
	if r := srv.post(one, `{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"a:b"}}`); !strings.Contains(r.body, `"result":{}`) {
		t.Errorf("%+v", r) // the other session still needs it: answered here
	}
	f.Unasked(updated)
	f.Unasked(changed)
	a.hears(changed)
	b.hears(updated, changed)
	for method, want := range map[string]string{
		"ping":                   `{"jsonrpc":"2.0","id":"q","result":{}}`,
		"sampling/createMessage": `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"Method not found: sampling/createMessage"}}`,
		"roots/list":             `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"Method not found: roots/list"}}`,
	} {
		f.Unasked(`{"jsonrpc":"2.0","id":"q","method":"` + method + `","params":{}}`)
		eventually(t, "answer to "+method, func() bool { all := f.sent(); return all[len(all)-1] == want })
	}
	a.leaves()
	b.leaves()
	srv.exchange(context.Background(), "DELETE", two, "")
	got(t, f, "resources/unsubscribe") // the last session that was subscribed
}

func TestWhatASessionCannotHaveOfASharedProcess(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	s := srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	n := len(f.sent())
	r := srv.post(s, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
	if gjson.Get(r.body, "error.code").Int() != mcp.CodeMethodNotFound {
		t.Errorf("%+v", r)
	}
	for _, m := range []string{
		initializedNotice, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, progress(`1`),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, // no request of dragoman
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		if r := srv.post(s, m); r.status != 202 {
			t.Errorf("%s: %+v", m, r)
		}
	}
	if all := f.sent(); len(all) != n {
		t.Errorf("went on: %q", all[n:])
	}
}

func TestCallsOfOneSessionAreCancelledAtASharedProcess(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	one, two := srv.initialize("2025-06-18"), srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	a := srv.call(f, one, callTool(`1`, `1`))
	ida := last(t, f, "tools/call")
	b := srv.call(f, two, callTool(`1`, `1`))
	srv.post(one, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if m := got(t, f, "cancelled"); gjson.Get(m, "params.requestId").Raw != ida {
		t.Errorf("%s, want %s", m, ida)
	}
	if r := <-a.reply; r.status != 202 {
		t.Errorf("%+v", r)
	}
	idb := last(t, f, "tools/call")
	srv.exchange(context.Background(), "DELETE", two, "") // its session ends while the call is open
	<-b.reply
	eventually(t, "cancelled", func() bool { return gjson.Get(got(t, f, "cancelled"), "params.requestId").Raw == idb })
	if srv.Table.Len() != 1 || kids.count() != 1 {
		t.Error("the other session is gone")
	}
}

func TestSharedProcessIsStartedAgainForAll(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	one, two := srv.initialize("2025-06-18"), srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	a, b := srv.call(f, one, callOne), srv.call(f, two, callOne)
	f.lose(exited)
	for _, c := range []calling{a, b} {
		if r := <-c.reply; gjson.Get(r.body, "id").Raw != "1" || !strings.Contains(r.body, "being restarted") {
			t.Errorf("%+v", r)
		}
	}
	next := kids.child(t, 1)
	c := srv.call(next, two, callSecond)
	next.Unasked(answer(last(t, next, "tools/call")))
	if r := <-c.reply; r.body != answer(`2`) {
		t.Errorf("%+v", r)
	}
	if hello := next.sent(); gjson.Get(hello[0], "method").String() != "initialize" || hello[1] != initializedNotice {
		t.Errorf("%q", hello)
	}
}

func TestSessionsEndWithTheirSharedProcessAndNewOnesStartAnother(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids, func(c *config.Config) { c.Upstream.Restart.Max = 0 })
	srv.initialize("2025-06-18")
	srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	eventually(t, "sessions ended", func() bool { return srv.Table.Len() == 0 })
	srv.initialize("2025-06-18")
	if kids.count() != 2 {
		t.Errorf("%d starts", kids.count())
	}
}

func TestSharedProcessThatDoesNotStart(t *testing.T) {
	kids := newFamily(silentChild)
	kids.refuse = func(nth int) error {
		if nth <= len(translate.Handshake()) { // each revision is proposed once
			return exited
		}
		return nil
	}
	srv := sharing(t, kids)
	r := srv.post("", strings.Replace(initialize("2025-06-18", `{}`), `"id":0`, `"id":"mine"`, 1))
	if gjson.Get(r.body, "id").String() != "mine" || !strings.Contains(r.body, "exit status 3") {
		t.Errorf("%+v", r)
	}
	srv.initialize("2025-06-18")
}

func TestSharedProcessEndsWithTheLastSessionThatBeganBeforeAReload(t *testing.T) {
	kids := newFamily(silentChild)
	srv := sharing(t, kids)
	s := srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	srv.Now().Origin.Shared.Retire()
	if f.ended() {
		t.Error("ended under its session")
	}
	srv.exchange(context.Background(), "DELETE", s, "")
	eventually(t, "ended", f.ended)
}

// TestManySessionsOfASharedProcess: under load no session receives another's messages.
func TestManySessionsOfASharedProcess(t *testing.T) {
	kids := newFamily(func(int) *fakeServer {
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() != "tools/call" {
				return nil, nil
			}
			return one(
				progress(gjson.Get(m, "params._meta.progressToken").Raw),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"for":%s}}`, gjson.Get(m, "id").Raw, gjson.Get(m, "params.name").Raw))
		}))
		f.piped = true
		return f
	})
	srv := sharing(t, kids)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := fmt.Sprint(i)
			r := srv.post("", initialize("2025-06-18", `{}`))
			s := r.header["Mcp-Session-Id"]
			for id := range 50 {
				r := srv.post(s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{"progressToken":"%s-%d"}}}`, id, name, name, id))
				if len(r.events) != 2 || gjson.Get(r.events[0], "params.progressToken").String() != fmt.Sprintf("%s-%d", name, id) ||
					gjson.Get(r.events[1], "id").Int() != int64(id) || gjson.Get(r.events[1], "result.for").String() != name {
					t.Errorf("session %d, call %d: %+v", i, id, r)
					return
				}
			}
		})
	}
	all.Wait()
	if kids.count() != 1 {
		t.Errorf("%d processes", kids.count())
	}
}

func TestRealProcessIsShared(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	const script = `n=0; while read -r line; do case "$line" in
		*'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}';;
		*tools/list*) n=$((n+1)); echo '{"jsonrpc":"2.0","id":'$n',"result":{"tools":[],"pid":'$$'}}';;
	esac; done`
	cfg := config.Default()
	cfg.Upstream.Command, cfg.Upstream.ShareChild = []string{sh, "-c", script}, true
	srv := frontOf(t, configured(t, cfg))
	pids := map[string]bool{}
	for range 3 {
		s := srv.initialize("2025-06-18")
		r := srv.post(s, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
		pids[gjson.Get(r.body, "result.pid").Raw] = true
		if gjson.Get(r.body, "id").Raw != `"a"` {
			t.Errorf("%+v", r)
		}
	}
	c := srv.pipe()
	c.initialize("2025-06-18", `{}`)
	c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	m := c.hear()
	pids[gjson.Get(m, "result.pid").Raw] = true
	if gjson.Get(m, "id").Raw != "7" || len(pids) != 1 {
		t.Errorf("%s; processes %v", m, pids)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}
