package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/dialect"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var listMethods = []wire.Method{wire.ToolsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.PromptsList}

// listings returns the lists of a revision in the benchmarks' corpus and in the recorded traffic.
func listings(t *testing.T, c *corpus.Corpus, of *translate.Revision) (all []corpus.Message) {
	t.Helper()
	for _, m := range c.In(of) {
		if m.Kind == wire.Result && !m.FromClient && slices.Contains(listMethods, m.Method) {
			all = append(all, m)
		}
	}
	files, err := filepath.Glob(filepath.Join("../..", "translate", "testdata", "traffic", "*-"+of.Name+"-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]wire.Method{}
		for line := range bytes.Lines(text) {
			raw := []byte(gjson.GetBytes(line, "message").Raw)
			var m wire.Message
			if m.Scan(raw, nil) != nil {
				continue
			}
			switch id := string(m.ID()); {
			case m.Kind == wire.Request:
				asked[id] = m.Method
			case m.Kind == wire.Result && slices.Contains(listMethods, asked[id]):
				all = append(all, corpus.Message{Name: filepath.Base(file) + " " + id, Method: asked[id], Raw: raw})
			}
		}
	}
	return all
}

// TestListsRememberedAreTheSame: a client gets the same from a cached translation as from a new
// one, and the same losses are counted.
func TestListsRememberedAreTheSame(t *testing.T) {
	c, err := corpus.New(128 << 10 / effort)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{`1`, `22`, `"three"`, `"f\u006fur"`, `-5`, `12345678901234567890`, `"` + strings.Repeat("x", 200) + `"`}
	for _, vu := range translate.Handshake() {
		all := listings(t, c, vu)
		if len(all) < 4 {
			t.Fatalf("%d lists of %v", len(all), vu)
		}
		for _, vc := range translate.Handshake() {
			t.Run(vu.Name+" to "+vc.Name, func(t *testing.T) {
				var answer corpus.Message
				server := newFake(initializing(vu.Name, func(m string) ([]string, error) {
					if id := gjson.Get(m, "id"); id.Exists() {
						return one(string(withID(t, answer.Raw, id.Raw)))
					}
					return nil, nil
				}))
				with, without := front(t, server), front(t, server)
				for _, srv := range []*testServer{&with, &without} {
					session := srv.initialize(vc.Name)
					for _, answer = range all {
						for _, id := range ids {
							got := srv.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, answer.Method))
							known := srv.Lists.Find(memo.Key{By: srv.Now().Table.Between(vu, vc), Method: answer.Method, Facts: srv.factsOf(session)}) != nil
							if srv == &without {
								srv.Lists.Forget()
							} else if id != ids[0] && id != ids[1] && !known {
								t.Errorf("%s: nothing is remembered", answer.Name)
							}
							want := want(t, vu, vc, &answer, id, srv)
							if got.body != want {
								t.Fatalf("%s, id %s:\n got  %.300s\n want %.300s", answer.Name, id, got.body, want)
							}
						}
					}
				}
				if a, b := lost(t, with), lost(t, without); a != b {
					t.Errorf("counted as lost:\n%s\nwithout memory\n%s", a, b)
				}
			})
		}
	}
}

// factsOf returns the facts of a session.
func (srv testServer) factsOf(session string) wire.Facts {
	srv.t.Helper()
	s, err := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
	if s == nil || err != nil {
		srv.t.Fatal("no session", err)
	}
	defer s.Leave()
	return s.Facts
}

// want returns a list as a translator without a cache translates it.
func want(t *testing.T, vu, vc *translate.Revision, answer *corpus.Message, id string, srv *testServer) string {
	t.Helper()
	down := srv.Now().Table.Between(vu, vc)
	var m wire.Message
	if err := m.Scan(withID(t, answer.Raw, id), down.Shape()); err != nil {
		t.Fatal(err)
	}
	m.Method = answer.Method
	out, _, err := down.Rewrite(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	if vc.Schemas2020 {
		out, _ = dialect.Update(out)
	}
	return string(out)
}

// withID returns a copy of message with another id.
func withID(t *testing.T, message []byte, id string) []byte {
	t.Helper()
	var m wire.Message
	if err := m.Scan(message, nil); err != nil {
		t.Fatal(err)
	}
	from, to := m.IDAt()
	return slices.Concat(message[:from], []byte(id), message[to:])
}

// lost returns the metrics' counts of losses.
func lost(t *testing.T, srv testServer) string {
	t.Helper()
	families, err := srv.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "dragoman_losses_total" {
			var b strings.Builder
			for _, m := range f.GetMetric() {
				fmt.Fprintln(&b, m.GetLabel(), m.GetCounter().GetValue())
			}
			return b.String()
		}
	}
	return ""
}

