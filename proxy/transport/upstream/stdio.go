package upstream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Stdio describes a server that runs as a child process and reads and writes messages on
// its standard input and output. The zero value of a limit means the default.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio.
type Stdio struct {
	Command []string // the program, looked up in this process's PATH, and its arguments
	Env     []string // "NAME=value", all that the child gets
	Dir     string   // working directory; "" for that of this process

	MaxMessage int           // bytes of one line from the server; 64 MiB
	Memory     *large.Memory // for its large lines; nil for memory that is not counted
	// UnreadTimeout is how long the child may read nothing of a message while no call is in flight before it is stopped;
	// 5 min. Less than 0: it never is.
	UnreadTimeout time.Duration

	// Mute is called once if a child has written no message within MuteTime of its start
	// (default 10 s), with what is known of the child. It may be nil.
	Mute     func(*MuteError)
	MuteTime time.Duration
	// StderrLine is called with each line that the child writes to its standard error, without private keys in PEM,
	// one at a time, without its end and cut to 4 KiB, with a "…" behind that. The line is valid until StderrLine
	// returns; the child waits for that. It may be nil.
	StderrLine func(line []byte)
	// Skipped is called with each line that the child writes to its standard output and that is no message, cut to
	// 1 KiB, under the terms of StderrLine. It may be nil.
	Skipped func(line []byte)
	// Quote turns a line of the child into text for an error; nil cuts it to 200 bytes.
	Quote func(line string) string

	CloseGrace time.Duration // from closing its standard input to SIGTERM; 2 s
	TermGrace  time.Duration // from SIGTERM to SIGKILL; 3 s

	// Starter starts the child, with Command, Env and Dir; nil for a program of the operating system.
	Starter func(*Stdio) (*Process, error)
}

const (
	maxStderrLine = 4 << 10
	// MuteTime is the default time after which a server that has not answered is
	// reported.
	MuteTime = 10 * time.Second
	// maxQuote is how many bytes of a line an error contains.
	maxQuote = 200
	// drainTime is how long output is read after the child's end: a process that it left
	// behind may hold the pipe for ever.
	drainTime = time.Second
)

var (
	errNoCommand   = errors.New("no command")
	errClosedOut   = errors.New("it has closed its standard output")
	errClosedIn    = errors.New("it has closed its standard input")
	errListenTwice = errors.New("the output of a child can be listened to only once")
)

// Child is one running child process: a session with its server.
type Child struct {
	name       string
	process    *Process
	maxMessage int
	memory     *large.Memory
	closeGrace time.Duration
	termGrace  time.Duration
	stderrLine func([]byte)
	skipped    func([]byte)
	quote      func(string) string

	input     input
	listening atomic.Bool
	noise     noise
	started   time.Time
	notice    *time.Timer // calls Mute; nil for none

	stopOnce, hurryOnce, freeOnce sync.Once

	stopping   chan struct{} // closed: stop it in order
	hurrying   chan struct{} // closed: stop it now
	stderrRead chan struct{} // closed when its standard error has ended
	exited     chan struct{} // closed when the child has ended, and exit is set
	exit       *ExitError
	running    sync.WaitGroup

	mu      sync.Mutex
	closed  bool  // Close was called
	cause   error // why the child is stopped
	suspect error // why, if the child does not end by itself
	tail    tail  // the end of its standard error
}

var _ Conn = (*Child)(nil)

