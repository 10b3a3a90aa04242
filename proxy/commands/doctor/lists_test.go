package doctor

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestLists checks the lines about the server's lists.
func TestLists(t *testing.T) {
	const mistake = " → this is a mistake of the server"
	for name, c := range map[string]struct {
		change func(*fake, *Options)
		want   []string
	}{
		"plain": {func(*fake, *Options) {}, []string{"ok tools: 1, 47 bytes, 12 tokens"}},
		"all kinds": {func(f *fake, _ *Options) {
			f.Results["initialize"] = initialized("2025-11-25", `{"prompts":{},"resources":{}}`)
			f.Results["prompts/list"] = `{"prompts":[{"name":"p"}]}`
			f.Results["resources/list"] = `{"resources":[]}`
		}, []string{"ok prompts: 1, 12 bytes", "ok resources: 0, 0 bytes"}},
		"tools that clients refuse": {func(f *fake, _ *Options) {
			f.Results["tools/list"] = `{"tools":[{"name":"a"},{"name":"b","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}},{"name":"b","inputSchema":{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema"}}]}`
		}, []string{
			"ok tools: 3, 209 bytes, 61 tokens",
			"info 1 schema in JSON Schema draft-07, which some clients of the newest revision refuse → dragoman rewrites them, unless contract.schema_dialect is off",
			"info 1 schema in JSON Schema draft/2020-12",
			`warn URL: tools whose inputSchema is not of "type": "object", which many clients refuse: a` + mistake,
			"warn URL: tools with the same name: b" + mistake + ": a client can call only one of them",
		}},
		"many tokens": {func(f *fake, _ *Options) {
			f.Results["tools/list"] = `{"tools":[{"name":"a","inputSchema":{"type":"object"},"description":"` + strings.Repeat("word ", 21_000) + `"}]}`
		}, []string{"warn tools: 1, 102.6 KiB, 21,0*"}},
		"an empty cursor": {func(f *fake, _ *Options) {
			f.Results["tools/list"] = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"nextCursor":""}`
		}, []string{"ok tools: 1, 47 bytes, 12 tokens"}},
		"no end": {func(f *fake, _ *Options) { f.Results["tools/list"] = `{"tools":[],"nextCursor":"same"}` }, []string{
			`FAIL URL: tools/list: the cursor "same" comes a second time: the list has no end` + mistake + ": its own log says more",
		}},
		"no list": {func(f *fake, _ *Options) { f.Results["tools/list"] = `{"tool":[]}` }, []string{
			`FAIL URL: tools/list: the result has no list "tools": {"tool":[]}` + mistake + ": its own log says more",
		}},
		"refused": {func(f *fake, _ *Options) {
			f.Results["initialize"] = initialized("2025-11-25", `{"tools":{},"prompts":{}}`)
		}, []string{
			"ok tools: 1, 47 bytes, 12 tokens",
			`warn URL: prompts/list: refused: {"code":-32601,"message":"Method not found"} → clients get the same answer: the server should not declare the capability, or its own log says more`,
		}},
		"compatibility": {func(_ *fake, o *Options) {
			o.Probe = func(context.Context, config.Config) (*probe.Report, error) {
				return &probe.Report{Era: "both", Clients: []probe.ClientReport{
					{Revision: "r6", Way: "bridged"},
					{Revision: "r5", Way: "bridged", Changes: []probe.Change{{Rule: "C36", What: "schemas", List: "tools", Names: []string{"a"}}}},
					{Revision: "r4"},
					{Revision: "r3", Changes: []probe.Change{{Rule: "C01", What: "title", List: "tools", Names: []string{"a"}, Lost: true}, {Rule: "C02", What: "annotations", List: "tools", Names: []string{"a", "b"}, Lost: true}, {Rule: "C20", What: "tasks", List: "initialize"}, {Rule: "C01", What: "title", List: "initialize", Lost: true}}},
					{Revision: "r3b", Way: "bridged", Lost: []string{"progress"}},
					{Revision: translate.Latest().Name, Missing: []string{"tools: x"}},
					{Revision: "r1", Missing: []string{"tools: x", "tools: y"}, Changes: []probe.Change{{Rule: "C01", What: "title", List: "tools", Names: []string{"a"}, To: "annotations.title"}}},
				}}, nil
			}
		}, []string{
			"ok tools: 1, 47 bytes, 12 tokens",
			"info URL: the server also serves clients without a handshake: it is of both eras",
			"info clients of r6 get everything, bridged between the eras",
			"info clients of r5 get everything, bridged between the eras; changed: C36 schemas (tool a)",
			"info clients of r4 get everything as it is",
			"info clients of r3 get every entry of the lists; lost: C01 title (tool a, initialize), C02 annotations (2 tools); changed: C20 tasks (initialize)",
			"info clients of r3b get every entry of the lists, bridged between the eras; lost: progress",
			"warn clients of " + translate.Latest().Name + " do not get tools: x → dragoman probe has the whole report; docs/revisions-and-losses.md explains the rules",
			"info clients of r1 do not get tools: x, tools: y; changed: C01 title to annotations.title (tool a)",
		}},
		"no compatibility": {func(_ *fake, o *Options) {
			o.Probe = func(context.Context, config.Config) (*probe.Report, error) { return nil, errors.New("gone") }
		}, []string{"ok tools: 1, 47 bytes, 12 tokens", "warn URL: what clients of each revision get cannot be found out: gone → dragoman probe says it without a time limit of 10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			at := "http://" + serve(t, f) + "/mcp"
			o := atURL(at)
			c.change(f, &o)
			// The session's two calls are not part of this check.
			got := examine(t, o, "http", "protocol", "lists")
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], at, "URL")
			}
			want(t, got, c.want...)
		})
	}
}

// TestRefusedListsAreComparedThroughDragoman: what the server refuses is no reason not to look at dragoman.
func TestRefusedListsAreComparedThroughDragoman(t *testing.T) {
	refusing := newFake(t)
	refusing.Errors["tools/list"] = `{"code":-32603,"message":"log in first"}`
	for name, c := range map[string]struct {
		tools string // "" if dragoman refuses them, too
		want  string
	}{
		"the same":    {"", "ok a client of 2025-11-25 gets the same lists; the handshake takes TIME, TIME without dragoman"},
		"an own list": {`{"tools":[]}`, `FAIL ADDR: the first difference: tools: refused: {"code":-32603,"message":"log in first"} at the server, 0 entries through dragoman*`},
	} {
		t.Run(name, func(t *testing.T) {
			o := atURL("http://" + serve(t, refusing) + "/mcp")
			var at string
			o.Serve = func(ctx context.Context, cfg config.Config, ln net.Listener) error {
				at = "dragoman on " + ln.Addr().String()
				f := newFake(t)
				if f.Results["tools/list"] = c.tools; c.tools == "" {
					f.Errors = refusing.Errors
				}
				o.inPlace(f)
				return o.Serve(ctx, cfg, ln)
			}
			got := examine(t, o, "http", "protocol", "lists", "through dragoman")
			for i := range got {
				got[i] = someTime.ReplaceAllString(got[i], "TIME")
			}
			want(t, got, strings.ReplaceAll(c.want, "ADDR", at))
		})
	}
}

// TestThroughDragoman checks the comparison with a fake in the place of dragoman.
func TestThroughDragoman(t *testing.T) {
	for name, c := range map[string]struct {
		tools string
		want  string
	}{
		"same":           {`{"tools":[` + aTool + `]}`, "ok a client of 2025-11-25 gets the same lists; the handshake takes TIME, TIME without dragoman"},
		"another order":  {`{"tools":[{"inputSchema":{"type":"object"},"name":"echo"}]}`, "ok a client of 2025-11-25 gets the same lists; the handshake takes TIME, TIME without dragoman"},
		"missing":        {`{"tools":[]}`, "FAIL ADDR: the first difference: tools: the server has 1, dragoman passes 0 on → this is a defect of dragoman: report it with this text and the version"},
		"changed":        {`{"tools":[{"name":"echo","inputSchema":{"type":"array"}}]}`, `FAIL ADDR: the first difference: tools, echo, inputSchema.type: "object" at the server, "array" through dragoman*`},
		"added":          {`{"tools":[{"name":"echo","inputSchema":{"type":"object"},"x":1}]}`, `FAIL ADDR: the first difference: tools, echo, x: nothing at the server, 1 through dragoman*`},
		"removed":        {`{"tools":[{"name":"echo"}]}`, `FAIL ADDR: the first difference: tools, echo, inputSchema: {"type":"object"} at the server, nothing through dragoman*`},
		"not a list":     {`{}`, `FAIL ADDR: the lists cannot be read: tools/list: the result has no list "tools": {} → this is a defect of dragoman: report it with this text and the version`},
		"does not start": {"", "FAIL dragoman does not start: no way → the error says why"},
	} {
		t.Run(name, func(t *testing.T) {
			o := atURL("http://" + serve(t, newFake(t)) + "/mcp")
			var at string
			o.Serve = func(ctx context.Context, cfg config.Config, ln net.Listener) error {
				at = "dragoman on " + ln.Addr().String()
				if c.tools == "" {
					ln.Close()
					return errors.New("no way")
				}
				f := newFake(t)
				f.Results["tools/list"] = c.tools
				f.First = func(u *peertest.Turn) {
					if u.Header.Get(tokenHeader) != cfg.Auth.Tokens[0] || len(cfg.Auth.Tokens[0]) != 32 {
						t.Error("a request without the token")
					}
				}
				o.inPlace(f)
				return o.Serve(ctx, cfg, ln)
			}
			r, got := examined(t, o, "http", "protocol", "lists", "through dragoman")
			for i := range got {
				got[i] = someTime.ReplaceAllString(got[i], "TIME")
			}
			want(t, got, strings.ReplaceAll(c.want, "ADDR", at))
			if failed := strings.HasPrefix(c.want, "FAIL"); failed != (r.Exit == ExitOurs) {
				t.Errorf("exit %d", r.Exit)
			}
		})
	}
}

// TestServerThatTakesOneSession checks that a server which is gone after the first client is to blame, not dragoman.
func TestServerThatTakesOneSession(t *testing.T) {
	web := httptest.NewServer(newFake(t))
	defer web.Close()
	o := atURL(web.URL + "/mcp")
	o.inPlace(answering(502, "text/plain", "upstream is gone"))
	gone := o.Serve
	o.Serve = func(ctx context.Context, cfg config.Config, ln net.Listener) error {
		web.CloseClientConnections()
		web.Listener.Close()
		return gone(ctx, cfg, ln)
	}
	r, got := examined(t, o, "http", "protocol", "lists", "through dragoman")
	want(t, got, "FAIL "+web.URL+"/mcp: the server takes no second session: upstream "+web.Listener.Addr().String()+": *")
	if r.Exit != ExitServer {
		t.Errorf("exit %d", r.Exit)
	}
}

// TestChangingListsAreReadAgain checks that a list which the server itself changes meanwhile is no difference.
func TestChangingListsAreReadAgain(t *testing.T) {
	f := newFake(t)
	o := atURL("http://" + serve(t, f) + "/mcp")
	o.inPlace(f)
	serves := o.Serve
	o.Serve = func(ctx context.Context, cfg config.Config, ln net.Listener) error {
		f.Results["tools/list"] = `{"tools":[]}`
		return serves(ctx, cfg, ln)
	}
	if r, got := examined(t, o, "http", "protocol", "lists", "through dragoman"); r.Exit != ExitFine || len(got) != 1 || !strings.HasPrefix(got[0], "ok a client of ") {
		t.Errorf("exit %d: %q", r.Exit, got)
	}
}

// TestCall checks the lines about the tool that the user names, and that it is called once, and not without the user's word.
func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		result, failure, arguments string
		want                       string
		calls                      int
	}{
		"works":     {`{"content":[{"type":"text","text":"hello"}]}`, "", `{"a":1}`, `ok echo: answered in TIME with 1 content block, 44 bytes: [{"type":"text","text":"hello"}]`, 1},
		"error":     {`{"content":[{"type":"text","text":"no"}],"isError":true}`, "", `{}`, `warn echo: the tool answers with an error in TIME: [{"type":"text","text":"no"}] → are the arguments right?`, 1},
		"refused":   {"", `{"code":-32602,"message":"Unknown tool"}`, `{}`, `FAIL echo: the call is refused: {"code":-32602,"message":"Unknown tool"} → the error says why`, 1},
		"arguments": {"", "", `[1]`, `FAIL --call: the arguments of --call are not a JSON object → write --call TOOL '{"name": "value"}'`, 0},
		"no tool":   {"", "", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := atURL("http://" + serve(t, newFake(t)) + "/mcp")
			f := newFake(t)
			f.Results["tools/call"], f.Errors["tools/call"] = c.result, c.failure
			o.inPlace(f)
			if c.arguments != "" {
				o.Tool, o.Arguments = "echo", c.arguments
			}
			got := examine(t, o, "http", "protocol", "lists", "through dragoman", "call")
			for i := range got {
				got[i] = someTime.ReplaceAllString(got[i], "TIME")
			}
			if c.want == "" {
				want(t, got)
			} else {
				want(t, got, c.want)
			}
			if calls := f.Count("tools/call"); calls != c.calls {
				t.Errorf("%d calls", calls)
			}
		})
	}
}
