package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// exchanged is one request of a handshake client and all that follows: the server's notifications
// and questions, the client's answers, and the response.
type exchanged struct {
	request string   // without its id
	on      []string // the server's notifications and requests, in order
	replies map[string]string
	answer  string // without its id
}

// conversation is what a handshake client and a handshake server have sent each other.
type conversation struct {
	name         string
	revision     string
	capabilities string // the client's
	offers       string // the server's
	exchanges    []exchanged
}

// ownConversation has everything that may happen within a request, as far as a revision can express
// it.
func ownConversation(revision string) conversation {
	c := conversation{
		name: "own " + revision, revision: revision,
		capabilities: `{"roots":{"listChanged":true},"sampling":{}}`,
		offers:       `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{}}`,
	}
	add := func(request, answer string, on ...string) *exchanged {
		c.exchanges = append(c.exchanges, exchanged{request: request, answer: answer, on: on, replies: map[string]string{}})
		return &c.exchanges[len(c.exchanges)-1]
	}
	call := func(name string) string {
		return `"method":"tools/call","params":{"name":"` + name + `","arguments":{"a":1.0,"b":null,"ü":"\u00fc"},"_meta":{"progressToken":"t-` + name + `","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`
	}
	const done = `"result":{"content":[{"type":"text","text":"done"}]}`
	add(`"method":"ping"`, `"result":{}`)
	add(`"method":"logging/setLevel","params":{"level":"debug"}`, `"result":{}`)
	add(`"method":"tools/list"`, `"result":{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"number"}}}}],"nextCursor":"2"}`)
	add(`"method":"tools/list","params":{"cursor":"2"}`, `"result":{"tools":[]}`)
	add(`"method":"tools/list","params":{"cursor":""}`, `"result":{"tools":[],"_meta":{"x/y":1}}`)
	add(call("plain"), done)
	add(call("fails"), `"result":{"content":[{"type":"text","text":"no"}],"isError":true}`)
	add(call("refuses"), `"error":{"code":-32602,"message":"no such tool","data":{"uri":"u:1"}}`)
	add(call("code"), `"error":{"code":-32000,"message":"mine","data":[1,2]}`)
	add(call("progress"), done,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t-progress","progress":1,"total":3}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t-progress","progress":2.50,"total":3}}`)
	add(call("logs"), done,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"l","data":{"y":[1]}}}`)
	e := add(call("roots"), done, `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
	e.replies[`"r"`] = `"result":{"roots":[{"uri":"file:///a","name":"a"}]}`
	e = add(call("sample"), done, `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"q"}}],"maxTokens":5,"temperature":0.5}}`)
	e.replies[`7`] = `"result":{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"endTurn"}`
	e = add(call("both"), done,
		`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t-both","progress":1}}`,
		`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t-both","progress":2}}`)
	e.replies[`1`] = `"result":{"roots":[]}`
	e.replies[`2`] = `"result":{"role":"assistant","content":{"type":"text","text":""},"model":"m"}`
	add(`"method":"prompts/get","params":{"name":"p","arguments":{"x":"y"}}`, `"result":{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`)
	add(`"method":"resources/read","params":{"uri":"file:///a"}`, `"result":{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"x"}]}`)
	add(`"method":"resources/read","params":{"uri":"file:///gone"}`, `"error":{"code":-32002,"message":"Resource not found","data":{"uri":"file:///gone"}}`)
	add(`"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":"y"}}`, `"result":{"completion":{"values":["yes"],"hasMore":false}}`)
	add(`"method":"x/unknown","params":{"a":[]}`, `"error":{"code":-32601,"message":"Method not found"}`)
	add(`"method":"x/known","params":{"a":[]}`, `"result":{"b":{}}`)
	if revision >= "2025-06-18" {
		c.capabilities = `{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`
		for _, reply := range []string{`{"action":"accept","content":{"n":"Ada","k":3}}`, `{"action":"decline"}`, `{"action":"cancel"}`} {
			e = add(call("form"), done, `{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"},"k":{"type":"integer"}},"required":["n"]}}}`)
			e.replies[`"s1"`] = `"result":` + reply
		}
	}
	if revision >= "2025-11-25" {
		c.capabilities = `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`
		e = add(call("url"), done, `{"jsonrpc":"2.0","id":"s2","method":"elicitation/create","params":{"mode":"url","elicitationId":"550e8400-e29b-41d4-a716-446655440000","url":"https://a.example/c","message":"m"}}`)
		e.replies[`"s2"`] = `"result":{"action":"accept"}`
		e = add(`"method":"prompts/get","params":{"name":"asks"}`, `"result":{"messages":[]}`, `{"jsonrpc":"2.0","id":"s3","method":"roots/list"}`)
		e.replies[`"s3"`] = `"result":{"roots":[{"uri":"file:///a"}]}`
	}
	return c
}

