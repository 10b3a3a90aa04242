package restart

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestCallOfAReplacedSession: its failure says that the session was lost, and does not end the one in its place.
func TestCallOfAReplacedSession(t *testing.T) {
	_, err := new(HTTP).Resume(t.Context(), 1, upstream.ListenOptions{LastEventID: "e"})
	if f := report.FailureOf(err); f.Cause != mcp.UpstreamRestarted || failures.Of(err) != failures.SessionLost {
		t.Errorf("%v: %v, %s", err, f, failures.Of(err))
	}
}
