package report

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

func observed(t *testing.T) (*Reporter, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg := config.Default()
	none := func() float64 { return 0 }
	return New(zap.New(core), metrics.New("v0", none, none), "v0", func() Setup {
		return Setup{Config: &cfg, Server: "http://s/mcp", Secrets: secret.Known{Configured: secret.NewSet("the-secret-of-the-file")}}
	}), logs
}

// TestRepeatedFailuresAreOneLine: the first failure of a kind is logged at once, and later ones in
// one line.
func TestRepeatedFailuresAreOneLine(t *testing.T) {
	r, logs := observed(t)
	for n := range 5 {
		r.ServerFailed("request failed", failures.Refused, fmt.Errorf("number %d with the-secret-of-the-file", n), nil)
	}
	r.Flush()
	at := logs.All()
	if len(at) != 2 || at[0].ContextMap()["repeated"] != nil || at[1].ContextMap()["repeated"] != int64(4) || at[1].ContextMap()["error"] != "number 4 with [redacted]" {
		t.Errorf("%v", at)
	}
}

func TestFailureIsReportedOnce(t *testing.T) {
	r, logs := observed(t)
	f := r.Failed(mcp.Fail(mcp.UpstreamSilent, ""), At{Method: "tools/call"})
	if again := r.Failed(f, At{Method: "tools/call"}); again.Why != string(failures.StreamClosed) || !again.Reported {
		t.Errorf("%+v", again)
	}
	r.Flush()
	if n := logs.Len(); n != 1 {
		t.Errorf("%d lines: %v", n, logs.All())
	}
}

func TestContainedPanicIsLogged(t *testing.T) {
	r, logs := observed(t)
	if r.Contained(func() { panic("oops") }) || !r.Contained(func() {}) {
		t.Error("a task that panics has not returned")
	}
	lines := logs.FilterMessage("panic").All()
	if len(lines) != 1 || lines[0].ContextMap()["panic"] != "oops" || lines[0].ContextMap()["version"] != "v0" {
		t.Errorf("%v", lines)
	}
}
