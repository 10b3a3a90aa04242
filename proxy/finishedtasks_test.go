package proxy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// TestFinishedTasksAreBoundedInAll: the session that has most of them gives way, and what
// is counted is what is there.
func TestFinishedTasksAreBoundedInAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFinishedTasks()
		f.max = rapid.IntRange(2000, 20_000).Draw(t, "max")
		var sessions []*modernConn
		for range rapid.IntRange(1, 4).Draw(t, "sessions") {
			c := new(modernConn)
			c.life, c.end = context.WithCancel(context.Background())
			sessions = append(sessions, c)
		}
		for n := range rapid.IntRange(0, 100).Draw(t, "steps") {
			c := rapid.SampledFrom(sessions).Draw(t, "session")
			now := time.Now()
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				c.end()
				f.end(c)
			case 1:
				f.expire(now.Add(time.Minute))
			default:
				task := finishedTask{id: fmt.Sprint(n), result: make([]byte, rapid.IntRange(0, 3000).Draw(t, "size")), expires: now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "life")) * time.Minute)}
				kept := f.keep(c, task)
				if _, found := f.find(c, task.id); found && !kept || kept && !found && c.life.Err() == nil && task.size() <= f.max/len(sessions) {
					t.Fatalf("kept: %v, found: %v", kept, found)
				}
			}
			total := 0
			for c, own := range f.of {
				bytes := 0
				for i := range own.tasks {
					bytes += own.tasks[i].size()
				}
				if bytes != own.bytes || len(own.tasks) == 0 || len(own.tasks) > maxDoneTasks || c.life.Err() != nil {
					t.Fatalf("%d bytes of %d tasks are said to be %d", bytes, len(own.tasks), own.bytes)
				}
				total += bytes
			}
			if total != f.bytes || total > f.max {
				t.Fatalf("%d bytes, said to be %d, of %d", total, f.bytes, f.max)
			}
		}
	})
}

// TestFinishedTasksOfManySessions: one session's many results do not cost another its own,
// and all are forgotten with their sessions.
func TestFinishedTasksOfManySessions(t *testing.T) {
	srv := front(t, modernTasks(false))
	srv.finished.max = 10 * (doneTaskExtra + 300)
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
		srv.finished.mu.Lock()
		defer srv.finished.mu.Unlock()
		return srv.finished.bytes == 0 && len(srv.finished.of) == 0
	})
}

// TestToolsThatOnlyRunAsTasksAreThere for clients without tasks, by default.
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
