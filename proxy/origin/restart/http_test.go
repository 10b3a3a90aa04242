package restart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/changes"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

func TestRenewingEndsWithTheContextOfItsClient(t *testing.T) {
	c := &HTTP{session: new(owner), renewing: &renewal{done: make(chan struct{})}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Renew(ctx, 0, nil); err == nil {
		t.Error("no error")
	}
}

// forgetful is a server over Streamable HTTP that can lose its sessions.
type forgetful struct {
	*peertest.Server
	peertest.Replies
	http *upstream.HTTP
	get  atomic.Pointer[func(u *peertest.Turn) (refused bool)] // called before a stream is granted; nil for none
}

func newForgetful(t *testing.T) *forgetful {
	f := &forgetful{Replies: peertest.Replies{Results: map[string]string{
		"initialize":          `{"protocolVersion":"` + translate.Latest().Name + `","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`,
		"logging/setLevel":    `{}`,
		"resources/subscribe": `{}`, "resources/unsubscribe": `{}`,
		"tools/call": `{"content":[]}`,
		"ping":       `{}`,
	}, Errors: map[string]string{}}}
	f.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.Text == http.MethodGet:
			if before := f.get.Load(); before != nil && (*before)(u) {
				return
			}
			u.Say(fmt.Sprintf("{\"stream\":%d}\nid: %d", len(f.Heard()), len(f.Heard())))
			<-u.Ctx.Done()
		case u.Text == http.MethodDelete:
			u.Refuse(http.StatusOK)
		case u.Method == "initialize" && f.Errors["initialize"] == "":
			u.Open()
			f.Answer(u)
		default:
			f.Answer(u)
		}
	})
	f.Sessions, f.Every = true, true
	var err error
	if f.http, err = upstream.NewHTTP(upstream.HTTPConfig{URL: f.At().URL, MaxMessage: 2 << 10}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.http.Close() })
	return f
}

// owner is the client's session, in which the server has asked something.
type owner struct{ open [][]byte }

func (o *owner) Restarted() []string    { return nil }
func (o *owner) DropRequests() [][]byte { return o.open }
func (o *owner) Over() bool             { return false }

