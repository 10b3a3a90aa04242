package adapterrt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// callersOps is an adapter with everything that is kept between calls.
const callersOps = `
read:
- {name: who, maps_to: GET /who, cache: {ttl: 60s, coalesce: true}}
- name: list_notes
  maps_to: GET /notes
  pagination: {style: page, param_name: page, per_page_param: limit, default_limit: 2, max_limit: 10}
- {name: count, maps_to: GET /count, rate_limits: {quotas: {limits: [{metric: requests_per_day, hard_stop: 3}]}}}
delete:
- {name: drop, maps_to: 'DELETE /notes/{id}', danger: {level: destructive, requires_confirmation: true}, params: {id: {type: integer, required: true}}}
execute:
- {name: run, maps_to: POST /run, danger: {level: safe, cooldown_seconds: 60}}
`

const callersAuth = "auth: {type: bearer, token_env: OPERATOR}"

// echo answers with the credential that arrived, a page of notes, or what else was asked for.
func echo(t testing.TB) string {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		got := r.Header.Get("Authorization")
		switch r.URL.Path {
		case "/notes":
			fmt.Fprintf(w, `[{"of":%q},{"of":%q}]`, got, got)
		default:
			fmt.Fprintf(w, `{"of":%q}`, got)
		}
	})
	return s.URL
}

func callersOptions() Options {
	return Options{
		Getenv: environment("OPERATOR", "operators-token"), InsecureHosts: []string{"127.0.0.1"},
		Callers: map[string]Callers{"test-api": {Headers: map[string]string{"Authorization": "X-My-Token"}}},
	}
}

func asCaller(token string) *Request {
	return &Request{Session: "one session for all", Headers: []file.Header{{Name: "x-my-token", Value: token}}}
}

func (r *Request) with(body string) *Request {
	with := *r
	with.Body = []byte(body)
	return &with
}

