package proxy

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
)

func bridgingTasks(c *config.Config)  { c.Contract.Tasks = "bridge" }
func strippingTasks(c *config.Config) { c.Contract.Tasks = "strip" }

const withTasks = `"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

const taskTimes = `"createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:01Z"`

// modernTasks is a modern server that makes a task of each call whose client has declared the
// extension. tasks/get returns these states, one after the other.
func modernTasks(piped bool, states ...string) *fakeServer {
	var mu sync.Mutex
	n := 0
	return modernServer(piped, withTasks, func(id, method, m string) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		declared := strings.Contains(gjson.Get(m, "params._meta").Raw, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
		task := gjson.Get(m, "params.taskId").String()
		switch {
		case method == "tools/list":
			return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
		case method == "tools/call" && declared && gjson.Get(m, "params.name").String() == "t":
			return one(result(id, `"resultType":"task","taskId":"t1","status":"working",`+taskTimes+`,"ttlMs":60000,"pollIntervalMs":20`))
		case method == "tools/call":
			return one(result(id, `"resultType":"complete","content":[{"type":"text","text":"at once"}]`))
		case !declared:
			return one(rpcError(id, `"code":-32021,"message":"no tasks"`))
		case task != "t1":
			return one(rpcError(id, `"code":-32602,"message":"Task not found"`))
		case method == "tasks/get":
			state := states[min(n, len(states)-1)]
			n++
			return one(result(id, `"resultType":"complete","taskId":"t1",`+taskTimes+`,"ttlMs":60000,"pollIntervalMs":20,`+state))
		case method == "tasks/cancel":
			states = []string{`"status":"cancelled"`}
			return one(result(id, `"resultType":"complete"`))
		case method == "tasks/update":
			states, n = states[min(n, len(states)-1):], 0
			if n+1 < len(states) {
				states = states[1:]
			}
			return one(result(id, `"resultType":"complete"`))
		}
		return one(rpcError(id, `"code":-32601,"message":"Method not found"`))
	})
}

func taskCalled(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{},"task":{"ttl":60000}}}`
}

func aboutTask(id, method, task string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"taskId":"` + task + `"}}`
}

const relatedToT1 = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`

// TestTasksAtAServerWithoutASession: handshake clients see the extension as the capability tasks, a
// call with params.task declares the extension for that call only, and the result of the task is
// polled for.
func TestTasksAtAServerWithoutASession(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := modernTasks(piped, `"status":"working"`, `"status":"working"`, `"status":"completed","result":{"content":[{"type":"text","text":"done"}],"isError":true}`)
		srv := front(t, f, bridgingTasks)
		r := srv.post("", initialize("2025-11-25", `{"tasks":{"list":{}}}`))
		sameJSON(t, gjson.Get(r.body, "result.capabilities").Raw, `{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`)
		session := r.header["Mcp-Session-Id"]
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).body,
			result("2", `"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]`))
		const state = `"taskId":"t1",` + taskTimes + `,"ttl":60000,"pollInterval":20`
		sameJSON(t, srv.post(session, taskCalled("3")).body, result("3", `"task":{"status":"working",`+state+`}`))
		sameJSON(t, srv.post(session, aboutTask("4", "tasks/get", "t1")).body, result("4", `"status":"working",`+state))
		sameJSON(t, srv.post(session, aboutTask("5", "tasks/result", "t1")).body, result("5", `"content":[{"type":"text","text":"done"}],"isError":true,`+relatedToT1))
		sameJSON(t, srv.post(session, aboutTask("6", "tasks/get", "t1")).body, result("6", `"status":"failed",`+state))
		sameJSON(t, srv.post(session, aboutTask("7", "tasks/get", "t2")).body, rpcError("7", `"code":-32602,"message":"Task not found"`))
		sameJSON(t, srv.post(session, aboutTask("8", "tasks/result", "t2")).body, rpcError("8", `"code":-32602,"message":"Task not found"`))
		sameJSON(t, srv.post(session, aboutTask("9", "tasks/list", "t1")).body, rpcError("9", `"code":-32601,"message":"Method not found: tasks/list"`))
		sameJSON(t, srv.post(session, aboutTask("10", "tasks/update", "t1")).body, rpcError("10", `"code":-32601,"message":"Method not found: tasks/update"`))
		sameJSON(t, srv.post(session, toolCalled("11")).body, result("11", `"content":[{"type":"text","text":"at once"}]`))
		call := f.said("tools/call")[0]
		if gjson.Get(call, "params.task").Exists() {
			t.Errorf("the server was sent %s", call)
		}
		if piped {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for n, m := range f.got {
			if method := gjson.Get(m, "method").String(); !strings.HasPrefix(method, "tasks/") {
				continue
			}
			names := 0
			for _, h := range f.headers[n] {
				if h.Name == "Mcp-Name" && h.Value == gjson.Get(m, "params.taskId").String() {
					names++
				}
			}
			if names != 1 {
				t.Errorf("%s with %v", m, f.headers[n])
			}
		}
	})
}

