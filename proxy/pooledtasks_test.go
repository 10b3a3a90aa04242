package proxy

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
)

const canTask = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// legacyTasks is a handshake server whose tool slow only runs as a task, and whose tool quick never
// does. tasks/get returns these states, one after the other; outcome is the member of the response
// to tasks/result.
type legacyTasks struct {
	mu      sync.Mutex
	states  []string
	outcome string
	asks    string // a question before the result; "" for none
}

func (s *legacyTasks) server(capabilities string) *fakeServer {
	n := 0
	return legacyServer(capabilities, func(id, method, m string) ([]string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		task := gjson.Get(m, "params.taskId").String()
		const times = taskTimes + `,"ttl":60000,"pollInterval":20`
		switch {
		case method == "tools/list":
			return one(result(id, `"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"quick","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]`))
		case method == "tools/call" && gjson.Get(m, "params.task").IsObject():
			return one(result(id, `"task":{"taskId":"t1","status":"working",`+times+`}`))
		case method == "tools/call" && gjson.Get(m, "params.name").String() == "slow":
			return one(rpcError(id, `"code":-32601,"message":"only as a task"`))
		case method == "tools/call":
			return one(result(id, `"content":[{"type":"text","text":"at once"}]`))
		case task != "t1":
			return one(rpcError(id, `"code":-32602,"message":"no such task"`))
		case method == "tasks/get":
			state := s.states[min(n, len(s.states)-1)]
			n++
			return one(result(id, `"taskId":"t1",`+times+`,"status":"`+state+`"`))
		case method == "tasks/cancel" && s.states[0] == "cancelled":
			return one(rpcError(id, `"code":-32602,"message":"it is over"`))
		case method == "tasks/cancel":
			s.states = []string{"cancelled"}
			return one(result(id, `"taskId":"t1",`+times+`,"status":"cancelled"`))
		case method == "tasks/result" && s.asks != "":
			return one(s.asks, wait, `{"jsonrpc":"2.0","id":`+id+`,`+s.outcome+`}`)
		case method == "tasks/result":
			return one(`{"jsonrpc":"2.0","id":` + id + `,` + s.outcome + `}`)
		}
		return one(rpcError(id, `"code":-32601,"message":"Method not found"`))
	})
}

const taskCapabilities = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`

func callAsTask(id, tool string) string {
	return modernRequestOf(id, "tools/call", `"name":"`+tool+`","arguments":{},`+meta(canTask))
}

func ofTaskModern(id, method, task, more string) string {
	return modernRequestOf(id, method, `"taskId":"`+task+`",`+more+meta(canTask))
}

// onTask posts a request about a task as a modern client does.
func (srv testServer) onTask(body string, header ...string) reply {
	return srv.modernly(body, append([]string{"Mcp-Name", gjson.Get(body, "params.taskId").String()}, header...)...)
}

const stateOfT1 = `"resultType":"complete","taskId":"t1",` + taskTimes + `,"ttlMs":60000,"pollIntervalMs":20,` + identity

// TestTasksOfAServerWithASession: modern clients see the capability as the extension, a call of a
// tool that only runs as a task becomes one, and its result is in the task's state.
func TestTasksOfAServerWithASession(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		s := &legacyTasks{states: []string{"working", "failed"}, outcome: `"result":{"content":[],"isError":true,` + relatedToT1 + `}`}
		f := s.server(taskCapabilities)
		f.piped = piped
		srv := front(t, f, bridgingTasks)
		r := srv.modernly(modernRequestOf("1", "server/discover", meta(canTask)))
		sameJSON(t, gjson.Get(r.body, "result.capabilities").Raw, `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		r = srv.modernly(modernRequestOf("2", "tools/list", meta(canTask)))
		sameJSON(t, gjson.Get(r.body, "result.tools").Raw, `[{"name":"slow","inputSchema":{"type":"object"}},{"name":"quick","inputSchema":{"type":"object"}}]`)
		for n := range 2 {
			r = srv.modernly(callAsTask("3", "quick"))
			sameJSON(t, r.body, result("3", `"resultType":"complete","content":[{"type":"text","text":"at once"}],`+identity))
			if lists := len(f.said("tools/list")); lists != 1 { // the client's own
				t.Errorf("%d: %d lists", n, lists)
			}
		}
		r = srv.modernly(callAsTask("4", "slow"))
		sameJSON(t, r.body, result("4", `"resultType":"task","taskId":"t1","status":"working",`+taskTimes+`,"ttlMs":60000,"pollIntervalMs":20,`+identity))
		sameJSON(t, srv.onTask(ofTaskModern("5", "tasks/get", "t1", "")).body, result("5", `"status":"working",`+stateOfT1))
		sameJSON(t, srv.onTask(ofTaskModern("6", "tasks/get", "t1", "")).body, result("6", `"status":"completed","result":{"content":[],"isError":true,`+relatedToT1+`},`+stateOfT1))
		sameJSON(t, srv.onTask(ofTaskModern("7", "tasks/cancel", "t1", "")).body, result("7", `"resultType":"complete",`+identity))
		sameJSON(t, srv.onTask(ofTaskModern("8", "tasks/cancel", "t1", "")).body, result("8", `"resultType":"complete",`+identity))
		sameJSON(t, srv.onTask(ofTaskModern("9", "tasks/get", "t1", "")).body, result("9", `"status":"cancelled",`+stateOfT1))
		sameJSON(t, srv.onTask(ofTaskModern("10", "tasks/get", "t2", "")).body, rpcError("10", `"code":-32602,"message":"Task not found"`))
		call := f.said("tools/call")
		sameJSON(t, gjson.Get(call[len(call)-1], "params").Raw, `{"name":"slow","arguments":{},"task":{}}`)
	})
}

