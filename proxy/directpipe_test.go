package proxy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// plainFake is a fake modern server. rest answers all requests except server/discover and
// dragoman's own.
func plainFake(piped bool, rest func(id, method, m string) ([]string, error)) *fakeServer {
	f := modernServer(piped, `"capabilities":{"tools":{}},`+identity, rest)
	f.asked = true
	return f
}

// askedByClients returns the messages of clients that f got.
func (f *fakeServer) askedByClients() (list []string) {
	for _, m := range f.sent() {
		if !strings.HasPrefix(gjson.Get(m, "id").String(), "dragoman:") {
			list = append(list, m)
		}
	}
	return list
}

func sameBytes(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("\n got  %s\n want %s", got, want)
	}
}

// TestOneProcessServesSeveralClients: two clients may use the same ids, progress tokens and
// subscription ids, and nothing else is changed.
func TestOneProcessServesSeveralClients(t *testing.T) {
	f := plainFake(true, nil)
	answer := f.answer
	f.answer = func(m string) ([]string, error) {
		switch gjson.Get(m, "method").String() {
		case "server/discover":
			return answer(m)
		case "tools/list":
			return one(rpcError(gjson.Get(m, "id").Raw, `"code":-32601,"message":"there is none"`))
		}
		return nil, nil
	}
	srv := front(t, f)
	body := func(client string) string {
		return `{"id":1,"jsonrpc":"2.0", "method":"tools/call","params":{"name":"t","arguments":{"id":1,"progressToken":7,"c":"` + client + `"},` + plainMeta + `}}`
	}
	replies := map[string]chan reply{}
	for _, client := range []string{"a", "b"} {
		replies[client] = make(chan reply, 1)
		go func() { replies[client] <- srv.modernly(body(client)) }()
		eventually(t, client+" is heard", func() bool {
			list := f.askedByClients()
			return len(list) > 0 && strings.Contains(list[len(list)-1], `"c":"`+client+`"`)
		})
	}
	given := map[string]string{}
	for _, m := range f.askedByClients() {
		if gjson.Get(m, "method").String() != "tools/call" {
			continue
		}
		id, client := gjson.Get(m, "id").Raw, gjson.Get(m, "params.arguments.c").String()
		given[client] = id
		want := strings.Replace(strings.Replace(body(client), `"id":1`, `"id":`+id, 1), `"progressToken":7e0`, `"progressToken":`+id, 1)
		sameBytes(t, m, want)
	}
	if given["a"] == given["b"] {
		t.Fatalf("%q", given)
	}
	for _, client := range []string{"b", "a"} {
		f.standing <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1.0, "progressToken":` + given[client] + `}}`
		f.standing <- `{"result":{"resultType":"complete", "id":1,"content":[],"c":"` + client + `"},"id":` + given[client] + `,"jsonrpc":"2.0"}`
		r := <-replies[client]
		if len(r.events) != 2 {
			t.Fatalf("%+v", r)
		}
		sameBytes(t, r.events[0], `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1.0, "progressToken":7e0}}`)
		sameBytes(t, r.events[1], `{"result":{"resultType":"complete", "id":1,"content":[],"c":"`+client+`"},"id":1,"jsonrpc":"2.0"}`)
	}
}

// TestSubscriptionEndsWithItsResultAtShutdown: when dragoman stops, a subscription ends with its result.
func TestSubscriptionEndsWithItsResultAtShutdown(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := plainFake(piped, func(id, _, _ string) ([]string, error) {
			ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":{}}}`
			if piped {
				return one(ack)
			}
			return one(ack, hang)
		})
		srv := front(t, f)
		body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`))
		req, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
		time.AfterFunc(time.Millisecond, srv.Host.Drain)
		r := srv.read(req, resp)
		if len(r.events) != 2 {
			t.Fatalf("%+v", r)
		}
		sameJSON(t, r.events[1], result(`"L"`, `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}`))
	})
}

// TestPipeClientGetsHeadersMade: for a server over HTTP, the requests of a client on a pipe get the
// required headers.
func TestPipeClientGetsHeadersMade(t *testing.T) {
	calls, lists := 0, 0
	f := plainFake(false, func(id, method, _ string) ([]string, error) {
		if method == "tools/list" {
			lists++
			return one(result(id, `"resultType":"complete","tools":[`+annotatedTool+`,{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}]`))
		}
		if calls++; calls == 2 {
			return nil, &upstream.StatusError{Code: 400, Body: []byte(rpcError(id, `"code":-32020,"message":"Mcp-Param-X missing"`))}
		}
		return one(result(id, `"resultType":"complete","content":[ ]`))
	})
	c, srv := pipeClient(t, f)
	body := modernRequestOf(`"x"`, "tools/call", `"name":"größe","arguments":{"region":"eu","n":42.0,"note":null},`+meta(`{}`))
	for range 2 { // the second call is sent once more, as the server's tools have changed
		c.say(body)
		sameBytes(t, c.hear(), result(`"x"`, `"resultType":"complete","content":[ ]`))
		sameBytes(t, f.sent()[len(f.sent())-1], body)
		h := f.lastHeaders()
		want := map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=", "Mcp-Param-Region": "eu", "Mcp-Param-N": "42"}
		if len(h) != len(want) {
			t.Errorf("%q", h)
		}
		for name, value := range want {
			if h[name] != value {
				t.Errorf("%s: %q, want %q", name, h[name], value)
			}
		}
	}
	if calls != 3 || lists != 2 {
		t.Errorf("%d calls, %d lists", calls, lists)
	}
	c.say(modernRequestOf(`"y"`, "tools/call", `"name":"größe","arguments":{"n":9007199254740993},`+meta(`{}`)))
	if got := c.hear(); gjson.Get(got, "error.code").Int() != -32602 || gjson.Get(got, "id").String() != "y" {
		t.Error(got)
	}
	c.say(modernRequestOf(`1`, "tools/list", meta(`{}`)))
	sameBytes(t, c.hear(), result(`1`, `"resultType":"complete","tools":[`+annotatedTool+`]`))
	if n := srv.logs.FilterMessageSnippet("tool left out").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
	f.refuse = func(string) error {
		return &upstream.StatusError{Code: 404, Body: []byte(rpcError("null", `"code":-32601,"message":"nothing here"`))}
	}
	c.say(modernRequestOf(`2`, "prompts/list", meta(`{}`)))
	c.hears(rpcError("2", `"code":-32601,"message":"nothing here"`))
}

// TestListThatIsReadForHeadersHoldsNothingUp: the call of a tool that is not known yet waits for the server's list, and the
// client's next message does not wait for the call.
func TestListThatIsReadForHeadersHoldsNothingUp(t *testing.T) {
	for _, client := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(client, func(t *testing.T) {
			listed := make(chan struct{})
			f := plainFake(false, func(id, method, m string) ([]string, error) {
				switch method {
				case "tools/list":
					<-listed
					return one(result(id, `"resultType":"complete","tools":[`+annotatedTool+`]`))
				case "tools/call":
					return one(result(id, `"resultType":"complete","content":[]`))
				}
				return one(result(id, `"resultType":"complete","prompts":[]`))
			})
			c := front(t, f).pipe()
			params, after := meta(`{}`), `"resultType":"complete",`
			if client != "2026-07-28" {
				c.say(initialize(client, `{}`))
				c.hear()
				params, after = `"x":1`, ""
			}
			c.say(modernRequestOf("1", "tools/call", `"name":"größe","arguments":{"region":"eu"},`+params))
			got(t, f, `"tools/list"`)
			c.say(modernRequestOf("2", "prompts/list", params))
			c.hears(result("2", after+`"prompts":[]`))
			close(listed)
			c.hears(result("1", after+`"content":[]`))
		})
	}
}

func TestParamHeadersAreComparedWithTheBody(t *testing.T) {
	for what, make := range map[string]func(rest func(id, method, m string) ([]string, error)) *fakeServer{
		"http":  func(rest func(id, method, m string) ([]string, error)) *fakeServer { return plainFake(false, rest) },
		"stdio": func(rest func(id, method, m string) ([]string, error)) *fakeServer { return plainFake(true, rest) },
		"with a handshake": func(rest func(id, method, m string) ([]string, error)) *fakeServer {
			return legacyServer(`{"tools":{}}`, rest)
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := make(func(id, method, _ string) ([]string, error) {
				if method == "tools/list" {
					return one(result(id, `"resultType":"complete","tools":[`+annotatedTool+`]`))
				}
				return one(result(id, `"resultType":"complete","content":[]`))
			})
			srv := front(t, f)
			for _, c := range []struct {
				arguments string
				header    []string
				code      int64
			}{
				{`{"region":"eu","n":42}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-N", "42.0"}, 0},
				{`{"region":"größe"}`, []string{"Mcp-Param-Region", mcpheader.Encode("größe")}, 0},
				{`{"region":"größe"}`, []string{"Mcp-Param-Region", "größe"}, 0},
				{`{"region":null}`, []string{"Mcp-Param-Other", "x"}, 0},
				{`{"region":"us"}`, []string{"Mcp-Param-Region", "eu"}, -32020},
				{`{"region":"eu","n":42}`, []string{"Mcp-Param-Region", "eu"}, -32020},
				{`{"n":42}`, []string{"Mcp-Param-N", "43"}, -32020},
				{`{"n":42}`, []string{"Mcp-Param-N", "abc"}, -32020},
				{`{}`, []string{"Mcp-Param-Region", "eu"}, -32020},
				{`{"region":"eu"}`, []string{"Mcp-Param-Region", "=?base64?%%?="}, -32020},
				{`{"n":9007199254740992}`, []string{"Mcp-Param-N", "9007199254740992"}, -32602},
			} {
				before := len(f.said("tools/call"))
				r := srv.modernly(modernRequestOf("1", "tools/call", `"name":"größe","arguments":`+c.arguments+`,`+meta(`{}`)), c.header...)
				if code := gjson.Get(r.body, "error.code").Int(); code != c.code || code == -32020 && r.status != 400 {
					t.Errorf("%s %q: %+v", c.arguments, c.header, r)
				}
				if n := len(f.said("tools/call")) - before; (n == 1) != (c.code == 0) {
					t.Errorf("%s %q: the server got %d calls", c.arguments, c.header, n)
				}
			}
			if n := len(f.said("tools/list")); n > 2 {
				t.Errorf("the list was read %d times", n)
			}
		})
	}
}