func TestTaskThatIsCancelled(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := modernTasks(piped, `"status":"working"`)
		srv := front(t, f, bridgingTasks)
		session := srv.initialize("2025-11-25")
		srv.post(session, taskCalled("3"))
		events := srv.reads(session, aboutTask("4", "tasks/result", "t1"))
		eventually(t, "a poll", func() bool { return len(f.said("tasks/get")) > 1 })
		sameJSON(t, srv.post(session, aboutTask("5", "tasks/cancel", "t1")).body,
			result("5", `"status":"cancelled","taskId":"t1",`+taskTimes+`,"ttl":60000,"pollInterval":20`))
		sameJSON(t, <-events, rpcError("4", `"code":-32603,"message":"the task was cancelled"`))
		sameJSON(t, srv.post(session, aboutTask("6", "tasks/cancel", "t2")).body, rpcError("6", `"code":-32602,"message":"Task not found"`))
	})
}

func TestTaskThatFails(t *testing.T) {
	f := modernTasks(false, `"status":"failed","error":{"code":-32000,"message":"limit","data":{"n":1}}`)
	srv := front(t, f, bridgingTasks)
	session := srv.initialize("2025-11-25")
	srv.post(session, taskCalled("3"))
	sameJSON(t, srv.post(session, aboutTask("4", "tasks/result", "t1")).body, rpcError("4", `"code":-32000,"message":"limit","data":{"n":1}`))
}

// TestTaskThatIsOverAtOnce: if the server answers at once, it has made no task, and the client gets
// a finished one.
func TestTaskThatIsOverAtOnce(t *testing.T) {
	f := modernTasks(false)
	srv := front(t, f, bridgingTasks)
	session := srv.initialize("2025-11-25")
	r := srv.post(session, strings.Replace(taskCalled("3"), `"t"`, `"quick"`, 1))
	task := gjson.Get(r.body, "result.task")
	id := task.Get("taskId").String()
	if id == "" || task.Get("status").String() != "completed" || task.Get("ttl").Int() != 60000 {
		t.Fatalf("%+v", r)
	}
	sameJSON(t, srv.post(session, aboutTask("4", "tasks/get", id)).body, `{"jsonrpc":"2.0","id":4,"result":`+task.Raw+`}`)
	sameJSON(t, srv.post(session, aboutTask("5", "tasks/result", id)).body,
		result("5", `"content":[{"type":"text","text":"at once"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}`))
	sameJSON(t, srv.post(session, aboutTask("6", "tasks/cancel", id)).body, rpcError("6", `"code":-32602,"message":"Cannot cancel task: it is over"`))
	other := srv.initialize("2025-11-25")
	sameJSON(t, srv.post(other, aboutTask("7", "tasks/get", id)).body, rpcError("7", `"code":-32602,"message":"Task not found"`))
	if n := len(f.said("tasks/get")); n != 1 {
		t.Errorf("%d polls", n)
	}
}

func TestTasksThatAreOverAreBounded(t *testing.T) {
	f := modernTasks(false)
	srv := front(t, f, bridgingTasks)
	session := srv.initialize("2025-11-25")
	var ids []string
	for range 65 { // one more than are kept
		r := srv.post(session, strings.Replace(taskCalled("3"), `"t"`, `"quick"`, 1))
		ids = append(ids, gjson.Get(r.body, "result.task.taskId").String())
	}
	for n, id := range ids {
		r := srv.post(session, aboutTask("4", "tasks/get", id))
		if found := gjson.Get(r.body, "result").Exists(); found != (n > 0) {
			t.Errorf("task %d: %s", n, r.body)
		}
	}
	r := srv.post(session, strings.Replace(strings.Replace(taskCalled("3"), `"t"`, `"quick"`, 1), "60000", "0", 1))
	id := gjson.Get(r.body, "result.task.taskId").String()
	if r := srv.post(session, aboutTask("5", "tasks/get", id)); gjson.Get(r.body, "error.code").Int() != -32602 {
		t.Errorf("a task without a time to live: %s", r.body)
	}
}

const taskAsks = `"status":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}}`

