package command

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	maxQueued = 1 << 20                // the most bytes of lines that wait for stderr
	lastWords = 500 * time.Millisecond // how long the process waits for them before it ends
)

// lineQueue writes lines without making its callers wait: stderr may be a pipe that is not
// read, and calls must go on all the same. It drops and counts lines that come while the queue is full,
// or that cannot be written. When writing works again, it writes one line with their number.
type lineQueue struct {
	out  io.Writer
	form logForm // of log lines

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // whole lines
	writing bool
	dropped uint64 // the number of dropped lines
	told    uint64 // how many of them a written line has counted
}

// newLineQueue returns a queue that writes to out. Its goroutine runs as long as the process.
func newLineQueue(out io.Writer) *lineQueue {
	q := &lineQueue{out: out}
	q.changed.L = &q.mu
	go q.run()
	return q
}

// Write queues one or several whole lines. It never fails and never waits for out.
func (q *lineQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)+len(line) > maxQueued {
		q.dropped += lines(line)
		return len(line), nil
	}
	q.waiting = append(q.waiting, line...)
	q.changed.Broadcast()
	return len(line), nil
}

func lines(text []byte) uint64 { return max(1, uint64(bytes.Count(text, []byte("\n")))) }

// Sync waits until everything is written, but not longer than lastWords. It always returns nil.
func (q *lineQueue) Sync() error {
	timer := time.AfterFunc(lastWords, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	defer timer.Stop()
	end := time.Now().Add(lastWords)
	q.mu.Lock()
	defer q.mu.Unlock()
	for (len(q.waiting) > 0 || q.writing) && time.Now().Before(end) {
		q.changed.Wait()
	}
	return nil
}

// Dropped returns how many lines have been dropped so far.
func (q *lineQueue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *lineQueue) run() {
	var batch []byte
	for {
		batch = q.next(batch)
		_, err := q.out.Write(batch)
		q.mu.Lock()
		q.writing = false
		if err != nil {
			q.dropped += lines(batch)
		} else if n := q.dropped - q.told; n > 0 && len(q.waiting) == 0 {
			q.told = q.dropped
			q.waiting = append(q.waiting, droppedLine(&q.form, n)...)
		}
		q.changed.Broadcast()
		q.mu.Unlock()
		if cap(batch) > maxQueued/16 {
			batch = nil // releases the memory of a burst of lines
		}
	}
}

// next waits for lines and returns them. The queue reuses memory, the slice that next returned before.
func (q *lineQueue) next(memory []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		q.changed.Wait()
	}
	batch := q.waiting
	q.waiting, q.writing = memory[:0], true
	return batch
}

func droppedLine(form *logForm, n uint64) []byte {
	line, err := form.line(zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), Message: "log lines dropped: stderr was not read fast enough"}, []zapcore.Field{zap.Uint64("count", n)})
	if err != nil {
		return nil // cannot happen: a number can always be encoded
	}
	return line
}

// stderr is the only writer of the process's stderr.
var stderr = newLineQueue(os.Stderr)

// outlivePipes keeps the process alive when the reader of stdout or stderr closes the pipe: the write then
// returns an error. The signal is handled, not ignored, since child processes would inherit that it is
// ignored.
func outlivePipes() {
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	go func() {
		for range gone { // nothing to do: the write returns an error
		}
	}()
}