func TestTaskThatFailsByAnErrorAtAServerWithASession(t *testing.T) {
	s := &legacyTasks{states: []string{"failed"}, outcome: `"error":{"code":-32000,"message":"limit","data":{"n":1}}`}
	srv := front(t, s.server(taskCapabilities), bridgingTasks)
	srv.modernly(callAsTask("4", "slow"))
	sameJSON(t, srv.onTask(ofTaskModern("5", "tasks/get", "t1", "")).body, result("5", `"status":"failed","error":{"code":-32000,"message":"limit","data":{"n":1}},`+stateOfT1))
}

// TestTasksBelongToTheirPrincipal, and end with their ttl and their session.
func TestTasksBelongToTheirPrincipal(t *testing.T) {
	s := &legacyTasks{states: []string{"working"}}
	f := s.server(taskCapabilities)
	srv := front(t, f, bridgingTasks)
	const none = `"code":-32602,"message":"Task not found"`
	srv.modernly(callAsTask("4", "slow"), "Authorization", "Bearer a")
	get := ofTaskModern("5", "tasks/get", "t1", "")
	sameJSON(t, srv.onTask(get, "Authorization", "Bearer b").body, rpcError("5", none))
	sameJSON(t, srv.onTask(get).body, rpcError("5", none))
	if r := srv.onTask(get, "Authorization", "Bearer a"); gjson.Get(r.body, "result.status").String() != "working" {
		t.Error(r.body)
	}
	srv.Modern.Tend(time.Now().Add(time.Hour))
	sameJSON(t, srv.onTask(get, "Authorization", "Bearer a").body, rpcError("5", none))
	if n := srv.Modern.Counts().Uses; n != 0 {
		t.Errorf("the session is in use %d times", n)
	}
}

// TestTaskStateContainsItsQuestions: the state contains the open questions, until tasks/update
// answers them.
func TestTaskStateContainsItsQuestions(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		question := `{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}},` + relatedToT1 + `}}`
		gate := make(chan struct{}, 8)
		s := &legacyTasks{states: []string{"input_required"}, asks: question, outcome: `"result":{"content":[]}`}
		f := s.server(taskCapabilities)
		f.piped, f.gate = piped, gate
		answer := f.answer
		f.answer = func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() == "tasks/result" && piped {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.asks != "" {
					return one(s.asks)
				}
				return one(`{"jsonrpc":"2.0","id":` + gjson.Get(m, "id").Raw + `,` + s.outcome + `}`)
			}
			return answer(m)
		}
		srv := front(t, f, bridgingTasks)
		srv.modernly(callAsTask("1", "slow"))
		const asked = `"status":"input_required","inputRequests":{"elicitation-1":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}},` + stateOfT1
		for range 2 {
			sameJSON(t, srv.onTask(ofTaskModern("2", "tasks/get", "t1", "")).body, result("2", asked))
		}
		r := srv.onTask(ofTaskModern("3", "tasks/update", "t1", `"inputResponses":{"elicitation-1":{"action":"accept","content":{"n":"Ada"}},"junk":{}},`))
		sameJSON(t, r.body, result("3", `"resultType":"complete",`+identity))
		eventually(t, "the answer", func() bool { return len(f.said("")) == 1 })
		sameJSON(t, f.said("")[0], `{"jsonrpc":"2.0","id":"s1","result":{"action":"accept","content":{"n":"Ada"}}}`)
		sameJSON(t, srv.onTask(ofTaskModern("4", "tasks/get", "t1", "")).body, result("4", `"status":"working",`+stateOfT1))
		s.mu.Lock()
		s.states, s.asks = []string{"completed"}, ""
		s.mu.Unlock()
		gate <- struct{}{}
		sameJSON(t, srv.onTask(ofTaskModern("5", "tasks/get", "t1", "")).body, result("5", `"status":"completed","result":{"content":[]},`+stateOfT1))
		if r := srv.onTask(ofTaskModern("6", "tasks/update", "t1", `"inputResponses":{"k":1},`)); gjson.Get(r.body, "error.code").Int() != -32602 {
			t.Error(r.body)
		}
	})
}

