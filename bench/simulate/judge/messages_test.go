package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/cut"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// told reads a trace: a line is WHO KIND MESSAGE, and between them NAME=VALUE for mark, method, n, session and text. The id is the message's.
func told(t testing.TB, text string) []trace.Event {
	t.Helper()
	var all []trace.Event
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		head, raw := line, ""
		if at := strings.Index(line, " {"); at >= 0 {
			head, raw = line[:at], line[at+1:]
		}
		step, err := script.ParseStep(head)
		if err != nil {
			t.Fatal(err)
		}
		e := trace.Event{
			At: time.Duration(len(all)) * time.Millisecond, Who: step.Who, Kind: trace.Kind(step.Verb), Mark: step.Get("mark"),
			Method: step.Get("method"), N: step.Number("n"), Session: step.Get("session"), Text: step.Get("text"), Raw: []byte(raw),
		}
		e.ID = string(cut.Member(e.Raw, "id"))
		all = append(all, e)
	}
	return all
}

// broken is what a law says of a trace: "" if it holds.
func broken(t testing.TB, law func(*script.Script, []trace.Event) []Violation, server, client, settings, text string) string {
	t.Helper()
	s := &script.Script{
		Server:  script.Server{Transport: "http", Revision: server},
		Clients: []script.Client{{Name: "c1", Transport: "http", Revision: client}},
	}
	if transport, revision, ok := strings.Cut(server, " "); ok {
		s.Server = script.Server{Transport: transport, Revision: revision}
	}
	if settings != "" {
		s.Settings = []string{settings}
	}
	var all []string
	for _, v := range law(s, told(t, text)) {
		all = append(all, v.String())
	}
	return strings.Join(all, "\n")
}

