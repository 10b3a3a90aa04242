package tests

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// peerServer is a replica that other replicas can reach.
type peerServer struct {
	testServer
	at  string
	end func() // ends the replica; called at the end of the test at the latest
}

// peersOf starts n replicas in front of s, which find each other in a store.
func peersOf(t *testing.T, n int, s peer, change ...func(*config.Config)) []peerServer {
	t.Helper()
	leavesNothing(t)
	url := s.At().URL
	return acquainted(t, n, func(w origin.World, cfg config.Config, log *zap.Logger) (*proxy.Server, error) {
		cfg.Upstream.URL = url
		return proxy.NewIn(w, cfg, log)
	}, change...)
}

// storeInMemory is the URL of a store that replicas share in the memory of this process.
const storeInMemory = "redis://in.memory:6379"

// acquainted starts n replicas with begin, which find each other in a store.
func acquainted(t *testing.T, n int, begin func(origin.World, config.Config, *zap.Logger) (*proxy.Server, error), change ...func(*config.Config)) []peerServer {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	cfg.Shutdown.Drain = 0
	cfg.Session.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.Session.KeyFile, []byte(strings.Repeat("5a", sealed.KeyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Store.URL = storeInMemory
	for _, c := range change {
		c(&cfg)
	}
	var w origin.World
	if cfg.Store.URL == storeInMemory {
		w.Store = store.NewMemory(store.Bounds{})
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	var all []peerServer
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Store.Advertise = ln.Addr().String()
		core, logs := observer.New(zap.DebugLevel)
		srv, err := begin(w, cfg, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := srv.Serve(ctx, ln); err != nil {
				t.Error(err)
			}
		}()
		all = append(all, peerServer{testServer{srv, t, logs}, ln.Addr().String(), func() { stop(); <-ended }})
	}
	t.Cleanup(func() {
		for _, p := range all {
			p.end()
		}
	})
	if w.Store != nil {
		atHome(t, all)
	}
	return all
}

func (p peerServer) forwarded(outcome string) int {
	return counted(p.t, p.Metrics, "dragoman_forwarded_total", "outcome="+outcome)
}

// besideAStore is for [acquainted]: each replica is in front of f.
func besideAStore(f *fakeServer) func(origin.World, config.Config, *zap.Logger) (*proxy.Server, error) {
	return func(w origin.World, cfg config.Config, log *zap.Logger) (*proxy.Server, error) {
		o := f.origin()
		o.World = w
		return proxy.NewWith(cfg, log, o)
	}
}

// askedAt starts replicas in front of a server that asks for a name, and returns the result of a
// first call at the first replica.
func askedAt(t *testing.T, n int, change ...func(*config.Config)) ([]peerServer, *peertest.Server, reply) {
	t.Helper()
	s := newSessionServer(t, "2025-11-25", nameQuestion)
	all := peersOf(t, n, s, change...)
	r := all[0].modernly(modernCall("7", ""))
	if gjson.Get(r.body, "result.resultType").String() != "input_required" {
		t.Fatalf("%+v", r)
	}
	return all, s, r
}

const expiredState = `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`

// TestRetryIsForwardedToTheReplicaThatHoldsTheCall: requestState names the replica, and the
// configuration has its address.
func TestRetryIsForwardedToTheReplicaThatHoldsTheCall(t *testing.T) {
	all, _, r := askedAt(t, 3)
	again := all[1].modernly(retryOf("8", ada, r))
	if again.status != 200 || gjson.Get(again.body, "id").Raw != "8" || !strings.Contains(gjson.Get(again.body, "result.content.0.text").String(), "Ada") {
		t.Fatalf("%+v", again)
	}
	if n := all[1].forwarded("served"); n != 1 {
		t.Errorf("%d forwarded", n)
	}
	if all[0].Modern.Counts().Parked != 0 {
		t.Error("the call is still parked")
	}
	sameJSON(t, all[2].modernly(retryOf("8", ada, r)).body, expiredState) // the call has ended
}

// TestRetryIsForwardedToTheReplicaThatHasTheProcess: the same for a server on a pipe.
func TestRetryIsForwardedToTheReplicaThatHasTheProcess(t *testing.T) {
	var call string
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		call = id
		return one(nameQuestion)
	})
	f.piped = true
	f.on("", func(*peertest.Turn) { f.Unasked(result(call, `"content":[{"type":"text","text":"done"}]`)) })
	all := acquainted(t, 2, besideAStore(f))
	r := all[0].modernly(modernCall("7", ""))
	if r := all[1].modernly(retryOf("8", ada, r)); gjson.Get(r.body, "result.content.0.text").String() != "done" {
		t.Errorf("%+v", r)
	}
	if n := len(f.said("initialize")); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestOnlyGoodRetriesAreForwarded: invalid retries fail at the replica that receives them.
func TestOnlyGoodRetriesAreForwarded(t *testing.T) {
	all, _, r := askedAt(t, 2)
	retry := retryOf("8", ada, r)
	for what, c := range map[string]struct {
		body   string
		header []string
	}{
		"tampered":          {strings.Replace(retry, `requestState":"`, `requestState":"A`, 1), nil},
		"another principal": {retry, []string{"Authorization", "Bearer other"}},
		"other arguments":   {strings.Replace(retry, `"arguments":{}`, `"arguments":{"a":1}`, 1), nil},
	} {
		if got := all[1].modernly(c.body, c.header...); gjson.Get(got.body, "error.code").Int() != -32602 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if n := all[1].forwarded("served") + all[1].forwarded("nowhere") + all[1].forwarded("lost"); n != 0 {
		t.Errorf("%d forwarded", n)
	}
	if all[0].Modern.Counts().Parked != 1 {
		t.Error("the call is no longer parked")
	}
}

func TestRetryAfterTheDeadlineIsNotForwarded(t *testing.T) {
	all, _, r := askedAt(t, 2, func(c *config.Config) { c.Bridge.ParkTimeout = time.Millisecond })
	eventually(t, "the call is given up", func() bool { return all[0].Modern.Counts().Parked == 0 })
	sameJSON(t, all[1].modernly(retryOf("8", ada, r)).body, expiredState)
	if n := all[1].forwarded("served"); n != 0 {
		t.Errorf("%d forwarded", n)
	}
}

// TestThePrincipalHoldsAcrossReplicas: a forwarded request has the principal, sealed, by whichever
// header it is identified.
func TestThePrincipalHoldsAcrossReplicas(t *testing.T) {
	for _, header := range [][]string{{"authorization", "Authorization"}, {"header:X-User", "X-User"}} {
		s := newSessionServer(t, "2025-11-25", nameQuestion)
		all := peersOf(t, 2, s, func(c *config.Config) { c.Bridge.Principal = header[0] })
		r := all[0].modernly(modernCall("7", ""), header[1], "Bearer ada")
		if got := all[1].modernly(retryOf("8", ada, r), header[1], "Bearer bob"); gjson.Get(got.body, "error.message").String() != "Invalid or expired requestState" {
			t.Errorf("%s: %+v", header[0], got)
		}
		if got := all[1].modernly(retryOf("8", ada, r), header[1], "Bearer ada"); gjson.Get(got.body, "result.resultType").String() != "complete" {
			t.Errorf("%s: %+v", header[0], got)
		}
	}
}

// TestRefreshedTokenIsAnotherPrincipal: the error says so, at this replica and at the one that
// holds the call. If another header identifies the principal, the token does not matter.
func TestRefreshedTokenIsAnotherPrincipal(t *testing.T) {
	for by, says := range map[string]bool{"authorization": true, "header:X-User": false} {
		s := newSessionServer(t, "2025-11-25", nameQuestion)
		all := peersOf(t, 2, s, func(c *config.Config) { c.Bridge.Principal = by })
		r := all[0].modernly(modernCall("7", ""), "Authorization", "Bearer old", "X-User", "ada")
		for _, p := range all {
			got := p.modernly(retryOf("8", ada, r), "Authorization", "Bearer new", "X-User", "bob")
			want := expiredState
			if says {
				want = `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid or expired requestState","data":` + `{"reason":"the call was made with another Authorization; where tokens are refreshed while a user is asked, bridge.principal: claim:iss+sub or header:NAME knows the user by something else"}` + `}}`
			}
			sameJSON(t, got.body, want)
		}
		got := all[1].modernly(retryOf("9", ada, r), "Authorization", "Bearer old", "X-User", "ada")
		if gjson.Get(got.body, "result.resultType").String() != "complete" {
			t.Errorf("%s: %+v", by, got)
		}
	}
}

// TestRetryToAReplicaThatIsGone: the retry fails like an expired one, also if many come, and also
// if the replica was reached before.
func TestRetryToAReplicaThatIsGone(t *testing.T) {
	all, _, r := askedAt(t, 3)
	if got := all[1].modernly(retryOf("9", `{}`, r)); gjson.Get(got.body, "result.resultType").String() != "input_required" {
		t.Fatalf("while it is there: %+v", got)
	}
	all[0].end()
	for _, p := range all[1:] {
		sameJSON(t, p.modernly(retryOf("8", ada, r)).body, expiredState)
		sameJSON(t, p.modernly(retryOf("8", ada, r)).body, expiredState)
		if n := p.forwarded("served"); n > 1 {
			t.Errorf("%d served", n)
		}
	}
	if got := all[1].modernly(modernCall("7", "")); gjson.Get(got.body, "result.resultType").String() != "input_required" {
		t.Errorf("a new call: %+v", got)
	}
}

// TestReplicaThatIsLostWhileItServes: the client gets the error for an expired state.
func TestReplicaThatIsLostWhileItServes(t *testing.T) {
	answered := make(chan struct{})
	all, r := gated(t, 2, nil, answered, "")
	got := make(chan reply, 1)
	go func() { got <- all[1].modernly(retryOf("8", ada, r)) }()
	<-answered
	all[0].end()
	if r := <-got; gjson.Get(r.body, "error.message").String() != "Invalid or expired requestState" && r.status != 503 {
		t.Errorf("%+v", r)
	}
}

// TestRetryThatComesTwiceByTwoReplicas: the repetition attaches to the call; with other answers it
// is refused.
func TestRetryThatComesTwiceByTwoReplicas(t *testing.T) {
	gate := make(chan struct{})
	answered := make(chan struct{})
	all, r := gated(t, 3, gate, answered, "")
	replies := make(chan reply, 1)
	go func() { replies <- all[1].modernly(retryOf("8", ada, r)) }()
	<-answered
	if got := all[2].modernly(retryOf("8", `{"elicitation-1":{"action":"decline"}}`, r)); gjson.Get(got.body, "error.message").String() != "Invalid or expired requestState" {
		t.Errorf("other answers: %+v", got)
	}
	second := make(chan reply, 1)
	go func() { second <- all[2].modernly(retryOf("9", ada, r)) }()
	sameJSON(t, (<-replies).body, `{"jsonrpc":"2.0","id":8,"error":{"code":-32600,"message":"superseded by a newer retry"}}`)
	close(gate)
	if got := <-second; gjson.Get(got.body, "id").Raw != "9" || gjson.Get(got.body, "result.content.0.text").String() != "done" {
		t.Errorf("%+v", got)
	}
}

// gated starts replicas in front of a server that, after the answer to its question, reports
// progress, and continues when the gate opens.
func gated(t *testing.T, n int, gate <-chan struct{}, answered chan<- struct{}, more string) ([]peerServer, reply) {
	t.Helper()
	tell := sync.OnceFunc(func() { close(answered) })
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(200, result(u.ID, helloOf("2025-11-25", `{"tools":{}}`)))
		case "notifications/cancelled":
			tell()
		case "tools/call":
			if u.Asks(nameQuestion) == "" {
				return
			}
			if more == "" {
				tell()
			} else {
				u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, gjson.Get(u.Text, "params._meta.progressToken").Raw))
			}
			select {
			case <-gate:
				u.Say(result(u.ID, `"content":[{"type":"text","text":"done"}]`))
			case <-u.Ctx.Done():
			}
		}
	})
	s.NoGet = true
	all := peersOf(t, n, s)
	first := modernCall("7", "")
	if more != "" {
		first = modernRequestOf("7", "tools/call", `"name":"t","arguments":{},`+meta(`{"elicitation":{}}`, more))
	}
	r := all[0].modernly(first)
	if gjson.Get(r.body, "result.resultType").String() != "input_required" {
		t.Fatalf("%+v", r)
	}
	return all, r
}

