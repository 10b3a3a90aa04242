package pipes

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestStreamOfARequestThatWaitsIsRecalled: while the server is busy, a request that is given up is taken back, or cancelled behind what
// was written of it. Once the server has it, it is cancelled at once, and not twice.
func TestStreamOfARequestThatWaitsIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, theirs := net.Pipe()
		out, said := net.Pipe()
		stderr, none := net.Pipe()
		ended := make(chan struct{})
		kill := sync.OnceFunc(func() {
			close(ended)
			for _, end := range []net.Conn{theirs, said, none} {
				end.Close()
			}
		})
		child, err := upstream.Stdio{Command: []string{"server"}, Starter: func(*upstream.Stdio) (*upstream.Process, error) {
			return &upstream.Process{
				In: in, Out: out, Err: stderr, Wait: func() error { <-ended; return nil },
				Terminate: func() bool { kill(); return true }, Kill: kill, Release: func() {},
			}, nil
		}}.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		standing, err := child.Listen(t.Context(), upstream.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
		l := Open(child, standing, nil, config.Limits{Queue: 10, Batch: 10}, o)
		var waiting upstream.Waiting
		request := func() *Stream {
			st, err := l.Request(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call"}`), Request: true, Waits: &waiting})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		recall := func(st *Stream) string {
			id, _ := l.RecallStream(st, "", nil)
			return id
		}
		first, second := request(), request()
		begun := make([]byte, 1)
		if _, err := theirs.Read(begun); err != nil {
			t.Fatal(err)
		}
		if id := recall(first) + recall(second); id != "" {
			t.Errorf("%s is cancelled before the server has it", id)
		}
		var got []string
		go func() {
			for lines := bufio.NewScanner(io.MultiReader(bytes.NewReader(begun), theirs)); lines.Scan(); {
				got = append(got, lines.Text())
			}
		}()
		synctest.Wait()
		third := request()
		if id := recall(first) + recall(second) + recall(third) + recall(third); id != "3" {
			t.Errorf("cancelled now: %q, want 3", id)
		}
		synctest.Wait()
		want := []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
		kill()
		_ = l.Close(context.Background())
		o.tasks.Wait()
	})
}
