package restart

import (
	"io"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/server"
)

// TestProcessThatEndsWhileItsPipeIsClosed: that recall has noticed the end of the session first, does not matter to the reader.
func TestProcessThatEndsWhileItsPipeIsClosed(t *testing.T) {
	for _, most := range []int{0, 5} {
		r := &Pipe{state: processGone, ready: make(chan struct{}), backoff: server.Backoff{Max: most}}
		close(r.ready)
		if r.noteEnd(io.EOF) || r.state != processGone {
			t.Errorf("at most %d restarts: the state is %d, and another process is started", most, r.state)
		}
	}
}