func TestCallersCredentialReachesTheAPI(t *testing.T) {
	base := echo(t)
	for _, c := range []struct{ name, auth, header, value, want string }{
		{"prefix is added", callersAuth, "Authorization", "alices", "Bearer alices"},
		{"prefix is there", callersAuth, "Authorization", "bearer alices", "bearer alices"},
		{"another scheme", callersAuth, "Authorization", "Basic YTpi", "Basic YTpi"},
		{"no auth in the file", "", "Authorization", "alices", "alices"},
		{"key in place of a bearer", callersAuth, "X-Key", "alices", ""},
	} {
		opt := callersOptions()
		opt.Callers["test-api"] = Callers{Headers: map[string]string{c.header: "X-My-Token"}}
		rt := one(t, opt, base, callersOps, c.auth)
		r := rt.Dispatch(context.Background(), Endpoint{}, asCaller(c.value).with(`{"operation":"who"}`))
		if got := string(r.JSON()); !strings.Contains(got, `{"of":"`+c.want+`"}`) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestMissingCallersCredential(t *testing.T) {
	opt := callersOptions()
	rt := one(t, opt, echo(t), callersOps, callersAuth)
	for _, req := range []*Request{{}, asCaller(""), asCaller(" "), {Headers: []file.Header{{Name: "Authorization", Value: "Bearer x"}}}} {
		for _, body := range []string{`{"operation":"who"}`, `{"operation":"drop","params":{"id":1}}`, `{"operation":"run"}`} {
			r := rt.Dispatch(context.Background(), Endpoint{}, req.with(body))
			got := string(r.JSON())
			if r.Failure == nil || r.Failure.Code != failure.AuthCredentialMissing || !strings.Contains(got, "X-My-Token") || r.HTTPStatus() != 400 || strings.Contains(got, "operator") {
				t.Errorf("%s: %d %s", body, r.HTTPStatus(), got)
			}
		}
		if got := string(ptr(rt.Dispatch(context.Background(), Endpoint{}, req.with(`{"operation":"introspect","params":{"query":"operations"}}`))).JSON()); !strings.Contains(got, `"success":true`) {
			t.Error(got)
		}
	}
	local := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"who"}`), Local: true})
	if got := string(local.JSON()); !strings.Contains(got, "Bearer operators-token") {
		t.Error(got)
	}

	opt.Callers["test-api"] = Callers{Headers: map[string]string{"Authorization": "X-My-Token", "X-Org": "X-My-Org"}, Fallback: true}
	both := one(t, opt, echo(t), callersOps, callersAuth)
	if got := ask(both, Endpoint{}, `{"operation":"who"}`); !strings.Contains(got, "Bearer operators-token") {
		t.Error(got)
	}
	// Half a credential is a mistake, not a reason to use the operator's.
	r := both.Dispatch(context.Background(), Endpoint{}, asCaller("alices").with(`{"operation":"who"}`))
	if got := string(r.JSON()); !strings.Contains(got, "X-My-Org") || strings.Contains(got, "X-My-Token") || r.Failure == nil {
		t.Error(got)
	}
}

func ptr[T any](v T) *T { return &v }

func TestUnusableCallersCredential(t *testing.T) {
	rt := one(t, callersOptions(), echo(t), callersOps, callersAuth)
	for _, value := range []string{"a\r\nX-Evil: 1", "a\x00b", strings.Repeat("x", 20_000)} {
		r := rt.Dispatch(context.Background(), Endpoint{}, asCaller(value).with(`{"operation":"who"}`))
		if r.Failure == nil || r.Failure.Code != failure.AuthInvalid || len(r.JSON()) > 500 {
			t.Errorf("%.300s", r.JSON())
		}
	}
}

func TestCallersOptions(t *testing.T) {
	for _, headers := range []map[string]string{
		nil, {"Host": "X-A"}, {"Content-Length": "X-A"}, {"a b": "X-A"}, {"Authorization": "Host"}, {"Authorization": ""}, {"Authorization": "x-dragoman-token"},
		{"Authorization": "X-A", "authorization": "X-B"}, {"": "X-A"},
	} {
		if rt, err := New(Options{Callers: map[string]Callers{"a": {Headers: headers}}}); err == nil {
			rt.Close()
			t.Errorf("%v is accepted", headers)
		}
	}
}

// TestNothingCrossesBetweenCallers runs random calls of two callers and of the operator in one
// session, and checks that no answer has anything of another one.
func TestNothingCrossesBetweenCallers(t *testing.T) {
	base := echo(t)
	rapid.Check(t, func(t *rapid.T) {
		rt, err := New(callersOptions())
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		a, problems := file.Parse("test-api-adapter.md", []byte(front(base, callersOps, callersAuth)), rt.opt.files())
		if a == nil {
			t.Fatal(problems)
		}
		served := rt.prepare(a)
		s, err := rt.snapshot([]*adapter{served}, rt.live.Load())
		if err != nil {
			t.Fatal(err)
		}
		rt.connect(s.adapters, nil)
		rt.live.Store(s)

		names := []string{"alices-token", "bobs-token", "operators-token"}
		cursors, tokens := map[string][]string{}, map[string][]string{}
		counts, ran := map[string]int{}, map[string]bool{}
		cursor, token := regexp.MustCompile(`"endCursor":"([^"]+)"`), regexp.MustCompile(`conf_[0-9a-f]+`)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			who := rapid.SampledFrom(names).Draw(t, "caller")
			req := asCaller(who)
			if who == names[2] {
				req = &Request{Session: req.Session, Local: true}
			}
			call := func(body string) (string, *failure.Failure) {
				r := rt.Dispatch(context.Background(), Endpoint{}, req.with(body))
				got := string(rt.AppendToolResult(nil, &r))
				for _, other := range names {
					if other != who && strings.Contains(got, other) {
						t.Fatalf("%s got %s", who, got)
					}
				}
				if r.Failure == nil && r.Data != nil && !strings.Contains(string(r.Data), who) {
					t.Fatalf("%s got %s", who, got)
				}
				return string(r.JSON()), r.Failure
			}
			owner := rapid.SampledFrom(names).Draw(t, "owner")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				call(`{"operation":"who"}`)
			case 1:
				if got, f := call(`{"operation":"list_notes","params":{"first":2}}`); f != nil {
					t.Fatal(f)
				} else if m := cursor.FindStringSubmatch(got); m != nil {
					cursors[who] = append(cursors[who], m[1])
				}
			case 2:
				if list := cursors[owner]; len(list) > 0 {
					_, f := call(`{"operation":"list_notes","params":{"first":2,"after":"` + list[len(list)-1] + `"}}`)
					if (f == nil) != (owner == who) {
						t.Fatalf("%s with the cursor of %s: %v", who, owner, f)
					}
				}
			case 3:
				if list := tokens[owner]; len(list) > 0 && rapid.Bool().Draw(t, "redeem") {
					_, f := call(`{"operation":"drop","params":{"id":1,"_confirmation":"` + list[len(list)-1] + `"}}`)
					if (f == nil) != (owner == who) {
						t.Fatalf("%s with the confirmation of %s: %v", who, owner, f)
					}
					if owner == who {
						tokens[owner] = list[:len(list)-1]
					}
				} else if got, f := call(`{"operation":"drop","params":{"id":1}}`); f == nil || f.Code != failure.ConfirmationRequired {
					t.Fatal(got)
				} else {
					tokens[who] = append(tokens[who], token.FindString(got))
				}
			case 4:
				_, f := call(`{"operation":"count"}`)
				if counts[who]++; (f == nil) != (counts[who] <= 3) {
					t.Fatalf("call %d of %s: %v", counts[who], who, f)
				}
			case 5:
				_, f := call(`{"operation":"run"}`)
				if (f == nil) == ran[who] {
					t.Fatalf("%s: %v", who, f)
				}
				ran[who] = true
			}
		}
	})
}