// Start starts a child. The caller must Close it, even if the child ends by itself. ctx
// bounds Start only. Start may be called again, whatever became of earlier children; the
// caller decides by the ExitError how soon.
func (s Stdio) Start(ctx context.Context) (*Child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.Command) == 0 {
		return nil, errNoCommand
	}
	c := &Child{
		name:       s.Command[0],
		maxMessage: cmp.Or(s.MaxMessage, 64<<20),
		memory:     s.Memory,
		closeGrace: cmp.Or(s.CloseGrace, 2*time.Second),
		termGrace:  cmp.Or(s.TermGrace, 3*time.Second),
		stderrLine: s.StderrLine,
		skipped:    s.Skipped,
		quote:      s.Quote,
		stopping:   make(chan struct{}),
		hurrying:   make(chan struct{}),
		stderrRead: make(chan struct{}),
		exited:     make(chan struct{}),
	}
	if c.quote == nil {
		c.quote = func(line string) string { return cut(line, maxQuote) }
	}
	c.input = input{
		name: c.name, memory: s.Memory, timeout: cmp.Or(s.UnreadTimeout, 5*time.Minute),
		exited: c.exited, wake: make(chan struct{}, 1),
		closed: func() { c.stop(errClosedIn) }, hangs: func(e *UnreadError) { c.fail(e) },
	}
	started := make(chan error)
	c.running.Add(1)
	go c.run(&s, started)
	if err := <-started; err != nil {
		c.running.Wait()
		return nil, &Error{Op: "start", Addr: c.name, Err: err}
	}
	c.input.file = c.process.In
	c.started = time.Now()
	if s.Mute != nil {
		c.notice = time.AfterFunc(cmp.Or(s.MuteTime, MuteTime), func() {
			if e := c.Mute(); e != nil {
				s.Mute(e)
			}
		})
	}
	c.running.Add(3)
	go func() {
		defer c.running.Done()
		c.input.write()
	}()
	go c.readStderr()
	go c.supervise()
	return c, nil
}

// command returns the program of the operating system that s names.
func command(s *Stdio) *exec.Cmd {
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:gosec // running it is the purpose
	cmd.Env = append([]string{}, s.Env...)              // nil would mean this process's environment
	cmd.Dir = s.Dir
	cmd.SysProcAttr = ownGroup()
	return cmd
}

// run starts the child and waits for its end.
func (c *Child) run(s *Stdio, started chan<- error) {
	defer c.running.Done()
	var err error
	if s.Starter != nil {
		c.process, err = s.Starter(s)
	} else {
		c.process, err = startCommand(command(s))
	}
	began := time.Now()
	started <- err
	if err != nil {
		return
	}
	status := "exit status 0"
	if err := c.process.Wait(); err != nil {
		status = err.Error()
	}
	lived := time.Since(began)
	c.process.In.Close()
	select {
	case <-c.stderrRead:
	case <-time.After(drainTime):
	}
	c.process.Err.Close()

	if c.notice != nil {
		c.notice.Stop()
	}
	c.mu.Lock()
	c.exit = &ExitError{
		Command: c.name, Status: status, Lived: lived,
		Stderr: c.quote(Telling(c.tail.last(maxTail))), Tail: c.tail.quoted(c.quote), Err: c.cause,
	}
	c.mu.Unlock()
	close(c.exited)
	setReadDeadline(c.process.Out, time.Now().Add(drainTime))
}

// supervise stops the child after stop was called.
func (c *Child) supervise() {
	defer c.running.Done()
	select {
	case <-c.exited:
		return
	case <-c.stopping:
	}
	told, most := time.Now(), time.NewTimer(c.closeGrace/2)
	select {
	case <-c.input.written(): // a cancellation that was sent just now is of no use behind the end
	case <-most.C:
	case <-c.hurrying:
	case <-c.exited:
	}
	most.Stop()
	// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown
	c.process.In.Close()
	if c.gone(c.closeGrace - time.Since(told)) {
		return
	}
	c.mu.Lock()
	c.cause = cmp.Or(c.cause, c.suspect)
	c.mu.Unlock()
	if c.process.Terminate() && c.gone(c.termGrace) {
		return
	}
	c.process.Kill()
}

// gone waits for the child's end, and reports whether the child ended in time.
func (c *Child) gone(grace time.Duration) bool {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.exited:
		return true
	case <-c.hurrying:
	case <-t.C:
	}
	return false
}

// stop stops the child. The reason is only reported if the child does not end by itself:
// a broken pipe is more often the consequence of the child's end than its cause.
func (c *Child) stop(suspect error) {
	c.mu.Lock()
	c.suspect = cmp.Or(c.suspect, suspect)
	c.mu.Unlock()
	c.stopOnce.Do(func() { close(c.stopping) })
}

