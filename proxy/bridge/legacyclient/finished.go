package legacyclient

import (
	"slices"
	"sync"
	"time"
)

// Bounds of the finished tasks, of one session and of all sessions.
const (
	maxDoneTasks  = 64
	maxDoneBytes  = 16 << 20
	maxDoneInAll  = 256 << 20
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
	of    map[*Conn]*sessionTasks
	bytes int
}

// sessionTasks are the finished tasks of one session, oldest first.
type sessionTasks struct {
	tasks []finishedTask
	bytes int
}

func newFinishedTasks() *finishedTasks {
	return &finishedTasks{max: maxDoneInAll, of: make(map[*Conn]*sessionTasks)}
}

// keep keeps a task of c until it expires or is dropped. It reports false if the task is larger than the bound.
func (f *finishedTasks) keep(c *Conn, t finishedTask) bool {
	if t.size() > min(maxDoneBytes, f.max) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.life.Err() != nil {
		return true // the session has ended: no request will ask for the task
	}
	own := f.of[c]
	if own == nil {
		own = new(sessionTasks)
		f.of[c] = own
	}
	own.tasks = append(own.tasks, t)
	own.bytes += t.size()
	f.bytes += t.size()
	f.expireOf(c, time.Now())
	for len(own.tasks) > maxDoneTasks || own.bytes > maxDoneBytes {
		f.drop(c, 0)
	}
	for f.bytes > f.max {
		f.drop(f.largest(), 0)
	}
	return true
}

// find returns the task of c with this id.
func (f *finishedTasks) find(c *Conn, id string) (finishedTask, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expireOf(c, time.Now())
	own := f.of[c]
	if own == nil {
		return finishedTask{}, false
	}
	i := slices.IndexFunc(own.tasks, func(t finishedTask) bool { return t.id == id })
	if i < 0 {
		return finishedTask{}, false
	}
	return own.tasks[i], true
}

// end drops the tasks of c, which has ended.
func (f *finishedTasks) end(c *Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own := f.of[c]; own != nil {
		f.bytes -= own.bytes
		delete(f.of, c)
	}
}

// expire drops the tasks that have expired by now.
func (f *finishedTasks) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.of {
		f.expireOf(c, now)
	}
}

// expireOf is expire for one session. f.mu must be held.
func (f *finishedTasks) expireOf(c *Conn, now time.Time) {
	own := f.of[c]
	for i := 0; own != nil && i < len(own.tasks); {
		if now.Before(own.tasks[i].expires) {
			i++
			continue
		}
		f.drop(c, i)
	}
}

// drop drops the i-th task of c. f.mu must be held.
func (f *finishedTasks) drop(c *Conn, i int) {
	own := f.of[c]
	size := own.tasks[i].size()
	own.tasks = slices.Delete(own.tasks, i, i+1)
	own.bytes -= size
	f.bytes -= size
	if len(own.tasks) == 0 {
		delete(f.of, c)
	}
}

// largest returns the session with the most bytes. f.mu must be held.
func (f *finishedTasks) largest() (c *Conn) {
	most := -1
	for at, own := range f.of {
		if own.bytes > most {
			c, most = at, own.bytes
		}
	}
	return c
}