func TestTasksTheClientHasNotDeclared(t *testing.T) {
	s := &legacyTasks{states: []string{"working"}}
	srv := front(t, s.server(taskCapabilities), bridgingTasks)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		r := srv.onTask(modernRequestOf("1", method, `"taskId":"t1",`+meta(`{}`)))
		sameJSON(t, r.body, rpcError("1", `"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`))
		if r.status != 400 {
			t.Errorf("%s: %d", method, r.status)
		}
	}
	r := srv.modernly(modernRequestOf("2", "subscriptions/listen", `"notifications":{"taskIds":["t1"]},`+meta(`{}`)))
	if r.status != 400 || gjson.Get(r.body, "error.code").Int() != -32021 {
		t.Errorf("%+v", r)
	}
}

// TestLegacyTasksAreStrippedUnlessBridged, and if the server does not support tasks for tools/call.
func TestLegacyTasksAreStrippedUnlessBridged(t *testing.T) {
	for _, c := range []struct {
		capabilities string
		change       func(*config.Config)
		unknown      bool // the methods are unknown
	}{
		{taskCapabilities, strippingTasks, true},
		{`{"tools":{},"tasks":{"list":{}}}`, bridgingTasks, false},
	} {
		s := &legacyTasks{states: []string{"working"}}
		f := s.server(c.capabilities)
		srv := front(t, f, c.change)
		r := srv.modernly(modernRequestOf("1", "server/discover", meta(canTask)))
		sameJSON(t, gjson.Get(r.body, "result.capabilities").Raw, `{"tools":{}}`)
		r = srv.modernly(modernRequestOf("2", "tools/list", meta(canTask)))
		sameJSON(t, gjson.Get(r.body, "result.tools").Raw, `[{"name":"quick","inputSchema":{"type":"object"}}]`)
		r = srv.modernly(callAsTask("3", "slow"))
		sameJSON(t, r.body, rpcError("3", `"code":-32601,"message":"only as a task"`))
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			r := srv.onTask(ofTaskModern("4", method, "t1", ""))
			if gjson.Get(r.body, "error").Exists() != true || c.unknown && (r.status != 404 || gjson.Get(r.body, "error.code").Int() != -32601) {
				t.Errorf("%s: %+v", method, r)
			}
		}
		if all := strings.Join(f.sent(), ""); strings.Contains(all, "tasks") || strings.Contains(all, `"task"`) {
			t.Errorf("the server heard of tasks: %q", f.sent())
		}
	}
}

// TestTaskOfAToolForAClientWithoutTasks: a client without tasks gets the result, and no message about
// the task.
func TestTaskOfAToolForAClientWithoutTasks(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		s := &legacyTasks{states: []string{"completed"}, outcome: `"result":{"content":[{"type":"text","text":"done"}]}`}
		f := s.server(taskCapabilities)
		f.piped = piped
		srv := front(t, f, bridgingTasks)
		for range 2 {
			r := srv.modernly(modernRequestOf("4", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`)))
			sameJSON(t, r.body, result("4", `"resultType":"complete","content":[{"type":"text","text":"done"}],`+identity))
		}
		s.mu.Lock()
		s.outcome = `"error":{"code":-32000,"message":"limit"}`
		s.mu.Unlock()
		r := srv.modernly(modernRequestOf("5", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`)))
		sameJSON(t, r.body, rpcError("5", `"code":-32000,"message":"limit"`))
		if n := len(f.said("tasks/cancel")); n != 0 {
			t.Errorf("cancelled %d times", n)
		}
	})
}

