package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

const trialMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}`

// trialModern returns a request of 2026-07-28; params begin with a comma, meta too.
func trialModern(id, method, params, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":{` + trialMeta + meta + `}` + params + `}}`
}

// modern posts a request of 2026-07-28.
func (w *serverTrial) modern(id, method, params, meta string, fields ...string) *trialStream {
	w.Helper()
	w.session, w.version = "", "2026-07-28"
	var p struct{ Name, URI string }
	_ = json.Unmarshal([]byte("{"+strings.TrimPrefix(params, ",")+"}"), &p)
	return w.send("POST", "/mcp", trialModern(id, method, params, meta), append(fields, "Mcp-Method", method, "Mcp-Name", p.Name+p.URI)...)
}

func trialAct(mark, plan string) string {
	return fmt.Sprintf(`,"name":"act","arguments":{"mark":%q,"plan":%q}`, mark, plan)
}

func TestServerOfTheModernEra(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "both"} {
		tryServer(t, "http", revision, func(w *serverTrial) {
			st := w.modern("1", "server/discover", "", "")
			data, _ := readBody(st.res.Body)
			var m struct {
				Result struct {
					SupportedVersions []string
					ResultType        string
					TTLMs             *int
				}
			}
			if json.Unmarshal(data, &m); m.Result.SupportedVersions[0] != modernRevision || m.Result.ResultType != "complete" || m.Result.TTLMs == nil {
				t.Errorf("%s", data)
			}
			if legacy := len(m.Result.SupportedVersions) == 5; legacy != (revision == "both") {
				t.Errorf("%s", data)
			}
			act := trialAct("c1.1", "progress=1 logs=1")
			w.want("call", w.modern("1", "tools/call", act, "").all(), "body 1 c1.1 done 1")
			w.want("call", w.modern("1", "tools/call", act, `,"progressToken":"c1.1","io.modelcontextprotocol/logLevel":"debug"`).all(),
				"progress 1 | log c1.1 log 1 | 1 c1.1 done 2")
			w.want("unknown", w.modern("1", "resources/subscribe", "", "").all(), "404 | body 1 error -32601 Method not found: resources/subscribe")
			w.want("no resource", w.modern("1", "resources/read", `,"uri":"x:y"`, "").all(), "body 1 error -32602 Resource not found")
			w.nothingStrange()
			w.version = ""
			initialize := w.post(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` + trialAll + `}}`)
			if revision == "both" {
				w.want("initialize", initialize, `body "i"`)
				w.initialize("2025-06-18")
				w.want("call", w.post(trialCall("1", "c2.1", "")), "body 1 c2.1 done 1")
			} else {
				w.want("initialize", initialize, `400 | body "i" error -32022 Unsupported protocol version`)
				w.want("GET", w.send("GET", "/mcp", "").all(), "405")
			}
			w.nothingStrange()
		})
	}
}

func TestServerOfTheModernEraSaysWhatIsStrange(t *testing.T) {
	list := func(fields ...string) func(*serverTrial) *trialStream {
		return func(w *serverTrial) *trialStream {
			return w.send("POST", "/mcp", trialModern("1", "tools/list", "", ""), fields...)
		}
	}
	for _, c := range []struct {
		version string
		do      func(*serverTrial) *trialStream
		code    int
		want    string
	}{
		{"", list("Mcp-Method", "tools/list"), -32020, "MCP-Protocol-Version is missing"},
		{"2025-11-25", list("Mcp-Method", "tools/list"), -32020, `MCP-Protocol-Version "2025-11-25" differs from "2026-07-28" in _meta`},
		{"2026-07-28", list(), -32020, `Mcp-Method is "", the method "tools/list"`},
		{"2026-07-28", list("Mcp-Method", "tools/list", "Mcp-Name", "x"), -32020, `Mcp-Name is "x", the name ""`},
		{"2026-07-28", func(w *serverTrial) *trialStream {
			return w.send("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Method", "tools/list")
		}, -32602, "_meta has no protocolVersion or no clientCapabilities"},
		{"2026-07-28", func(w *serverTrial) *trialStream {
			return w.send("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}, -32600,
			"a response in a POST of 2026-07-28"},
	} {
		tryServer(t, "http", "2026-07-28", func(w *serverTrial) {
			w.version = c.version
			w.want(c.want, c.do(w).all(), fmt.Sprintf("400 | body 1 error %d %s", c.code, c.want))
			w.want(c.want, w.seen(trace.Strange), "strange "+c.want)
		})
	}
	tryServer(t, "http", "2026-07-28", func(w *serverTrial) { // an encoded name
		w.version = "2026-07-28"
		w.want("name", w.send("POST", "/mcp", trialModern("1", "resources/read", `,"uri":"note://ä"`, ""), "Mcp-Method", "resources/read",
			"Mcp-Name", "=?base64?bm90ZTovL8Ok?=").all(), "body 1 note://ä v0")
		w.nothingStrange()
	})
}

func TestServerAsksByResults(t *testing.T) {
	tryServer(t, "http", "2026-07-28", func(w *serverTrial) {
		ask := func(id, act, more string) (questions []string, state string) {
			w.Helper()
			st := w.modern(id, "tools/call", act+more, "")
			data, _ := readBody(st.res.Body)
			st.conn.Close()
			var m struct {
				Result struct {
					InputRequests map[string]struct {
						Method string
						Params json.RawMessage
					}
					RequestState string
					Content      []any
				}
				Error *rpcError
			}
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatalf("%s", data)
			}
			for n := 1; n < 9; n++ {
				if q, ok := m.Result.InputRequests[questionKey(n)]; ok {
					questions = append(questions, questionText(q.Method, q.Params))
				}
			}
			switch {
			case m.Error != nil:
				questions = append(questions, m.Error.String())
			case m.Result.Content != nil:
				questions = append(questions, brief(string(data)))
			}
			return questions, m.Result.RequestState
		}
		act := trialAct("c1.1", "ask=elicit,roots")
		q, state := ask("1", act, "")
		w.want("first", fmt.Sprint(q), "[c1.1 question 1]")
		q, state = ask("2", act, `,"inputResponses":{"question-1":{"action":"decline"}},"requestState":"`+state+`"`)
		w.want("second", fmt.Sprint(q), "[c1.1 question 2]")
		again, _ := ask("3", act, `,"inputResponses":{},"requestState":"`+state+`"`)
		w.want("again", fmt.Sprint(again), "[c1.1 question 2]")
		q, _ = ask("4", act, `,"inputResponses":{"question-2":{"roots":[{"uri":"file:///c","name":"c"}]}},"requestState":"`+state+`"`)
		w.want("answer", fmt.Sprint(q), "[4 c1.1 done 1]")
		w.nothingStrange()

		act = trialAct("c1.2", "ask=elicit,sample,roots together=yes")
		q, state = ask("5", act, "")
		w.want("together", fmt.Sprint(q), "[c1.2 question 1 c1.2 question 2 c1.2 question 3]")
		q, state = ask("6", act, `,"inputResponses":{"question-1":{"action":"decline"},"question-3":{"roots":[]}},"requestState":"`+state+`"`)
		w.want("the missing", fmt.Sprint(q), "[c1.2 question 2]")
		q, _ = ask("7", act, `,"inputResponses":{"question-2":{"content":{"text":"b"}}},"requestState":"`+state+`"`)
		w.want("answer", fmt.Sprint(q), "[7 c1.2 done 1]")
		w.want("told", w.seen(trace.Told), "told c1.1 1 decline\ntold c1.1 2 c\ntold c1.2 1 decline\ntold c1.2 3\ntold c1.2 2 b")
		w.nothingStrange()
		q, _ = ask("8", trialAct("c1.3", "ask=elicit"), `,"inputResponses":{},"requestState":"`+state+`"`)
		w.want("another's", fmt.Sprint(q), "[-32602 Invalid requestState]")
		if w.seen(trace.Strange) == "" {
			t.Error("another's state is not strange")
		}
	})
}

func TestServerIsLeftAndListenedTo(t *testing.T) {
	tryServer(t, "http", "2026-07-28", func(w *serverTrial) {
		st := w.modern("1", "tools/call", trialAct("c1.1", "progress=1 wait=1h"), `,"progressToken":1`)
		w.want("progress", st.next(), "progress 1")
		st.conn.Close()
		w.want("stopped", w.seen(trace.Stopped), "stopped c1.1 connection")
		st = w.modern("2", "subscriptions/listen", `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://3"]}`, "")
		w.want("acknowledged", st.next(), "notifications/subscriptions/acknowledged")
		w.do("server changed prompts")
		w.do("server changed tools")
		w.want("changed", st.next(), "notifications/tools/list_changed")
		w.do("server update note://3")
		w.want("updated", st.next(), "updated note://3 1")
		w.do("server closestreams")
		w.want("end", st.all(), "2")
		st = w.modern("3", "subscriptions/listen", `,"notifications":{"toolsListChanged":true}`, "")
		st.next()
		st.conn.Close()
		w.want("stopped", w.seen(trace.Stopped), "stopped c1.1 connection\nstopped connection")
		w.do("server changed tools")
		w.want("changes", w.seen(trace.Changes), "changes notifications/tools/list_changed")
		st = w.modern("4", "subscriptions/listen", `,"notifications":{"toolsListChanged":true}`, "")
		st.next()
		w.do("server restart")
		w.want("cut", st.all(), "unexpected EOF")
		w.want("stopped", w.seen(trace.Stopped), "stopped c1.1 connection\nstopped connection")
		w.nothingStrange()
	})
}