// recordedConversation reads a recorded conversation of published peers.
func recordedConversation(t *testing.T, file string) conversation {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	_, rest, _ := strings.Cut(name, "-")
	c := conversation{name: name, revision: rest[:len("2025-11-25")]}
	type open struct {
		id string
		exchanged
	}
	var running []*open
	initialize := ""
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		line := gjson.Parse(in.Text())
		m := line.Get("message")
		if !m.IsObject() {
			continue
		}
		id, method, client := m.Get("id").Raw, m.Get("method").String(), line.Get("dir").String() == "c2s"
		switch {
		case client && method == "initialize":
			initialize, c.capabilities = id, m.Get("params.capabilities").Raw
		case !client && initialize != "" && id == initialize && method == "":
			initialize, c.offers = "", m.Get("result.capabilities").Raw
		case client && method != "" && id != "":
			request, err := sjson.Delete(m.Raw, "id")
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, &open{id, exchanged{request: within(request), replies: map[string]string{}}})
		case client && id != "" && len(running) > 0:
			reply, _ := sjson.Delete(m.Raw, "id")
			running[len(running)-1].replies[id] = within(reply)
		case !client && method == "":
			at := slices.IndexFunc(running, func(o *open) bool { return o.id == id })
			if at < 0 {
				continue
			}
			answer, _ := sjson.Delete(m.Raw, "id")
			o := running[at]
			o.answer = within(answer)
			running = slices.Delete(running, at, at+1)
			if !isOfTasks(o.request) {
				c.exchanges = append(c.exchanges, o.exchanged)
			}
		case !client && len(running) == 1 && (id != "" || method == "notifications/progress" || method == "notifications/message"):
			running[0].on = append(running[0].on, m.Raw)
		}
	}
	if err := in.Err(); err != nil || len(c.exchanges) == 0 {
		t.Fatalf("%s: %v, %d exchanges", file, err, len(c.exchanges))
	}
	return c
}

// within returns the text between the braces, without the protocol version.
func within(object string) string {
	object, _ = sjson.Delete(object, "jsonrpc")
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(object), "{"), "}")
}

// isOfTasks reports whether a request is about tasks, which no bridge translates, or has its
// response from another exchange.
func isOfTasks(request string) bool {
	m := gjson.Parse("{" + request + "}")
	switch method := m.Get("method").String(); {
	case strings.HasPrefix(method, "tasks/"), m.Get("params.task").Exists():
		return true
	case method == "resources/subscribe", method == "resources/unsubscribe":
		return true
	}
	return false
}

