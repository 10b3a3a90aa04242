package legacyclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
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
