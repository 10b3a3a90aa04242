package adapterrt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
)

// dangers has operations of each level of danger, declared and implied.
const dangers = `
create:
- {name: add, maps_to: POST /x, description: D}
- {name: purge_old, maps_to: POST /x, description: D}
- {name: mild, maps_to: POST /x, description: D, danger_level: dangerous}
read:
- {name: look, maps_to: GET /x, description: D}
- {name: careful, maps_to: GET /x, description: D, requires_confirmation: true}
update:
- {name: edit, maps_to: PUT /x, description: D}
delete:
- {name: remove, maps_to: DELETE /x, description: D}
- {name: remove_said, maps_to: DELETE /x, description: D, danger: {level: destructive}}
- {name: remove_safe, maps_to: DELETE /x, description: D, danger_level: safe}
execute:
- {name: reset_all, maps_to: POST /x, description: D}`

func TestTrust(t *testing.T) {
	const all = "add purge_old mild look careful edit remove remove_said remove_safe reset_all"
	for _, c := range []struct {
		name, trust       string
		opt               Options
		allowed, askedFor string
	}{
		{"no block", "", Options{}, "add look edit remove_safe", "mild careful remove_said remove purge_old reset_all"},
		{"confirm all that destroys", "", Options{ConfirmDestructive: true}, "add look edit remove_safe", "mild careful remove_said remove purge_old reset_all"},
		{"confirm all that destroys, though trusted", "community_reviewed", Options{ConfirmDestructive: true}, "add look edit remove_safe", "careful remove remove_said purge_old mild"},
		{"confirm all that destroys, though certified", "generated", Options{ConfirmDestructive: true, TrustOverrides: map[string]string{"test-api": "certified"}}, "add look edit remove_safe", "mild careful remove remove_said purge_old reset_all"},
		{"strict without a block", "", Options{TrustEnforcement: guard.TrustStrict}, "", ""},
		{"untested", "untested", Options{}, "", ""},
		{"generated", "generated", Options{}, "look", "careful"},
		{"validated", "validated", Options{}, "add look edit remove_safe", "careful remove remove_said"},
		{"community", "community", Options{}, "add look", "careful"},
		{"community_reviewed", "community_reviewed", Options{}, "add look edit remove remove_said remove_safe", "careful purge_old mild"},
		{"verified", "verified", Options{}, "add look edit", "careful purge_old mild"},
		{"certified by itself", "certified", Options{}, "add look edit remove remove_said remove_safe", "careful purge_old mild"},
		{"official by itself", "official", Options{}, "add look edit", "careful purge_old mild"},
		{"certified", "certified", Options{MaxSelfDeclared: "certified"}, "add purge_old mild look edit remove remove_said remove_safe", "careful reset_all"},
		{"official by the operator", "generated", Options{TrustOverrides: map[string]string{"test-api": "official"}}, "add purge_old mild look edit remove remove_said remove_safe", "careful reset_all"},
		{"demoted by the operator", "community_reviewed", Options{TrustOverrides: map[string]string{"test-api": "generated"}}, "look", "careful"},
		{"off", "untested", Options{TrustEnforcement: guard.TrustOff}, "add look edit remove_safe", "mild careful remove_said remove purge_old reset_all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			extra := ""
			if c.trust != "" {
				extra = "trust: {level: " + c.trust + ", verified_by: someone}"
			}
			rt := one(t, c.opt, "https://api.example.com", dangers, extra)
			capture(rt, "1")
			for _, op := range strings.Fields(all) {
				want := `"PERMISSION_`
				switch {
				case strings.Contains(" "+c.allowed+" ", " "+op+" "):
					want = `{"success":true`
				case strings.Contains(" "+c.askedFor+" ", " "+op+" "):
					want = `"CONFIRMATION_REQUIRED"`
				}
				got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`)
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %s, want %s", op, got, want)
				}
				conforms(t, "result", got)
			}
			if got := query(rt, "operations", ""); !strings.Contains(got, "reset_all") {
				t.Error("introspection needs no trust", got)
			}
		})
	}
}

// TestDangerOfOneOperationDoesNotClearTheOthers shows that in a file that declares danger for one operation, the
// other operations are judged by category and name, and that a file without such keys needs
// no confirmations. Safety keys of other runtimes need a confirmation, too.
func TestDangerOfOneOperationDoesNotClearTheOthers(t *testing.T) {
	const plain = "delete:\n- {name: remove, maps_to: DELETE /x, description: D}\ncreate:\n- {name: add, maps_to: POST /x, description: D%s}"
	for said, want := range map[string]bool{
		"":                                false,
		", danger_level: safe":            true,
		", requires_confirmation: false":  true,
		", danger: {reasons: [it costs]}": true,
		", non_idempotent: true":          false,
	} {
		rt := one(t, Options{}, "https://api.example.com", fmt.Sprintf(plain, said))
		capture(rt, "1")
		if got := ask(rt, Endpoint{}, `{"operation":"remove"}`); strings.Contains(got, "CONFIRMATION_REQUIRED") != want {
			t.Errorf("%q: %s", said, got)
		}
	}
	for _, c := range []struct{ op, extra string }{
		{", approval: {by: boss}", ""}, {", danger: {escalation: [boss]}", ""}, {"", "operation_overrides: {}"},
	} {
		rt := one(t, Options{}, "https://api.example.com", fmt.Sprintf(plain, c.op)+"\nread:\n- {name: look, maps_to: GET /x, description: D}", c.extra)
		capture(rt, "1")
		for _, op := range []string{"add", "remove", "look"} {
			asked := strings.Contains(ask(rt, Endpoint{}, `{"operation":"`+op+`"}`), "CONFIRMATION_REQUIRED")
			if asked != (op != "look") {
				t.Errorf("%s%s: %s asked: %v", c.op, c.extra, op, asked)
			}
		}
	}
}

func TestDenialsWordForWord(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", dangers, "trust: {level: generated}")
	for op, want := range map[string]string{
		"add":       `{"code":"PERMISSION_TRUST_LEVEL_INSUFFICIENT","message":"Operation 'add' needs trust level validated, the adapter has generated","details":{"operation":"add","required_trust":"validated","actual_trust":"generated","danger_level":"reversible"}}`,
		"reset_all": `{"code":"PERMISSION_TRUST_LEVEL_INSUFFICIENT","message":"Operation 'reset_all' needs trust level certified, the adapter has generated","details":{"operation":"reset_all","required_trust":"certified","actual_trust":"generated","danger_level":"forbidden"}}`,
	} {
		if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); got != `{"success":false,"error":`+want+`}` {
			t.Error(got)
		}
	}
	rt = one(t, Options{}, "https://api.example.com", dangers, "trust: {level: validated}")
	if got := ask(rt, Endpoint{}, `{"operation":"mild"}`); got != `{"success":false,"error":{"code":"PERMISSION_DANGER_LEVEL_DENIED","message":"Operation 'mild' is dangerous and denied with trust level validated","details":{"operation":"mild","required_trust":"community_reviewed","actual_trust":"validated","danger_level":"dangerous"}}}` {
		t.Error(got)
	}
}

func TestTrustMistakes(t *testing.T) {
	for extra, hint := range map[string]string{"trust: {level: high}": "another vocabulary", "trust: {level: odd}": "unknown", "trust: {}": "required"} {
		_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, extra)), &Options{})
		if !file.HasError(problems) || !strings.Contains(problems[0].Message, hint) {
			t.Error(extra, problems)
		}
	}
	for _, ops := range []string{
		"read: [{name: op, maps_to: GET /x, description: D, danger_level: odd}]",
		"read: [{name: op, maps_to: GET /x, description: D, danger_level: safe, danger: {level: dangerous}}]",
		"read: [{name: op, maps_to: GET /x, description: D, requires_confirmation: 'yes'}]",
	} {
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", ops)), &Options{}); a != nil {
			t.Error(ops, "passed")
		}
	}
	for _, o := range []Options{{MaxSelfDeclared: "high"}, {TrustOverrides: map[string]string{"a": "odd"}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v passed", o)
		}
	}
}

const confirmOps = `
delete:
- {name: remove, maps_to: "DELETE /x/{id}", description: D, danger_level: destructive, params: {id: {type: string, required: true}, hard: {type: boolean, default: false}}}
- {name: wipe, maps_to: DELETE /x, description: D, danger: {level: forbidden, confirmation_message: "Really?", reasons: [no way back]}}
execute:
- {name: cool, maps_to: POST /x, description: D, danger: {level: safe, cooldown_seconds: 60}}`

func TestConfirmation(t *testing.T) {
	ck := &clock{at: someTime()}
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", confirmOps)
	all := capture(rt, "1")
	do := func(session, caller, body string) string {
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(body), Session: session, Caller: caller})
		conforms(t, "result", string(r.JSON()))
		return string(r.JSON())
	}
	token := func(session, caller, body string) string {
		t.Helper()
		var v struct{ Confirmation struct{ Token string } }
		if err := json.Unmarshal([]byte(do(session, caller, body)), &v); err != nil || len(v.Confirmation.Token) != 37 {
			t.Fatal(err, v)
		}
		return v.Confirmation.Token
	}
	const ask1 = `{"operation":"remove","params":{"id":"1"}}`
	with := func(tok string) string {
		return `{"operation":"remove","params":{"id":"1","_confirmation":"` + tok + `"}}`
	}

	got := do("s", "", ask1)
	tok := got[strings.Index(got, "conf_"):][:37]
	want := `{"success":false,"error":{"code":"CONFIRMATION_REQUIRED","message":"Operation 'remove' needs confirmation","details":{"operation":"remove","danger_level":"destructive","reasons":["danger level destructive"],"confirmation_message":"Operation 'remove' is destructive. Ask the person first, then send it again with params._confirmation.","confirmation_token":"` + tok + `","expires_at":"2026-01-02T03:09:05Z"}},"confirmation":{"token":"` + tok + `","expires_at":"2026-01-02T03:09:05Z","message":"Operation 'remove' is destructive. Ask the person first, then send it again with params._confirmation.","reasons":["danger level destructive"]}}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for _, c := range []struct{ session, caller, body, code string }{
		{"s", "", with("conf_0"), "TOKEN_INVALID"},
		{"s", "", with(strings.Repeat("x", 1000)), "TOKEN_INVALID"},
		{"other", "", with(tok), "TOKEN_SCOPE_MISMATCH"},
		{"", "s", with(tok), "TOKEN_SCOPE_MISMATCH"},
		{"s", "", strings.Replace(with(tok), `"1"`, `"2"`, 1), "TOKEN_SCOPE_MISMATCH"},
		{"s", "", strings.Replace(with(tok), `"1"`, `"1","hard":true`, 1), "TOKEN_SCOPE_MISMATCH"},
		{"s", "", `{"operation":"wipe","params":{"_confirmation":"` + tok + `"}}`, "TOKEN_SCOPE_MISMATCH"},
	} {
		if got := do(c.session, c.caller, c.body); !strings.Contains(got, c.code) || len(*all) != 0 {
			t.Error(c, got)
		}
	}
	if got := do("s", "", with(tok)); got != `{"success":true,"data":1}` || len(*all) != 1 {
		t.Error(got)
	}
	if got := do("s", "", with(tok)); !strings.Contains(got, "TOKEN_ALREADY_USED") || len(*all) != 1 {
		t.Error("replayed:", got)
	}
	tok = token("s", "", ask1)
	ck.pass(300 * time.Second)
	if got := do("s", "", with(tok)); !strings.Contains(got, "TOKEN_EXPIRED") {
		t.Error(got)
	}
	tok = token("", "me", ask1)
	if got := do("", "me", strings.Replace(with(tok), "_confirmation", "confirmation_token", 1)); !strings.Contains(got, `"data":1`) {
		t.Error(got)
	}
	tok = token("s", "", ask1)
	rt.EndSession("s")
	if got := do("s", "", with(tok)); !strings.Contains(got, "TOKEN_INVALID") || !strings.Contains(got, "another replica") {
		t.Error(got)
	}
	if got := do("s", "", `{"operation":"wipe"}`); !strings.Contains(got, `"message":"Really?","reasons":["no way back"]`) || !strings.Contains(got, ck.now().Add(120*time.Second).Format(time.RFC3339)) {
		t.Error(got)
	}
	tok = token("s", "", ask1)
	file := rt.Adapters()[0].File
	text, _ := os.ReadFile(file)
	os.WriteFile(file, append(text, "more\n"...), 0o600)
	if _, changed, err := rt.Reload([]string{file}); !changed || err != nil {
		t.Fatal(err)
	}
	if got := do("s", "", with(tok)); !strings.Contains(got, "TOKEN_INVALID") {
		t.Error("a token outlived its adapter:", got)
	}
}

// TestTheUserIsAsked tests each way of confirmation with each answer, for a single call and in
// a batch, and without a user to ask, as at the plain endpoints.
func TestTheUserIsAsked(t *testing.T) {
	const (
		sends   = `"success":true`
		token   = `"CONFIRMATION_REQUIRED"`
		refuses = `"code":"PERMISSION_DENIED"`
	)
	answers := map[string]func(context.Context, string) (bool, error){
		"nobody": nil,
		"yes":    func(context.Context, string) (bool, error) { return true, nil },
		"no":     func(context.Context, string) (bool, error) { return false, nil },
		"silent": func(context.Context, string) (bool, error) { return true, errors.New("no answer") },
	}
	for via, wants := range map[guard.ConfirmVia]map[string]string{
		guard.ConfirmAuto:  {"nobody": token, "yes": sends, "no": refuses, "silent": token},
		guard.ConfirmToken: {"nobody": token, "yes": token, "no": token, "silent": token},
		guard.ConfirmUser:  {"nobody": refuses, "yes": sends, "no": refuses, "silent": refuses},
	} {
		rt := one(t, Options{ConfirmVia: via}, "https://api.example.com", confirmOps)
		all := capture(rt, "1")
		for answer, want := range wants {
			for _, body := range []string{`{"operation":"remove","params":{"id":"1"}}`, `{"operations":[{"operation":"remove","params":{"id":"1"}}]}`} {
				*all = nil
				asked := 0
				req := &Request{Body: []byte(body), Session: "s"}
				if f := answers[answer]; f != nil {
					req.Ask = func(ctx context.Context, question string) (bool, error) {
						if asked++; !strings.Contains(question, `'remove'`) || !strings.Contains(question, `{"id":"1","hard":false}`) {
							t.Error(question)
						}
						return f(ctx, question)
					}
				}
				r := rt.Dispatch(t.Context(), Endpoint{}, req)
				got := string(r.JSON())
				if !strings.Contains(got, want) || (len(*all) == 1) != (want == sends) || strings.Contains(got, "conf_") != (want == token) {
					t.Errorf("via %d, %s, %s: %s", via, answer, body, got)
				}
				if (asked == 1) != (req.Ask != nil && via != guard.ConfirmToken) {
					t.Errorf("via %d, %s: asked %d times", via, answer, asked)
				}
				if !strings.HasPrefix(body, `{"operations"`) {
					conforms(t, "result", got)
				}
			}
		}
		if got := ask(rt, Endpoint{}, `{"operation":"remove","params":{"id":"1","_confirmation":"conf_00"}}`); !strings.Contains(got, "TOKEN_INVALID") {
			t.Error(got)
		}
		res := rt.HTTP(t.Context(), &HTTPRequest{Request: Request{Body: []byte(`{"operation":"remove","params":{"id":"1"}}`)}, Method: "POST", Path: "/adapters/test-api/delete", ContentType: "application/json"})
		if want := map[bool]int{true: 403, false: 428}[via == guard.ConfirmUser]; res.Status != want || strings.Contains(string(res.Body), "conf_") != (want == 428) {
			t.Errorf("via %d: %d %s", via, res.Status, res.Body)
		}
	}
}

// TestWhatHappensWhileTheUserIsAsked changes the adapter, cancels the call, or lets time pass while the user is asked.
func TestWhatHappensWhileTheUserIsAsked(t *testing.T) {
	ck := &clock{at: someTime()}
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", confirmOps)
	all := capture(rt, "1")
	during := func(happens func()) Result {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		return rt.Dispatch(ctx, Endpoint{}, &Request{Body: []byte(`{"operation":"remove","params":{"id":"1"}}`), Ask: func(context.Context, string) (bool, error) {
			if happens == nil {
				leave()
				return true, ctx.Err()
			}
			happens()
			return true, nil
		}})
	}
	if r := during(func() { ck.pass(time.Minute) }); r.Failure != nil || r.Call.Duration != 0 || len(*all) != 1 {
		t.Errorf("%v %+v", r.Failure, r.Call)
	}
	if r := during(nil); !r.Cancelled || len(*all) != 1 {
		t.Errorf("%+v", r)
	}
	path := rt.Adapters()[0].File
	text, _ := os.ReadFile(path)
	r := during(func() {
		os.WriteFile(path, append(text, "more\n"...), 0o600)
		if _, changed, err := rt.Reload([]string{path}); !changed || err != nil {
			t.Fatal(changed, err)
		}
	})
	if r.Failure == nil || r.Failure.Code != "CONFLICT_VERSION_MISMATCH" || len(*all) != 1 {
		t.Errorf("the user agreed to what is no more: %v", r.Failure)
	}
}

func TestCooldown(t *testing.T) {
	ck := &clock{at: someTime()}
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", confirmOps)
	capture(rt, "1")
	for i, want := range []string{`"data":1`, `"retry_after_seconds":60`, `"data":1`} {
		if got := ask(rt, Endpoint{}, `{"operation":"cool"}`); !strings.Contains(got, want) {
			t.Error(i, got)
		}
		if i > 0 {
			ck.pass(time.Minute)
		}
	}
}
