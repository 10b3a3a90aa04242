package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
)

// maxAlone is how many bytes of notifications and answers wait for a child to read them without a sender that waits.
const maxAlone = 1 << 20

var (
	// errWithdrawn says that a message was taken back before any of it was written, errBegun that it is written to its end
	// without its sender.
	errWithdrawn = ErrTakenBack
	errBegun     = errors.New("the message was written in part")
	// errHanded says that the rest of a message is written without its sender, errKept that this is impossible.
	errHanded = errors.New("the message waits")
	errKept   = errors.New("the sender has to wait")
	// errGone says that the child has ended, errUnwritten that it has, or soon will.
	errGone      = errors.New("the child has ended")
	errUnwritten = errors.New("the message could not be written")
)

// UnreadError says that a child was stopped because it has read nothing of its standard input for a long time, although no
// call was in flight that it could have been busy with.
type UnreadError struct{ After time.Duration }

func (e *UnreadError) Error() string {
	return fmt.Sprintf("it has read nothing of its standard input for %v, and no call was in flight: it hangs, or the system has paused it (upstream.unread_timeout)", e.After)
}

// input is what waits for a child to read it. A child may be busy for a long time: then only what waits, waits.
type input struct {
	name    string
	file    io.WriteCloser
	memory  *large.Memory
	timeout time.Duration   // UnreadTimeout; less than 0 for none
	exited  <-chan struct{} // closed when the child has ended
	closed  func()          // called when the child has closed its standard input
	hangs   func(*UnreadError)

	wake chan struct{} // has a value if the writer may have something to do

	heard   atomic.Uint64 // lines that the child has written
	overdue atomic.Bool   // a line was not written within timeout

	mu          sync.Mutex
	first, last *line         // those that wait, in the order in which they are written
	current     *line         // the one that is being written
	posted      int           // bytes of those that no sender waits for
	none        chan struct{} // closed when posted becomes 0; nil if nothing waits for it

	spare sync.Pool // of *line: its own pool, since channels and timers are not to be used in another bubble of synctest
}

// line is one message on its way to the child.
type line struct {
	b        []byte   // what is still to be written
	end      []byte   // follows b; nil for nothing
	room     []byte   // for b, unless it is borrowed
	borrowed bool     // b belongs to the sender
	alone    bool     // no sender waits for it
	posted   int      // its bytes in input.posted
	left     bool     // its sender does not want to wait any longer
	handed   *Handed  // learns what becomes of it, since the sender has gone on; nil for none
	handing  bool     // the sender waits until that is possible
	counts   *Waiting // of handed, and its bytes there
	size     int
	busy     time.Duration // how long the child may be busy with it
	done     chan error    // has room for one
	timer    *time.Timer   // of the sender; nil before its first use

	before, after *line // while it waits
}

var newline = []byte{'\n'}

// send is Send of the child.
func (in *input) send(ctx context.Context, m *Outgoing) error {
	if in.isGone() {
		return errGone
	}
	l := in.lineOf(m)
	borrowed := l.borrowed // what becomes of l now is the writer's
	if in.put(l, !m.Request && !borrowed) {
		return nil
	}
	hands, limit := m.Waits != nil, l.startTimer(m)
	for {
		select {
		case err := <-l.done:
			if err != nil {
				return errUnwritten
			}
			if l.timer != nil {
				l.timer.Stop()
			}
			in.reuse(l)
			return nil
		case <-ctx.Done():
			return in.leave(ctx, l, m, borrowed, ctx.Err())
		case <-limit:
			if hands {
				if h := in.hand(l, m, borrowed); h != nil {
					return h
				}
				hands, limit = false, nil
				if m.Request && m.FirstByte > 0 {
					l.timer.Reset(m.FirstByte)
					limit = l.timer.C
				}
				continue
			}
			late := &Error{Op: opWait, Addr: in.name, Err: &silence{what: "the server has not read the request", after: m.FirstByte}}
			err := in.leave(ctx, l, m, borrowed, late)
			if err == errBegun {
				late.Op = "write"
				err = late
			}
			return err
		case <-in.exited:
			err := in.takeBack(l)
			if err == errBegun { // the file is closed, so that the write ends
				err = <-l.done
			}
			if err == nil { // the child may have read it before it ended
				return nil
			}
			return errGone
		}
	}
}

// handTime is how long the sender of a message waits for it to be written, before it goes on.
const handTime = 20 * time.Millisecond

// startTimer starts the timer of the sender of m. It returns nil if the sender waits without a limit.
func (l *line) startTimer(m *Outgoing) <-chan time.Time {
	var limit time.Duration
	switch {
	case m.Waits != nil && m.Waits.bytes.Load() > 0:
		limit = 1 // nothing is written at once
	case m.Waits != nil:
		limit = handTime
	case m.Request:
		limit = m.FirstByte
	}
	switch {
	case limit <= 0:
		return nil
	case l.timer == nil:
		l.timer = time.NewTimer(limit)
	default:
		l.timer.Reset(limit)
	}
	return l.timer.C
}

