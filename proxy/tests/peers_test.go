package tests

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// These are servers over HTTP that several tests use.

// peer is a server of peertest, or what has one.
type peer interface{ At() peertest.Endpoint }

// helloOf is the result of initialize.
func helloOf(version, capabilities string) string {
	return `"protocolVersion":"` + version + `","capabilities":` + capabilities + `,"serverInfo":{"name":"s","version":"2"}`
}

// newSessionServer returns a server that knows its sessions. Its tool sends the client a question, unless that is "", and
// returns the answer. Its other methods return the id of the session.
func newSessionServer(t *testing.T, version, question string) *peertest.Server {
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Open()
			u.Answer(200, result(u.ID, helloOf(version, `{"tools":{}}`)))
		case u.ID == "" || u.Method == "":
		case u.Method == "tools/call" && question == "":
			u.Answer(200, result(u.ID, `"content":[{"type":"text","text":"done"}]`))
		case u.Method == "tools/call":
			if answer := u.Asks(question); answer != "" {
				u.Say(result(u.ID, `"content":[{"type":"text","text":`+string(wire.AppendQuoted(nil, answer))+`}]`))
			}
		default:
			u.Answer(200, result(u.ID, `"session":"`+u.Session.ID+`"`))
		}
	})
	s.Sessions, s.NoGet = true, true
	return s
}

// sessionless is a modern server. Its prompt returns what the client has declared, its tool asks for a name, and its
// resource changes when news is sent.
type sessionless struct {
	*peertest.Server
	news chan struct{}
}

// newSessionless returns a sessionless. special answers what it wants to, and reports false for the rest; nil for none.
func newSessionless(t *testing.T, special func(*peertest.Turn) bool) *sessionless {
	s := &sessionless{news: make(chan struct{}, 1)}
	s.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		answer := func(members string) { u.Answer(200, result(u.ID, `"resultType":"complete",`+members)) }
		meta := func(name string) gjson.Result {
			return gjson.Get(u.Text, `params._meta.io\.modelcontextprotocol/`+name)
		}
		switch {
		case u.Request.Method != http.MethodPost:
			u.Refuse(http.StatusMethodNotAllowed)
		case u.Method == "initialize":
			u.Answer(http.StatusBadRequest, rpcError("null", `"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}`))
		case special != nil && special(u):
		case u.Method == "server/discover":
			answer(`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"logging":{},"resources":{"subscribe":true}}`)
		case u.Method == "prompts/get":
			says := meta("clientInfo").Raw + "|" + meta("clientCapabilities").Raw + "|" + meta("logLevel").String()
			answer(`"description":` + string(wire.AppendQuoted(nil, says)) + `,"messages":[]`)
		case u.Method == "tools/list":
			answer(`"tools":[]`)
		case u.Method == "tools/call" && !gjson.Get(u.Text, "params.inputResponses").Exists():
			u.Answer(200, result(u.ID, `"resultType":"input_required","requestState":"st","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}}`))
		case u.Method == "tools/call":
			answer(`"content":[{"type":"text","text":` + string(wire.AppendQuoted(nil, gjson.Get(u.Text, "params.inputResponses.a.content.n").String())) + `}]`)
		case u.Method == "subscriptions/listen":
			uri := gjson.Get(u.Text, "params.notifications.resourceSubscriptions.0").Raw
			say := func(method, params string) {
				u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, params, u.ID))
			}
			say("notifications/subscriptions/acknowledged", `"notifications":{"resourceSubscriptions":[`+uri+`]}`)
			for {
				select {
				case <-s.news:
					say("notifications/resources/updated", `"uri":`+uri)
				case <-u.Ctx.Done():
					return
				}
			}
		default:
			u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		}
	})
	s.Every = true
	return s
}

// taskingServer is a handshake server. Its tool slow only runs as a task, which belongs to its session.
type taskingServer struct {
	*peertest.Server
	mu    sync.Mutex
	tasks map[string]string // status, by session and id
}