// TestTaskAsksOnTheStreamOfItsResult: once, however often the server reports input_required.
func TestTaskAsksOnTheStreamOfItsResult(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := modernTasks(piped, taskAsks, taskAsks, taskAsks, `"status":"completed","result":{"content":[]}`)
		srv := front(t, f, bridgingTasks)
		session := srv.initializeWith("2025-11-25", `{"elicitation":{}}`)
		srv.post(session, taskCalled("3"))
		events := srv.reads(session, aboutTask("4", "tasks/result", "t1"))
		q := <-events
		id := gjson.Get(q, "id").Raw
		sameJSON(t, q, `{"jsonrpc":"2.0","id":`+id+`,"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}},`+relatedToT1+`}}`)
		if r := srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"n":"Ada"}}}`); r.status != 202 {
			t.Errorf("%+v", r)
		}
		sameJSON(t, <-events, result("4", `"content":[],`+relatedToT1))
		updates := f.said("tasks/update")
		if len(updates) != 1 {
			t.Fatalf("%q", updates)
		}
		sameJSON(t, gjson.Get(updates[0], "params.inputResponses").Raw, `{"name":{"action":"accept","content":{"n":"Ada"}}}`)
	})
}

// TestTaskWhoseClientDoesNotAnswer: the task is cancelled, since the server has no other way to
// learn of it.
func TestTaskWhoseClientDoesNotAnswer(t *testing.T) {
	const sampling = `"status":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}}`
	for _, c := range []struct{ can, states, answer, want string }{
		{`{}`, sampling, "", "Client cannot answer sampling/createMessage"},
		{`{"sampling":{}}`, sampling, `"error":{"code":-1,"message":"user said no"}`, "sampling/createMessage failed: user said no"},
	} {
		f := modernTasks(false, c.states)
		srv := front(t, f, bridgingTasks)
		session := srv.initializeWith("2025-11-25", c.can)
		srv.post(session, taskCalled("3"))
		events := srv.reads(session, aboutTask("4", "tasks/result", "t1"))
		m := <-events
		if c.answer != "" {
			srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(m, "id").Raw+`,`+c.answer+`}`)
			m = <-events
		}
		sameJSON(t, m, result("4", `"content":[{"type":"text","text":"`+c.want+`"}],"isError":true,`+relatedToT1))
		if n := len(f.said("tasks/cancel")); n != 1 {
			t.Errorf("cancelled %d times", n)
		}
	}
	f := modernTasks(false, taskAsks, `"status":"completed","result":{"content":[]}`)
	srv := front(t, f, bridgingTasks)
	session := srv.initialize("2025-11-25")
	srv.post(session, taskCalled("3"))
	sameJSON(t, srv.post(session, aboutTask("4", "tasks/result", "t1")).body, result("4", `"content":[],`+relatedToT1))
	sameJSON(t, gjson.Get(f.said("tasks/update")[0], "params.inputResponses").Raw, `{"name":{"action":"cancel"}}`)
}

// TestTasksAreStrippedUnlessBridged, also for clients of revisions without tasks.
func TestTasksAreStrippedUnlessBridged(t *testing.T) {
	for _, c := range []struct {
		revision string
		change   []func(*config.Config)
	}{
		{"2025-11-25", []func(*config.Config){strippingTasks}},
		{"2025-06-18", []func(*config.Config){bridgingTasks}},
	} {
		f := modernTasks(false, `"status":"working"`)
		srv := front(t, f, c.change...)
		r := srv.post("", initialize(c.revision, `{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`))
		sameJSON(t, gjson.Get(r.body, "result.capabilities").Raw, `{"tools":{}}`)
		session := r.header["Mcp-Session-Id"]
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).body, result("2", `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
		sameJSON(t, srv.post(session, taskCalled("3")).body, result("3", `"content":[{"type":"text","text":"at once"}]`))
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update"} {
			sameJSON(t, srv.post(session, aboutTask("4", method, "t1")).body, rpcError("4", `"code":-32601,"message":"Method not found: `+method+`"`))
		}
		if strings.Contains(strings.Join(f.sent()[1:], ""), "tasks") {
			t.Errorf("the server heard of tasks: %q", f.sent())
		}
	}
	f := modernServer(false, withTasks, func(id, method, _ string) ([]string, error) {
		return one(result(id, `"resultType":"task","taskId":"t1","status":"working"`))
	})
	for _, change := range []func(*config.Config){strippingTasks, bridgingTasks} {
		srv := front(t, f, change)
		session := srv.initialize("2025-11-25")
		sameJSON(t, srv.post(session, toolCalled("5")).body, rpcError("5", `"code":-32603,"message":"Unsupported result type: task"`))
	}
}