// session begins a session with the server, as named or with initialize if that is "".
func (f *forgetful) session(t *testing.T, named string, s *store.Store) *HTTP {
	t.Helper()
	version := translate.Latest().HeaderName()
	resume := func(id, version string) *upstream.Begun {
		c := f.http.Session(id, version)
		return &upstream.Begun{Conn: c, Web: c}
	}
	conn := resume(named, version).Web
	if named == "" {
		st, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(peertest.Initialize(translate.Latest().Name, "{}")), Request: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := upstream.First(st); err != nil {
			t.Fatal(err)
		}
		named = st.SessionID()
		st.Close()
		conn.SetSession(named, version)
	}
	cfg, none := config.Default(), func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(16<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	t.Cleanup(func() {
		h.Close()
		h.Wait()
	})
	if h.Store = s; s != nil {
		h.Changes = changes.Open(s, func() {})
		t.Cleanup(h.Changes.Close)
	}
	c := OverHTTP(h, sealed.Session{Made: time.Now(), Named: named, ClientRevision: translate.Oldest(), ServerRevision: translate.Latest(), ClientInfo: `{"name":"c","version":"7"}`}, conn,
		func() func(id, version string) *upstream.Begun { return resume })
	c.Bind(&owner{open: [][]byte{[]byte(`"q9"`)}}, true)
	return c
}

func send(t *testing.T, c *HTTP, body string) error {
	t.Helper()
	st, err := c.Send(t.Context(), &upstream.Outgoing{Body: []byte(body), Request: gjson.Get(body, "id").Exists() && gjson.Get(body, "method").Exists()})
	if err == nil && st != nil {
		_, err = upstream.First(st)
		st.Close()
	}
	return err
}

const (
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	setLevel    = `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`
	subscribe   = `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:b"}}`
	rootsChange = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	answers     = `{"jsonrpc":"2.0","id":"q9","result":{}}`
)

// methods returns what came in a session, by method; GET for a stream.
func (f *forgetful) methods(n int) (all []string) {
	for _, m := range f.In(f.Opened()[n].ID) {
		all = append(all, strings.TrimPrefix(m.Text[:min(3, len(m.Text))], "{\"j")+gjson.Get(m.Text, "method").String())
	}
	return all
}

// TestLostSessionIsReplaced by one that knows of the client what the lost one knew. What the server refused is sent again, but
// for the answer to a question of the lost session.
func TestLostSessionIsReplaced(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	for _, m := range []string{initialized, setLevel, subscribe} {
		if err := send(t, c, m); err != nil {
			t.Fatal(err)
		}
	}
	for n, m := range []string{rootsChange, answers} {
		f.Forget()
		if err := send(t, c, m); err != nil {
			t.Fatal(err)
		}
		if c.Number() != uint64(n+1) || c.SessionID() != f.Opened()[n+1].ID {
			t.Errorf("%d renewals, session %s", c.Number(), c.SessionID())
		}
		restored := []string{"initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"}
		if m == rootsChange {
			restored = append(restored, "notifications/roots/list_changed")
		}
		if got := f.methods(n + 1); !slices.Equal(got, restored) {
			t.Errorf("the new session got %q, want %q", got, restored)
		}
	}
	for _, m := range f.Of("initialize")[1:] {
		if got := gjson.Get(m.Text, "params.clientInfo").Raw; got != `{"name":"c","version":"7"}` {
			t.Errorf("the server sees the client %s", got)
		}
	}
}

// TestStandingStreamGoesOn after it breaks off, behind the last event, and in the session that replaces a lost one, where the client
// learns what it has missed.
func TestStandingStreamGoesOn(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	for _, m := range []string{initialized, subscribe} {
		if err := send(t, c, m); err != nil {
			t.Fatal(err)
		}
	}
	st, err := c.Stand(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		e, err := upstream.First(st)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Data)
	}
	if got := next(); got != `{"stream":4}` {
		t.Error(got)
	}
	var conflicts atomic.Int64
	still := func(u *peertest.Turn) bool { // the server has not noticed yet that the stream has broken off
		first := conflicts.Add(1) == 1
		if first {
			u.Refuse(http.StatusConflict)
		}
		return first
	}
	f.get.Store(&still)
	f.Cut()
	if got, m := next(), f.Last(); got != `{"stream":6}` || m.Text != "GET" || m.Header.Get("Last-Event-ID") != "4" {
		t.Errorf("%s, after GET behind %q", got, m.Header.Get("Last-Event-ID"))
	}

	f.Forget()
	if err := send(t, c, rootsChange); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 4 {
		got = append(got, next())
	}
	want := []string{string(mcp.Cancelled(`"q9"`, "the server has lost the session")), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, string(mcp.Updated("a:b"))}
	if !slices.Equal(got[:3], want) || !strings.HasPrefix(got[3], `{"stream":`) {
		t.Errorf("got %q, want %q and the new stream", got, want)
	}
	if m := f.Last(); m.Text != "GET" || m.Session != f.Opened()[1].ID || m.Header.Get("Last-Event-ID") != "" {
		t.Errorf("the last request is %s behind %q", m.Text, m.Header.Get("Last-Event-ID"))
	}
	st.Close()
	if _, err := upstream.First(st); err != upstream.ErrClosed {
		t.Errorf("ended with %v", err)
	}
}

