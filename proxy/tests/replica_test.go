package tests

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// severalOf returns n proxies with one key in front of s.
func severalOf(t *testing.T, s peer, n int, change ...func(*config.Config)) []testServer {
	t.Helper()
	leavesNothing(t)
	key := make([]byte, sealed.KeyBytes)
	rand.Read(key)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Upstream.URL = s.At().URL
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	cfg.Session.KeyFile = file
	for _, c := range change {
		c(&cfg)
	}
	var all []testServer
	for range n {
		core, logs := observer.New(zap.DebugLevel)
		srv, err := proxy.NewIn(worldOf(t), cfg, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, testServer{srv, t, logs})
	}
	t.Cleanup(func() {
		for _, srv := range all {
			srv.Close()
		}
	})
	return all
}

const whoAmI = `{"jsonrpc":"2.0","id":7,"method":"test/session"}`

// who returns the id by which the server knows a session, asked through srv.
func (srv testServer) who(session string) string {
	srv.t.Helper()
	r := srv.post(session, whoAmI)
	name := gjson.Get(r.body, "result.session").String()
	if r.status != 200 || name == "" {
		srv.t.Errorf("%+v", r)
	}
	return name
}

// deleted returns how many DELETEs s got.
func deleted(s *peertest.Server) (n int) {
	for _, m := range s.Heard() {
		if m.Text == http.MethodDelete {
			n++
		}
	}
	return n
}

func TestAnyReplicaServesAnySession(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	all := severalOf(t, s, 3)
	const sessions = 100
	var ids, names []string
	for i := range sessions {
		vc := []string{"2024-11-05", "2025-06-18", "2025-11-25"}[i%3]
		ids = append(ids, all[i%3].initialize(vc))
		names = append(names, all[i%3].who(ids[i]))
	}
	spray := func(over []testServer) {
		var clients sync.WaitGroup
		for i := range sessions {
			clients.Go(func() {
				for j := range 2 * len(over) {
					if got := over[(i+j)%len(over)].who(ids[i]); got != names[i] {
						t.Errorf("session %d: reached that of %q, not %q", i, got, names[i])
					}
				}
			})
		}
		clients.Wait()
	}
	spray(all)
	all[0].Close()
	spray(all[1:])
	if n := deleted(s); n > 0 {
		t.Errorf("%d sessions were ended with the replica", n)
	}
}

