package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
)

func TestStdioDeliversMessagesInOrder(t *testing.T) {
	in := "{\"a\":1}\n\n{\"b\":2}\r\n" + strings.Repeat("x", 100) + "\n{\"c\":3}"
	var got []string
	s := NewStdio(StdioConfig{
		In: strings.NewReader(in), Out: io.Discard, MaxMessage: 20,
		TooLong: func(e *lines.TooLongError) { got = append(got, fmt.Sprint("too long ", e.Length)) },
	})
	if err := s.Run(context.Background(), func(line []byte) { got = append(got, string(line)) }); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"a":1}`, `{"b":2}`, "too long 100", `{"c":3}`}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStdioPassesTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	s := NewStdio(StdioConfig{In: iotest.ErrReader(broken), Out: io.Discard})
	if err := s.Run(context.Background(), func([]byte) {}); !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
}

// TestStdioEndsWithItsContext on sources that never end. It leaves no goroutine if the
// read can be interrupted.
func TestStdioEndsWithItsContext(t *testing.T) {
	osRead, osWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ioRead, ioWrite := io.Pipe()
	here, there := net.Pipe()
	for _, c := range []struct {
		name string
		in   io.ReadCloser
		out  io.WriteCloser
	}{{"os.Pipe", osRead, osWrite}, {"io.Pipe", ioRead, ioWrite}, {"net.Pipe", here, there}} {
		t.Run(c.name, func(t *testing.T) {
			defer c.in.Close()
			defer c.out.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := NewStdio(StdioConfig{In: c.in, Out: io.Discard})
			got := make(chan string, 1)
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx, func(line []byte) { got <- string(line) }) }()
			if _, err := io.WriteString(c.out, "{}\n"); err != nil {
				t.Fatal(err)
			}
			if line := recv(t, got, "the line"); line != "{}" {
				t.Errorf("got %q", line)
			}
			cancel()
			if err := recv(t, done, "Run"); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
			nothingLeft(t)
		})
	}
}

// stuck is a source that nothing can interrupt, as a terminal is.
type stuck struct{ until chan struct{} }

func (s stuck) Read(p []byte) (int, error) {
	<-s.until
	return copy(p, "{}\n"), nil
}

func TestStdioHandlesNothingAfterRun(t *testing.T) {
	in := stuck{make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := NewStdio(StdioConfig{In: in, Out: io.Discard})
	if err := s.Run(ctx, func([]byte) { t.Error("handled after Run") }); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	close(in.until)
	nothingLeft(t)
}

func TestStdioWritesOneLine(t *testing.T) {
	var out bytes.Buffer
	s := NewStdio(StdioConfig{In: strings.NewReader(""), Out: &out})
	if err := s.Write([]byte("{\n  \"a\": 1\r\n}")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "{   \"a\": 1  }\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStdioRefusesWhatComesBehind: what a client has written behind a message that is handled when the context of Run ends, and what it writes until
// Stop, is refused.
func TestStdioRefusesWhatComesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := net.Pipe()
		defer out.Close()
		got := make(chan string, 9)
		s := NewStdio(StdioConfig{In: in, Out: io.Discard, Refuse: func(line []byte) { got <- "refused " + string(line) }})
		ctx, cancel := context.WithCancel(context.Background())
		goOn, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- s.Run(ctx, func(line []byte) {
				<-goOn
				got <- "handled " + string(line)
			})
		}()
		go io.WriteString(out, "1\n2\n")
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(done)+len(got) > 0 {
			t.Fatal("it does not wait for what is handled")
		}
		close(goOn)
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		go io.WriteString(out, "3\n")
		synctest.Wait()
		go io.WriteString(out, "4\n")
		s.Stop()
		close(got)
		var all []string
		for line := range got {
			all = append(all, line)
		}
		if want := "[handled 1 refused 2 refused 3 refused 4]"; fmt.Sprint(all) != want {
			t.Errorf("%s, want %s", all, want)
		}
		out.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(out, "5\n"); err == nil {
			t.Error("it reads on")
		}
	})
}
