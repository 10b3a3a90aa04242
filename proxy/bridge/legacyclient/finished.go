package legacyclient

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of the finished tasks, of one session and of all sessions.
const (
	maxDoneTasks  = 64
	maxDoneBytes  = 16 << 20
	maxDoneInAll  = 256 << 20
	doneShare     = 4   // divides limits.in_hand, to which the finished tasks are an addition
	doneTaskExtra = 256 // bytes of a task beside its texts
)

// finishedTask is a call for which the client requested a task, and which the server has answered without one.
type finishedTask struct {
	id      string
	state   []byte // a Task
	result  []byte
	expires time.Time
}

func (t *finishedTask) size() int { return len(t.state) + len(t.result) + doneTaskExtra }

// finishedTasks holds the finished tasks of all sessions. If there are too many, the oldest one is dropped: of the session
// that has too many, or of the session with the most bytes. The tasks of a session end with it.
type finishedTasks struct {
	max int // bytes, of all sessions

	mu    sync.Mutex
	of    map[*sessionTasks]bool // the sessions that have any
	bytes int
}

// sessionTasks are the finished tasks of one session, oldest first. The mutex of the finishedTasks guards them.
type sessionTasks struct {
	life  context.Context // ends with the session
	tasks []finishedTask
	bytes int
}

func newFinishedTasks() *finishedTasks {
	return &finishedTasks{max: maxDoneInAll, of: make(map[*sessionTasks]bool)}
}

// keep keeps a task of a session until it expires or is dropped. It reports false if the task is larger than the bound.
func (f *finishedTasks) keep(own *sessionTasks, t finishedTask) bool {
	if t.size() > min(maxDoneBytes, f.max) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if own.life.Err() != nil {
		return true // the session has ended: no request will ask for the task
	}
	f.of[own] = true
	own.tasks = append(own.tasks, t)
	own.bytes += t.size()
	f.bytes += t.size()
	f.expireOf(own, time.Now())
	for len(own.tasks) > maxDoneTasks || own.bytes > maxDoneBytes {
		f.drop(own, 0)
	}
	for f.bytes > f.max {
		f.drop(f.largest(), 0)
	}
	return true
}

// find returns the task of a session with this id.
func (f *finishedTasks) find(own *sessionTasks, id string) (finishedTask, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expireOf(own, time.Now())
	i := slices.IndexFunc(own.tasks, func(t finishedTask) bool { return t.id == id })
	if i < 0 {
		return finishedTask{}, false
	}
	return own.tasks[i], true
}

// end drops the tasks of a session that has ended.
func (f *finishedTasks) end(own *sessionTasks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes -= own.bytes
	own.tasks, own.bytes = nil, 0
	delete(f.of, own)
}

// expire drops the tasks that have expired by now.
func (f *finishedTasks) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for own := range f.of {
		f.expireOf(own, now)
	}
}

// expireOf is expire for one session. f.mu must be held.
func (f *finishedTasks) expireOf(own *sessionTasks, now time.Time) {
	for i := 0; i < len(own.tasks); {
		if now.Before(own.tasks[i].expires) {
			i++
			continue
		}
		f.drop(own, i)
	}
}

// drop drops the i-th task of a session. f.mu must be held.
func (f *finishedTasks) drop(own *sessionTasks, i int) {
	size := own.tasks[i].size()
	own.tasks = slices.Delete(own.tasks, i, i+1)
	own.bytes -= size
	f.bytes -= size
	if len(own.tasks) == 0 {
		delete(f.of, own)
	}
}

// largest returns the session with the most bytes. f.mu must be held.
func (f *finishedTasks) largest() (own *sessionTasks) {
	most := -1
	for at := range f.of {
		if at.bytes > most {
			own, most = at, at.bytes
		}
	}
	return own
}