const theToken = `"progressToken":"tk"`

func retryWithToken(id string, r reply) string {
	return modernRequestOf(id, "tools/call", `"name":"t","arguments":{},"inputResponses":`+ada+`,"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`+meta(`{"elicitation":{}}`, theToken))
}

// TestProgressComesBackFromTheOtherReplica: each progress notification arrives when it is sent.
func TestProgressComesBackFromTheOtherReplica(t *testing.T) {
	gate := make(chan struct{})
	all, r := gated(t, 2, gate, make(chan struct{}), theToken)
	body := retryWithToken("8", r)
	req, resp := all[1].begin(context.Background(), "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	e, err := resp.Stream.Next()
	if err != nil || gjson.GetBytes(e.Data, "params.progressToken").String() != "tk" {
		t.Fatalf("%s, %v", e.Data, err)
	}
	close(gate)
	rest := all[1].read(req, resp)
	if len(rest.events) != 1 || gjson.Get(rest.events[0], "result.content.0.text").String() != "done" {
		t.Errorf("%+v", rest)
	}
}

// TestClientThatLeavesTheOtherReplicaCancels: as at the replica that holds the call.
func TestClientThatLeavesTheOtherReplicaCancels(t *testing.T) {
	cancelled := make(chan struct{})
	all, r := gated(t, 2, nil, cancelled, theToken)
	body := retryWithToken("8", r)
	ctx, leave := context.WithCancelCause(context.Background())
	_, resp := all[1].begin(ctx, "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	leave(downstream.ErrClientLeft)
	resp.Stream.Close()
	resp.Done()
	select {
	case <-cancelled:
	case <-time.After(patience):
		t.Error("the server was not told")
	}
	eventually(t, "nothing is held", func() bool { return all[0].Modern.Counts().Parked == 0 })
}

// knock sends a forwarded request as a replica does.
func (p peerServer) knock(method, box, body string) (int, string) {
	p.t.Helper()
	out, err := http.NewRequest(method, "http://"+p.at+config.ReplicasPath, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if box != "" {
		out.Header.Set(sealed.ForwardHeader, box)
	}
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Connection", "close")
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// TestForwardedRequestsAreOnlyAcceptedFromReplicas: only in time, once, unmodified, and by the replica
// that they are addressed to.
func TestForwardedRequestsAreOnlyAcceptedFromReplicas(t *testing.T) {
	all, _, r := askedAt(t, 2, func(c *config.Config) { c.Auth.Tokens = []string{"none of these need it"} })
	p, by := all[0], all[0].Now().Sealer
	body := retryOf("8", ada, r)
	good := sealed.Forward{
		To: p.Instance, At: time.Now(), Digest: sha256.Sum256([]byte(body)), Method: "POST", Version: "2026-07-28",
		Header: []mcp.Header{{Name: "Mcp-Method", Value: "tools/call"}, {Name: "Mcp-Name", Value: "t"}},
	}
	with := func(change func(*sealed.Forward)) sealed.Forward {
		f := good
		change(&f)
		return f
	}
	once := by.SealForward("POST", sealed.Forward{To: p.Instance, At: time.Now(), Digest: sha256.Sum256([]byte("{}")), Method: "DELETE"})
	if status, _ := p.knock("POST", once, "{}"); status == 421 {
		t.Error("the first time it is refused")
	}
	for what, c := range map[string]struct{ box, body string }{
		"nobody":           {"", body},
		"noise":            {"AAAA", body},
		"another key":      {sealerOf(t, "u", 9).SealForward("POST", good), body},
		"a replay":         {once, "{}"},
		"for a GET":        {by.SealForward("GET", good), body},
		"another process":  {by.SealForward("POST", with(func(f *sealed.Forward) { f.To = all[1].Instance })), body},
		"too old":          {by.SealForward("POST", with(func(f *sealed.Forward) { f.At = f.At.Add(-2 * sealed.ForwardWindow) })), body},
		"of the future":    {by.SealForward("POST", with(func(f *sealed.Forward) { f.At = f.At.Add(2 * sealed.ForwardWindow) })), body},
		"another body":     {by.SealForward("POST", good), strings.Replace(body, "Ada", "Eve", 1)},
		"a requestState":   {gjson.Get(r.body, "result.requestState").String(), body},
		"a session's seal": {by.SealSession(sealed.Session{ClientRevision: translate.Oldest(), ServerRevision: translate.Latest()}), body},
	} {
		if status, text := p.knock("POST", c.box, c.body); status != 421 || strings.Contains(text, "result") {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if p.Modern.Counts().Parked != 1 {
		t.Fatal("the call is no longer parked")
	}
	if status, text := p.knock("POST", by.SealForward("POST", good), body); status != 200 || !strings.Contains(text, "Ada") {
		t.Errorf("the good one: %d %s", status, text)
	}
}

// TestForwardedRequestGoesNoFurther: a forwarded request is never forwarded again.
func TestForwardedRequestGoesNoFurther(t *testing.T) {
	all, _, r := askedAt(t, 2)
	body := retryOf("8", ada, r)
	f := sealed.Forward{
		To: all[1].Instance, At: time.Now(), Digest: sha256.Sum256([]byte(body)), Method: "POST", Version: "2026-07-28",
		Header: []mcp.Header{{Name: "Mcp-Method", Value: "tools/call"}, {Name: "Mcp-Name", Value: "t"}},
	}
	status, text := all[1].knock("POST", all[1].Now().Sealer.SealForward("POST", f), body)
	if status != 200 {
		t.Errorf("status %d", status)
	}
	sameJSON(t, text, expiredState)
	if all[0].Modern.Counts().Parked != 1 {
		t.Error("the call was answered")
	}
}

func TestWithoutAStoreNothingIsForwardedOrAccepted(t *testing.T) {
	all, _, r := askedAt(t, 2, func(c *config.Config) { c.Store.URL = "" })
	sameJSON(t, all[1].modernly(retryOf("8", ada, r)).body, expiredState)
	box := all[0].Now().Sealer.SealForward("POST", sealed.Forward{To: all[0].Instance, At: time.Now()})
	if status, _ := all[0].knock("POST", box, "{}"); status != 404 {
		t.Errorf("status %d", status)
	}
}

// TestHeadersOfTheClientGoAlong: a forwarded request has the headers that the server gets and those
// that describe the message, but not the token for the listener.
func TestHeadersOfTheClientGoAlong(t *testing.T) {
	f, _ := asksName(nameQuestion)
	srv := front(t, f, func(c *config.Config) { c.Bridge.Principal = "header:X-User" })
	has := map[string]string{
		"Authorization": "Bearer a", "X-User": "ada", "Mcp-Method": "tools/call", "Mcp-Name": "t", "Mcp-Param-City": "=?base64?w7w=?=",
		"Mcp-Session-Id": "s", "MCP-Protocol-Version": "2026-07-28", "traceparent": "00-1", shape.BudgetHeader: "9", "Cookie": "c",
	}
	req := &downstream.Request{Header: func(name string) string { return has[name] }}
	req.Headers = func(prefix string, do func(name, value string)) {
		for name, value := range has {
			if strings.EqualFold(name[:min(len(name), len(prefix))], prefix) {
				do(name, value)
			}
		}
	}
	got := map[string]string{}
	for _, h := range srv.CarriedHeaders(req) {
		got[h.Name] = h.Value
	}
	for _, name := range []string{"Mcp-Session-Id", "MCP-Protocol-Version", "Cookie"} {
		delete(has, name)
	}
	if !maps.Equal(got, has) {
		t.Errorf("got %v, want %v", got, has)
	}
}

// TestKeysOfReplicasMayBeReplaced while some replicas already have the next key.
func TestKeysOfReplicasMayBeReplaced(t *testing.T) {
	before, between, after := sealerOf(t, "u", 1), sealerOf(t, "u", 2, 1), sealerOf(t, "u", 2)
	f := sealed.Forward{At: time.UnixMilli(7), Method: "POST", Session: "s", Guest: "g", Header: []mcp.Header{{Name: "A", Value: "\xff"}, {Name: "B", Value: ""}}}
	for what, c := range map[string]struct {
		by, in *sealed.Sealer
		ok     bool
	}{
		"old in both": {before, between, true}, "new in both": {between, between, true}, "new in new": {between, after, true},
		"new in old": {between, before, false}, "old in new": {before, after, false},
	} {
		box := c.by.SealForward("POST", f)
		got, ok := c.in.OpenForward("POST", box)
		if ok != c.ok || ok && fmt.Sprint(got) != fmt.Sprint(f) {
			t.Errorf("%s: %+v, %t", what, got, ok)
		}
	}
}

// TestReplicasThatSpeakTLS: a replica tells the others its certificate in the store, also when it gets another one.
func TestReplicasThatSpeakTLS(t *testing.T) {
	cert, key, _ := certificate(t)
	all, _, r := askedAt(t, 2, func(c *config.Config) { c.TLS = config.TLS{Cert: cert, Key: key} })
	served := func(what string, want bool) {
		t.Helper()
		all[1].Replicas.Forget()
		got := all[1].modernly(retryOf("8", `{}`, r))
		if is := gjson.Get(got.body, "result.resultType").String() == "input_required"; is != want {
			t.Errorf("%s: %+v", what, got)
		}
		if gjson.Get(got.body, "result.requestState").Exists() {
			r = got
		}
	}
	served("the same certificate", true)
	other, otherKey, _ := certificate(t)
	cfg := all[0].Now().Config
	cfg.TLS = config.TLS{Cert: other, Key: otherKey}
	if err := all[0].Reload(cfg); err != nil {
		t.Fatal(err)
	}
	served("another certificate", true)
}