// serve is the server of the conversation.
func (c conversation) serve(t *testing.T, piped bool) *peertest.Server {
	var mu sync.Mutex
	left := map[string][]exchanged{}
	for _, e := range c.exchanges {
		key := saidBy("{" + e.request + "}")
		left[key] = append(left[key], e)
	}
	s := script(t, piped, nil)
	s.SessionID = "session-1"
	s.Script = func(u *peertest.Turn) {
		switch {
		case u.Method == "" || u.ID == "":
			return
		case u.Method == "initialize":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"protocolVersion":"`+c.revision+`","capabilities":`+c.offers+`,"serverInfo":{"name":"s","version":"2"},"instructions":"hi"}}`)
			return
		}
		key := saidBy(u.Text)
		mu.Lock()
		list := left[key]
		if len(list) > 1 {
			left[key] = list[1:]
		}
		mu.Unlock()
		if len(list) == 0 {
			if u.Method == "logging/setLevel" || u.Method == "ping" {
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{}}`)
				return
			}
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32603,"message":"there was no such request"}}`)
			return
		}
		token := gjson.Get(u.Text, "params._meta.progressToken").Raw
		for n, m := range list[0].on {
			id := gjson.Get(m, "id").Raw
			if gjson.Get(m, "method").String() == "notifications/progress" && token != "" {
				m, _ = sjson.SetRaw(m, "params.progressToken", token)
			}
			if id != "" { // several questions of a call may have had one id
				own := fmt.Sprintf(`"%s:%d"`, strings.Trim(u.ID, `"`), n)
				m, _ = sjson.SetRaw(m, "id", own)
				u.Say(m)
				u.Hears(own)
				continue
			}
			u.Say(m)
		}
		u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,` + list[0].answer + `}`)
	}
	return s
}

// saidBy returns the content of a request, without what its path has added.
func saidBy(request string) string {
	var m struct {
		Method string
		Params map[string]any
	}
	if err := json.Unmarshal([]byte(request), &m); err != nil {
		return err.Error()
	}
	if meta, ok := m.Params["_meta"].(map[string]any); ok {
		delete(meta, "progressToken")
		if len(meta) == 0 {
			delete(m.Params, "_meta")
		}
	}
	text, _ := json.Marshal(m.Params)
	if len(m.Params) == 0 {
		text = nil
	}
	return m.Method + " " + string(text)
}

// play makes a client play the conversation. It returns what the client received in each exchange,
// in order, and what the server received.
func (c conversation) play(t *testing.T, p proxied, s *peertest.Server, piped bool) (heard [][]string, told []string) {
	t.Helper()
	client := p.client(t, piped)
	client.InitializeAs(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + c.revision + `","capabilities":` + c.capabilities + `,"clientInfo":{"name":"c","version":"1"}}}`)
	for n, e := range c.exchanges {
		id := fmt.Sprint(n + 1)
		r := client.Say(`{"jsonrpc":"2.0","id":` + id + `,` + e.request + `}`)
		var own []string
		replies := 0
		for {
			m := r.Next()
			asked := gjson.Get(m, "id").Raw
			if gjson.Get(m, "method").String() == "notifications/elicitation/complete" {
				continue // the revision between does not have it: it comes with the response
			}
			if gjson.Get(m, "method").String() == "notifications/message" && strings.Contains(e.request, `"logging/setLevel"`) {
				continue // a modern client could not send it: the level is remembered
			}
			if gjson.Get(m, "method").Raw != "" && asked != "" {
				reply := e.reply(replies)
				replies++
				client.Say(`{"jsonrpc":"2.0","id":` + asked + `,` + reply + `}`)
				m, _ = sjson.Delete(m, "id")
			}
			own = append(own, unlost(m))
			if asked == id && gjson.Get(m, "method").Raw == "" {
				break
			}
		}
		heard = append(heard, own)
	}
	for _, m := range s.Heard() {
		switch method := gjson.Get(m.Text, "method").String(); method {
		case "logging/setLevel", "ping", "tools/list", "server/discover", "notifications/initialized": // the proxies send these themselves, too
			continue
		case "":
		default:
			told = append(told, saidBy(unlost(m.Text)))
			continue
		}
		if m.Text != "DELETE" {
			text, _ := sjson.Delete(m.Text, "id")
			told = append(told, text)
		}
	}
	return heard, told
}

// reply returns the client's answer to the n-th question.
func (e exchanged) reply(n int) string {
	for _, m := range e.on {
		if id := gjson.Get(m, "id").Raw; id != "" {
			if n == 0 {
				return e.replies[id]
			}
			n--
		}
	}
	return `"error":{"code":-32603,"message":"there was no such request"}`
}

