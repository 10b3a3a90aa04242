package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
)

const repeated = "When several connections are granted, pass connection_id as the schema tool lists it, else the call is refused."

// wordy is a server with two pages of tools with equal descriptions.
func wordy(piped bool) *fakeServer {
	tool := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"title":"T %s","description":"Reads the %s. %s","inputSchema":{"type":"object","properties":{"id":{"type":"string","title":"Id","description":"The %s. %s"}}}}`, name, name, name, repeated, name, repeated)
	}
	f := newFake(replies(func(m string) ([]string, error) {
		id := []byte(gjson.Get(m, "id").Raw)
		switch gjson.Get(m, "method").String() + gjson.Get(m, "params.cursor").String() {
		case "initialize":
			return one(string(mcp.AppendResult(nil, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Read first."}`)))
		case "tools/list":
			return one(string(mcp.AppendResult(nil, id, `{"tools":[`+tool("one")+`,`+tool("two")+`],"nextCursor":"2"}`)))
		case "tools/list2":
			return one(string(mcp.AppendResult(nil, id, `{"tools":[`+tool("three")+`]}`)))
		}
		return nil, nil
	}))
	f.piped = piped
	return f
}

// TestRepeatedProseMovesToTheInstructions, for clients and servers on every transport. The server
// gets notifications/initialized once.
func TestRepeatedProseMovesToTheInstructions(t *testing.T) {
	apply := func(c *config.Config) { c.Footprint.Hoist = "apply" }
	bothOutside(t, func(t *testing.T, piped bool) {
		check := func(t *testing.T, f *fakeServer, hello string, ask func(string) string) {
			if got := gjson.Get(hello, "result.instructions").String(); got != "Read first.\n\nNotes that tools refer to:\n- [1] "+repeated {
				t.Errorf("instructions %q", got)
			}
			first, second := ask(listTools), ask(listSecond)
			if names(first) != "one two" || names(second) != "three" || gjson.Get(first, "result.nextCursor").String() != "2" {
				t.Errorf("%s\n%s", first, second)
			}
			for _, list := range []string{first, second} {
				if strings.Contains(list, repeated) {
					t.Errorf("still said: %s", list)
				}
			}
			if got := gjson.Get(second, "result.tools.0.description").String(); got != "Reads the three. See server instructions [1]." {
				t.Errorf("%s", got)
			}
			greeted := 0
			for _, m := range f.sent() {
				if strings.Contains(m, "notifications/initialized") {
					greeted++
				}
			}
			if greeted != 1 {
				t.Errorf("the server was told %d times that the handshake is over", greeted)
			}
		}
		const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		t.Run("http client", func(t *testing.T) {
			f := wordy(piped)
			srv := front(t, f, apply)
			hello := srv.post("", initialize("2025-06-18", "{}"))
			session := hello.header["Mcp-Session-Id"]
			if r := srv.post(session, initialized); r.status != 202 {
				t.Errorf("%+v", r)
			}
			check(t, f, hello.body, func(m string) string { return srv.post(session, m).body })
		})
		t.Run("pipe client", func(t *testing.T) {
			f := wordy(piped)
			c, _ := pipeClient(t, f, apply)
			c.say(initialize("2024-11-05", "{}"))
			hello := c.hear()
			c.say(initialized)
			check(t, f, hello, func(m string) string { c.say(m); return c.hear() })
		})
	})
}

func TestRepeatedProseIsOnlyReported(t *testing.T) {
	srv := front(t, wordy(false), func(c *config.Config) { c.Footprint.Hoist = "report" })
	hello := srv.post("", initialize("2025-11-25", "{}"))
	if got := gjson.Get(hello.body, "result.instructions").String(); got != "Read first." {
		t.Errorf("instructions %q", got)
	}
	if got := srv.post(hello.header["Mcp-Session-Id"], listTools).body; !strings.Contains(got, repeated) {
		t.Errorf("%s", got)
	}
	if srv.logs.FilterMessage("tool descriptions repeat text").Len() != 1 {
		t.Error("nothing in the log")
	}
}

func TestServerWithoutAListIsServedAllTheSame(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(m string) ([]string, error) {
		if !gjson.Get(m, "id").Exists() {
			return nil, nil
		}
		return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`, gjson.Get(m, "id").Raw))
	}))
	srv := front(t, f, func(c *config.Config) { c.Footprint.Hoist = "apply" })
	session := srv.initialize("2025-11-25")
	if got := srv.post(session, listTools).body; gjson.Get(got, "error.message").String() != "no" {
		t.Errorf("%s", got)
	}
}

func TestWhatSaysNothingIsDropped(t *testing.T) {
	srv := front(t, wordy(false), func(c *config.Config) { c.Footprint.Drop = []string{"titles"} })
	list := srv.post(srv.initialize("2025-11-25"), listTools).body
	if strings.Contains(list, `"title":"Id"`) || !strings.Contains(list, `"title":"T one"`) || names(list) != "one two" {
		t.Errorf("%s", list)
	}
	cfg := srv.Now().Config
	cfg.Footprint.Drop = append(cfg.Footprint.Drop, "nonsense")
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "footprint.drop") {
		t.Errorf("%v", err)
	}
}

// TestInstructionsCountAsTheListDoes, for handshake clients and modern ones.
func TestInstructionsCountAsTheListDoes(t *testing.T) {
	ask := map[string]func(srv testServer){
		"with a handshake": func(srv testServer) { srv.post(srv.initialize("2025-11-25"), listTools) },
		"without":          func(srv testServer) { srv.modernly(modernRequestOf("1", "tools/list", meta(`{}`))) },
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			words := strings.Repeat("Words that each conversation pays for. ", 50)
			srv := front(t, newFake(replies(func(m string) ([]string, error) {
				id := []byte(gjson.Get(m, "id").Raw)
				switch gjson.Get(m, "method").String() {
				case "initialize":
					return one(string(mcp.AppendResult(nil, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"`+words+`"}`)))
				case "tools/list":
					return one(string(mcp.AppendResult(nil, id, `{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`)))
				}
				return nil, nil
			})), func(c *config.Config) { c.Footprint.MaxBytes = 1000 })
			ask(srv)
			logs := srv.logs.FilterMessageSnippet("tool list and instructions")
			if logs.Len() != 1 || logs.All()[0].ContextMap()["instructions"] != int64(len(words)) {
				t.Errorf("%v", logs.All())
			}
		})
	}
}

func TestLargeListsAreWarnedOfOnce(t *testing.T) {
	srv := front(t, wordy(false), func(c *config.Config) { c.Footprint.MaxBytes = 1000 })
	size := 0
	for range 2 {
		session := srv.initialize("2025-11-25")
		first, second := srv.post(session, listTools).body, srv.post(session, listSecond).body
		var all bytes.Buffer
		if err := json.Compact(&all, fmt.Appendf(nil, "[%s,%s]", strings.Trim(gjson.Get(first, "result.tools").Raw, "[]"), strings.Trim(gjson.Get(second, "result.tools").Raw, "[]"))); err != nil {
			t.Fatal(err)
		}
		size = all.Len()
	}
	logs := srv.logs.FilterMessageSnippet("tool list and instructions are large")
	if logs.Len() != 1 || logs.All()[0].ContextMap()["bytes"] != int64(size+len("Read first.")) {
		t.Errorf("%d bytes, %v", size, logs.All())
	}
}
