package tests

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// jwt returns a token with these claims. Its signature is not valid, since dragoman does not check
// it.
func jwt(claims, signature string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return "Bearer " + b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(claims)) + "." + b64([]byte(signature))
}

const adaClaims = `{"iss":"https://a","sub":"ada"}`

// byClaims configures principals that are identified by claims of their tokens.
func byClaims(c *config.Config) { c.Bridge.Principal = "claim:iss+sub" }

// guarded is a server that accepts only these tokens; which depends on the method.
type guarded struct {
	*fakeServer
	mu   sync.Mutex
	lets func(authorization, method string) bool
}

// check is the First of the server.
func (g *guarded) check(u *peertest.Turn) {
	g.mu.Lock()
	lets := g.lets
	g.mu.Unlock()
	if !lets(u.Header.Get("Authorization"), u.Method) {
		u.Fail(&upstream.StatusError{Code: 401, Header: []mcp.Header{{Name: "WWW-Authenticate", Value: "Bearer"}}})
	}
}

func (g *guarded) only(tokens ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lets = func(authorization, _ string) bool { return slices.Contains(tokens, authorization) }
}

func guardedFront(t *testing.T, change ...func(*config.Config)) (*guarded, testServer) {
	f, gate := asksName(nameQuestion)
	f.on("ping", func(u *peertest.Turn) { u.Say(result(u.ID, "")) })
	f.on("tools/list", func(u *peertest.Turn) { u.Say(result(u.ID, `"tools":[]`)) })
	open(f, gate)
	g := &guarded{fakeServer: f}
	f.First = g.check
	srv := front(t, f, append(change, byClaims)...)
	return g, srv
}

// answers returns how many answers to its question the server got.
func (f *fakeServer) answers() (n int) {
	for _, m := range f.sent() {
		if gjson.Get(m, "id").String() == "s1" {
			n++
		}
	}
	return n
}

// TestARefreshedTokenAnswers: the question that was asked with an older token of the same user can
// be answered with a new one, which the server gets with the answer.
func TestARefreshedTokenAnswers(t *testing.T) {
	old, fresh := jwt(adaClaims, "1"), jwt(adaClaims, "2")
	g, srv := guardedFront(t)
	g.only(old)
	asked := srv.modernly(modernCall("7", ""), "Authorization", old)
	g.only(fresh) // the old one has expired
	r := srv.modernly(retryOf("8", ada, asked), "Authorization", fresh)
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":8,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}],`+identity+`}}`)
	if n := len(g.said("tools/call")); n != 1 || g.answers() != 1 {
		t.Errorf("%d calls, %d answers", n, g.answers())
	}
}

// TestByDefaultATokenIsItsUser: a refreshed token cannot answer the question.
func TestByDefaultATokenIsItsUser(t *testing.T) {
	old, fresh := jwt(adaClaims, "1"), jwt(adaClaims, "2")
	g, srv := guardedFront(t)
	cfg := srv.Now().Config
	cfg.Bridge.Principal = "authorization"
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	g.only(old, fresh)
	asked := srv.modernly(modernCall("7", ""), "Authorization", old)
	r := srv.modernly(retryOf("8", ada, asked), "Authorization", fresh)
	if e := gjson.Get(r.body, "error"); e.Get("code").Int() != -32602 || !strings.Contains(e.Get("data.reason").String(), "claim:iss+sub") {
		t.Error(r.body)
	}
	if g.answers() != 0 {
		t.Error("the answer was delivered")
	}
}

