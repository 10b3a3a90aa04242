package tests

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// TestWarmSessionsOfOthersStay when one client opens more sessions than there is room for.
func TestWarmSessionsOfOthersStay(t *testing.T) {
	f := library()
	srv := front(t, f, func(c *config.Config) { c.Bridge.MaxSessions = 20 })
	list := func(who string) { srv.modernly(modernList("1", "tools/list"), "Authorization", who) }
	for n := range 5 {
		list(fmt.Sprint("other ", n))
	}
	before := len(f.said("initialize"))
	for n := range 200 {
		body := strings.Replace(modernList("1", "tools/list"), `"name":"c"`, fmt.Sprintf(`"name":"c%d"`, n), 1)
		if r := srv.modernly(body, "Authorization", "greedy"); r.status != 200 {
			t.Fatalf("%+v", r)
		}
	}
	opened := len(f.said("initialize")) - before
	for n := range 5 {
		list(fmt.Sprint("other ", n))
	}
	if n := len(f.said("initialize")) - before - opened; n != 0 {
		t.Errorf("%d sessions of others had been ended", n)
	}
	if n := srv.Modern.Counts().Sessions; n > 20 {
		t.Errorf("%d sessions", n)
	}
}

// TestOnePrincipalDoesNotParkAllCalls: others can still be asked, even if one principal parks as
// many calls as it can.
func TestOnePrincipalDoesNotParkAllCalls(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
		if method != "tools/call" {
			return nil, nil
		}
		return one(nameQuestion, hang)
	})
	f.NoGet = true
	srv := front(t, f, func(c *config.Config) { c.Bridge.MaxParked = 8 })
	asks := func(who string) bool {
		r := srv.modernly(modernCall("1", ""), "Authorization", who)
		return gjson.Get(r.body, "result.resultType").String() == "input_required"
	}
	var mu sync.Mutex
	parked := 0
	var all sync.WaitGroup
	for range 80 {
		all.Go(func() {
			if asks("greedy") {
				mu.Lock()
				defer mu.Unlock()
				parked++
			}
		})
	}
	all.Wait()
	if parked == 0 || parked > 5 {
		t.Errorf("%d calls of one are parked", parked)
	}
	for n := range 8 - parked {
		if !asks(fmt.Sprint("modest ", n)) {
			t.Errorf("%d: not asked", n)
		}
	}
	if srv.Modern.Counts().Parked != 8 {
		t.Errorf("%d are parked", srv.Modern.Counts().Parked)
	}
	srv.Modern.Close()
	eventually(t, "the shares are given back", func() bool { return srv.Modern.Counts().Shares == 0 })
}

// TestInventedPrincipalsShareAnAddress: a client that sends another Authorization with each
// request, which dragoman cannot check, does not take everything.
func TestInventedPrincipalsShareAnAddress(t *testing.T) {
	const most = 8
	for name, c := range map[string]struct {
		by     string
		header []string
		all    bool // one address may take everything
	}{
		"no tokens":          {by: "authorization"},
		"claims":             {by: "claim:iss+sub"},
		"a trusted header":   {by: "header:X-User", all: true},
		"the listener's own": {by: "authorization", header: []string{"guest", "a token"}, all: true},
	} {
		for _, limit := range []string{"max_sessions", "max_parked"} {
			inBubble(t, name+" "+limit, func(t *testing.T) {
				srv := front(t, asksEach(), func(cfg *config.Config) {
					cfg.Bridge.Principal = c.by
					if limit == "max_sessions" {
						cfg.Bridge.MaxSessions = most
					} else {
						cfg.Bridge.MaxParked = most
					}
				})
				srv.Modern.Waits.Room = time.Millisecond
				asks := func(peer string, n int) bool {
					value := jwt(fmt.Sprintf(`{"iss":"x","sub":"%d"}`, n), "")
					r := srv.modernly(modernCall(fmt.Sprint(n), ""), append(c.header, "peer", peer, "Authorization", value, "X-User", value)...)
					return gjson.Get(r.body, "result.resultType").String() == "input_required"
				}
				parked := 0
				for n := range 5 * most {
					if asks("192.0.2.1", n) {
						parked++
					}
				}
				if c.all != (parked > most/2+1) {
					t.Errorf("%d calls of one address wait", parked)
				}
				if !c.all && !asks("192.0.2.2", 1000) {
					t.Error("nothing is left for another address")
				}
				srv.Modern.Close()
				eventually(t, "the shares are given back", func() bool { return srv.Modern.Counts().Shares == 0 })
			})
		}
	}
}

// TestInventedPrincipalsEndTheirOwnSessions first.
func TestInventedPrincipalsEndTheirOwnSessions(t *testing.T) {
	f := library()
	srv := front(t, f, func(c *config.Config) { c.Bridge.MaxSessions = 20 })
	list := func(who, peer string) {
		srv.modernly(modernList("1", "tools/list"), "Authorization", who, "peer", peer)
	}
	for n := range 5 {
		list(fmt.Sprint("other ", n), fmt.Sprint("192.0.2.", n))
	}
	for n := range 100 {
		list(fmt.Sprint("invented ", n), "198.51.100.1")
	}
	before := len(f.said("initialize"))
	for n := range 5 {
		list(fmt.Sprint("other ", n), fmt.Sprint("192.0.2.", n))
	}
	if n := len(f.said("initialize")) - before; n != 0 {
		t.Errorf("%d sessions of others had been ended", n)
	}
}

// TestClientInfoAndCapabilitiesAreBounded: its pooled session keeps clientInfo and capabilities.
func TestClientInfoAndCapabilitiesAreBounded(t *testing.T) {
	srv := front(t, library())
	long := strings.Repeat("x", 16<<10)
	for member, body := range map[string]string{
		mcp.MetaClient:       strings.Replace(modernList("1", "tools/list"), `"name":"c"`, `"name":"`+long+`"`, 1),
		mcp.MetaCapabilities: modernRequestOf("1", "tools/list", meta(`{"experimental":{"x":"`+long+`"}}`)),
	} {
		r := srv.modernly(body)
		sameJSON(t, r.body, rpcError("1", `"code":-32602,"message":"`+member+` has 16409 bytes: at this server a client may say at most 16384 of itself"`))
	}
}