func TestServerProcessOfBothEras(t *testing.T) {
	tryServer(t, "stdio", "both", func(w *serverTrial) {
		w.line(trialModern("1", "tools/call", trialAct("c1.1", "ask=elicit"), ""))
		w.want("question", w.read(), "1 input_required")
		w.line(trialModern("2", "subscriptions/listen", `,"notifications":{"toolsListChanged":true}`, ""))
		w.want("acknowledged", w.read(), "notifications/subscriptions/acknowledged")
		w.do("server changed tools")
		w.want("changed", w.read(), "notifications/tools/list_changed")
		w.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		w.line(trialModern("3", "tools/call", trialAct("c1.2", "wait=1m"), ""))
		w.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		w.line(`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-06-18",` + trialAll + `}}`)
		w.want("initialized", w.read(), "4")
		w.line(trialCall("5", "c2.1", "ask=roots"))
		w.want("question", w.read(), "asks 1 c2.1 question 1")
		w.want("stopped", w.seen(trace.Stopped), "stopped\nstopped c1.2")
		w.nothingStrange()
	})
	tryServer(t, "stdio", "2026-07-28", func(w *serverTrial) {
		w.line(`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-06-18",` + trialAll + `}}`)
		w.want("initialize", w.read(), "4 error -32022 Unsupported protocol version")
		w.nothingStrange()
		w.line(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		w.read()
		w.want("strange", w.seen(trace.Strange), "strange _meta has no protocolVersion or no clientCapabilities")
	})
}

func TestServerOfTwoEndpoints(t *testing.T) {
	tryServer(t, "sse", "2024-11-05", func(w *serverTrial) {
		w.want("POST", w.send("POST", "/sse", "{}").all(), "405")
		begin := func() (*trialStream, func(string) string) {
			st := w.send("GET", "/sse", "")
			path := st.next()
			return st, func(body string) string { return w.send("POST", path, body).all() }
		}
		st, post := begin()
		w.want("accepted", post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+trialAll+`}}`), "202 | body Accepted")
		w.want("initialized", st.next(), "1")
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		post(trialCall("2", "c1.1", "progress=1 ask=roots how=twice"))
		w.want("progress", st.next(), "progress 1")
		w.want("question", st.next(), "asks 1 c1.1 question 1")
		post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		w.want("answer", st.next(), "2 c1.1 done 1")
		w.want("answer", st.next(), "2 c1.1 done 1")
		post(trialCall("3", "c1.2", "how=status"))
		w.want("answer", st.next(), "3 error -32603 c1.2 failed 1")
		w.do("server log 1")
		w.want("log", st.next(), "log server log 1")
		w.nothingStrange()
		st.conn.Close()
		w.want("gone", w.seen(trace.Gone), "gone")
		w.want("unknown", post(trialCall("4", "c1.3", "")), "404 | body null error -32001 Session not found")
		st, post = begin()
		post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05",` + trialAll + `}}`)
		st.next()
		post(trialCall("5", "c1.4", "how=cut"))
		w.want("cut", st.all(), "unexpected EOF")
		st, _ = begin()
		w.do("server closestreams")
		w.want("end", st.all(), "")
		w.nothingStrange()
		_, post = begin()
		time.Sleep(time.Second)
		post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		w.want("strange", w.seen(trace.Strange), "strange a request before initialize: tools/list")
	})
}