// TestStatusNotificationsOfATaskOfAModernServer: status notifications come on the standing stream, if there is
// one, until the task ends.
func TestStatusNotificationsOfATaskOfAModernServer(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := modernTasks(piped, `"status":"working"`)
		gate := make(chan struct{}, 8)
		answer := f.answer
		f.gate = gate
		f.answer = func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() != "subscriptions/listen" {
				return answer(m)
			}
			id := gjson.Get(m, "id").Raw
			of := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
			events := []string{
				`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + of + `,"notifications":` + gjson.Get(m, "params.notifications").Raw + `}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + of + `,"taskId":"t1","status":"input_required",` + taskTimes + `,"ttlMs":60000,"inputRequests":{}}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + of + `,"taskId":"t1","status":"completed",` + taskTimes + `,"ttlMs":60000,"result":{"content":[],"isError":true}}}`,
			}
			if piped {
				return events, nil
			}
			return one(append(events, wait)...)
		}
		srv := front(t, f, bridgingTasks)
		session := srv.initialize("2025-11-25")
		srv.post(session, taskCalled("2")) // no stream is open
		ctx, leave := context.WithCancelCause(context.Background())
		defer leave(nil)
		_, resp := srv.begin(ctx, "GET", session, "")
		if resp.Stream == nil {
			t.Fatalf("%+v", resp)
		}
		srv.post(session, taskCalled("3"))
		for _, status := range []string{"input_required", "failed"} {
			e, err := resp.Stream.Next()
			for err == nil && len(e.Data) == 0 {
				e, err = resp.Stream.Next()
			}
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, string(e.Data), `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"`+status+`",`+taskTimes+`,"ttl":60000}}`)
		}
		if n := len(f.said("subscriptions/listen")); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		leave(downstream.ErrClientLeft)
		resp.Done()
	})
}

// TestTaskThatAsksTooMuch: a task with more questions than the limit ends, so that the client's
// other answers need not wait.
func TestTaskThatAsksTooMuch(t *testing.T) {
	asks := []string{}
	for n := range bridge.MaxQuestions + 1 {
		asks = append(asks, `"k`+strconv.Itoa(n)+`":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}}`)
	}
	f := modernTasks(false, `"status":"input_required","inputRequests":{`+strings.Join(asks, ",")+`}`)
	srv := front(t, f, bridgingTasks)
	session := srv.initializeWith("2025-11-25", `{"elicitation":{}}`)
	srv.post(session, taskCalled("3"))
	last := ""
	for last = range srv.reads(session, aboutTask("4", "tasks/result", "t1")) {
	}
	sameJSON(t, last, rpcError("4", `"code":-32603,"message":"the server asks too many questions at once"`))
}

// TestFinishedTasksOfManySessions: many results of one session do not evict those of others, and
// all are forgotten with their sessions.
func TestFinishedTasksOfManySessions(t *testing.T) {
	srv := front(t, modernTasks(false))
	srv.Legacy.MaxFinished(10 * 556)
	call := func(session string) string {
		r := srv.post(session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"quick","task":{"ttl":60000}}}`)
		return gjson.Get(r.body, "result.task.taskId").String()
	}
	modest, greedy := srv.initialize("2025-11-25"), srv.initialize("2025-11-25")
	kept := call(modest)
	var last string
	for range 30 {
		last = call(greedy)
	}
	for session, id := range map[string]string{modest: kept, greedy: last} {
		if r := srv.post(session, aboutTask("4", "tasks/result", id)); !gjson.Get(r.body, "result").Exists() {
			t.Error(r.body)
		}
	}
	for _, session := range []string{modest, greedy} {
		srv.exchange(t.Context(), "DELETE", session, "")
	}
	eventually(t, "nothing is left", func() bool {
		sessions, bytes := srv.Legacy.Finished()
		return sessions == 0 && bytes == 0
	})
}

// TestToolsThatOnlyRunAsTasksAreThere: by default, clients without tasks get these tools.
func TestToolsThatOnlyRunAsTasksAreThere(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		s := &legacyTasks{states: []string{"working", "completed"}, outcome: `"result":{"content":[{"type":"text","text":"done"}]}`}
		f := s.server(taskCapabilities)
		f.piped = piped
		srv := front(t, f)
		if got := names(srv.modernly(modernRequestOf("1", "tools/list", meta(`{}`))).body); got != "slow quick" {
			t.Errorf("a client without a session is told of %s", got)
		}
		if r := srv.modernly(modernRequestOf("2", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`))); text(r.body) != "done" {
			t.Errorf("%+v", r)
		}
		f = s.server(taskCapabilities)
		f.piped = piped
		srv = front(t, f)
		if session := srv.initialize("2025-11-25"); names(srv.post(session, listTools).body) != "slow quick" {
			t.Error("a client with a session is not told of all")
		}
	})
}
