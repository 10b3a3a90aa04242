package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// reader is a stderr that blocks writes until the test allows them.
type reader struct {
	mu   sync.Mutex
	open sync.Cond
	may  bool
	over bool // a write ends the goroutine that makes it
	err  error
	got  bytes.Buffer
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.may {
		r.open.Wait()
	}
	if r.over {
		runtime.Goexit()
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.got.Write(p)
}

func (r *reader) read(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.may, r.err = true, err
	r.open.Broadcast()
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

// queueing runs a test with a queue whose lines go to a reader. Sync gives up only when the queue waits for the
// reader, however slow the machine is, since the time that it allows passes while all goroutines wait.
func queueing(t *testing.T, test func(t *testing.T, q *lineQueue, r *reader)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		r.open.L = &r.mu
		q := newLineQueue(r)
		defer func() {
			r.read(nil)
			q.Sync()
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			fmt.Fprintln(q, "the end")
		}()
		test(t, q, r)
	})
}

// TestUnreadStderrStopsNothing checks that lines are dropped while the queue is full, that those in the queue are
// written whole and in order, and that a last line has the number of dropped ones.
func TestUnreadStderrStopsNothing(t *testing.T) {
	queueing(t, func(t *testing.T, q *lineQueue, r *reader) {
		const n = 40_000
		for i := range n {
			fmt.Fprintf(q, "%d %s\n", i, strings.Repeat("x", 50))
		}
		dropped := q.Dropped()
		if dropped == 0 || dropped > n*3/5 {
			t.Fatalf("%d of %d lines dropped", dropped, n)
		}
		r.read(nil)
		q.Sync()
		text := r.text()
		in := bufio.NewScanner(strings.NewReader(text))
		last := -1
		for range int(n - dropped) {
			if !in.Scan() {
				t.Fatal("lines are missing")
			}
			number, text, _ := strings.Cut(in.Text(), " ")
			if i, err := strconv.Atoi(number); err != nil || i <= last || text != strings.Repeat("x", 50) {
				t.Fatalf("after line %d: %q", last, in.Text())
			} else {
				last = i
			}
		}
		if !in.Scan() || gjson.Get(in.Text(), "count").Uint() != dropped || gjson.Get(in.Text(), "level").Str != "warn" {
			t.Errorf("the last line is %q, want one that counts %d", in.Text(), dropped)
		}
		fmt.Fprintln(q, "after it")
		q.Sync()
		if !strings.HasSuffix(r.text(), "}\nafter it\n") {
			t.Errorf("%q", r.text()[len(text):])
		}
	})
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	queueing(t, func(t *testing.T, q *lineQueue, r *reader) {
		r.read(io.ErrClosedPipe)
		fmt.Fprint(q, "a\nb\n")
		q.Sync()
		if q.Dropped() != 2 {
			t.Errorf("%d dropped", q.Dropped())
		}
		r.read(nil)
		fmt.Fprintln(q, "c")
		q.Sync()
		if got := r.text(); !strings.HasPrefix(got, "c\n") || !strings.Contains(got, `"count":2`) {
			t.Errorf("%q", got)
		}
		r.read(errors.New("gone again"))
		fmt.Fprintln(q, "d")
		q.Sync()
		if q.Dropped() != 3 {
			t.Errorf("%d dropped", q.Dropped())
		}
	})
}

// TestSyncDoesNotWaitForUnreadStderr checks that the end of the process does not wait for a stderr that is not read.
func TestSyncDoesNotWaitForUnreadStderr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		q := &lineQueue{out: out}
		q.changed.L = &q.mu
		go func() {
			q.out.Write(q.next(nil))
		}()
		fmt.Fprintln(q, "unread")
		synctest.Wait()
		if err := q.Sync(); err != nil {
			t.Error(err)
		}
		in.Close()
	})
}

// TestDurationsInTheLogHaveAUnit, as they have in the configuration.
func TestDurationsInTheLogHaveAUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234567 * time.Nanosecond: "1.235ms", 312 * time.Microsecond: "312µs", 12345678 * time.Nanosecond: "12ms",
		1500 * time.Millisecond: "1.5s", 25 * time.Second: "25s", 90 * time.Minute: "1h30m0s", -1234567 * time.Nanosecond: "-1.235ms",
	} {
		line, err := logEncoder().EncodeEntry(zapcore.Entry{}, []zapcore.Field{zap.Duration("after", d)})
		if err != nil {
			t.Fatal(err)
		}
		if got := gjson.GetBytes(line.Bytes(), "after").Raw; got != `"`+want+`"` {
			t.Errorf("%v: got %s, want %q", d, got, want)
		}
	}
}
