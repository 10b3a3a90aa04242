package pipe

import (
	"context"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
)

// TestPanicBehindAPipeEndsThePipe: otherwise the client would wait forever.
func TestPanicBehindAPipeEndsThePipe(t *testing.T) {
	none := func() float64 { return 0 }
	core, logs := observer.New(zap.DebugLevel)
	h := host.New(zap.New(core), metrics.New("v0", none, none), nil, "v0", func() report.Setup { return report.Setup{} })
	p := &pipe{proxy: &clients.Proxy{Table: &session.Table{Host: h}}}
	p.ctx, p.fail = context.WithCancelCause(t.Context())
	p.spawn(func() { panic("oh") })
	p.tasks.Wait()
	if err := context.Cause(p.ctx); err == nil || report.FailureOf(err).Cause != mcp.Panicked {
		t.Errorf("ended by %v", err)
	}
	if logs.FilterMessage("panic").Len() != 1 {
		t.Error("not told")
	}
}