func TestValidity(t *testing.T) {
	const (
		initialize = `server received method=initialize {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
server answers session=s method=initialize {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
`
		call = `c1 calls mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"act","arguments":{}}}
`
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	)
	for _, c := range []struct {
		name, server, client, trace string
		wrong                       string // what is said; "" for nothing
	}{
		{"result", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"c1.1 done 1"}]}}`, ""},
		{"result without content", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{}}`, "content"},
		{"result of a newer kind", "2025-06-18", "2024-11-05", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"resource_link","uri":"note://1","name":"n"}]}}`, "CallToolResult"},
		{"result without its type", "2026-07-28", modern, call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[]}}`, "resultType"},
		{"result with its type", "2026-07-28", modern, call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[]}}`, ""},
		{"member of a newer revision", "2025-06-18", "2025-03-26", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":{}}}`, "structuredContent"},
		{"member of an older revision", "2025-11-25", modern, `c1 answered method=tools/list {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{}}]}}`, "execution"},
		{"member within a member", "2025-11-25", "2024-11-05", `c1 answered method=resources/list {"jsonrpc":"2.0","id":7,"result":{"resources":[{"name":"n","uri":"note://1","annotations":{"lastModified":"x"}}]}}`, "lastModified"},
		{"_meta of a newer revision", "2025-06-18", "2025-03-26", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"","_meta":{"a":1}}]}}`, "_meta"},
		{"_meta of dragoman", "2025-06-18", "2025-03-26", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"","_meta":{"dragoman/transform":{}}}]}}`, ""},
		{"member that no revision has", "2025-06-18", "2025-03-26", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[],"x-own":1}}`, ""},
		{"two members", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"content":[]},"error":null}`, "more than one"},
		{"version", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"1.0","id":7,"result":{"content":[]}}`, "jsonrpc"},
		{"id", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7.5,"result":{"content":[]}}`, "id"},
		{"no JSON", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0",`, "no JSON"},
		{"error", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"gone"}}`, ""},
		{"error without code", "2025-06-18", "2025-06-18", call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":{"message":"gone"}}`, "code"},
		{"error without id, before 2025-11-25", "2025-06-18", "2025-06-18", `c1 answered {"jsonrpc":"2.0","error":{"code":-32700,"message":"what"}}`, "without id"},
		{"error with null, before 2025-11-25", "2025-06-18", "2025-06-18", `c1 answered {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}`, ""},
		{"error with null", "2025-06-18", "2025-11-25", `c1 answered {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}`, "id"},
		{"error whose data has a shape", "2026-07-28", modern, call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"no","data":{}}}`, "supported"},
		{"questions", "2026-07-28", modern, call + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","requestState":"x","inputRequests":{"a":{"method":"roots/list"}}}}`, ""},
		{"questions of an unknown kind", "2026-07-28", modern, call + `c1 asked mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"ping"}}}}`, "inputRequests"},
		{"questions of a list", "2026-07-28", modern, `c1 requests method=tools/list {"jsonrpc":"2.0","id":2,"method":"tools/list"}
c1 answered {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{}}}`, "with questions"},
		{"question", "2025-06-18", "2025-06-18", `c1 asked mark=c1.1 n=1 {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, ""},
		{"question of a newer kind", "2025-11-25", "2025-06-18", `c1 asked mark=c1.1 n=1 {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","url":"https://a"}}`, "requestedSchema"},
		{"question that the revision does not have", "2025-11-25", "2025-03-26", `c1 asked mark=c1.1 n=1 {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`, "2025-03-26 has no elicitation/create"},
		{"progress", "2025-06-18", "2025-06-18", `c1 progressed mark=c1.1 n=1 {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"c1.1","progress":0.5}}`, ""},
		{"progress without token", "2025-06-18", "2025-06-18", `c1 progressed mark=c1.1 n=1 {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`, "progressToken"},
		{"template", "2025-06-18", "2025-06-18", `c1 answered method=resources/templates/list {"jsonrpc":"2.0","id":2,"result":{"resourceTemplates":[{"name":"n","uriTemplate":"note://{n}"}]}}`, ""},
		{"URI", "2025-06-18", "2025-11-25", `c1 answered method=resources/list {"jsonrpc":"2.0","id":2,"result":{"resources":[{"name":"n","uri":"no uri"}]}}`, "valid uri"},
		{"log without level", "2025-06-18", "2025-06-18", `c1 logged n=1 {"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}`, "level"},
		{"update", "2025-06-18", "2025-06-18", `c1 updated n=1 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{}}`, "uri"},
		{"cancellation without id", "2025-11-25", "2025-06-18", `c1 revoked mark=c1.1 n=1 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, "requestId"},
		{"initialize by the version that it names", "2025-03-26", "2025-06-18", `c1 requests method=initialize {"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}
c1 answered method=initialize {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s"}}}`, "version"},

		{"request", "2025-06-18", "2025-06-18", initialize + `server received session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act"}}`, ""},
		{"request without name", "2025-06-18", "2025-06-18", initialize + `server received session=s method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`, "name"},
		{"params that are no object", "2025-06-18", "2025-06-18", initialize + `server received session=s method=x/unknown {"jsonrpc":"2.0","id":2,"method":"x/unknown","params":[]}`, "no object"},
		{"a method that no revision has", "2025-06-18", "2025-06-18", initialize + `server received session=s method=x/unknown {"jsonrpc":"2.0","id":2,"method":"x/unknown","params":{}}`, ""},
		{"request of its session's revision", "2025-06-18", "2025-06-18", initialize + `server stopped session=s {"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, "2025-03-26"},
		{"question whether it has a handshake", "2025-06-18", "2025-06-18", `server received method=server/discover {"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + meta + `}}`, ""},
		{"request that the revision has no longer", "2026-07-28", modern, `server received method=ping {"jsonrpc":"2.0","id":2,"method":"ping","params":{` + meta + `}}`, "has no ping"},
		{"request without _meta", "2026-07-28", modern, `server received method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act"}}`, "_meta"},
		{"request with _meta", "2026-07-28", modern, `server received method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act",` + meta + `}}`, ""},
		{"request to a server of both", "both", modern, `server received method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + meta + `}}`, "name"},
		{"answer to a question", "2025-06-18", "2025-06-18", `server asks session=s mark=c1.1 n=1 {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}
server told session=s mark=c1.1 n=1 {"jsonrpc":"2.0","id":"q","result":{"action":"perhaps"}}`, "action"},
		{"an answer with a number that is none of integers", "2025-11-25", "2025-11-25", `server asks session=s mark=c1.1 n=1 {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}
server told session=s mark=c1.1 n=1 {"jsonrpc":"2.0","id":"q","result":{"action":"accept","content":{"n":1.5,"list":["a"]}}}`, ""},
		{"answers within a request", "2026-07-28", modern, `server told mark=c1.1 n=1 method=tools/call {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"act","requestState":1,` + meta + `}}`, "requestState"},
		{"pong", "2025-06-18", "2025-06-18", `server pings session=s {"jsonrpc":"2.0","id":9,"method":"ping"}
server ponged session=s {"jsonrpc":"2.0","id":9,"result":[]}`, "no object"},

		{"made from what is as wrong", "2025-06-18", "2025-06-18", call + initialize + `server received session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act"}}
server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{}}`, ""},
		{"made from what is right", "2025-06-18", "2025-06-18", call + initialize + `server received session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act"}}
server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{}}`, "content"},
		{"an error of null, which dragoman takes out", "2025-06-18", "2025-06-18", call + initialize + `server received session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act"}}
server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{"content":[]},"error":null}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":null,"result":{"content":[]}}`, "more than one"},
		{"no content, which dragoman adds", "2025-06-18", modern, call + `server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{"structuredContent":{}}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","structuredContent":{}}}`, "content"},
		{"no content, which structured content becomes", "2025-06-18", "2025-03-26", call + `server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{"structuredContent":{}}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{}}`, "content"},
		{"no content, which dragoman does not add", "2025-06-18", "2025-11-25", call + `server answers session=s mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":2,"result":{"structuredContent":{}}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{"structuredContent":{}}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := broken(t, validity, c.server, c.client, "", c.trace)
			if (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
				t.Errorf("said %q, want %q", got, c.wrong)
			}
		})
	}
}

func TestBytesPass(t *testing.T) {
	const (
		call = `c1 calls mark=c1.1 method=tools/call {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0},"_meta":{"progressToken":"c1.1"}}}
`
		answer = `server answers mark=c1.1 method=tools/call n=1 {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"a\u00e9"}]}}