// unlost returns a message without what the revision between cannot express.
func unlost(m string) string {
	switch method := gjson.Get(m, "method").String(); {
	case method == "roots/list" && gjson.Get(m, "params").Raw == "{}":
		m, _ = sjson.Delete(m, "params") // the proxies add params to a question
	case method == "elicitation/create" && gjson.Get(m, "params.elicitationId").Exists():
		m, _ = sjson.Set(m, "params.elicitationId", "") // C18: the same elicitation gets another id
	case method == "sampling/createMessage":
		m, _ = sjson.Delete(m, "params.includeContext") // C26: no client of these declares it
	case gjson.Get(m, "result.contents").IsArray():
		for n := range gjson.Get(m, "result.contents").Array() {
			m, _ = sjson.Delete(m, fmt.Sprintf("result.contents.%d.name", n)) // C41: no revision has it
		}
	case gjson.Get(m, "result.tools").IsArray():
		for n := range gjson.Get(m, "result.tools").Array() {
			m, _ = sjson.Delete(m, fmt.Sprintf("result.tools.%d.execution", n)) // C07
		}
	case method == "initialize":
		m, _ = sjson.Delete(m, "params.capabilities.roots.listChanged") // C27
	}
	return m
}

// TestLegacyMessagesSurviveTranslationThereAndBack: between two proxies the messages of a handshake
// client and server are translated to the modern revision and back. Both ends receive the same as
// without the proxies.
func TestLegacyMessagesSurviveTranslationThereAndBack(t *testing.T) {
	var all []conversation
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		all = append(all, ownConversation(revision))
	}
	files, err := filepath.Glob("../../translate/testdata/traffic/everything-*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		all = append(all, recordedConversation(t, file))
	}
	for _, c := range all {
		for _, way := range [][3]bool{{}, {true, true, true}, {false, true, false}, {true, false, true}, {false, false, true}} {
			if (testing.Short() || !strings.HasPrefix(c.name, "own")) && way[0] != way[1] {
				continue
			}
			inBubble(t, fmt.Sprintf("%s %s-%s-%s", c.name, transportName(way[0]), transportName(way[1]), transportName(way[2])), func(t *testing.T) {
				spoken := func(cfg *config.Config) {
					cfg.Upstream.Version, cfg.Contract.SchemaDialect = c.revision, "off" // schemas between the proxies have another dialect
					cfg.Bridge.Coalesce = 200 * time.Millisecond                         // progress and questions have streams of their own in the proxy, and the readers of both may have to wait for a processor
				}
				s := c.serve(t, way[2])
				heard, told := c.play(t, through(t, s.At(), spoken), s, way[0])

				s = c.serve(t, way[2])
				second := through(t, s.At(), spoken)
				to := second.web
				if way[1] {
					to = second.pipe
				}
				first := through(t, to, func(cfg *config.Config) { cfg.Upstream.Version, cfg.Contract.SchemaDialect = modernOnly, "off" })
				there, toldThere := c.play(t, first, s, way[0])
				for n := range heard {
					if !sameAs(there[n], heard[n]) {
						t.Errorf("%s\n said %q\n and  %q", c.exchanges[n].request, heard[n], there[n])
					}
				}
				if !sameAs(toldThere, told) {
					for n := range min(len(told), len(toldThere)) {
						if !sameAs(toldThere[n:n+1], told[n:n+1]) {
							t.Errorf("the server was told, as number %d,\n %s\n and %s", n, told[n], toldThere[n])
							break
						}
					}
					t.Errorf("the server was told %d and %d things", len(told), len(toldThere))
				}
			})
		}
	}
}

func transportName(piped bool) string {
	if piped {
		return "stdio"
	}
	return "http"
}

// sameAs compares JSON values.
func sameAs(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for n := range got {
		if got[n] == want[n] {
			continue
		}
		var g, w any
		if json.Unmarshal([]byte(got[n]), &g) != nil || json.Unmarshal([]byte(want[n]), &w) != nil || !reflect.DeepEqual(g, w) {
			return false
		}
	}
	return true
}

