package tests

import (
	"context"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestNoDrainForAClientThatHasLeft: calls that are open when a client on stdio leaves have the drain time only as long as it may read their
// answers: not once it has closed its end of stdout, nor once it has closed stdin and asked for the end by a signal.
func TestNoDrainForAClientThatHasLeft(t *testing.T) {
	type client struct {
		in, out io.Closer
		signal  func()
		noticed func() // waits until dragoman has noticed the end of in
	}
	for name, leave := range map[string]func(client){
		"closes stdout":                 func(c client) { c.out.Close() },
		"dies":                          func(c client) { c.in.Close(); c.out.Close() },
		"closes stdin, and then stdout": func(c client) { c.in.Close(); c.noticed(); c.out.Close() },
		"closes stdin, and signals":     func(c client) { c.in.Close(); c.noticed(); c.signal() },
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" && name != "closes stdin, and signals" {
				t.Skip("is not noticed on this system")
			}
			f := newFake(initializing("2025-06-18", nil))
			called := make(chan struct{})
			f.on("tools/call", func(*peertest.Turn) { close(called) })
			f.piped = true
			srv := front(t, f, func(cfg *config.Config) { cfg.Shutdown.Drain = time.Hour })
			theirs, in := pipeOf(t)
			out, ours := pipeOf(t)
			ctx, signal := context.WithCancel(context.Background())
			defer signal()
			ended := make(chan error, 1)
			go func() { ended <- srv.ServePipe(ctx, theirs, ours) }()
			say := func(line string) {
				t.Helper()
				if _, err := io.WriteString(in, line+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			say(initialize("2025-06-18", `{}`))
			say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			say(callOne)
			<-called
			leave(client{in, out, signal, func() {
				peertest.Eventually(t, "dragoman waits for answers alone", func() bool { return goroutineIn("pipe.(*stdioPipe).finish") })
			}})
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("still there")
				signal()
			}
		})
	}
}

func pipeOf(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