`
	)
	for _, c := range []struct {
		name, server, client, settings, trace string
		wrong                                 string
	}{
		{"call", "2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0},"_meta":{"progressToken":"c1.1"}}}`, ""},
		{"a space less", "2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","arguments":{"n":1e0},"_meta":{"progressToken":"c1.1"}}}`, "differ at 14"},
		{"the second time", "2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0},"_meta":{"progressToken":"c1.1"}}}
server received mark=c1.1 {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"act", "arguments":{"n":1},"_meta":{"progressToken":"c1.1"}}}`, "1e0"},
		{"another token", "2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0},"_meta":{"progressToken":1}}}`, "progressToken"},
		{"another token on a pipe", "stdio 2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0},"_meta":{"progressToken":1}}}`, ""},
		{"a member less", "stdio 2025-06-18", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act", "arguments":{"n":1e0}}}`, "differ"},
		{"another revision", "2025-03-26", "2025-06-18", "", call + `server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`, ""},
		{"sent again with an answer", modern, modern, "", call + `c1 replies mark=c1.1 n=1 {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"act","requestState":"s"}}
server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","requestState":"s"}}`, ""},
		{"sent again with another answer", modern, modern, "", call + `c1 replies mark=c1.1 n=1 {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"act","requestState":"s"}}
server received mark=c1.1 {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","requestState":"t"}}`, "differ"},
		{"what the client did not send", "2025-06-18", "2025-06-18", "", `server received method=tools/list {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`, ""},
		{"result", "2025-06-18", "2025-06-18", "", answer + `c1 answered mark=c1.1 n=1 {"id":7,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"a\u00e9"}]}}`, ""},
		{"another escape", "2025-06-18", "2025-06-18", "", answer + `c1 answered mark=c1.1 n=1 {"id":7,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"aé"}]}}`, "u00e9"},
		{"another escape, where results are shaped", "2025-06-18", "2025-06-18", "transform.default_max_tokens: 100", answer + `c1 answered mark=c1.1 n=1 {"id":7,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"aé"}]}}`, ""},
		{"one of two answers", "2025-06-18", "2025-06-18", "", answer + `server answers mark=c1.1 {"jsonrpc":"2.0","id":3,"result":{}}
c1 answered mark=c1.1 n=1 {"id":7,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"a\u00e9"}]}}`, ""},
		{"null beside it", "2025-06-18", "2025-06-18", "", `server answers mark=c1.1 {"jsonrpc":"2.0","id":3,"error":null,"result":{}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"result":{}}`, ""},
		{"an error of its own", "2025-06-18", "2025-06-18", "", answer + `c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"gone"}}`, ""},
		{"the server's error", "2025-06-18", "2025-06-18", "", `server answers mark=c1.1 {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"c1.1 failed"}}
c1 answered mark=c1.1 {"jsonrpc":"2.0","id":7,"error":{"message":"c1.1 failed","code":-32000}}`, "differ at 2"},
		{"list", "2025-06-18", "2025-06-18", "", `server answers method=tools/list {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}
c1 answered method=tools/list {"jsonrpc":"2.0","id":7,"result":{"tools":[], "nextCursor":""}}`, "differ"},
		{"progress", "2025-06-18", "2025-06-18", "", `server progresses mark=c1.1 n=1 {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"c1.1","progress":1.0}}
c1 progressed mark=c1.1 n=1 {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"c1.1","progress":1}}`, "1.0"},
		{"log", "2025-06-18", "2025-06-18", "", `server logs n=3 {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"3"}}
c1 logged mark=server n=3 {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"4"}}`, "differ"},
		{"question", "2025-06-18", "2025-06-18", "", `server asks mark=c1.1 n=2 {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"_meta":{"question":"c1.1 question 2"}}}
c1 asked mark=c1.1 n=2 {"jsonrpc":"2.0","id":1,"method":"roots/list"}`, "differ at 0"},
		{"answer to it", "2025-06-18", "2025-06-18", "", `c1 replies mark=c1.1 n=2 {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
server told mark=c1.1 n=2 {"jsonrpc":"2.0","id":5,"result":{"roots": []}}`, "differ at 9"},
		{"update", "2025-06-18", "2025-06-18", "", `server updates text=note://3 n=2 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://3"}}
c1 updated text=note://3 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://3","title":"x"}}`, "differ"},
		{"update of a subscription on a pipe", "stdio 2026-07-28", modern, "", `server updates text=note://3 n=2 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"uri":"note://3"}}
c1 updated text=note://3 n=2 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"c1-4"},"uri":"note://3"}}`, ""},
		{"update that may have been missed", "2025-06-18", "2025-06-18", "", `server updates text=note://3 n=2 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://3","_meta":{"version":2}}}
c1 updated text=note://3 {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://3"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := broken(t, bytesPass, c.server, c.client, c.settings, c.trace)
			if (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
				t.Errorf("said %q, want %q", got, c.wrong)
			}
		})
	}
}

// TestLooks: messages that differ in digits are one to the schemas, but where digits count.
func TestLooks(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":1234,"method":"ping"}`, true},
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"a xx"}}`, `{"jsonrpc":"2.0","id":7,"result":{"text":"a xxxxxxx"}}`, true},
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"a x"}}`, `{"jsonrpc":"2.0","id":7,"result":{"text":"a "}}`, false},
		{`{"jsonrpc":"2.0","id":"7","method":"ping"}`, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, false},
		{`{"jsonrpc":"2.0","id":7.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":75,"method":"ping"}`, false},
		{`{"jsonrpc":"2.0","id":-7,"method":"ping"}`, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, false},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"1.0","id":7,"method":"ping"}`, false},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":-32022}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32023}}`, false},
		{`{"jsonrpc":"2.0","id":7,"result":{"priority":0.5}}`, `{"jsonrpc":"2.0","id":7,"result":{"priority":7.5}}`, false},
	} {
		if same := looksOf(modern, "", []byte(c.a)) == looksOf(modern, "", []byte(c.b)); same != c.same {
			t.Errorf("%s and %s look the same: %t", c.a, c.b, same)
		}
	}
}

func BenchmarkFits(b *testing.B) {
	raw := []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"c1.1 done 1"}],"isError":false}}`)
	b.Run("seen", func(b *testing.B) {
		for b.Loop() {
			if err := fits("2025-11-25", "tools/call", raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unseen", func(b *testing.B) {
		s, err := schemaOf("2025-11-25")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := s.check("tools/call", raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
