package downstream

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
)

// Stdio is a client on a pair of pipes: one message per line in each direction.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio.
type Stdio struct {
	in      io.Reader
	dst     io.Writer
	out     *lines.Writer
	max     int
	tooLong func(*lines.TooLongError)
	unread  chan struct{} // closed by GiveUp if it leaves a write behind
	giveUp  sync.Once
}

// StdioConfig describes the connection to the client.
type StdioConfig struct {
	In         io.Reader
	Out        io.Writer
	MaxMessage int // bytes of a message from the client; 10 MiB when 0
	// TooLong is called for a message over the limit, which was skipped, in order with
	// the other messages. It may be nil.
	TooLong func(*lines.TooLongError)
}

// NewStdio returns a client on the pipes of cfg.
func NewStdio(cfg StdioConfig) *Stdio {
	setDefault(&cfg.MaxMessage, 10<<20)
	if cfg.TooLong == nil {
		cfg.TooLong = func(*lines.TooLongError) {}
	}
	return &Stdio{in: cfg.In, dst: cfg.Out, out: lines.NewWriter(cfg.Out), max: cfg.MaxMessage, tooLong: cfg.TooLong, unread: make(chan struct{})}
}

// Run calls handle with every message of the client that is not blank, one after the
// other. A message is valid until handle returns, which may change it in place and must
// not panic. Run may be called once.
//
// It returns nil when the client has closed its side, ctx's error when ctx is done, and
// otherwise the error of reading. It does not return while handle runs, unless GiveUp leaves its write behind, and handle is
// not called afterwards. When ctx ends, a read of In that is under way is ended by a
// deadline or by closing In. A read that neither can end, as from a terminal, goes on
// until the process ends.
func (s *Stdio) Run(ctx context.Context, handle func(line []byte)) error {
	var (
		mu         sync.Mutex // not held while handle runs, which waits when the client does not read
		busy, over bool
		idle       = make(chan struct{}) // closed when handle has returned and is not called again
	)
	// deliver reports whether to go on.
	deliver := func(f func()) bool {
		mu.Lock()
		busy = !over
		mu.Unlock()
		if !busy {
			return false
		}
		f()
		mu.Lock()
		defer mu.Unlock()
		if busy = false; over {
			close(idle)
		}
		return !over
	}
	read := make(chan error, 1)
	go func() {
		r := lines.NewReader(s.in, s.max)
		for {
			line, err := r.Next()
			var tooLong *lines.TooLongError
			f := func() { handle(line) }
			if errors.As(err, &tooLong) {
				f, err = func() { s.tooLong(tooLong) }, nil
			}
			if err != nil || !deliver(f) {
				read <- err
				return
			}
		}
	}()
	select {
	case err := <-read:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done():
	}
	mu.Lock()
	over = true
	waits := busy
	mu.Unlock()
	if waits {
		select {
		case <-idle:
		case <-s.unread:
			return ctx.Err()
		}
	}
	if interrupt(s.in) {
		<-read
	}
	return ctx.Err()
}

// GiveUp ends all writing, as the client reads nothing, and reports whether something was being written. That is ended by a deadline or by
// closing Out; if neither can end it, as with most of what a process gets as its stdout, it goes on until the process ends.
func (s *Stdio) GiveUp() (writes bool) {
	s.giveUp.Do(func() {
		late := func(d interface{ SetWriteDeadline(time.Time) error }) error {
			return d.SetWriteDeadline(time.Unix(1, 0))
		}
		if writes = s.out.Close(); writes && !stop(s.dst, late) {
			close(s.unread)
		}
	})
	return writes
}

// GivenUp is closed when GiveUp leaves a write behind.
func (s *Stdio) GivenUp() <-chan struct{} { return s.unread }

// interrupt ends a read of in that is under way, and reports whether it could.
func interrupt(in io.Reader) bool {
	return stop(in, func(d interface{ SetReadDeadline(time.Time) error }) error { return d.SetReadDeadline(time.Unix(1, 0)) })
}

// stop ends what is under way at an end of a pipe by the deadline that late sets, or by closing it, and reports whether it could.
func stop[D any](end any, late func(D) error) bool {
	if d, ok := end.(D); ok && late(d) == nil {
		return true
	}
	if _, ok := end.(*os.File); ok {
		return false // without a deadline, closing it waits for what is under way
	}
	c, ok := end.(io.Closer)
	return ok && c.Close() == nil
}

// Write sends one message to the client, as one line: newlines between its
// tokens become spaces. It is safe for concurrent use and does not keep msg.
// After a failed write every later one returns the same error.
func (s *Stdio) Write(msg []byte) error {
	return s.out.WriteMessage(msg)
}