func TestChangedListIsTranslatedAgain(t *testing.T) {
	tool := ""
	server := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":%q,"title":"T","inputSchema":{}}]}}`, gjson.Get(m, "id").Raw, tool))
	}))
	srv := front(t, server)
	session := srv.initialize("2024-11-05")
	for _, tool = range []string{"a", "a", "a", "b", "b", "b", "a", "longer", "a", "a", "b"} {
		got := srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if name := gjson.Get(got.body, "result.tools.0.name").Str; name != tool {
			t.Errorf("got %q in the place of %q", name, tool)
		}
		if gjson.Get(got.body, "result.tools.0.title").Exists() {
			t.Errorf("not translated: %s", got.body)
		}
	}
}

// TestListsForModernClientsAreRemembered: a modern client gets the same from a cached translation of a handshake
// server's list as from a new one, under its own id.
func TestListsForModernClientsAreRemembered(t *testing.T) {
	c, err := corpus.New(128 << 10 / effort)
	if err != nil {
		t.Fatal(err)
	}
	all := listings(t, c, translate.Lookup("2025-11-25"))
	var answer corpus.Message
	server := legacyServer(`{"tools":{},"resources":{},"prompts":{}}`, func(id, _, _ string) ([]string, error) {
		return one(string(withID(t, answer.Raw, id)))
	})
	with, without := front(t, server), front(t, server)
	for _, answer = range all {
		with.Lists.Forget()
		for n, id := range []string{`1`, `"two"`, `3`, `"f\u006fur"`, `5`} {
			body := modernRequestOf(id, answer.Method.String(), meta(`{}`))
			got := with.modernly(body)
			without.Lists.Forget()
			want := without.modernly(body)
			if got.status != 200 || got.body != want.body || gjson.Get(got.body, "id").Raw != id || gjson.Get(got.body, "result.resultType").Str != "complete" {
				t.Fatalf("%s, id %s: status %d\n got  %.300s\n want %.300s", answer.Name, id, got.status, got.body, want.body)
			}
			if known := len(with.Lists.Known()) > 0; known != (n > 0) {
				t.Errorf("%s, answer %d: remembered is %v", answer.Name, n, known)
			}
		}
	}
	if a, b := lost(t, with), lost(t, without); a != b {
		t.Errorf("counted as lost:\n%s\nwithout memory\n%s", a, b)
	}
}

// TestListsAreRememberedOnAllWays: whatever the eras and transports of both sides are, a client gets the same from a cached
// translation as from a new one.
func TestListsAreRememberedOnAllWays(t *testing.T) {
	c, err := corpus.New(128 << 10 / effort)
	if err != nil {
		t.Fatal(err)
	}
	for _, speaks := range []string{"2025-06-18", modernVersion} {
		all := listings(t, c, translate.Lookup(speaks))
		if len(all) < 4 {
			t.Fatalf("%d lists of %s", len(all), speaks)
		}
		bothTransports(t, func(t *testing.T, piped bool) {
			for _, client := range []string{"2024-11-05", "2025-11-25", modernVersion} {
				for _, over := range []string{"http", "stdio"} {
					t.Run(fmt.Sprintf("%s on %s to %s", client, over, speaks), func(t *testing.T) {
						listsAreRemembered(t, all, client, speaks, over == "stdio", piped)
					})
				}
			}
		})
	}
}

func listsAreRemembered(t *testing.T, all []corpus.Message, client, speaks string, overPipe, piped bool) {
	var answer atomic.Pointer[corpus.Message]
	say := func(id, _, _ string) ([]string, error) { return one(string(withID(t, answer.Load().Raw, id))) }
	const offers = `{"tools":{},"resources":{},"prompts":{}}`
	server := modernServer(piped, `"capabilities":`+offers, say)
	server.asked = client == modernVersion
	if speaks != modernVersion {
		server = newFake(initializing(speaks, func(m string) ([]string, error) {
			if id := gjson.Get(m, "id"); id.Exists() {
				return say(id.Raw, "", "")
			}
			return nil, nil
		}))
		server.piped = piped
	}
	with, without := front(t, server), front(t, server)
	ask, fresh := askingAs(with, client, overPipe), askingAs(without, client, overPipe)
	for _, list := range all {
		answer.Store(&list)
		with.Lists.Forget()
		for n, id := range []string{`1`, `"two"`, `3`, `"f\u006fur"`, `55`} {
			request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, list.Method)
			if client == modernVersion {
				request = modernRequestOf(id, list.Method.String(), meta(`{}`))
			}
			without.Lists.Forget()
			got, want := ask(request), fresh(request)
			if got != want || gjson.Get(got, "id").Raw != id || !gjson.Get(got, "result").Exists() {
				t.Fatalf("%s, id %s:\n got  %.300s\n want %.300s", list.Name, id, got, want)
			}
			known := slices.ContainsFunc(with.Lists.Known(), func(k memo.Key) bool { return k.By.From().Name == speaks })
			if n > 1 && !known {
				t.Errorf("%s, answer %d: it is not remembered", list.Name, n)
			}
		}
	}
	if a, b := lost(t, with), lost(t, without); a != b {
		t.Errorf("counted as lost:\n%s\nwithout memory\n%s", a, b)
	}
}
