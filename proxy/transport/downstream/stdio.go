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
	refuse  func(line []byte)
	read    chan struct{} // closed when nothing more is read
	err     error         // why, then
	unread  chan struct{} // closed by GiveUp if it leaves a write behind
	giveUp  sync.Once

	mu   sync.Mutex        // not held while a message is taken, which waits when the client does not read
	take func(line []byte) // takes the next message; nil when nothing does
	busy bool              // a message is taken now
	idle chan struct{}     // closed when it is done; nil while that is not awaited
}

// StdioConfig describes the connection to the client.
type StdioConfig struct {
	In         io.Reader
	Out        io.Writer
	MaxMessage int // bytes of a message from the client; 10 MiB when 0
	// TooLong is called for a message over the limit, which was skipped, in order with
	// the other messages. It may be nil.
	TooLong func(*lines.TooLongError)
	// Refuse is called for each message that comes when the context of Run has ended, until Stop; handle may not have read it before since it
	// was at another one. If it is nil, nothing is read then.
	Refuse func(line []byte)
}

// NewStdio returns a client on the pipes of cfg.
func NewStdio(cfg StdioConfig) *Stdio {
	setDefault(&cfg.MaxMessage, 10<<20)
	if cfg.TooLong == nil {
		cfg.TooLong = func(*lines.TooLongError) {}
	}
	return &Stdio{in: cfg.In, dst: cfg.Out, out: lines.NewWriter(cfg.Out), max: cfg.MaxMessage, tooLong: cfg.TooLong, refuse: cfg.Refuse, unread: make(chan struct{})}
}

// Run calls handle with every message of the client that is not blank, one after the
// other. A message is valid until handle returns, which may change it in place and must
// not panic. Run may be called once.
//
// It returns nil when the client has closed its side, ctx's error when ctx is done, and
// otherwise the error of reading. It does not return while handle runs, unless GiveUp leaves its write behind, and handle is
// not called afterwards: until Stop, Refuse gets what the client writes.
func (s *Stdio) Run(ctx context.Context, handle func(line []byte)) error {
	s.take, s.read = handle, make(chan struct{})
	go s.readOn()
	select {
	case <-s.read:
		if errors.Is(s.err, io.EOF) {
			return nil
		}
		return s.err
	case <-ctx.Done():
	}
	s.turnTo(s.refuse)
	if s.refuse == nil {
		s.Stop()
	}
	return ctx.Err()
}

// readOn reads the client's messages to their end, or until nothing takes them.
func (s *Stdio) readOn() {
	defer close(s.read)
	r := lines.NewReader(s.in, s.max)
	for {
		line, err := r.Next()
		tooLong := (*lines.TooLongError)(nil)
		if err != nil && !errors.As(err, &tooLong) {
			s.err = err
			return
		}
		take := s.begin()
		switch {
		case take == nil:
			return
		case tooLong != nil:
			s.tooLong(tooLong)
		default:
			take(line)
		}
		s.end()
	}
}

// begin returns what takes the next message; nil for nothing.
func (s *Stdio) begin() (take func(line []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = s.take != nil
	return s.take
}

// end notes that a message was taken.
func (s *Stdio) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// turnTo makes take what takes further messages, and waits until the one that is taken now is done. It returns false if GiveUp leaves
// that behind.
func (s *Stdio) turnTo(take func(line []byte)) bool {
	s.mu.Lock()
	s.take = take
	idle := make(chan struct{})
	if s.busy {
		s.idle = idle
	} else {
		close(idle)
	}
	s.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-s.unread:
		return false
	}
}

// written is how long Stop waits for what the client has written before.
const written = 10 * time.Millisecond

// Stop ends the reading that goes on behind Run, when what the client has written before was refused. A read of In that is under way is ended by
// a deadline or by closing In. A read that neither can end, as from a terminal, goes on until the process ends.
func (s *Stdio) Stop() {
	if s.refuse != nil {
		timer := time.NewTimer(written)
		defer timer.Stop()
		select {
		case <-s.read:
			return
		case <-timer.C:
		}
	}
	if s.turnTo(nil) && interrupt(s.in) {
		<-s.read
	}
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
