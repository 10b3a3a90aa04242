package proxy

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
)

var goodGate = config.Gate{
	Tool: "get_records", Params: []string{"expand", "expand_limit"},
	Source: "get_schema", SourceParams: map[string]any{"view": "compact", "stream": "{stream}", "connection_id": "{connection_id}"},
	List: "streams", Match: map[string]string{"name|stream": "{stream}"}, Capability: "caps.expand", Subject: "stream", ErrorCode: "invalid_expand",
	TimeoutMS: int(patience.Milliseconds()),
}

// gatedServer is a server with a tool whose parameters are gated, and a tool that returns the
// supported values, as JSON in a text.
func gatedServer(said func(arguments gjson.Result) string) *fakeServer {
	return newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		id := []byte(gjson.Get(m, "id").Raw)
		if gjson.Get(m, "params.name").String() == "get_schema" {
			return one(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"looking"}}`,
				string(mcp.AppendResult(nil, id, said(gjson.Get(m, "params.arguments")))))
		}
		if id == nil {
			return nil, nil
		}
		return one(string(mcp.AppendResult(nil, id, `{"content":[{"type":"text","text":"records"}]}`)))
	}))
}

func asText(json string) string {
	return `{"content":[{"type":"text","text":` + string(mcp.AppendString(nil, json)) + `}]}`
}

func getRecords(arguments string) string { return callOurs(5, "get_records", arguments) }

// refusedExpand reports whether a response is the gate's refusal, in the expected form.
func refusedExpand(answer string) bool {
	said := text(answer)
	return gjson.Get(answer, "result.isError").Bool() && gjson.Get(said, "code").String() == "invalid_expand" &&
		strings.Contains(gjson.Get(said, "message").String(), "get_schema")
}

func TestGateOnAToolOfTheServer(t *testing.T) {
	const rows = `{"streams":[{"name":"a","caps":{"expand":[]}},{"stream":"b","caps":{"expand":["x",{"name":"y"}]}},{"name":"c","caps":{"expand":true}}]}`
	for _, c := range []struct {
		what, arguments, said string
		change                func(*config.Gate)
		asked, refused        bool
	}{
		{what: "no gated parameter", arguments: `{"stream":"a"}`},
		{what: "empty ones", arguments: `{"stream":"a","expand":[],"expand_limit":null}`},
		{what: "supported", arguments: `{"stream":"b","expand":["x"]}`, asked: true},
		{what: "supported by a flag", arguments: `{"stream":"c","expand_limit":3}`, asked: true},
		{what: "not supported", arguments: `{"stream":"a","expand":["x"]}`, asked: true, refused: true},
		{what: "the other parameter", arguments: `{"stream":"a","expand_limit":0}`, asked: true, refused: true},
		{what: "values that match", arguments: `{"stream":"b","expand":["y","x"]}`, asked: true, change: func(g *config.Gate) { g.MatchValues = true }},
		{what: "a value that does not", arguments: `{"stream":"b","expand":["x","z"]}`, asked: true, refused: true, change: func(g *config.Gate) { g.MatchValues = true }},
		{what: "no such row", arguments: `{"stream":"zzz","expand":["x"]}`, asked: true},
		{what: "no such row, denied", arguments: `{"stream":"zzz","expand":["x"]}`, asked: true, refused: true, change: func(g *config.Gate) { g.OnUnavailable = "deny" }},
		{what: "no JSON", arguments: `{"stream":"a","expand":["x"]}`, said: asText("not JSON"), asked: true},
		{what: "an error", arguments: `{"stream":"a","expand":["x"]}`, said: `{"content":[],"isError":true}`, asked: true},
		{what: "structured", arguments: `{"stream":"a","expand":["x"]}`, said: `{"content":[],"structuredContent":` + rows + `}`, asked: true, refused: true},
	} {
		for _, piped := range []bool{false, true} {
			asked := make(chan gjson.Result, 10)
			f := gatedServer(func(arguments gjson.Result) string {
				asked <- arguments
				if c.said != "" {
					return c.said
				}
				return asText(rows)
			})
			f.piped = piped
			g := goodGate
			if c.change != nil {
				c.change(&g)
			}
			gated := func(cfg *config.Config) { cfg.Gates = []config.Gate{g} }
			srv := front(t, f, gated)
			session := srv.initialize("2024-11-05")
			over := map[string]string{"http": srv.answer(session, getRecords(c.arguments))}
			if piped { // the lanes have taken over the stream
				f = gatedServer(func(gjson.Result) string {
					if c.said != "" {
						return c.said
					}
					return asText(rows)
				})
				f.piped = true
			}
			client, _ := pipeClient(t, f, gated)
			client.say(initialize("2025-11-25", `{}`))
			client.hear()
			client.say(getRecords(c.arguments))
			for over["stdio"] == "" {
				if m := client.hear(); gjson.Get(m, "id").Int() == 5 {
					over["stdio"] = m
				}
			}
			for way, answer := range over {
				if refusedExpand(answer) != c.refused || !c.refused && text(answer) != "records" {
					t.Errorf("%s over %s, piped %v: %s", c.what, way, piped, answer)
				}
			}
			if (len(asked) > 0) != c.asked {
				t.Errorf("%s: asked %d times", c.what, len(asked))
			} else if c.asked {
				if got := <-asked; got.Get("view").String() != "compact" || got.Get("stream").String() != gjson.Get(c.arguments, "stream").String() || got.Get("connection_id").Exists() {
					t.Errorf("%s: asked with %s", c.what, got)
				}
			}
			calls := 0
			for _, m := range f.sent() {
				if gjson.Get(m, "params.name").String() == "get_records" {
					calls++
				}
			}
			if c.refused && calls > 0 {
				t.Errorf("%s: the server was called", c.what)
			}
		}
	}
}

func TestGateSeesAChangeAtOnce(t *testing.T) {
	caps := `[]`
	srv := front(t, gatedServer(func(gjson.Result) string { return asText(`{"streams":[{"name":"a","caps":{"expand":` + caps + `}}]}`) }),
		func(c *config.Config) { c.Gates = []config.Gate{goodGate} })
	session := srv.initialize("2025-06-18")
	call := getRecords(`{"stream":"a","expand":["x"]}`)
	if got := srv.answer(session, call); !refusedExpand(got) {
		t.Errorf("got %s", got)
	}
	caps = `["x"]`
	if got := text(srv.answer(session, call)); got != "records" {
		t.Errorf("got %s", got)
	}
	if n := counted(t, srv.Metrics, "dragoman_gates_total", "tool=get_records", "verdict=refused"); n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestGateIsOpenWhenItsSourceIsSilent(t *testing.T) {
	for _, piped := range []bool{false, true} {
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "params.name").String() != "get_schema" {
				return one(string(mcp.AppendResult(nil, []byte(gjson.Get(m, "id").Raw), `{"content":[{"type":"text","text":"records"}]}`)))
			}
			if piped {
				return nil, nil
			}
			return []string{hang}, nil
		}))
		f.piped = piped
		g := goodGate
		g.TimeoutMS = 10
		srv := front(t, f, func(c *config.Config) { c.Gates = []config.Gate{g} })
		session := srv.initialize("2025-06-18")
		if got := text(srv.answer(session, getRecords(`{"stream":"a","expand":["x"]}`))); got != "records" {
			t.Errorf("piped %v: %s", piped, got)
		}
	}
}
