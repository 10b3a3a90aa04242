package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// bigSelves are what clients say of themselves, each with a large part.
var bigSelves = []struct {
	name         string
	client, can  string // members
	refusedFor   string // the part that a bridge cannot keep; "" if it can keep the rest
	rest, capped string // clientInfo and capabilities where they are cut
}{
	{"small", `,"title":"t","icons":[{"src":"a:b"}]`, `"roots":{}`, "", `{"name":"c","version":"1","title":"t","icons":[{"src":"a:b"}]}`, `{"roots":{}}`},
	{"icons", `,"icons":[{"src":"data:` + lengthy + `"}],"title":"t"`, `"roots":{}`, "", `{"name":"c","version":"1","title":"t"}`, `{"roots":{}}`},
	{"title", `,"title":"` + lengthy + `"`, ``, "clientInfo", `{"name":"c","version":"1"}`, `{}`},
	{"name", `,"x":1`, ``, "clientInfo", mcp.Unnamed, `{}`},
	{"capabilities", ``, `"elicitation":{},"experimental":{"x":{"y":"` + lengthy + `"}}`, "apabilities", `{"name":"c","version":"1"}`, `{"elicitation":{"form":{}}}`},
}

var lengthy = strings.Repeat("x", 300<<10)

// selfOf returns clientInfo and capabilities.
func selfOf(at int) (client, can string) {
	one := bigSelves[at]
	name := "c"
	if one.name == "name" {
		name = lengthy
	}
	return `{"name":"` + name + `","version":"1"` + one.client + `}`, `{` + one.can + `}`
}

// TestBridgesKeepLittleOfTheirClients: 16 KiB of each part, icons are left out first. What is more is refused.
func TestBridgesKeepLittleOfTheirClients(t *testing.T) {
	for at, self := range bigSelves {
		client, can := selfOf(at)
		judge := func(t *testing.T, srv testServer, r reply, got, from string) {
			t.Helper()
			kept := srv.Host.Memory().Kept()
			if kept > 2*mcp.MaxSelf {
				t.Errorf("%d bytes are kept", kept)
			}
			if self.refusedFor != "" {
				if r.status != 400 || gjson.Get(r.body, "error.code").Int() != mcp.CodeInvalidParams ||
					!strings.Contains(r.body, self.refusedFor+" has 3") || !strings.Contains(r.body, "16384") || len(r.body) > 500 {
					t.Errorf("%d %.500s", r.status, r.body)
				}
				return
			}
			if r.status != 200 || kept < 30 {
				t.Errorf("%d %.500s, %d bytes are kept", r.status, r.body, kept)
			}
			sameJSON(t, got, self.rest)
			lost := 0
			if self.name == "icons" {
				lost = 1
			}
			if n := counted(t, srv.Metrics, "dragoman_losses_total", "from="+from, "rule=C05", "level=warn"); n != lost {
				t.Errorf("%v losses", n)
			}
		}
		t.Run("handshake client/"+self.name, func(t *testing.T) {
			bothTransports(t, func(t *testing.T, piped bool) {
				f := modernServer(piped, `"capabilities":{"tools":{}}`, func(id, method, _ string) ([]string, error) {
					return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]`))
				})
				srv := front(t, f)
				r := srv.post("", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":%s}}`, can, client))
				got := ""
				if self.refusedFor == "" {
					srv.post(r.header["Mcp-Session-Id"], listTools)
					got = gjson.Get(f.said("tools/list")[0], `params._meta.io\.modelcontextprotocol/clientInfo`).Raw
				}
				judge(t, srv, r, got, "2025-11-25")
				if r.status == 200 {
					srv.exchange(t.Context(), "DELETE", r.header["Mcp-Session-Id"], "")
				}
				eventually(t, "nothing is kept", func() bool { return srv.Host.Memory().Kept() == 0 })
			})
		})
		t.Run("modern client/"+self.name, func(t *testing.T) {
			bothTransports(t, func(t *testing.T, piped bool) {
				f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
					return one(result(id, `"tools":[]`))
				})
				f.piped = piped
				srv := front(t, f)
				r := srv.modernly(modernRequestOf("1", "tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+can+`,"io.modelcontextprotocol/clientInfo":`+client+`}`))
				got := ""
				if self.refusedFor == "" {
					got = gjson.Get(f.said("initialize")[0], "params.clientInfo").Raw
				}
				judge(t, srv, r, got, "2026-07-28")
			})
		})
	}
}

// TestProcessIsToldAllThatItsClientSays: the session keeps little of it, and tells the next process that.
func TestProcessIsToldAllThatItsClientSays(t *testing.T) {
	for at, self := range bigSelves {
		t.Run(self.name, func(t *testing.T) {
			kids := newFamily(silentChild)
			srv := frontOf(t, kids.origin(), quickly)
			client, can := selfOf(at)
			hello := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":%s}}`, can, client)
			s := srv.post("", hello).header["Mcp-Session-Id"]
			first := kids.child(t, 0)
			if got := first.said("initialize")[0]; got != hello {
				t.Errorf("the process was told %.200s", got)
			}
			srv.post(s, initializedNotice)
			if kept := srv.Host.Memory().Kept(); kept == 0 || kept > 3*mcp.MaxSelf {
				t.Errorf("%d bytes are kept", kept)
			}
			first.lose(exited)
			next := kids.child(t, 1)
			again := srv.call(next, s, callOne) // waits until the process is ready
			next.Unasked(answer(gjson.Get(got(t, next, `"tools/call"`), "id").Raw))
			<-again.reply
			told := gjson.Get(next.said("initialize")[0], "params")
			sameJSON(t, told.Get("clientInfo").Raw, self.rest)
			sameJSON(t, told.Get("capabilities").Raw, self.capped)
			if n := srv.logs.FilterMessageSnippet("the server is told less of its client").Len(); n == 1 != (self.name != "small") {
				t.Errorf("%d warnings", n)
			}
		})
	}
}