func TestAnswersThroughAnotherReplica(t *testing.T) {
	const (
		sampling = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}}`
		form     = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`
		titled   = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","oneOf":[{"const":"x","title":"X"}]}}}}}`
		many     = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x","y","z"]}},"b":{"type":"string"}}}}}`
		accepted = `{"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"a":"x"}}}`
	)
	for _, c := range []struct {
		name, vc, vu           string
		question, answer, want string
	}{
		{
			"sampling, lists of content made single", "2025-11-25", "2025-06-18", sampling,
			`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}}`,
			`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}`,
		},
		{
			"sampling for an old client", "2024-11-05", "2025-11-25", sampling,
			`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}`,
			`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}`,
		},
		{"a form between equals", "2025-11-25", "2025-11-25", titled, accepted, accepted},
		{"a form towards the newer", "2025-11-25", "2025-06-18", form, accepted, accepted},
		{"a form put into other words", "2025-06-18", "2025-11-25", titled, accepted, accepted},
		{
			"a form with a choice of many", "2025-06-18", "2025-11-25", many,
			`{"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"a.0":false,"a.1":true,"a.2":true,"b":"c"}}}`,
			`{"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"a":["y","z"],"b":"c"}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSessionServer(t, c.vu, c.question)
			all := severalOf(t, s, 2)
			id := all[0].initializeWith(c.vc, `{"sampling":{},"elicitation":{}}`)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			req, resp := all[0].begin(ctx, "POST", id, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
			if resp.Stream == nil {
				t.Fatalf("no stream: %+v", resp)
			}
			e, err := resp.Stream.Next()
			if err != nil || !gjson.GetBytes(e.Data, "id").Exists() {
				t.Fatalf("%s, %v", e.Data, err)
			}
			answer, err := sjson.SetRaw(c.answer, "id", gjson.GetBytes(e.Data, "id").Raw)
			if err != nil {
				t.Fatal(err)
			}
			if r := all[1].post(id, answer); r.status != 202 {
				t.Errorf("answer: %+v", r)
			}
			r := all[0].read(req, resp)
			if len(r.events) != 1 {
				t.Fatalf("%+v", r)
			}
			sameJSON(t, gjson.Get(r.events[0], "result.content.0.text").String(), c.want)
		})
	}
}

// TestCancelledQuestionKeepsItsName: if dragoman has replaced the id of a question,
// notifications/cancelled has the same replaced id.
func TestCancelledQuestionKeepsItsName(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"enum":["x"]}}}}}}`
	s := newSessionServer(t, "2025-11-25", ask+"\n\ndata: "+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"r"}}`)
	srv := severalOf(t, s, 1)[0]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, resp := srv.begin(ctx, "POST", srv.initializeWith("2025-06-18", `{"elicitation":{}}`), callOne)
	var events []string
	for range 2 {
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, string(e.Data))
	}
	cancel()
	srv.read(req, resp)
	asked := gjson.Get(events[0], "id").String()
	if told := gjson.Get(events[1], "params.requestId").String(); told != asked || !strings.HasPrefix(asked, "dragoman:") {
		t.Errorf("asked as %q, cancelled as %q", asked, told)
	}
}

func TestQuestionsAnsweredElsewhereDoNotPileUp(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	rest, asked := s.Script, 0
	s.Script = func(u *peertest.Turn) {
		if u.Method != "tools/call" {
			rest(u)
			return
		}
		u.Asks(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"ping"}`, asked))
		asked++
		u.Say(result(u.ID, `"content":[]`))
	}
	all := severalOf(t, s, 2, func(c *config.Config) { c.Limits.OpenRequests = 2 })
	id := all[0].initializeWith("2025-06-18", `{"sampling":{}}`)
	for i := range 5 {
		req, resp := all[0].begin(t.Context(), "POST", id, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
		if resp.Stream == nil {
			t.Fatalf("question %d: %+v", i, all[0].read(req, resp))
		}
		if _, err := resp.Stream.Next(); err != nil {
			t.Fatal(err)
		}
		all[1].post(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","result":{}}`, i))
		if r := all[0].read(req, resp); len(r.events) != 1 {
			t.Errorf("question %d: %+v", i, r)
		}
	}
}

func TestSessionOverHTTPIsForgottenAndFoundAgain(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	srv := severalOf(t, s, 1, func(c *config.Config) { c.Session.Max = 1 })[0]
	one := srv.initialize("2024-11-05")
	name := srv.who(one)
	two := srv.initialize("2025-11-25") // there is room for one
	if n := srv.Table.Len(); n != 1 {
		t.Errorf("%d sessions are held", n)
	}
	if srv.who(one) != name || srv.who(two) == name {
		t.Error("sessions were mixed")
	}
	if got := srv.Table.DropIdle(time.Now().Add(time.Hour)); len(got) != 1 {
		t.Errorf("%d dropped", len(got))
	}
	if srv.who(one) != name {
		t.Error("not found again")
	}
	// While the only place is in use, there is no room.
	used, err := srv.Table.Find(one, sealed.Owner{}, &downstream.Sender{})
	if err != nil || used == nil {
		t.Fatal(err)
	}
	if r := srv.post(two, whoAmI); r.status != 503 {
		t.Errorf("%+v", r)
	}
	if r := srv.post("", initialize("2025-06-18", `{}`)); r.status != 503 {
		t.Errorf("%+v", r)
	}
	used.Leave()
	if srv.who(two) == name || deleted(s) > 0 {
		t.Errorf("%d deleted", deleted(s))
	}
}

func TestDeleteIsTheServersToHonour(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	all := severalOf(t, s, 2)
	id := all[0].initialize("2025-06-18")
	all[1].who(id)
	if r := all[1].exchange(t.Context(), "DELETE", id, "", "Authorization", "Bearer mine"); r.status != 200 {
		t.Errorf("%+v", r)
	}
	end := s.Awaits(1, "DELETE", func(m string) bool { return m == http.MethodDelete })
	if by := end.Header.Get("Authorization"); deleted(s) != 1 || by != "Bearer mine" {
		t.Errorf("%d deleted, by %q", deleted(s), by)
	}
	// The other replica cannot distinguish a session that was ended from one that the server lost.
	if r := all[1].post(id, whoAmI); r.status != 404 {
		t.Errorf("%+v", r)
	}
	if r := all[1].exchange(t.Context(), "DELETE", id, ""); r.status != 404 {
		t.Errorf("%+v", r)
	}
}

func TestForeignAndOldSessionsAreNotFound(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	srv := severalOf(t, s, 1)[0]
	id := srv.initialize("2025-06-18")
	held, err := srv.Table.Find(id, sealed.Owner{}, &downstream.Sender{})
	if err != nil {
		t.Fatal(err)
	}
	held.Leave()
	old := held.Session
	old.Made = time.Now().Add(-25 * time.Hour)
	foreign := sealerOf(t, srv.Now().Config.Upstream.URL, 9).SealSession(held.Session)
	aged := srv.Now().Sealer.SealSession(old)
	held.Made = old.Made // the session of this process has expired too
	for what, r := range map[string]reply{
		"foreign":      srv.post(foreign, whoAmI),
		"old":          srv.post(aged, whoAmI),
		"old and held": srv.post(held.ID, whoAmI),
		"forged":       srv.post(strings.ToUpper(aged), whoAmI),
	} {
		if r.status != 404 {
			t.Errorf("%s: %+v", what, r)
		}
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Session not found"}}`)
	}
}

func TestSessionOnAPipeDiesWithItsProcess(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	f.piped = true
	srv := front(t, f)
	id := srv.initialize("2025-06-18")
	what, ok := srv.Now().Sealer.OpenSession(id, time.Now())
	if !ok || !what.Local {
		t.Errorf("%+v, %t", what, ok)
	}
	held, _ := srv.Table.Find(id, sealed.Owner{}, &downstream.Sender{})
	held.Leave()
	srv.Forget(held, report.ErrShutdown)
	if r := srv.post(id, pingOne); r.status != 404 {
		t.Errorf("%+v", r)
	}
}