// TestCallersAtOnce shows that calls in flight at the same time, which are coalesced, get the
// answer for their own credential.
func TestCallersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := one(t, callersOptions(), "https://api.example.com", callersOps, callersAuth)
		release := make(chan struct{})
		var sent atomic.Int32
		rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			sent.Add(1)
			<-release
			r := reply(200, "Content-Type", "application/json")
			r.Body = fmt.Appendf(nil, `{"of":"%v"}`, o.Headers)
			return r, nil
		}
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				who := []string{"alices", "bobs", "carols"}[i%3]
				r := rt.Dispatch(context.Background(), Endpoint{}, asCaller(who).with(`{"operation":"who"}`))
				if got := string(r.JSON()); !strings.Contains(got, "Bearer "+who+"}") {
					t.Errorf("%s got %s", who, got)
				}
			})
		}
		synctest.Wait()
		if n := sent.Load(); n != 3 {
			t.Errorf("%d requests for 3 callers", n)
		}
		close(release)
		wg.Wait()
	})
}

// TestCallersSecretsStayInside shows that no error, log record or warning has the credential of a
// caller, also when the API repeats it.
func TestCallersSecretsStayInside(t *testing.T) {
	const secret = "alices-secret-0123456789"
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(401)
		fmt.Fprintf(w, `{"message":"bad credentials %s and %s"}`, r.Header.Get("Authorization"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	rt := one(t, callersOptions(), s.URL, callersOps, callersAuth)
	for _, value := range []string{secret, "Bearer " + secret, secret + "\x00"} {
		for _, body := range []string{`{"operation":"who"}`, `{"operation":"count"}`, `{"operation":"list_notes","params":{"first":1}}`} {
			r := rt.Dispatch(context.Background(), Endpoint{}, asCaller(value).with(body))
			shown := string(r.JSON()) + fmt.Sprint(r.Call) + r.Call.Original
			if r.Failure == nil || strings.Contains(shown, secret) || strings.Contains(shown, "operators") {
				t.Errorf("%s", shown)
			}
		}
	}
}

// TestReloadKeepsCallersCounters shows that a caller does not get a new quota by a reload.
func TestReloadKeepsCallersCounters(t *testing.T) {
	files := map[string]string{"test-api-adapter.md": front(echo(t), callersOps, callersAuth)}
	dir, paths := write(t, files)
	rt, err := New(callersOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	if _, err := rt.Load(paths); err != nil {
		t.Fatal(err)
	}
	count := func(who string) bool {
		return rt.Dispatch(context.Background(), Endpoint{}, asCaller(who).with(`{"operation":"count"}`)).Failure == nil
	}
	for range 3 {
		if !count("alices") {
			t.Fatal("refused")
		}
	}
	rewrite(t, dir, "test-api-adapter.md", strings.Replace(files["test-api-adapter.md"], "An API for tests", "Another", 1))
	if _, changed, err := rt.Reload(paths); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if count("alices") || !count("bobs") {
		t.Error("a reload gave a new quota, or mixed callers")
	}
}

func rewrite(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// grants are views that hide different things.
var grants = map[string]Grant{
	"reader": {Allow: []string{"*:read"}},
	"github": {Allow: []string{"github.*"}, Deny: []string{"*:delete", "merge_pull"}},
	"one":    {Allow: []string{"linear.create_issue"}},
	"none":   {Deny: []string{"*"}},
	"words":  {Allow: []string{"*issue*"}},
}

func TestGrants(t *testing.T) {
	for text, want := range map[string]int{"*": 73, "github.*": 41, "github.*:read": 23, "create_issue": 2, "linear.create_issue": 1, "*.get_*:read": 15, "*:delete": 6, "nothing": 0, "github.create_issue:read": 0} {
		rt := shippedRuntime(t, Options{Shown: Shown{Grants: map[string]Grant{"g": {Allow: []string{text}}}}})
		n := 0
		for _, a := range rt.live.Load().view("g").adapters {
			n += len(rt.live.Load().view("g").scopes[a.Name].shown.Adapters[0].Operations())
		}
		if n != want {
			t.Errorf("%s allows %d, want %d", text, n, want)
		}
		if idle := rt.Idle(); (len(idle) > 0) != (want == 0) {
			t.Errorf("%s: idle %v", text, idle)
		}
	}
	for _, text := range []string{"", ":read", "a:b", "a.b.c", "A", "a/b", "[a]", "a b", "github.*:reads", "a?"} {
		if (&Grant{Deny: []string{text}}).Validate() == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestHiddenIsMissing shows that a caller cannot tell a hidden operation from one that does not
// exist, by whatever means: it compares what a grant shows with what a runtime shows whose
// files do not have the hidden operations.
func TestHiddenIsMissing(t *testing.T) {
	text := front("https://api.example.com/v1", everything, everythingElse...)
	second := strings.Replace(text, "name: test-api", "name: other-api", 1)
	cut := func(text, from, to string) string {
		a, b := strings.Index(text, from), strings.Index(text, to)
		if a < 0 || b < a {
			t.Fatal(from)
		}
		return text[:a] + text[b:]
	}
	less := cut(text, "  delete:\n", "  execute:\n")
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.All, present.Discrete, present.Search, present.Auto} {
		for name, c := range map[string]struct {
			grant Grant
			files map[string]string // as if the hidden operations were not there
		}{
			"an operation": {Grant{Deny: []string{"delete_issue"}}, map[string]string{"test-api-adapter.md": less, "other-api-adapter.md": strings.Replace(less, "name: test-api", "name: other-api", 1)}},
			"an adapter":   {Grant{Allow: []string{"test-api.*"}}, map[string]string{"test-api-adapter.md": text}},
		} {
			shown := Shown{Mode: mode, Pin: []string{"delete_issue"}, Grants: map[string]Grant{"g": c.grant}}
			with := start(t, Options{Shown: shown, Now: someTime}, map[string]string{"test-api-adapter.md": text, "other-api-adapter.md": second})
			without := start(t, Options{Shown: Shown{Mode: mode, Pin: shown.Pin}, Now: someTime}, c.files)
			capture(with, "1")
			capture(without, "1")
			same := func(what string, a, b []byte) {
				t.Helper()
				if !bytes.Equal(a, b) {
					t.Errorf("%s, %s, %s:\n%.2000s\n%.2000s", mode, name, what, a, b)
				}
			}
			if a, b := with.Tools("g"), without.Tools(""); len(a) != len(b) {
				t.Errorf("%s, %s: %d and %d tools", mode, name, len(a), len(b))
			} else {
				for i := range a {
					same("tools/list", a[i].JSON, b[i].JSON)
				}
			}
			same("instructions", []byte(with.Instructions("g")), []byte(without.Instructions("")))
			for _, body := range []string{
				`{"operation":"introspect","params":{"query":"operations"}}`, `{"operation":"introspect","params":{"query":"types"}}`,
				`{"operation":"introspect","params":{"query":"adapter_info"}}`, `{"operation":"introspect","params":{"query":"quota_status"}}`,
				`{"operation":"introspect","params":{"query":"operations","name":"test-api.delete_issue"}}`,
				`{"operation":"introspect","params":{"query":"operations","name":"delete_issue"}}`,
				`{"operation":"introspect","params":{"query":"operations","name":"deleteIssue"}}`,
				`{"operation":"introspect","params":{"query":"types","name":"DeleteIssueParams"}}`,
				`{"operation":"introspect","params":{"query":"operations","category":"delete"}}`,
				`{"operation":"introspect","params":{"query":"operations","adapter":"other-api"}}`,
				`{"operation":"delete_issue","params":{"id":1}}`, `{"operation":"test-api.delete_issue","params":{"id":1}}`, `{"operation":"other-api.bare"}`,
				`{"operation":"bare","adapter":"other-api"}`, `{"operation":"bare"}`, `{"operation":"delete_isue"}`, `{"operation":"delete_issue"}`,
				`{"operations":[{"operation":"delete_issue","params":{"id":1}},{"operation":"bare"}]}`,
			} {
				a := with.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(body), Grant: "g"})
				b := without.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(body)})
				same(body, a.JSON(), b.JSON())
			}
			for _, path := range []string{"", "/test-api", "/other-api", "/test-api/operations", "/test-api/operations/delete_issue", "/test-api/types", "/other-api/delete"} {
				for _, method := range []string{"GET", "POST"} {
					req := HTTPRequest{Request: Request{Body: []byte(`{"operation":"delete_issue","params":{"id":1}}`)}, Method: method, Path: "/adapters" + path, ContentType: "application/json"}
					b := without.HTTP(context.Background(), &req)
					req.Grant = "g"
					a := with.HTTP(context.Background(), &req)
					same(method+" "+path, a.Body, b.Body)
					if a.Status != b.Status {
						t.Errorf("%s %s: %d and %d", method, path, a.Status, b.Status)
					}
				}
			}
			for _, tool := range []string{"search_operations", "describe_operations", "call_write", "delete_issue", "test_api_delete_issue", "mcp_aql_delete"} {
				for _, args := range []string{`{"query":"delete an issue"}`, `{"operations":["delete_issue","test-api.delete_issue"]}`, `{"operation":"delete_issue","params":{"id":1}}`, `{"id":1}`} {
					a, known := with.CallTool(context.Background(), tool, &Request{Body: []byte(args), Grant: "g"})
					b, too := without.CallTool(context.Background(), tool, &Request{Body: []byte(args)})
					if known != too {
						t.Errorf("%s, %s: %s is known to one only", mode, name, tool)
					}
					same(tool+" "+args, with.AppendToolResult(nil, &a), without.AppendToolResult(nil, &b))
				}
			}
		}
	}
}

func TestGrantsOfShippedAdapters(t *testing.T) {
	rt := shippedRuntime(t, Options{Shown: Shown{Mode: present.Search, Grants: grants}})
	all := capture(rt, `{"data":{}}`)
	for _, c := range []struct {
		grant, body string
		code        failure.Code
	}{
		{"reader", `{"operation":"github.get_me"}`, ""},
		{"reader", `{"operation":"github.merge_pull","params":{"owner":"o","repo":"r","pull_number":1}}`, failure.NotFoundOperation},
		{"github", `{"operation":"merge_pull","params":{"owner":"o","repo":"r","pull_number":1}}`, failure.NotFoundOperation},
		{"github", `{"operation":"create_issue","params":{"owner":"o","repo":"r","title":"t"}}`, ""}, // the only one of this name that it sees
		{"one", `{"operation":"create_issue","params":{"title":"t","team_id":"x"}}`, ""},
		{"one", `{"operation":"get_me"}`, failure.NotFoundOperation},
		{"none", `{"operation":"github.get_me"}`, failure.ValidationInvalidValue}, // github is no adapter then
		{"none", `{"operation":"get_me"}`, failure.NotFoundOperation},
		{"unknown", `{"operation":"get_me"}`, failure.NotFoundOperation},
		{"words", `{"operation":"github.create_issue","params":{"owner":"o","repo":"r","title":"t"}}`, ""},
	} {
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(c.body), Grant: c.grant})
		var code failure.Code
		if r.Failure != nil {
			code = r.Failure.Code
		}
		if code != c.code {
			t.Errorf("%s %s: %s", c.grant, c.body, r.JSON())
		}
	}
	if len(*all) != 4 {
		t.Error(len(*all), "requests")
	}
	if rt.Instructions("none") != "" || strings.Contains(rt.Instructions("one"), "github") {
		t.Error(rt.Instructions("one"))
	}
}