// TestSubscriptionsSurviveTranslationThereAndBack: between the two proxies, a client's resource subscriptions and
// list changes go through subscriptions/listen; when the client unsubscribes, so does the proxy at
// the server.
func TestSubscriptionsSurviveTranslationThereAndBack(t *testing.T) {
	for _, way := range [][3]bool{{}, {true, true, true}, {false, true, false}, {true, false, true}} {
		inBubble(t, fmt.Sprintf("%s-%s-%s", transportName(way[0]), transportName(way[1]), transportName(way[2])), func(t *testing.T) {
			s := script(t, way[2], nil)
			s.SessionID = "session-1"
			s.Script = func(u *peertest.Turn) {
				switch uri := gjson.Get(u.Text, "params.uri").String(); {
				case u.Method == "initialize":
					u.Answer(200, result(u.ID, `"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},"serverInfo":{"name":"s","version":"2"}`))
				case u.ID == "" || u.Method == "":
				case u.Method == "resources/subscribe" && uri == "file:///refused":
					u.Answer(200, rpcError(u.ID, `"code":-32602,"message":"no"`))
				default:
					u.Answer(200, result(u.ID, ""))
				}
			}
			second := through(t, s.At(), func(cfg *config.Config) { cfg.Upstream.Version = "2025-06-18" })
			to := second.web
			if way[1] {
				to = second.pipe
			}
			client := through(t, to, func(cfg *config.Config) { cfg.Upstream.Version = modernOnly }).client(t, way[0])
			client.Initialize("2025-06-18", `{}`)
			var news *peertest.Reply
			if !way[0] {
				news = client.Listen()
				news.HasStatus(200)
			}
			say := func(id, method, uri string) string {
				t.Helper()
				r := client.Say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"uri":"` + uri + `"}}`)
				if news == nil {
					news = r
				}
				return r.Next()
			}
			sameJSON(t, say("1", "resources/subscribe", "file:///a"), result("1", ""))
			sameJSON(t, say("2", "resources/subscribe", "file:///a"), result("2", ""))
			sameJSON(t, say("3", "resources/subscribe", "file:///refused"), rpcError("3", `"code":-32602,"message":"Subscription not accepted: file:///refused"`))
			if n := s.Count("resources/subscribe"); n != 2 {
				t.Errorf("%d subscriptions", n)
			}
			// The second proxy subscribes to lists in the background, and cannot say when it has
			// done so.
			for end := time.Now().Add(patience); ; {
				s.Unasked(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				select {
				case m := <-news.Events:
					sameJSON(t, strings.Replace(m, `,"params":{}`, "", 1), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				case <-time.After(100 * time.Millisecond):
					if time.Now().After(end) {
						t.Fatal("no client is told of the tools")
					}
					continue
				}
				break
			}
			s.Unasked(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a","x":{"y":1.0}}}`)
			for {
				if m := news.Next(); !strings.Contains(m, "tools/list_changed") {
					sameJSON(t, m, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a","x":{"y":1.0}}}`)
					break
				}
			}
			if way[0] {
				client.Say(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`)
			} else {
				sameJSON(t, say("4", "resources/unsubscribe", "file:///a"), result("4", ""))
			}
			sameJSON(t, gjson.Get(s.Gets(1, "resources/unsubscribe").Text, "params").Raw, `{"uri":"file:///a"}`)
		})
	}
}

// TestDeleteEndsWhatRunsAtAServerWithoutSessions: open requests and subscriptions are cancelled.
func TestDeleteEndsWhatRunsAtAServerWithoutSessions(t *testing.T) {
	for _, piped := range []bool{false, true} {
		inBubble(t, transportName(piped), func(t *testing.T) {
			c := &staged{T: t, server: piped}
			ended := make(chan string, 8)
			s := c.modern(`"capabilities":{"tools":{},"resources":{"subscribe":true}}`, func(u *peertest.Turn) {
				if u.Method == "subscriptions/listen" {
					uri := gjson.Get(u.Text, "params.notifications").Raw
					u.Say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + u.ID + `},"notifications":` + uri + `}}`)
				}
				<-u.Ctx.Done()
				ended <- u.Method
			})
			client, _ := c.stage(s)
			client.Initialize("2025-11-25", `{}`)
			sameJSON(t, client.Say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"u:1"}}`).Next(), result("1", ""))
			client.Say(toolCalled("5"))
			s.Gets(1, "tools/call")
			r := client.Do("DELETE", "", map[string][]string{"Mcp-Session-Id": {client.Session}, "Mcp-Protocol-Version": {"2025-11-25"}})
			if r.Code(); r.Status < 200 || r.Status > 299 {
				t.Errorf("status %d", r.Status)
			}
			for range 2 { // a process ends with its session
				select {
				case <-ended:
				case <-time.After(patience):
					t.Fatal("something goes on")
				}
			}
			client.Say(`{"jsonrpc":"2.0","id":6,"method":"ping"}`).HasStatus(404)
		})
	}
}
