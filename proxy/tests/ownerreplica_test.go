package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

const (
	manyCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
	aboutMe          = `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`
)

// about returns what the server receives of a client whose request came through srv.
func (srv testServer) about(session string) (client, capabilities, level string) {
	srv.t.Helper()
	r := srv.post(session, aboutMe)
	said := strings.Split(gjson.Get(r.body, "result.description").String(), "|")
	if len(said) != 3 {
		srv.t.Fatalf("%+v", r)
	}
	return said[0], said[1], said[2]
}

// TestASessionHasOneOwnerReplica: what a client sets at one replica is in effect at all, as long as the
// replica where the session began is running.
func TestASessionHasOneOwnerReplica(t *testing.T) {
	s := newSessionless(t, nil)
	all := peersOf(t, 3, s)
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	sameJSON(t, all[1].post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`).body, result("6", ""))
	for _, p := range all {
		client, can, level := p.about(session)
		sameJSON(t, client, `{"name":"c","version":"1"}`)
		sameJSON(t, can, manyCapabilities)
		if level != "error" {
			t.Errorf("level %s", level)
		}
	}
	sameJSON(t, all[2].post(session, `{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"u:1"}}`).body, result("8", ""))
	ctx, leave := context.WithCancelCause(context.Background())
	_, resp := all[1].begin(ctx, "GET", session, "")
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	s.news <- struct{}{}
	if e, err := resp.Stream.Next(); err != nil || gjson.GetBytes(e.Data, "params.uri").String() != "u:1" {
		t.Errorf("%s, %v", e.Data, err)
	}
	leave(downstream.ErrClientLeft)
	resp.Stream.Close()
	resp.Done()
	for _, p := range all[1:] {
		if p.Table.Len() != 0 {
			t.Error("the session is held elsewhere, too")
		}
	}
	if r := all[2].exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
		t.Errorf("%+v", r)
	}
	for _, p := range all {
		if r := p.post(session, aboutMe); r.status != 404 {
			t.Errorf("after its end: %+v", r)
		}
	}
}

// TestQuestionIsAnsweredThroughAnotherReplica, and asked through one that is not the session's
// owner.
func TestQuestionIsAnsweredThroughAnotherReplica(t *testing.T) {
	all := peersOf(t, 3, newSessionless(t, nil))
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	req, resp := all[1].begin(context.Background(), "POST", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}}`)
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	e, err := resp.Stream.Next()
	if err != nil || gjson.GetBytes(e.Data, "method").String() != "elicitation/create" {
		t.Fatalf("%s, %v", e.Data, err)
	}
	answer := result(gjson.GetBytes(e.Data, "id").Raw, `"action":"accept","content":{"n":"Ada"}`)
	if r := all[2].post(session, answer); r.status != 202 {
		t.Errorf("%+v", r)
	}
	rest := all[1].read(req, resp)
	if len(rest.events) != 1 || gjson.Get(rest.events[0], "result.content.0.text").String() != "Ada" {
		t.Errorf("%+v", rest)
	}
}

