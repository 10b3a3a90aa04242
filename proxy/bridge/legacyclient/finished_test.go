package legacyclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestFinishedTasksAreBoundedInAll: the session that has most of them gives way, and what
// is counted is what is there.
func TestFinishedTasksAreBoundedInAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFinishedTasks()
		f.max = rapid.IntRange(2000, 20_000).Draw(t, "max")
		var sessions []*sessionTasks
		end := map[*sessionTasks]func(){}
		for range rapid.IntRange(1, 4).Draw(t, "sessions") {
			life, over := context.WithCancel(context.Background())
			own := &sessionTasks{life: life}
			sessions, end[own] = append(sessions, own), over
		}
		for n := range rapid.IntRange(0, 100).Draw(t, "steps") {
			own := rapid.SampledFrom(sessions).Draw(t, "session")
			now := time.Now()
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				end[own]()
				f.end(own)
			case 1:
				f.expire(now.Add(time.Minute))
			default:
				task := finishedTask{id: fmt.Sprint(n), result: make([]byte, rapid.IntRange(0, 3000).Draw(t, "size")), expires: now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "life")) * time.Minute)}
				kept := f.keep(own, task)
				if _, found := f.find(own, task.id); found && !kept || kept && !found && own.life.Err() == nil && task.size() <= f.max/len(sessions) {
					t.Fatalf("kept: %v, found: %v", kept, found)
				}
			}
			total := 0
			for own := range f.of {
				bytes := 0
				for i := range own.tasks {
					bytes += own.tasks[i].size()
				}
				if bytes != own.bytes || len(own.tasks) == 0 || len(own.tasks) > maxDoneTasks || own.life.Err() != nil {
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

// TestFinishedTasksOfManySessions: many results of one session do not evict those of others, and all are forgotten with their
// sessions.
func TestFinishedTasksOfManySessions(t *testing.T) {
	b := &Bridge{finished: newFinishedTasks()}
	b.finished.max = 10 * (doneTaskExtra + 300)
	session := func() *Conn {
		c := &Conn{bridge: b, conn: closed{}}
		c.life, c.end = context.WithCancel(context.Background())
		c.done.life = c.life
		return c
	}
	modest, greedy := session(), session()
	keep := func(c *Conn, id string) {
		if !b.finished.keep(&c.done, finishedTask{id: id, result: make([]byte, 300), expires: time.Now().Add(time.Minute)}) {
			t.Errorf("%s is too large", id)
		}
	}
	keep(modest, "kept")
	for n := range 30 {
		keep(greedy, fmt.Sprint(n))
	}
	for id, c := range map[string]*Conn{"kept": modest, "29": greedy} {
		if _, found := b.finished.find(&c.done, id); !found {
			t.Errorf("%s is gone", id)
		}
	}
	if _, found := b.finished.find(&greedy.done, "0"); found {
		t.Error("more is kept than there is room for")
	}
	for _, c := range []*Conn{modest, greedy} {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(b.finished.of) != 0 || b.finished.bytes != 0 {
		t.Errorf("%d bytes of %d sessions are left", b.finished.bytes, len(b.finished.of))
	}
}

// closed is a connection that can only be closed.
type closed struct{ upstream.Conn }

func (closed) Close(context.Context) error { return nil }
