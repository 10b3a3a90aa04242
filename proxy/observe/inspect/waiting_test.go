package inspect

import (
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestWhatWaitsForUsers has the client and, if its call was watched, what that call names.
func TestWhatWaitsForUsers(t *testing.T) {
	p := observe.Peers{Session: "s1", Client: "cursor 0.41", ClientRevision: "2025-11-25", Server: "tracker 0.9", ServerRevision: "2025-11-25"}
	since := time.Now().Add(-time.Minute)
	s := serve(t, func(o *Options) {
		o.Keep = true
		o.Live = func() Live {
			return Live{Parked: []Parked{
				{Method: "sampling/createMessage", Since: since, Call: 1},                                                         // a client without sessions
				{Method: "roots/list", Session: "s2", Client: "configured-secret", Server: "s 1", Since: since.Add(-time.Minute)}, // the page was opened later
				{Method: "elicitation/create", Session: "s1", Client: "cursor 0.41", Since: since.Add(time.Second), Call: 3},
			}}
		}
	})
	ask := func(tool, question string) *observe.Call {
		request := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
		c := s.seen.Begin(&p, s.seen.Keep([]byte(request)), false)
		c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: s.seen.Keep([]byte(request))})
		c.Went(observe.ClientEdge, observe.ToClient, []byte(`{"jsonrpc":"2.0","id":"q","method":"`+question+`","params":{}}`))
		return c
	}
	ask("draft", "sampling/createMessage")
	ask("ended", "elicitation/create").End("cancelled", "")
	ask("delete_all", "elicitation/create")
	state := func() gjson.Result { return gjson.Parse(body(t, s.get("/inspect/state", authorized))) }
	peertest.Eventually(t, "all calls are kept", func() bool { return len(s.o.Ring.Asking()) == 2 })
	got := state()
	for path, want := range map[string]string{
		"parked.#":        "3",
		"parked.0.method": "roots/list", "parked.0.server": "s 1", "parked.0.call": "", "parked.0.tool": "",
		"parked.1.method": "sampling/createMessage", "parked.1.call": "1", "parked.1.tool": "draft", "parked.1.client": "cursor 0.41", "parked.1.server": "tracker 0.9",
		"parked.2.method": "elicitation/create", "parked.2.call": "3", "parked.2.tool": "delete_all", "parked.2.session": "s1",
	} {
		if g := got.Get(path).String(); g != want {
			t.Errorf("%s: %q, want %q", path, g, want)
		}
	}
	if client := got.Get("parked.0.client").Str; client == "" || client == "configured-secret" {
		t.Errorf("a name that is a secret is %q", client)
	}
}

// TestRulesAreExplained: each rule of the docs, and all else that rows name, has words.
func TestRulesAreExplained(t *testing.T) {
	s := serve(t, nil)
	if r := s.get("/inspect/rules"); r.StatusCode != 401 {
		t.Errorf("without the token: %d", r.StatusCode)
	}
	all := gjson.Parse(body(t, s.get("/inspect/rules", authorized)))
	for _, rule := range translate.Rules() {
		if !slices.ContainsFunc(all.Map()[rule.ID].Array(), func(w gjson.Result) bool {
			return w.Get("what").Str == rule.What && w.Get("does").Str == rule.Does && rule.Does != ""
		}) {
			t.Errorf("%s about %s has no words", rule.ID, rule.What)
		}
	}
	for _, by := range []string{observe.Transform, observe.OwnTools, observe.Cache, observe.Bridge, observe.Gate, observe.Restart, observe.Replica, observe.Trace, observe.Dialect, observe.Footprint, observe.Handshake} {
		if all.Get(by+".0.does").Str == "" {
			t.Errorf("%s has no words", by)
		}
	}
	if c03 := all.Get("C03.0"); c03.Get("what").Str != "outputSchema" || c03.Get("since").Str != "2025-06-18" {
		t.Errorf("%s", c03)
	}
}

// TestAnInvitationIsGoodOnce and not for anything but the token.
func TestAnInvitationIsGoodOnce(t *testing.T) {
	s := serve(t, nil)
	tell := func(code string) (int, string) {
		r := s.get("/inspect/token", "Authorization: Bearer "+code)
		return r.StatusCode, gjson.Get(body(t, r), "token").Str
	}
	if status, _ := tell(""); status != 401 {
		t.Errorf("before there is one: %d", status)
	}
	first, code := s.Invite(), s.Invite()
	for name, c := range map[string]string{"an earlier one": first, "another code": code + "0", "none": ""} {
		if status, got := tell(c); status != 401 || got != "" {
			t.Errorf("%s: %d %s", name, status, got)
		}
	}
	if r := s.get("/inspect/state", "Authorization: Bearer "+code); r.StatusCode != 401 {
		t.Errorf("it opens the state: %d", r.StatusCode)
	}
	if r := s.get("/inspect/token", "Authorization: Bearer "+code, "Sec-Fetch-Site: cross-site"); r.StatusCode != 403 {
		t.Errorf("a page of another origin: %d", r.StatusCode)
	}
	if status, got := tell(code); status != 200 || got != token {
		t.Errorf("%d %s", status, got)
	}
	if status, got := tell(code); status != 401 || got != "" {
		t.Errorf("a second time: %d %s", status, got)
	}
	late := s.Invite()
	s.Handler.mu.Lock()
	s.invited.until = time.Now()
	s.Handler.mu.Unlock()
	if status, _ := tell(late); status != 401 {
		t.Errorf("too late: %d", status)
	}
}
