package proxy

import (
	"slices"
	"sync"
	"time"
)

// Bounds of the finished tasks that are kept, of a session and of all together.
const (
	maxDoneTasks  = 64
	maxDoneBytes  = 16 << 20
	maxDoneInAll  = 256 << 20
	doneTaskExtra = 256 // bytes of a task beside its texts
)

// doneTask is a call that the client wanted a task of and the server has answered
// at once.
type finishedTask struct {
	id      string
	state   []byte // a Task
	result  []byte
	expires time.Time
}

func (t *finishedTask) size() int { return len(t.state) + len(t.result) + doneTaskExtra }

// finishedTasks are those of all sessions. Where they are too many the oldest one goes:
// of the session that has too many, or of the one that has most. A session's end with it.
type finishedTasks struct {
	max int // bytes of all together

	mu    sync.Mutex
	of    map[*modernConn]*sessionTasks
	bytes int
}

// finishedOf are the finished tasks of one session, oldest first.
type sessionTasks struct {
	tasks []finishedTask
	bytes int
}

func newFinishedTasks() *finishedTasks {
	return &finishedTasks{max: maxDoneInAll, of: make(map[*modernConn]*sessionTasks)}
}

// keep keeps a task of c for as long as it lives and others leave it the room; false
// where there is not enough for it alone.
func (f *finishedTasks) keep(c *modernConn, t finishedTask) bool {
	if t.size() > min(maxDoneBytes, f.max) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.life.Err() != nil {
		return true // no call will ask for it
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

// find is the task of c of this id.
func (f *finishedTasks) find(c *modernConn, id string) (finishedTask, bool) {
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

// end forgets the tasks of c, whose life is over.
func (f *finishedTasks) end(c *modernConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if own := f.of[c]; own != nil {
		f.bytes -= own.bytes
		delete(f.of, c)
	}
}

// tend lets go of what has expired by now.
func (f *finishedTasks) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.of {
		f.expireOf(c, now)
	}
}

// tidy is tend for one session. Called with f.mu held.
func (f *finishedTasks) expireOf(c *modernConn, now time.Time) {
	own := f.of[c]
	for i := 0; own != nil && i < len(own.tasks); {
		if now.Before(own.tasks[i].expires) {
			i++
			continue
		}
		f.drop(c, i)
	}
}

// drop lets go of the i-th task of c. Called with f.mu held.
func (f *finishedTasks) drop(c *modernConn, i int) {
	own := f.of[c]
	size := own.tasks[i].size()
	own.tasks = slices.Delete(own.tasks, i, i+1)
	own.bytes -= size
	f.bytes -= size
	if len(own.tasks) == 0 {
		delete(f.of, c)
	}
}

// largest is the session with the most bytes. Called with f.mu held.
func (f *finishedTasks) largest() (c *modernConn) {
	most := -1
	for at, own := range f.of {
		if own.bytes > most {
			c, most = at, own.bytes
		}
	}
	return c
}