// TestBatchIsForwardedToTheOwnerReplica: a batch is forwarded unchanged, and so are notifications and invalid messages.
func TestBatchIsForwardedToTheOwnerReplica(t *testing.T) {
	all := peersOf(t, 2, newSessionless(t, nil))
	session := all[0].initializeWith("2025-03-26", `{}`)
	r := all[1].post(session, `[`+strings.Replace(aboutMe, "5", "6", 1)+`,`+aboutMe+`,{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`)
	if got := gjson.Parse(r.body).Array(); r.status != 200 || len(got) != 2 {
		t.Errorf("%+v", r)
	}
	if r := all[1].post(session, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); r.status != 202 || r.body != "" {
		t.Errorf("%+v", r)
	}
	if r := all[1].post(session, `{"jsonrpc":`); r.status != 400 || gjson.Get(r.body, "error.code").Int() != -32700 {
		t.Errorf("%+v", r)
	}
	if r := all[1].post(session, `{"jsonrpc":"2.0","id":9,"method":"x/none"}`); gjson.Get(r.body, "error.code").Int() != -32601 || gjson.Get(r.body, "id").Raw != "9" {
		t.Errorf("%+v", r)
	}
	if n := all[1].Table.Len(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestCancelledThroughAnotherReplica: the call ends without a response.
func TestCancelledThroughAnotherReplica(t *testing.T) {
	all := peersOf(t, 3, newSessionless(t, nil))
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	req, resp := all[1].begin(context.Background(), "POST", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}}`)
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	if _, err := resp.Stream.Next(); err != nil { // the question
		t.Fatal(err)
	}
	if r := all[2].post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	for _, e := range all[1].read(req, resp).events {
		if gjson.Get(e, "id").Raw == "7" {
			t.Errorf("answered: %s", e)
		}
	}
}

// TestASessionOutlivesItsOwnerReplica: the session id contains the client's identity, and the log level is in the store.
func TestASessionOutlivesItsOwnerReplica(t *testing.T) {
	s := newSessionless(t, nil)
	all := peersOf(t, 2, s)
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	sameJSON(t, all[1].post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`).body, result("6", ""))
	all[0].end()
	client, can, level := all[1].about(session)
	sameJSON(t, client, `{"name":"c","version":"1"}`)
	sameJSON(t, can, manyCapabilities)
	if level != "error" {
		t.Errorf("level %s", level)
	}
	sameJSON(t, all[1].post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}`).body, result("6", ""))
	if _, _, level := all[1].about(session); level != "debug" {
		t.Errorf("level %s", level)
	}
}

// TestIDNamesTheReplicaOfASessionWithAModernServer, which alone has the session's state.
func TestIDNamesTheReplicaOfASessionWithAModernServer(t *testing.T) {
	srv := front(t, modernServer(false, `"capabilities":{}`, nil))
	s, ok := srv.Now().Sealer.OpenSession(srv.initialize("2025-06-18"), time.Now())
	if !ok || s.Home != srv.Instance {
		t.Errorf("%+v, %t", s, ok)
	}
}

// TestServersProcessIsReachedThroughEveryReplica: the session's process runs at one of them, and so
// do the streams that are resumed.
func TestServersProcessIsReachedThroughEveryReplica(t *testing.T) {
	f := silentPipe()
	all := acquainted(t, 3, besideAStore(f))
	session := all[0].initialize("2025-06-18")
	c, last := all[1].streaming(f, session, `1`)
	c.leaves()
	c = all[2].open("GET", session, "", "Last-Event-ID", last)
	f.Unasked(answer(`1`))
	c.hears(answer(`1`))
	c.ends()
	all[0].end()
	if r := all[1].post(session, whoAmI); r.status != 404 {
		t.Errorf("after the end of its home: %+v", r)
	}
}

// TestSidecarsSessionsAreAtTheirOwnServers: each replica has a server on its machine, which knows
// only its own sessions.
func TestSidecarsSessionsAreAtTheirOwnServers(t *testing.T) {
	pods := map[string]*peertest.Server{}
	for _, name := range []string{"0", "1"} {
		pods[name] = newSessionServer(t, "2025-11-25", nameQuestion)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pods[r.Header.Get("X-Pod")].ServeHTTP(w, r) }))
	defer server.Close()
	n := -1
	all := acquainted(t, 2, func(w origin.World, cfg config.Config, log *zap.Logger) (*proxy.Server, error) {
		n++
		cfg.Upstream.URL, cfg.Upstream.Headers = server.URL, map[string]string{"X-Pod": fmt.Sprint(n)}
		return proxy.NewIn(w, cfg, log)
	})
	session := all[0].initialize("2025-06-18")
	if here, there := all[0].who(session), all[1].who(session); here != there {
		t.Errorf("session %s is %s at the other replica", here, there)
	}
	was := all[0].who(session)
	all[0].end()
	if all[1].who(session) == was { // a server that does not know the session gets a new one
		t.Error("after the end of its home it is the same session")
	}
	server.CloseClientConnections()
}