// TestTaskOfAToolThatAsks: the question becomes the result of the call, like that of any other
// call.
func TestTaskOfAToolThatAsks(t *testing.T) {
	gate := make(chan struct{}, 8)
	s := &legacyTasks{asks: nameQuestion, outcome: `"result":{"content":[]}`}
	f := s.server(taskCapabilities)
	f.gate = gate
	open(f, gate)
	srv := front(t, f, bridgingTasks)
	slow := func(id, more string) string {
		return modernRequestOf(id, "tools/call", `"name":"slow","arguments":{},`+more+meta(`{"elicitation":{}}`))
	}
	r := srv.modernly(slow("4", ""))
	if gjson.Get(r.body, "result.resultType").String() != "input_required" {
		t.Fatal(r.body)
	}
	r = srv.modernly(slow("5", `"inputResponses":`+ada+`,"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`))
	sameJSON(t, r.body, result("5", `"resultType":"complete","content":[],`+identity))
}

func TestTaskEndsWithTheClientThatWaitsForIt(t *testing.T) {
	s := &legacyTasks{states: []string{"working"}, asks: `{"jsonrpc":"2.0","method":"notifications/x"}`, outcome: `"result":{}`}
	f := s.server(taskCapabilities)
	f.gate = make(chan struct{})
	srv := front(t, f, bridgingTasks)
	ctx, leave := context.WithCancel(t.Context())
	body := modernRequestOf("4", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`))
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.exchange(ctx, "POST", "", body, modernHeader(body)...)
	}()
	eventually(t, "the wait for the result", func() bool { return len(f.said("tasks/result")) == 1 })
	leave()
	<-done
	eventually(t, "the end of the task", func() bool { return len(f.said("tasks/cancel")) == 1 })
}

// TestTaskEndsWithTheClientThatLeavesAsItIsMade: the task is cancelled, although the server has
// already created it.
func TestTaskEndsWithTheClientThatLeavesAsItIsMade(t *testing.T) {
	s := &legacyTasks{states: []string{"working"}}
	f := s.server(taskCapabilities)
	ctx, leave := context.WithCancel(t.Context())
	f.refuse = func(m string) error {
		if gjson.Get(m, "method").String() == "tasks/result" {
			leave()
			return context.Canceled
		}
		return nil
	}
	srv := front(t, f, bridgingTasks)
	body := modernRequestOf("4", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`))
	srv.exchange(ctx, "POST", "", body, modernHeader(body)...)
	eventually(t, "the end of the task", func() bool { return len(f.said("tasks/cancel")) == 1 })
}

// TestStatusNotificationsOfATask: a status notification contains the same as the task's state.
func TestStatusNotificationsOfATask(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		s := &legacyTasks{states: []string{"completed"}, outcome: `"result":{"content":[]}`}
		f := s.server(taskCapabilities)
		f.piped = piped
		srv := front(t, f, bridgingTasks)
		srv.modernly(callAsTask("1", "slow"))
		ctx, leave := context.WithCancelCause(context.Background())
		defer leave(nil)
		body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"taskIds":["t1","t2"]},`+meta(canTask))
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		next := func() string {
			e, err := resp.Stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			return string(e.Data)
		}
		sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"taskIds":["t1"]}}}`)
		f.standing <- `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t2","status":"working"}}`
		f.standing <- `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"completed",` + taskTimes + `,"ttl":60000}}`
		sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1","status":"completed",`+taskTimes+`,"ttlMs":60000,"pollIntervalMs":20,"result":{"content":[]},"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		leave(downstream.ErrClientLeft)
		resp.Done()
		if srv.Modern.Counts().Watchers != 0 {
			t.Error("a listener is left")
		}
	})
}

func TestTasksOfAClientOnAPipe(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		s := &legacyTasks{states: []string{"completed"}, outcome: `"result":{"content":[]}`}
		f := s.server(taskCapabilities)
		f.piped = piped
		c := front(t, f, bridgingTasks).pipe()
		c.say(callAsTask("1", "slow"))
		c.hears(result("1", `"resultType":"task","taskId":"t1","status":"working",`+taskTimes+`,"ttlMs":60000,"pollIntervalMs":20,`+identity))
		c.say(ofTaskModern("2", "tasks/get", "t1", ""))
		c.hears(result("2", `"status":"completed","result":{"content":[]},`+stateOfT1))
		c.say(ofTaskModern("3", "tasks/cancel", "t2", ""))
		c.hears(rpcError("3", `"code":-32602,"message":"Task not found"`))
	})
}