// fail stops the child, and reports the cause.
func (c *Child) fail(cause error) {
	c.mu.Lock()
	c.cause = cmp.Or(c.cause, cause)
	c.mu.Unlock()
	c.stop(nil)
}

// ended returns the error of a child that has ended.
func (c *Child) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return c.exit
}

// Send writes one message as one line. It returns an *ExitError if the child has ended.
//
// A request waits until it is written, until ctx ends, or for its FirstByte; other messages are written later if the child does
// not read them at once. An error of ctx, or one that is NeverSent, says that the child does not get the message: once any of it
// is written, the rest is, too, whatever becomes of its sender. With Waits, a message that is not read at once becomes a [Handed].
func (c *Child) Send(ctx context.Context, m *Outgoing) (Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err := c.input.send(ctx, m)
	if h, is := err.(*Handed); is { //nolint:errorlint // send returns it as it is
		h.Wrap(func(error) error { return c.unwritten(context.Background()) })
		return nil, h
	}
	switch err {
	case errGone:
		return nil, c.ended()
	case errUnwritten:
		return nil, c.unwritten(ctx)
	default:
		return nil, err
	}
}

// unwritten waits for the reason why a message was not written: the child is gone, or soon will be.
func (c *Child) unwritten(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.exited:
		return c.ended()
	}
}

func (c *Child) readStderr() {
	defer c.running.Done()
	defer close(c.stderrRead)
	in := bufio.NewReaderSize(c.process.Err, maxStderrLine)
	var keys secret.Lines
	within := false // the beginning of this line was delivered
	for {
		text, err := in.ReadSlice('\n')
		full := err == bufio.ErrBufferFull
		switch {
		case within:
		case full:
			c.stderr(withoutKeys(&keys, append(bytes.Clone(text), ellipsis...)))
		default:
			c.stderr(withoutKeys(&keys, bytes.TrimRight(text, "\r\n")))
		}
		within = full
		if err != nil && !within {
			return
		}
	}
}

// withoutKeys returns a line without what belongs to a private key, which only the lines before it may tell.
func withoutKeys(keys *secret.Lines, line []byte) []byte {
	if text := wire.View(line); len(line) > 0 {
		if rest := keys.Line(text); rest != text {
			return []byte(rest)
		}
	}
	return line
}

func (c *Child) stderr(text []byte) {
	if len(text) == 0 {
		return
	}
	c.input.heard.Add(1)
	c.mu.Lock()
	c.tail.add(text)
	c.mu.Unlock()
	if c.stderrLine != nil {
		c.stderrLine(text)
	}
}

// Noise returns how many lines the child has written to its standard output that are not
// messages.
func (c *Child) Noise() int64 {
	c.noise.mu.Lock()
	defer c.noise.mu.Unlock()
	return c.noise.all
}

// Printed returns the first lines that the child wrote to its standard output, before its first message, that are not
// messages, as Stdio.Quote returns them.
func (c *Child) Printed() (lines []string) {
	c.noise.mu.Lock()
	defer c.noise.mu.Unlock()
	for _, line := range c.noise.said {
		lines = append(lines, c.quote(line))
	}
	return lines
}

// Mute returns what is known of a child that has written no message yet, or nil if it
// has.
func (c *Child) Mute() *MuteError {
	if c.noise.spoken.Load() {
		return nil
	}
	e := &MuteError{Command: c.name, Waited: time.Since(c.started)}
	c.noise.mu.Lock()
	e.Lines = c.noise.lines
	c.noise.mu.Unlock()
	e.Said = c.Printed()
	c.mu.Lock()
	e.Stderr = c.quote(Telling(c.tail.last(maxTail)))
	c.mu.Unlock()
	return e
}

// Close stops the child and the processes that it has started, and returns when they have
// ended. It stops them in order, and by force if ctx ends.
func (c *Child) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop(nil)
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.hurryOnce.Do(func() { close(c.hurrying) })
		<-c.exited
	}
	c.running.Wait()
	c.freeOnce.Do(c.process.Release)
	c.process.Out.Close()
	return nil
}