func newTaskingServer(t *testing.T) *taskingServer {
	s := &taskingServer{tasks: map[string]string{}}
	s.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		s.mu.Lock()
		defer s.mu.Unlock()
		session := u.Header.Get("Mcp-Session-Id")
		const times = taskTimes + `,"ttl":60000,"pollInterval":20`
		status, known := s.tasks[session+"/"+gjson.Get(u.Text, "params.taskId").String()]
		answer := func(members string) { u.Answer(200, result(u.ID, members)) }
		switch {
		case u.Text == http.MethodDelete:
			delete(s.tasks, session+"/t1")
		case u.Text == http.MethodGet:
			u.Refuse(http.StatusMethodNotAllowed)
		case u.Method == "initialize":
			u.Open()
			answer(helloOf("2025-11-25", taskCapabilities))
		case u.ID == "":
		case u.Method == "tools/list":
			answer(`"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"quick","inputSchema":{"type":"object"}}]`)
		case u.Method == "tools/call" && gjson.Get(u.Text, "params.task").IsObject():
			s.tasks[session+"/t1"] = "working"
			answer(`"task":{"taskId":"t1","status":"working",` + times + `}`)
		case u.Method == "tools/call":
			answer(`"content":[{"type":"text","text":"at once"}]`)
		case !known:
			u.Answer(200, rpcError(u.ID, `"code":-32602,"message":"no such task"`))
		case u.Method == "tasks/get":
			answer(`"taskId":"t1",` + times + `,"status":"` + status + `"`)
		case u.Method == "tasks/result":
			answer(`"content":[{"type":"text","text":"done"}],` + relatedToT1)
		default:
			u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		}
	})
	s.Every = true
	return s
}

// finish ends all tasks.
func (s *taskingServer) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.tasks {
		s.tasks[at] = "completed"
	}
}

// forgetful is a server over HTTP or HTTP+SSE that can lose its sessions.
type forgetful struct {
	*peertest.Server
	refuses atomic.Bool // it begins no sessions
}

// newForgetful returns a server that answers requests without a known session over HTTP with this status and body, in which "ID"
// stands for the id of the request, and SESSION for that of the session.
func newForgetful(t *testing.T, over peertest.Over, status int, words string) *forgetful {
	f := new(forgetful)
	f.Server = peertest.NewServer(t, over, func(u *peertest.Turn) {
		members := ""
		switch {
		case u.Method == "initialize" && f.refuses.Load() && over == peertest.SSE:
			u.Line(rpcError(u.ID, `"code":-32000,"message":"no more"`))
			return
		case u.Method == "initialize" && f.refuses.Load():
			u.Answer(status, words)
			return
		case u.Method == "initialize":
			if over == peertest.HTTP {
				u.Open()
			}
			members = helloOf(gjson.Get(u.Text, "params.protocolVersion").String(), `{"tools":{"listChanged":true},"prompts":{},"logging":{},"resources":{"subscribe":true,"listChanged":true}}`)
		case u.Method == "tools/call" && gjson.Get(u.Text, "params.name").String() == "hang":
			if over == peertest.SSE {
				f.Crash() // because of this message
				return
			}
			u.Say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"begun"}}`)
			<-u.Ctx.Done()
			return
		case u.Method == "tools/call":
			members = fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, gjson.Get(u.Text, "params.name").String())
		}
		if u.ID != "" {
			u.Answer(200, result(u.ID, members))
		}
	})
	f.Sessions, f.Unknown = true, func(u *peertest.Turn) {
		u.Answer(status, strings.NewReplacer("SESSION", u.Header.Get("Mcp-Session-Id"), `"ID"`, cmp.Or(u.ID, "null")).Replace(words))
	}
	return f
}

// state is what a session of a forgetful server was told.
type state struct {
	hello, level string
	initialized  int
	subscribed   []string
}

// last returns the state of the newest session.
func (f *forgetful) last() (s state) {
	all := f.Opened()
	for _, m := range f.In(all[len(all)-1].ID) {
		switch gjson.Get(m.Text, "method").String() {
		case "initialize":
			s.hello = m.Text
		case "notifications/initialized":
			s.initialized++
		case "logging/setLevel":
			s.level = gjson.Get(m.Text, "params.level").String()
		case "resources/subscribe":
			s.subscribed = append(s.subscribed, gjson.Get(m.Text, "params.uri").String())
		}
	}
	return s
}

// ran returns how many calls with this id, or with any if it is "", came in a session that the server knew.
func (f *forgetful) ran(id string) (n int) {
	for _, m := range f.Of("tools/call") {
		if m.Session != "" && (id == "" || gjson.Get(m.Text, "id").Raw == id) {
			n++
		}
	}
	return n
}
