package tests

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// What tasks look like to either side is in testdata/scripts/tasks-*.txt.

func bridgingTasks(c *config.Config) { c.Contract.Tasks = "bridge" }

const (
	withTasks        = `"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	taskCapabilities = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	canTask          = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	taskTimes        = `"createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:01Z"`
	stateOfT1        = `"resultType":"complete","taskId":"t1",` + taskTimes + `,"ttlMs":60000,"pollIntervalMs":20,` + identity
	relatedToT1      = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`
)

// modernTasks is a modern server that answers each call at once, or makes a task in this state if the tool is t.
func modernTasks(state string) *fakeServer {
	return modernServer(false, withTasks, func(id, method, m string) ([]string, error) {
		const task = `"taskId":"t1",` + taskTimes + `,"ttlMs":60000,"pollIntervalMs":20,`
		switch {
		case method == "tools/list":
			return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
		case method == "tools/call" && gjson.Get(m, "params.name").String() == "t":
			return one(result(id, `"resultType":"task",`+task+`"status":"working"`))
		case method == "tools/call":
			return one(result(id, `"resultType":"complete","content":[{"type":"text","text":"at once"}]`))
		case gjson.Get(m, "params.taskId").String() != "t1":
			return one(rpcError(id, `"code":-32602,"message":"Task not found"`))
		case method == "tasks/get":
			return one(result(id, `"resultType":"complete",`+task+state))
		}
		return one(result(id, `"resultType":"complete"`))
	})
}

// legacyTasks is a handshake server whose tool slow only runs as a task, which never ends.
func legacyTasks() *fakeServer {
	return legacyServer(taskCapabilities, func(id, method, _ string) ([]string, error) {
		const task = `"taskId":"t1","status":"working",` + taskTimes + `,"ttl":60000,"pollInterval":20`
		switch method {
		case "tools/list":
			return one(result(id, `"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]`))
		case "tools/call":
			return one(result(id, `"task":{`+task+`}`))
		}
		return one(result(id, task))
	})
}

func taskCalled(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{},"task":{"ttl":60000}}}`
}

func aboutTask(id, method, task string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"taskId":"` + task + `"}}`
}

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

func TestTasksThatAreOverAreBounded(t *testing.T) {
	f := modernTasks("")
	srv := front(t, f, bridgingTasks)
	session := srv.initialize("2025-11-25")
	other := srv.initialize("2025-11-25")
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
		sameJSON(t, srv.post(other, aboutTask("7", "tasks/get", id)).body, rpcError("7", `"code":-32602,"message":"Task not found"`))
	}
	r := srv.post(session, strings.Replace(strings.Replace(taskCalled("3"), `"t"`, `"quick"`, 1), "60000", "0", 1))
	id := gjson.Get(r.body, "result.task.taskId").String()
	if r := srv.post(session, aboutTask("5", "tasks/get", id)); gjson.Get(r.body, "error.code").Int() != -32602 {
		t.Errorf("a task without a time to live: %s", r.body)
	}
}

// TestTaskThatAsksTooMuch: a task with more questions than the limit ends, so that the client's
// other answers need not wait.
func TestTaskThatAsksTooMuch(t *testing.T) {
	asks := []string{}
	for n := range crossing.MaxQuestions + 1 {
		asks = append(asks, `"k`+strconv.Itoa(n)+`":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}}`)
	}
	f := modernTasks(`"status":"input_required","inputRequests":{` + strings.Join(asks, ",") + `}`)
	srv := front(t, f, bridgingTasks)
	session := srv.initializeWith("2025-11-25", `{"elicitation":{}}`)
	srv.post(session, taskCalled("3"))
	last := ""
	for last = range srv.reads(session, aboutTask("4", "tasks/result", "t1")) {
	}
	sameJSON(t, last, rpcError("4", `"code":-32603,"message":"the server asks too many questions at once"`))
}

// TestTasksEndWithTheirTTL, and with them the use of the session.
func TestTasksEndWithTheirTTL(t *testing.T) {
	srv := front(t, legacyTasks(), bridgingTasks)
	srv.modernly(callAsTask("4", "slow"))
	get := ofTaskModern("5", "tasks/get", "t1", "")
	if r := srv.onTask(get); gjson.Get(r.body, "result.status").String() != "working" {
		t.Error(r.body)
	}
	srv.Modern.Tend(time.Now().Add(time.Hour))
	sameJSON(t, srv.onTask(get).body, rpcError("5", `"code":-32602,"message":"Task not found"`))
	if n := srv.Modern.Counts().Uses; n != 0 {
		t.Errorf("the session is in use %d times", n)
	}
}

// TestListenerToATaskLeaves: no listener is left when its client has gone.
func TestListenerToATaskLeaves(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := legacyTasks()
		f.piped = piped
		srv := front(t, f, bridgingTasks)
		srv.modernly(callAsTask("1", "slow"))
		ctx, leave := context.WithCancelCause(context.Background())
		defer leave(nil)
		body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"taskIds":["t1"]},`+meta(canTask))
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		if _, err := resp.Stream.Next(); err != nil || srv.Modern.Counts().Watchers != 1 {
			t.Errorf("%v, %d listeners", err, srv.Modern.Counts().Watchers)
		}
		leave(downstream.ErrClientLeft)
		resp.Done()
		if srv.Modern.Counts().Watchers != 0 {
			t.Error("a listener is left")
		}
	})
}

// TestTaskEndsWithTheClientThatLeavesAsItIsMade: the task is cancelled, although the server has
// already created it.
func TestTaskEndsWithTheClientThatLeavesAsItIsMade(t *testing.T) {
	f := legacyTasks()
	ctx, leave := context.WithCancel(t.Context())
	f.First = failing(func(m string) error {
		if gjson.Get(m, "method").String() == "tasks/result" {
			leave()
			return context.Canceled
		}
		return nil
	})
	srv := front(t, f, bridgingTasks)
	body := modernRequestOf("4", "tools/call", `"name":"slow","arguments":{},`+meta(`{}`))
	srv.exchange(ctx, "POST", "", body, modernHeader(body)...)
	eventually(t, "the end of the task", func() bool { return len(f.said("tasks/cancel")) == 1 })
}