// TestChecksComeInTheirOrder: the error reports the first check that fails, whatever else is wrong.
func TestChecksComeInTheirOrder(t *testing.T) {
	srv := front(t, plainFake(false, nil))
	good := func(more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + more + `}}`
	}
	other := strings.Replace(meta(`{}`), "2026-07-28", "2027-01-01", 1)
	for _, c := range []struct {
		what, body, version, method string
		code                        int64
	}{
		{"no header, no _meta", good(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), "", "x", -32020},
		{"_meta before the header that differs", good(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), "2027-01-01", "x", -32602},
		{"header that differs before what we speak", good(other), "2026-07-28", "x", -32020},
		{"what we speak before the method", good(other), "2027-01-01", "x", -32022},
		{"the method before whether it exists", strings.Replace(good(meta(`{}`)), "tools/call", "ping", 1), "2026-07-28", "x", -32020},
		{"whether it exists", strings.Replace(good(meta(`{}`)), "tools/call", "ping", 1), "2026-07-28", "ping", -32601},
	} {
		r := srv.post("", c.body, "MCP-Protocol-Version", c.version, "Mcp-Method", c.method, "Mcp-Name", "t")
		want := 400
		if c.code == mcp.CodeMethodNotFound {
			want = 404
		}
		if code := gjson.Get(r.body, "error.code").Int(); code != c.code || r.status != want {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}

// TestProcessIsRestartedForModernClientsOnAPipe: open requests are lost, and the next one goes to a
// new process.
func TestProcessIsRestartedForModernClientsOnAPipe(t *testing.T) {
	for _, over := range []string{"http", "stdio"} {
		t.Run("from "+over, func(t *testing.T) {
			kids := newFamily(func(nth int) *fakeServer {
				return modernServer(true, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
					if nth == 1 {
						return nil, nil
					}
					return one(result(id, `"resultType":"complete","prompts":[]`))
				})
			})
			o := kids.origin()
			o.Open = func(ctx context.Context) (*upstream.Begun, error) {
				return o.Connect(ctx, &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)})
			}
			srv := frontOf(t, o, quickly)
			answers := make(chan string, 1)
			ask := func(body string) { answers <- srv.modernly(body).body }
			if over == "stdio" {
				c := srv.pipe()
				ask = func(body string) {
					c.say(body)
					answers <- c.hear()
				}
			}
			go ask(modernRequestOf("1", "prompts/list", meta(`{}`)))
			first := kids.child(t, 0)
			got(t, first, `"prompts/list"`)
			first.lose(exited)
			if r := <-answers; !strings.Contains(r, "being restarted") || gjson.Get(r, "id").Raw != "1" {
				t.Error(r)
			}
			go ask(modernRequestOf("1", "prompts/list", meta(`{}`)))
			sameJSON(t, <-answers, result("1", `"resultType":"complete","prompts":[]`))
			if n := len(kids.child(t, 1).said("initialize")); n != 0 {
				t.Error("initialize was sent")
			}
		})
	}
}