func TestShowChangesWhatIsSeen(t *testing.T) {
	rt := shippedRuntime(t, Options{})
	before := rt.live.Load().byName["github"]
	for _, shown := range []Shown{{Mode: present.Search}, {Mode: present.Search, Grants: grants}, {Mode: present.Discrete, Grants: grants}, {Pin: []string{"get_me"}}, {}} {
		changed, err := rt.Show(shown)
		if err != nil || !changed {
			t.Fatal(changed, err)
		}
		if changed, err := rt.Show(shown); err != nil || changed {
			t.Error("the same again is a change")
		}
		if shown.Grants != nil && bytes.Contains(joined(rt.Tools("one")), []byte("github")) {
			t.Error("a grant is not in force")
		}
		if rt.live.Load().byName["github"] != before {
			t.Error("the adapter was loaded again")
		}
	}
	if _, err := rt.Show(Shown{Grants: map[string]Grant{"x": {Allow: []string{"?"}}}}); err == nil || !strings.Contains(err.Error(), "x.allow[0]") {
		t.Error(err)
	}
}

func joined(tools []Tool) (all []byte) {
	for _, tool := range tools {
		if !json.Valid(tool.JSON) {
			panic(string(tool.JSON))
		}
		all = append(all, tool.JSON...)
	}
	return all
}
