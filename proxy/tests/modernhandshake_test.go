package tests

import (
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestInitializeAnsweredInARevisionWithoutOne: a server that answers initialize with a modern
// revision has begun no session, and is sent server/discover.
func TestInitializeAnsweredInARevisionWithoutOne(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := modernServer(piped, `"capabilities":{"tools":{}}`, nil)
		f.on("initialize", func(u *peertest.Turn) {
			u.Say(result(u.ID, `"protocolVersion":"2026-07-28","capabilities":{},"serverInfo":{"name":"s","version":"2"}`))
		})
		r := front(t, f).post("", initialize("2025-06-18", `{}`))
		if gjson.Get(r.body, "result.protocolVersion").String() != "2025-06-18" || !gjson.Get(r.body, "result.capabilities.tools").Exists() {
			t.Errorf("%+v", r)
		}
	})
}

// TestDiscoverRefusedInTheRevisionItLists: server/discover is sent once more, and no more often.
func TestDiscoverRefusedInTheRevisionItLists(t *testing.T) {
	for _, c := range []struct {
		refusals, asked int
		supported       string
	}{
		{1, 2, `["2026-07-28"]`},
		{2, 2, `["2026-07-28"]`},
		{1, 1, `["2027-01-01"]`},
	} {
		f := modernServer(false, `"capabilities":{"tools":{}}`, nil)
		discovered, left := f.Script, c.refusals
		f.on("server/discover", func(u *peertest.Turn) {
			if left--; left < 0 {
				discovered(u)
				return
			}
			u.Answer(400, rpcError(u.ID, `"code":-32022,"message":"Unsupported protocol version","data":{"supported":`+c.supported+`,"requested":"2026-07-28"}`))
		})
		srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = "2026-07-28" })
		r := srv.post("", initialize("2025-11-25", `{}`))
		if ok := gjson.Get(r.body, "result").Exists(); ok != (c.asked > c.refusals) {
			t.Errorf("%+v: %+v", c, r)
		}
		if n := len(f.said("server/discover")); n != c.asked {
			t.Errorf("%+v: asked %d times", c, n)
		}
	}
}

// TestSlowModernServerHasTheHandshakeTimeout: a server that is known to have no handshake, or says so when it refuses one, may take
// longer to answer server/discover than one that may have one, such as a server that is started by its first request.
func TestSlowModernServerHasTheHandshakeTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			version, refusal string
			begins           bool
		}{
			{"2026-07-28", `"code":-32601,"message":"Method not found"`, true},
			{"auto", `"code":-32601,"message":"Method not found"`, false},
			{"auto", `"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}`, true},
			{"auto", `"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25","2026-07-28"],"requested":"2025-06-18"}`, false},
		} {
			f := modernServer(false, `"capabilities":{"tools":{}}`, nil)
			f.on("initialize", func(u *peertest.Turn) { u.Say(rpcError(u.ID, c.refusal)) })
			discovered := f.Script
			f.on("server/discover", func(u *peertest.Turn) {
				select {
				case <-time.After(200 * time.Millisecond):
					discovered(u)
				case <-u.Ctx.Done():
				}
			})
			srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = c.version })
			srv.Eras.AskTime = 20 * time.Millisecond
			if r := srv.post("", initialize("2025-11-25", `{}`)); gjson.Get(r.body, "result").Exists() != c.begins {
				t.Errorf("upstream.version %s, refusal %s: %+v", c.version, c.refusal, r)
			}
		}
	})
}