// TestAResumedStreamEndsWithThatOfTheServer: it may be the stream of a call, which ends at once however often it is opened again. In a session that
// replaces a lost one, it is a standing stream like others.
func TestAResumedStreamEndsWithThatOfTheServer(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	if err := send(t, c, initialized); err != nil {
		t.Fatal(err)
	}
	closes := func(u *peertest.Turn) bool {
		u.Say("{\"resumed\":true}\nid: 9")
		return true
	}
	f.get.Store(&closes)
	st, err := c.Stand(t.Context(), upstream.ListenOptions{LastEventID: "8"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if e, err := upstream.First(st); err != nil || string(e.Data) != `{"resumed":true}` {
		t.Fatalf("%s, %v", e.Data, err)
	}
	if e, err := upstream.First(st); err != io.EOF {
		t.Errorf("it goes on: %s, %v", e.Data, err)
	}

	f.get.Store(nil)
	other, err := c.Stand(t.Context(), upstream.ListenOptions{LastEventID: "9"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := upstream.First(other); err != nil {
		t.Fatal(err)
	}
	f.Forget()
	if err := send(t, c, rootsChange); err != nil {
		t.Fatal(err)
	}
	for again := false; !again; { // behind what the client is told of the loss
		e, err := upstream.First(other)
		if err != nil {
			t.Fatal(err)
		}
		again = strings.HasPrefix(string(e.Data), `{"stream":`)
	}
	if m := f.Last(); m.Text != "GET" || m.Header.Get("Last-Event-ID") != "" {
		t.Errorf("the last request is %s behind %q", m.Text, m.Header.Get("Last-Event-ID"))
	}
}

// TestClientIsToldOfAGap: a server whose events have no ids cannot send again what the client has missed while the stream was away.
func TestClientIsToldOfAGap(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	for _, m := range []string{initialized, subscribe} {
		if err := send(t, c, m); err != nil {
			t.Fatal(err)
		}
	}
	nameless := func(u *peertest.Turn) bool {
		u.Say(`{"stream":"new"}`)
		<-u.Ctx.Done()
		return true
	}
	f.get.Store(&nameless)
	st, err := c.Stand(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got []string
	for e, err := range st.Events {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, string(e.Data)); len(got) == 3 {
			break
		}
		if len(got) == 1 {
			f.Cut()
		}
	}
	if want := []string{`{"stream":"new"}`, string(mcp.Updated("a:b")), `{"stream":"new"}`}; !slices.Equal(got, want) {
		t.Errorf("the client got %q, want %q", got, want)
	}
}

// TestClientIsToldOnceOfAllThatItMayHaveMissed, however many resources it has subscribed to, and however often it may have missed
// something before its stream could tell it; but not of what it does not want any more.
func TestClientIsToldOnceOfAllThatItMayHaveMissed(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	want := map[string]bool{}
	for n := range 2 * maxNews {
		uri := fmt.Sprintf("a:%d", n)
		c.Remember(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, n, uri))
		want[string(mcp.Updated(uri))] = true
	}
	for range 3 {
		c.MayHaveMissed()
	}
	c.Remember([]byte(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"a:7"}}`))
	delete(want, string(mcp.Updated("a:7")))
	for m := c.takeNews(); m != nil; m = c.takeNews() {
		if !want[string(m)] {
			t.Fatalf("told of %s", m)
		}
		delete(want, string(m))
	}
	if len(want) > 0 {
		t.Errorf("not told of %d resources", len(want))
	}
}

// TestLargeMessageDoesNotEndTheStream: a server that sends again what comes behind the last event would send it again.
func TestLargeMessageDoesNotEndTheStream(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	if err := send(t, c, initialized); err != nil {
		t.Fatal(err)
	}
	large := func(u *peertest.Turn) bool {
		u.Say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 3<<10) + "\"}}\nid: 2")
		u.Say("{\"small\":1}\nid: 3")
		<-u.Ctx.Done()
		return true
	}
	f.get.Store(&large)
	st, err := c.Stand(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	skipped := 0
	for e, err := range st.Events {
		switch {
		case pipes.Skipped(err) != nil:
			skipped++
			continue
		case err != nil:
			t.Fatal(err)
		}
		if string(e.Data) != `{"small":1}` || skipped != 1 {
			t.Errorf("after %d skipped messages: %s", skipped, e.Data)
		}
		break
	}
	gets := 0
	for _, m := range f.Heard() {
		if m.Text == "GET" {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("the stream was opened %d times", gets)
	}
}

// TestStreamOpensWhileItsSessionIsReplaced: a server may be about to grant a stream in a session that it has lost for other requests,
// and send nothing there. The stream goes on in the new session.
func TestStreamOpensWhileItsSessionIsReplaced(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	if err := send(t, c, initialized); err != nil {
		t.Fatal(err)
	}
	var gets atomic.Int64
	sent := make(chan struct{})
	replaced := func(u *peertest.Turn) bool {
		if gets.Add(1) == 1 {
			defer close(sent)
			f.Forget()
			if err := send(t, c, rootsChange); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	f.get.Store(&replaced)
	st, err := c.Stand(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for e, err := range st.Events {
		if err != nil {
			t.Fatal(err)
		}
		if text := string(e.Data); strings.HasPrefix(text, `{"stream":`) {
			<-sent
			if slices.ContainsFunc(f.Heard(), func(m peertest.Message) bool { return m.Text == "GET" && m.Session == f.Opened()[1].ID }) {
				break
			}
		}
	}
}

// TestStreamOfALostSessionIsNotResumed: its events are not those of the new session.
func TestStreamOfALostSessionIsNotResumed(t *testing.T) {
	f := newForgetful(t)
	c := f.session(t, "", nil)
	f.Forget()
	if _, err := c.Listen(t.Context(), upstream.ListenOptions{LastEventID: "7"}); err == nil || !strings.Contains(err.Error(), "another session has begun") {
		t.Errorf("%v", err)
	}
	f.Forget()
	st, err := c.Stand(t.Context(), upstream.ListenOptions{LastEventID: "7"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if m := f.Last(); m.Text != "GET" || m.Session != f.Opened()[2].ID || m.Header.Get("Last-Event-ID") != "" {
		t.Errorf("the last request is %s behind %q", m.Text, m.Header.Get("Last-Event-ID"))
	}
}

// TestNoNewSession: the client must begin again if the server refuses another session, and may try again if the server fails.
func TestNoNewSession(t *testing.T) {
	for name, c := range map[string]struct {
		result, failure string
		cause           mcp.Cause
	}{
		"an error":         {"", `{"code":-32602,"message":"no"}`, mcp.SessionUnknown},
		"another revision": {`{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`, "", mcp.SessionUnknown},
		"nothing":          {`7`, "", mcp.SessionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t)
			s := f.session(t, "", nil)
			f.Results["initialize"], f.Errors["initialize"] = c.result, c.failure
			f.Forget()
			err := send(t, s, rootsChange)
			if got := report.FailureOf(err).Cause; got != c.cause || s.Number() != 0 {
				t.Errorf("cause %v: %v", got, err)
			}
		})
	}
}

// TestReplicasReplaceALostSessionOnce if they share a store, and each of them if that fails.
func TestReplicasReplaceALostSessionOnce(t *testing.T) {
	f := newForgetful(t)
	stores, _ := storetest.Memory(t, 3)
	first := f.session(t, "", stores[0])
	second := f.session(t, first.SessionID(), stores[1])
	f.Forget()
	for _, c := range []*HTTP{first, second} {
		if err := send(t, c, rootsChange); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Opened()); n != 2 || second.SessionID() != first.SessionID() {
		t.Errorf("%d sessions; the replicas use %s and %s", n, first.SessionID(), second.SessionID())
	}

	f.Forget() // the one in the store is lost, too
	for _, c := range []*HTTP{first, second} {
		if err := send(t, c, rootsChange); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Opened()); n != 3 || second.SessionID() != first.SessionID() {
		t.Errorf("%d sessions; the replicas use %s and %s", n, first.SessionID(), second.SessionID())
	}

	// A replica that did not see the loss ends the session that is there now.
	third := f.session(t, f.Opened()[0].ID, stores[2])
	if err := third.Delete(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if last := f.Last(); last.Text != "DELETE" || last.Session != first.SessionID() {
		t.Errorf("%s in session %s", last.Text, last.Session)
	}

	for _, s := range stores {
		s.Close()
	}
	f.Forget()
	for _, c := range []*HTTP{first, second} {
		if err := send(t, c, rootsChange); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Opened()); n != 5 {
		t.Errorf("%d sessions", n)
	}
}

// TestNewSessionHasWhatTheClientSentThroughAnyReplica: the log level and the subscriptions, if the replicas share a store.
func TestNewSessionHasWhatTheClientSentThroughAnyReplica(t *testing.T) {
	f := newForgetful(t)
	stores, uses := storetest.Memory(t, 4)
	about := func(method, uri string) string {
		return `{"jsonrpc":"2.0","id":5,"method":"resources/` + method + `","params":{ "uri":"` + uri + `"}}`
	}
	first := f.session(t, "", stores[0])
	var others []*HTTP
	for _, s := range stores[1:] {
		c := f.session(t, first.SessionID(), s)
		c.Bind(&owner{}, false)
		others = append(others, c)
	}
	for _, sent := range []struct {
		by      *HTTP
		message string
	}{
		{first, initialized}, {first, subscribe}, {first, about("subscribe", "a:2")}, {first, setLevel},
		{others[0], about("unsubscribe", "a:b")}, {others[0], about("subscribe", "a:3")},
	} {
		if err := send(t, sent.by, sent.message); err != nil {
			t.Fatal(err)
		}
	}
	if got := uses[0].Uses(); got["get server_session_state"] != 3 || got["add server_session_state"] != 1 || got["swap server_session_state"] != 2 || len(got) != 3 {
		t.Errorf("%v", got)
	}
	restored := func(opened int, missed string, by ...*HTTP) {
		t.Helper()
		f.Forget()
		for _, c := range by {
			if err := send(t, c, rootsChange); err != nil {
				t.Fatal(err)
			}
			var told []string
			for m := c.takeNews(); m != nil; m = c.takeNews() {
				told = append(told, gjson.GetBytes(m, "params.uri").String())
			}
			if told = slices.DeleteFunc(told, func(uri string) bool { return uri == "" }); strings.Join(told, " ") != missed { // what is left are lists
				t.Errorf("the client is told of %q", told)
			}
		}
		var has []string
		for _, m := range f.In(f.Opened()[opened].ID) {
			has = append(has, gjson.Get(m.Text, "params.uri").String()+gjson.Get(m.Text, "params.level").String())
		}
		if got := strings.Join(strings.Fields(strings.Join(has, " ")), " "); got != "error "+missed {
			t.Errorf("session %d has %q", opened, got)
		}
	}
	restored(1, "a:2 a:3", others[1], first, others[0])
	for _, m := range []string{rootsChange, about("unsubscribe", "a:2")} {
		if err := send(t, others[2], m); err != nil {
			t.Fatal(err)
		}
	}
	restored(2, "a:3", first)

	if err := first.Delete(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[1].Get(t.Context(), first.key("server_session_state")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("the state of a session that its client has ended: %v", err)
	}
}
