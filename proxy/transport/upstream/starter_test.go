package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// goroutine returns a Starter for a child that is a goroutine. It gets the other ends, and what it returns is the child's status. The
// child can be asked to end by closing its input, and by nothing else; killed is closed when it is ended by force.
func goroutine(run func(in *bufio.Reader, out, complaint io.Writer, killed <-chan struct{}) error) func(*Stdio) (*Process, error) {
	return func(*Stdio) (*Process, error) {
		in, toChild := net.Pipe()
		fromChild, out := net.Pipe()
		heard, complaint := io.Pipe()
		killed, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			err := run(bufio.NewReader(in), out, complaint, killed)
			in.Close()
			out.Close()
			complaint.Close()
			ended <- err
		}()
		return &Process{
			In: toChild, Out: fromChild, Err: heard,
			Wait:      func() error { return <-ended },
			Terminate: func() bool { return false },
			Kill:      func() { close(killed) },
			Release:   func() {},
		}, nil
	}
}

// TestAStarterReplacesTheSystem: what a child is told, says and complains of, and how it ends, is as with a program, in a bubble.
func TestAStarterReplacesTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := errors.New("exit status 3")
		s := Stdio{Command: []string{"no such program"}, Starter: goroutine(func(in *bufio.Reader, out, complaint io.Writer, _ <-chan struct{}) error {
			line, err := in.ReadString('\n')
			if err != nil {
				return err
			}
			io.WriteString(complaint, "I am unwell\n")
			io.WriteString(out, line)
			return crash
		})}
		c, err := s.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		st := hear(t, c)
		if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(`{"id":1}`), Request: true}); err != nil {
			t.Fatal(err)
		}
		wantNext(t, st, `{"id":1}`)
		_, err = First(st)
		if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Status != crash.Error() || !strings.Contains(exit.Error(), "I am unwell") {
			t.Errorf("it ended with %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAChildInABubbleIsEndedByForce after the times that a program has, as it reads nothing.
func TestAChildInABubbleIsEndedByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Stdio{Command: []string{"deaf"}, CloseGrace: time.Hour, Starter: goroutine(func(_ *bufio.Reader, _, _ io.Writer, killed <-chan struct{}) error {
			<-killed
			return errors.New("signal: killed")
		})}
		c, err := s.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it took %v", took)
		}
	})
}

// TestAStarterFails: its error is that of Start.
func TestAStarterFails(t *testing.T) {
	full := errors.New("the world is full")
	s := Stdio{Command: []string{"x"}, Starter: func(*Stdio) (*Process, error) { return nil, full }}
	if _, err := s.Start(t.Context()); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

// TestWhatWasSentComesBeforeTheEnd of the input: a notification may wait for the writer when the child is told to end.
func TestWhatWasSentComesBeforeTheEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var read string
			s := Stdio{Command: []string{"reads"}, Starter: goroutine(func(in *bufio.Reader, _, _ io.Writer, _ <-chan struct{}) error {
				all, err := io.ReadAll(in)
				read = string(all)
				return err
			})}
			c, err := s.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(`{"method":"notifications/cancelled"}`)}); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if read != "{\"method\":\"notifications/cancelled\"}\n" {
				t.Errorf("it read %q", read)
			}
		})
	}
}
