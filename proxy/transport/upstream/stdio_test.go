package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func start(t *testing.T, s Stdio) *Child {
	t.Helper()
	c, _ := startProgram(t, s)
	return c
}

// startProgram starts a child, and returns it also as the operating system knows it.
func startProgram(t *testing.T, s Stdio) (*Child, *os.Process) {
	t.Helper()
	peertest.NoLeaks(t)
	cmd := command(&s)
	s.Starter = func(*Stdio) (*Process, error) { return startCommand(cmd) }
	c, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Close(ctx)
		if err := cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("child is still there: %v", err)
		}
	})
	return c, cmd.Process
}

func hear(t *testing.T, c *Child) Stream {
	t.Helper()
	s, err := c.Listen(t.Context(), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantNext(t *testing.T, s Stream, want string) {
	t.Helper()
	e, err := First(s)
	if err != nil || string(e.Data) != want {
		t.Fatalf("got %.100q, %v, want %.100q", e.Data, err, want)
	}
}

func TestChildReceivesAndAnswers(t *testing.T) {
	c := start(t, role("echo"))
	s := hear(t, c)
	for _, m := range []struct{ sent, heard string }{
		{ping, ping},
		{"{\n\"id\":\r\n1}", `{ "id":  1}`},
		{"[" + ping + "]", "[" + ping + "]"},
		{`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, `{"x":"` + strings.Repeat("x", 1<<20) + `"}`},
	} {
		sent := make(chan error, 1)
		go func() {
			stream, err := c.Send(t.Context(), &Outgoing{Body: []byte(m.sent), Request: true})
			if stream != nil {
				err = errors.New("a stream of its own")
			}
			sent <- err
		}()
		wantNext(t, s, m.heard)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Listen(t.Context(), ListenOptions{}); !errors.Is(err, errListenTwice) {
		t.Errorf("listened twice: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := First(s); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != ErrClosed {
		t.Errorf("sent after Close: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestMessagesOfManySendersStayWhole(t *testing.T) {
	c := start(t, role("echo"))
	s := hear(t, c)
	var senders sync.WaitGroup
	want := map[string]bool{}
	for i := range 50 {
		m := fmt.Sprintf(`{"id":%d,"x":"%s"}`, i, strings.Repeat("x", i*1000))
		want[m] = true
		senders.Go(func() {
			if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(m)}); err != nil {
				t.Error(err)
			}
		})
	}
	for len(want) > 0 {
		e, err := First(s)
		if err != nil || !want[string(e.Data)] {
			t.Fatalf("%.100q, %v", e.Data, err)
		}
		delete(want, string(e.Data))
	}
	senders.Wait()
}

func TestChildThatCannotBeStarted(t *testing.T) {
	peertest.NoLeaks(t)
	for _, command := range [][]string{nil, {"dragoman-no-such-program", "s3cr3t"}, {os.TempDir(), "s3cr3t"}} {
		c, err := Stdio{Command: command}.Start(t.Context())
		if c != nil || err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v: %v", command, err)
		}
		if len(command) > 0 && !strings.HasPrefix(err.Error(), "upstream "+command[0]+": start: ") {
			t.Errorf("error %q", err)
		}
	}
}

// TestChildInNoDirectory: the error names the directory, and not the program, which is there.
func TestChildInNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/no/such", file} {
		_, err := Stdio{Command: []string{os.Args[0]}, Dir: dir}.Start(t.Context())
		if at, ok := errors.AsType[*fs.PathError](err); !ok || at.Op != "chdir" || at.Path != dir {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestChildThatEnds(t *testing.T) {
	for _, c := range []struct {
		role, first, status, stderr string
	}{
		{"exits at start", "", "exit status 3", "cannot find module"},
		{"exits in mid-call", answer, "exit status 7", ""},
	} {
		t.Run(c.role, func(t *testing.T) {
			child := start(t, role(c.role))
			s := hear(t, child)
			sent := make(chan error, 1)
			go func() {
				_, err := child.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
				for err == nil { // until the end is known here, too
					_, err = child.Send(t.Context(), &Outgoing{Body: []byte(ping)})
				}
				sent <- err
			}()
			if c.first != "" {
				wantNext(t, s, c.first)
				wantNext(t, s, `{"jsonrpc":`) // whether it is whole is not for us to say
			}
			for range 2 {
				_, err := First(s)
				wantExit(t, err, c.status, c.stderr)
			}
			wantExit(t, <-sent, c.status, c.stderr)
		})
	}
}

func wantExit(t *testing.T, err error, status, stderr string) {
	t.Helper()
	var e *ExitError
	if !errors.As(err, &e) {
		t.Fatalf("ended with %v", err)
	}
	if e.Lived <= 0 || e.Command != os.Args[0] || e.Status != status || e.Stderr != stderr || strings.Contains(e.Error(), "s3cr3t") {
		t.Errorf("ended with %q, status %q, stderr %q after %v", e, e.Status, e.Stderr, e.Lived)
	}
}

func TestChildrenAreStartedAgain(t *testing.T) {
	peertest.NoLeaks(t)
	s := role("exits at start")
	for range 10 {
		c, err := s.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = First(hear(t, c))
		wantExit(t, err, "exit status 3", "cannot find module")
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c := start(t, role("echo")) // and one that fares better
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != nil {
		t.Error(err)
	}
	wantNext(t, hear(t, c), ping)
}

func TestChildThatClosesAPipe(t *testing.T) {
	for name, want := range map[string]error{"closes its input": errClosedIn, "closes its output": errClosedOut} {
		t.Run(name, func(t *testing.T) {
			s := role(name)
			s.CloseGrace, s.TermGrace = time.Millisecond, time.Millisecond
			c := start(t, s)
			stream := hear(t, c)
			wantNext(t, stream, "{}")
			if name == "closes its input" {
				if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); !errors.Is(err, want) {
					t.Errorf("sent with %v", err)
				}
			}
			if _, err := First(stream); !errors.Is(err, want) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestListenCanBeCancelled(t *testing.T) {
	for _, how := range []string{"close", "cancel"} {
		c := start(t, role("echo"))
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.Listen(ctx, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := First(s); ended <- err }()
		want := ErrClosed
		if how == "cancel" {
			want = context.Canceled
			cancel()
		} else {
			s.Close()
		}
		if err := <-ended; err != want {
			t.Errorf("%s: ended with %v", how, err)
		}
		cancel()
		s.Close()
	}
}

func TestChildThatIgnoresSIGTERMIsKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM here")
	}
	s := role("ignores TERM")
	s.CloseGrace, s.TermGrace = time.Millisecond, 20*time.Millisecond
	c := start(t, s)
	wantNext(t, hear(t, c), "{}")
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if c.exit.Status != "signal: killed" {
		t.Errorf("ended with %v", c.exit)
	}
}

func TestChildGetsSIGTERMBeforeSIGKILL(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM here")
	}
	s := role("ends on TERM")
	s.CloseGrace = time.Millisecond
	c := start(t, s)
	wantNext(t, hear(t, c), "{}")
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if c.exit.Status != "exit status 5" {
		t.Errorf("ended with %v", c.exit)
	}
}

func TestStderrIsReadLineByLine(t *testing.T) {
	s := role("floods stderr")
	var lines, long, other atomic.Int32
	s.StderrLine = func(line []byte) {
		switch {
		case len(line) == maxStderrLine+len(ellipsis) && strings.Trim(string(line), "x") == ellipsis:
			long.Add(1)
		case string(line) == "short" || string(line) == "no end":
			lines.Add(1)
		default:
			other.Add(1)
		}
	}
	c := start(t, s)
	stream := hear(t, c)
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != nil {
		t.Fatal(err)
	}
	wantNext(t, stream, ping)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if long.Load() != 200 || lines.Load() != 201 || other.Load() != 0 {
		t.Errorf("%d long lines, %d short, %d others", long.Load(), lines.Load(), other.Load())
	}
	if c.exit.Stderr != "no end" {
		t.Errorf("last line on stderr %q", c.exit.Stderr)
	}
}

func TestNoiseIsSkipped(t *testing.T) {
	spec := role("some noise")
	var skipped []string
	spec.Skipped = func(line []byte) { skipped = append(skipped, string(line)) }
	c := start(t, spec)
	stream := hear(t, c)
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(" " + ping)}); err != nil {
		t.Fatal(err)
	}
	wantNext(t, stream, ping)
	if n := c.Noise(); n != 2 {
		t.Errorf("%d lines of noise", n)
	}
	c.stop(nil)
	_, err := First(stream) // no limit behind the first message
	wantExit(t, err, "exit status 0", "")
	if n := c.Noise(); n != 2002 || len(skipped) != 2002 || !slices.Equal(skipped[:3], []string{"> server@1.0 start", "listening", "bye"}) {
		t.Errorf("%d lines of noise, %d seen: %q", n, len(skipped), skipped[:min(len(skipped), 3)])
	}
}

// TestLinesThatMayBeMessages: a line that begins with a bracket is a batch only if an array of values follows.
func TestLinesThatMayBeMessages(t *testing.T) {
	for line, want := range map[string]bool{
		`{"jsonrpc":"2.0"}`: true, " \t{": true, `[{"jsonrpc":"2.0"}]`: true, "[ {": true, "[]": true, "[": false, "[[]]": true,
		"[INFO] listening": false, "[12:00:01] ready": false, "[2026-01-01T00:00:00Z]": false, "[\x1b[32minfo\x1b[0m]": false,
		"": false, " ": false, "listening on {port}": false, `"text"`: false, "null": false,
	} {
		if got := isMessage([]byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// TestSilentChildIsReported: a child that writes no message is reported after a while, with the lines
// that it has written. A child that has written a message is not.
func TestSilentChildIsReported(t *testing.T) {
	noticed := make(chan *MuteError, 2)
	spec := role("some noise")
	spec.MuteTime, spec.Mute = 200*time.Millisecond, func(e *MuteError) { noticed <- e }
	c := start(t, spec)
	stream := hear(t, c)
	select {
	case e := <-noticed:
		t.Logf("%v", e)
		if e.Command != c.name || e.Waited < spec.MuteTime || len(e.Said) > maxSaid || e.Lines < len(e.Said) {
			t.Errorf("%+v", e)
		}
	case <-time.After(patience):
		t.Fatal("it was not noticed")
	}
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(" " + ping)}); err != nil {
		t.Fatal(err)
	}
	wantNext(t, stream, ping)
	if e := c.Mute(); e != nil {
		t.Errorf("still mute: %v", e)
	}
}

func TestTooMuchNoiseIsAnError(t *testing.T) {
	s := role("noise for ever")
	s.CloseGrace, s.TermGrace = time.Millisecond, time.Millisecond
	c := start(t, s)
	_, err := First(hear(t, c))
	var noise *NoiseError
	if !errors.As(err, &noise) || noise.Lines != maxNoiseLines+1 || len(noise.First) != maxQuote+len(ellipsis) || !strings.HasPrefix(noise.First, "noisy x") {
		t.Fatalf("ended with %v", err)
	}
	for err = nil; err == nil; {
		_, err = c.Send(t.Context(), &Outgoing{Body: []byte(ping)})
	}
	var exit *ExitError
	if !errors.As(err, &exit) || !errors.As(err, &noise) {
		t.Errorf("sent with %v", err)
	}
}

func TestLineOverTheLimit(t *testing.T) {
	s := role("a line of 1 MB")
	s.MaxMessage = 1 << 20
	c := start(t, s)
	stream := hear(t, c)
	_, err := First(stream)
	var large *TooLargeError
	if !errors.As(err, &large) || large.Limit != 1<<20 {
		t.Errorf("ended with %v", err)
	}
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != nil {
		t.Fatal(err)
	}
	wantNext(t, stream, ping)
}

func TestChildGetsNoOtherEnvironment(t *testing.T) {
	t.Setenv("DRAGOMAN_TEST_SECRET", "s3cr3t")
	s := role("says what it knows")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Dir = dir
	if s.Command[0], err = filepath.Abs(s.Command[0]); err != nil {
		t.Fatal(err)
	}
	n := 1
	if runtime.GOOS == "windows" {
		n = 2 // SYSTEMROOT, without which little works
	}
	wantNext(t, hear(t, start(t, s)), fmt.Sprintf(`{"dir":%q,"variables":%d}`, dir, n))
}

// pidIn reads the process id that a child sends.
func pidIn(t *testing.T, s Stream) int {
	t.Helper()
	e, err := First(s)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Trim(string(e.Data), `{}":pid`))
	if err != nil {
		t.Fatalf("%q: %v", e.Data, err)
	}
	return pid
}

// alive reports whether there is such a process that is not a zombie.
func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, ok := strings.Cut(string(stat), ") ")
		return err == nil && ok && state[0] != 'Z'
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func TestWhatTheChildHasStartedEndsWithIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process groups here")
	}
	c := start(t, role("has a child that stays"))
	pid := pidIn(t, hear(t, c))
	if !alive(pid) {
		t.Fatal("it never lived")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	peertest.Eventually(t, "grandchild killed", func() bool { return !alive(pid) })
}

// TestWhatTheChildHasStartedDiesWithItsGrandparent, which is killed and can do nothing
// any more. The grandchild ignores SIGTERM.
func TestWhatTheChildHasStartedDiesWithItsGrandparent(t *testing.T) {
	c, program := startProgram(t, role("starts one with a child that stays, and waits"))
	pid := pidIn(t, hear(t, c))
	if !alive(pid) {
		t.Fatal("it never lived")
	}
	if err := program.Kill(); err != nil {
		t.Fatal(err)
	}
	peertest.Eventually(t, "grandchild of the killed one is gone", func() bool { return !alive(pid) })
}

func TestChildDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can promise it")
	}
	c, program := startProgram(t, role("starts one and waits"))
	pid := pidIn(t, hear(t, c))
	if err := program.Kill(); err != nil {
		t.Fatal(err)
	}
	peertest.Eventually(t, "child of the killed one is gone", func() bool { return !alive(pid) })
}
