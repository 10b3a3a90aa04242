package adapters

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// nothing is an input that is closed at once.
type nothing struct{ io.Writer }

func (nothing) Close() error { return nil }

// TestCommandsRunInTheWorld of the server: what one prints is returned, and one that does not end is ended with its time.
func TestCommandsRunInTheWorld(t *testing.T) {
	if runIn(origin.World{}) != nil {
		t.Error("programs of the operating system are run otherwise")
	}
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("exit status 1")
		run := runIn(origin.World{Start: func(s *upstream.Stdio) (*upstream.Process, error) {
			out, said := io.Pipe()
			killed := make(chan struct{})
			go func() {
				if s.Command[0] == "hangs" {
					<-killed
				}
				io.WriteString(said, strings.Join(s.Command, " "))
				said.Close()
			}()
			return &upstream.Process{
				In: nothing{}, Out: out, Err: io.NopCloser(strings.NewReader("a complaint")),
				Wait: func() error {
					if s.Command[0] == "fails" {
						return refused
					}
					return nil
				},
				Kill: func() { close(killed) }, Release: func() {},
			}, nil
		}})
		if text, err := run(t.Context(), []string{"print", "token"}); string(text) != "print token" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := run(t.Context(), []string{"fails"}); err != refused {
			t.Errorf("%v", err)
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := run(limited, []string{"hangs"}); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