// hand lets l be written without its sender. The Handed says what becomes of it. It returns nil if that is impossible, or not needed
// any more.
func (in *input) hand(l *line, m *Outgoing, borrowed bool) *Handed {
	if in.isGone() || !m.Waits.add(len(m.Body)) {
		return nil
	}
	h := &Handed{takeBack: func() { in.retract(l) }}
	var own []byte
	in.mu.Lock()
	copies := borrowed && in.waits(l)
	in.mu.Unlock()
	if copies {
		var err error
		if own, err = in.memory.Clone(context.Background(), large.RequestWait, large.RequestCopy, m.Body); err != nil {
			m.Waits.remove(len(m.Body))
			return nil
		}
	}
	in.mu.Lock()
	waits, current := in.waits(l), in.current == l
	if waits || current {
		l.handed, l.counts, l.size = h, m.Waits, len(m.Body)
		l.handing = current && borrowed
	}
	if waits && copies {
		l.b, l.borrowed = own, false
	}
	in.mu.Unlock()
	switch {
	case waits, current && !borrowed:
		return h
	case !current, !in.interrupt(): // it is written, or cannot be left
	default:
		switch err := <-l.done; err {
		case errHanded:
			return h
		case errKept:
		default:
			l.done <- err
		}
	}
	in.mu.Lock()
	l.handed, l.handing = nil, false
	in.mu.Unlock()
	m.Waits.remove(len(m.Body))
	return nil
}

// retract takes a line that was handed over back, if none of it is written.
func (in *input) retract(l *line) {
	in.mu.Lock()
	waits := in.waits(l)
	switch {
	case waits:
		in.remove(l)
	case in.current == l:
		l.left = true
	}
	left := l.left
	in.mu.Unlock()
	switch {
	case waits:
		l.over(errWithdrawn)
	case left:
		in.interrupt()
	}
}

// over tells the sender of a line that was handed over what has become of it.
func (l *line) over(err error) {
	l.counts.remove(l.size)
	l.handed.tell(err)
}

// leave gives l up, for which its sender does not wait any longer because of why. It returns the error of send: errBegun only if
// why is not that of ctx.
func (in *input) leave(ctx context.Context, l *line, m *Outgoing, borrowed bool, why error) error {
	if !m.Request && borrowed { // it waits without its sender, if there is memory for it
		own, err := in.memory.Clone(context.Background(), large.RequestWait, large.RequestCopy, m.Body)
		if err == nil && in.orphan(l, own) {
			return nil
		}
	}
	err := in.takeBack(l)
	if err == errBegun && (in.interrupt() || borrowed) {
		err = <-l.done
	}
	switch {
	case err == nil:
		return nil
	case err == errWithdrawn:
		return why
	case err != errBegun:
		return errUnwritten
	case ctx.Err() != nil:
		return nil
	}
	return err
}

func (in *input) isGone() bool {
	select {
	case <-in.exited:
		return true
	default:
		return false
	}
}

// interrupt makes a write that waits return. It returns false where the system cannot do that.
func (in *input) interrupt() bool { return setWriteDeadline(in.file, time.Unix(1, 0)) }

// write writes what waits, until the child has ended.
func (in *input) write() {
	var unread *time.Timer
	if in.timeout > 0 {
		unread = time.AfterFunc(in.timeout, func() {
			in.overdue.Store(true)
			in.interrupt()
		})
		defer unread.Stop()
	}
	var busy time.Time // until then the child may be busy with a call
	for {
		l := in.next()
		if l == nil {
			if unread != nil {
				unread.Stop()
			}
			select {
			case <-in.exited:
				return
			case <-in.wake:
			}
			continue
		}
		err := in.writeLine(l, unread, busy)
		if err == nil && l.busy > 0 {
			if until := time.Now().Add(l.busy); until.After(busy) {
				busy = until
			}
		}
		if err != nil && err != errWithdrawn {
			in.closed()
		}
		in.finish(l, err)
	}
}

