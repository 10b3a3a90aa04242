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
	out     *lines.Writer
	max     int
	tooLong func(*lines.TooLongError)
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
	return &Stdio{in: cfg.In, out: lines.NewWriter(cfg.Out), max: cfg.MaxMessage, tooLong: cfg.TooLong}
}

// Run calls handle with every message of the client that is not blank, one after the
// other. A message is valid until handle returns, which may change it in place and must
// not panic. Run may be called once.
//
// It returns nil when the client has closed its side, ctx's error when ctx is done, and
// otherwise the error of reading. It does not return while handle runs, and handle is
// not called afterwards. When ctx ends, a read of In that is under way is ended by a
// deadline or by closing In. A read that neither can end, as from a terminal, goes on
// until the process ends.
func (s *Stdio) Run(ctx context.Context, handle func(line []byte)) error {
	var (
		mu   sync.Mutex // held while handle runs
		over bool
	)
	// deliver reports whether to go on.
	deliver := func(f func()) bool {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
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
	mu.Unlock()
	if interrupt(s.in) {
		<-read
	}
	return ctx.Err()
}

// interrupt ends a read of in that is under way, and reports whether it could.
func interrupt(in io.Reader) bool {
	if d, ok := in.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
		return true
	}
	if _, ok := in.(*os.File); ok {
		return false // without a deadline, closing it waits for the read
	}
	c, ok := in.(io.Closer)
	return ok && c.Close() == nil
}

// Write sends one message to the client, as one line: newlines between its
// tokens become spaces. It is safe for concurrent use and does not keep msg.
// After a failed write every later one returns the same error.
func (s *Stdio) Write(msg []byte) error {
	return s.out.WriteMessage(msg)
}