// TestAForgedTokenOpensNothing: with a token whose claims are not signed, a client gets no session,
// no cached result and no question, whatever the server checks.
func TestAForgedTokenOpensNothing(t *testing.T) {
	token, forged := jwt(adaClaims, "1"), jwt(adaClaims, "forged")
	for name, lets := range map[string]func(method string) bool{
		"at everything":   func(string) bool { return false },
		"at initialize":   func(method string) bool { return method != "initialize" },
		"within sessions": func(method string) bool { return method == "initialize" || method == "notifications/initialized" },
		"at requests":     func(method string) bool { return method == "" },
		"at the session's end": func(method string) bool {
			return method == "initialize" || method == "notifications/initialized" || method == ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, srv := guardedFront(t, keeping)
			g.lets = func(authorization, method string) bool { return authorization == token || lets(method) }
			asked := srv.modernly(modernCall("7", ""), "Authorization", token)
			listed := srv.modernly(modernRequestOf("1", "tools/list", meta(`{"elicitation":{}}`)), "Authorization", token)
			if !gjson.Get(asked.body, "result.requestState").Exists() || !gjson.Get(listed.body, "result.tools").Exists() {
				t.Fatalf("%+v %+v", asked, listed)
			}
			for _, body := range []string{
				retryOf("8", ada, asked), retryOf("8", `{}`, asked), retryOf("8", `{"junk":{}}`, asked),
				modernRequestOf("1", "tools/list", meta(`{"elicitation":{}}`)), modernCall("9", ""),
			} {
				r := srv.modernly(body, "Authorization", forged)
				if r.status != 401 || gjson.Get(r.body, "result").Exists() || strings.Contains(r.body+fmt.Sprint(r.events), "Name?") {
					t.Errorf("%s\n%+v", body, r)
				}
			}
			if n := len(g.said("tools/call")); n != 1 || g.answers() != 0 {
				t.Errorf("%d calls and %d answers came through", n, g.answers())
			}
			r := srv.modernly(retryOf("10", ada, asked), "Authorization", token) // the user can still answer
			if gjson.Get(r.body, "result.content.0.text").String() != "done" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestOnlyTheUserAnswers: not another user of the server, and not a client with another listener
// token.
func TestOnlyTheUserAnswers(t *testing.T) {
	token := jwt(adaClaims, "1")
	eve := jwt(`{"iss":"https://a","sub":"eve"}`, "1")
	g, srv := guardedFront(t)
	g.only(token, eve, "")
	asked := srv.modernly(modernCall("7", ""), "Authorization", token)
	for _, other := range []string{eve, ""} {
		r := srv.modernly(retryOf("8", ada, asked), "Authorization", other)
		sameJSON(t, r.body, rpcError("8", `"code":-32602,"message":"Invalid or expired requestState"`))
	}
	if n := len(g.said("ping")); n != 0 || g.answers() != 0 {
		t.Errorf("%d pings, %d answers", n, g.answers())
	}
}

// TestAnAnswerThatIsRefusedIsAskedForAgain: if the token expires while its user thinks, the
// question and the call remain open.
func TestAnAnswerThatIsRefusedIsAskedForAgain(t *testing.T) {
	old, fresh := jwt(adaClaims, "1"), jwt(adaClaims, "2")
	g, srv := guardedFront(t)
	g.only(old)
	asked := srv.modernly(modernCall("7", ""), "Authorization", old)
	g.only()
	for range 2 {
		if r := srv.modernly(retryOf("8", ada, asked), "Authorization", old); r.status != 401 || r.header["WWW-Authenticate"] != "Bearer" {
			t.Errorf("%+v", r)
		}
	}
	if n := srv.Modern.Counts().Parked; n != 1 {
		t.Errorf("%d calls are parked", n)
	}
	g.only(fresh)
	if r := srv.modernly(retryOf("8", ada, asked), "Authorization", fresh); gjson.Get(r.body, "result.content.0.text").String() != "done" {
		t.Errorf("%+v", r)
	}
}

// TestARefusedAnswerStillEnds: the call is given up if no valid answer follows.
func TestARefusedAnswerStillEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := jwt(adaClaims, "1")
		g, srv := guardedFront(t, func(c *config.Config) { c.Bridge.ParkTimeout = 200 * time.Millisecond })
		g.only(old)
		asked := srv.modernly(modernCall("7", ""), "Authorization", old)
		g.lets = func(_, method string) bool { return method != "" }
		if r := srv.modernly(retryOf("8", ada, asked), "Authorization", old); r.status != 401 {
			t.Errorf("%+v", r)
		}
		eventually(t, "it is given up", func() bool { return srv.Modern.Counts().Parked == 0 && len(g.said("notifications/cancelled")) == 1 })
	})
}

func TestClaimsNeedAServerThatVerifiesThem(t *testing.T) {
	for name, c := range map[string]struct {
		by     string
		change func(*config.Config)
		good   bool
	}{
		"over HTTP":            {"claim:iss+sub", func(*config.Config) {}, true},
		"one claim":            {"claim:https://x/id", func(*config.Config) {}, true},
		"no claim":             {"claim:", func(*config.Config) {}, false},
		"an empty claim":       {"claim:iss+", func(*config.Config) {}, false},
		"a pipe":               {"claim:iss+sub", func(c *config.Config) { c.Upstream.URL, c.Upstream.Command = "", []string{"a"} }, false},
		"no server":            {"claim:iss+sub", func(c *config.Config) { c.Upstream.URL = "" }, false},
		"a token of our own":   {"claim:iss+sub", func(c *config.Config) { c.Upstream.Headers = map[string]string{"authorization": "x"} }, false},
		"a header is no claim": {"claims:iss", func(*config.Config) {}, false},
	} {
		cfg := config.Default()
		cfg.Upstream.URL, cfg.Bridge.Principal = "http://a", c.by
		c.change(&cfg)
		if err := cfg.Validate(); (err == nil) != c.good || err != nil && !strings.HasPrefix(err.Error(), "bridge.principal: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