// writeLine writes one line, however long the child takes to read it. The child is stopped if it reads nothing for a long time
// and cannot be busy with a call.
func (in *input) writeLine(l *line, unread *time.Timer, busy time.Time) error {
	heard, since := in.heard.Load(), time.Now()
	if unread != nil {
		unread.Reset(in.timeout)
	}
	for begun, read := false, false; len(l.b) > 0; {
		n, err := in.file.Write(l.b)
		l.b = l.b[n:]
		begun, read = begun || n > 0, read || n > 0
		if err == nil {
			l.b, l.end = l.end, nil
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		setWriteDeadline(in.file, time.Time{}) // it could be set
		if in.overdue.Swap(false) {
			said, now := in.heard.Load(), time.Now()
			if now.Sub(since) >= in.timeout { // else it was about the line before
				if !read && said == heard && now.After(busy) {
					in.hangs(&UnreadError{After: in.timeout})
				}
				heard, read, since = said, false, now
				unread.Reset(in.timeout)
			}
		}
		if in.isHanding(l) {
			own, err := in.memory.Clone(context.Background(), large.RequestWait, large.RequestCopy, l.b)
			if err == nil {
				l.b, l.borrowed = own, false
			}
			in.handOver(l, err == nil)
		}
		if !in.hasLeft(l) {
			continue
		}
		if !begun {
			return errWithdrawn
		}
		if l.borrowed {
			own, err := in.memory.Clone(context.Background(), large.RequestWait, large.RequestCopy, l.b)
			if err != nil {
				continue // the sender waits on
			}
			l.b, l.borrowed = own, false
		}
		in.detach(l)
	}
	return nil
}

// lineOf returns the line of a message.
func (in *input) lineOf(m *Outgoing) *line {
	l, _ := in.spare.Get().(*line)
	if l == nil {
		l = &line{done: make(chan error, 1)}
	}
	l.alone, l.posted, l.left, l.busy = false, 0, false, 0
	l.handed, l.handing, l.counts = nil, false, nil
	if m.Request {
		l.busy = max(m.FirstByte, m.Silence)
	}
	if l.borrowed = len(m.Body) > keepBuffer && lines.Single(m.Body); l.borrowed {
		l.b, l.end = m.Body, newline
	} else {
		l.b, l.end = lines.Append(l.room[:0], m.Body), nil
		l.room = l.b
	}
	return l
}

// reuse keeps l for another message.
func (in *input) reuse(l *line) {
	if l.b, l.end = nil, nil; cap(l.room) > keepBuffer {
		l.room = nil
	}
	in.spare.Put(l)
}

// put appends a line. If post is set, and those that no sender waits for leave room, it returns true: the sender need not wait.
func (in *input) put(l *line, post bool) (posted bool) {
	in.mu.Lock()
	if post && (in.posted == 0 || in.posted+len(l.b) <= maxAlone) {
		l.alone, l.posted = true, len(l.b)
		in.posted += l.posted
	}
	posted = l.alone
	if l.before = in.last; l.before == nil {
		in.first = l
	} else {
		l.before.after = l
	}
	in.last = l
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
	return posted
}

// remove removes a line that waits. Called with in.mu held.
func (in *input) remove(l *line) {
	if l.before == nil {
		in.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		in.last = l.before
	} else {
		l.after.before = l.before
	}
	l.before, l.after = nil, nil
}

// waits reports whether a line waits. Called with in.mu held.
func (in *input) waits(l *line) bool { return in.first == l || l.before != nil }

// next makes the first line that waits the current one, and returns it; nil if there is none.
func (in *input) next() *line {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := in.first
	if l != nil {
		in.remove(l)
	}
	in.current = l
	return l
}

// finish ends the current line.
func (in *input) finish(l *line, err error) {
	in.mu.Lock()
	in.current = nil
	if in.posted -= l.posted; in.posted == 0 && in.none != nil {
		close(in.none)
		in.none = nil
	}
	alone, handed := l.alone, l.handed != nil && !l.handing
	in.mu.Unlock()
	if handed {
		l.over(err)
	} else if !alone {
		l.done <- err
	} else if l.posted > 0 {
		in.reuse(l)
	}
}

// written returns a channel that is closed when all is written that no sender waits for. Only one goroutine may call it.
func (in *input) written() <-chan struct{} {
	none := make(chan struct{})
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.posted == 0 {
		close(none)
	} else {
		in.none = none
	}
	return none
}

// takeBack takes l back. The error is errWithdrawn if it waited, and errBegun if it is being written: then an interrupted write
// sends done what has become of it. Otherwise it is the result of the write.
func (in *input) takeBack(l *line) error {
	in.mu.Lock()
	switch {
	case in.waits(l):
		in.remove(l)
		in.mu.Unlock()
		return errWithdrawn
	case in.current == l:
		l.left = true
		in.mu.Unlock()
		return errBegun
	}
	in.mu.Unlock()
	return <-l.done
}

// orphan lets a line that waits go on without its sender, whose memory it does not use any more. It returns false if the line
// does not wait.
func (in *input) orphan(l *line, own []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.waits(l) {
		return false
	}
	l.b, l.borrowed, l.alone = own, false, true
	return true
}

func (in *input) hasLeft(l *line) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return l.left
}

func (in *input) isHanding(l *line) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return l.handing
}

// handOver tells the sender of the current line whether the rest is written without it.
func (in *input) handOver(l *line, is bool) {
	in.mu.Lock()
	l.handing = false
	if !is {
		l.handed = nil
	}
	in.mu.Unlock()
	if is {
		l.done <- errHanded
	} else {
		l.done <- errKept
	}
}

// detach tells the sender of the current line that the rest is written without it.
func (in *input) detach(l *line) {
	in.mu.Lock()
	l.left = false
	handed := l.handed != nil
	l.alone = !handed
	in.mu.Unlock()
	if !handed {
		l.done <- errBegun
	}
}
