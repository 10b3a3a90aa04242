package main

import (
	"context"
	"net"
	"os"
	"os/exec"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
)

// The ways through dragoman with traces: of one in twenty calls, and of all.
const (
	someTraced = dragoman + ", 5 % of traces"
	allTraced  = dragoman + ", all traces"
)

// tracing is what traces cost: the same calls without them and with them, in turns.
type tracing struct {
	ways     []*way
	measured map[key]*cell
}

// measureTracing measures small calls through dragoman without and with traces. The collector takes whatever it is sent.
func (l launcher) measureTracing(ctx context.Context, p plan, server string, list []work) (*tracing, error) {
	collector, err := l.role(ctx, "collector", "")
	if err != nil {
		return nil, err
	}
	defer collector.Stop()
	m := new(tracing)
	defer func() { stopAll(m.ways) }()
	for _, c := range []struct{ name, sampler, share string }{
		{dragoman, "", ""}, {someTraced, "traceidratio", "0.05"}, {allTraced, "always_on", ""},
	} {
		cmd := exec.Command(l.dragoman, "serve", "--upstream", server, "--listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN=")
		if c.name != dragoman {
			cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+collector.URL(), "OTEL_TRACES_SAMPLER="+c.sampler, "OTEL_TRACES_SAMPLER_ARG="+c.share)
		}
		started, err := process.Start(ctx, cmd)
		w, err := newWay(c.name, started, err)
		if err != nil {
			return nil, err
		}
		m.ways = append(m.ways, w)
	}
	m.measured, err = measure(ctx, p, m.ways, list[:small+1])
	return m, err
}

// goals returns the processor time of small calls with traces as a multiple of that without.
func (m *tracing) goals() []goal {
	busy := loads()[len(loads())-1]
	cpu := func(name string) float64 {
		return m.measured[key{name, small, busy}].cpuPerCall() / m.measured[key{dragoman, small, busy}].cpuPerCall()
	}
	return []goal{
		{"CPU per small call, 5 % of traces, × without", cpu(someTraced), 1.03, 1.05},
		{"CPU per small call, all traces, × without", cpu(allTraced), 1.3, 1.5},
	}
}

// serveCollector takes whatever it is sent.
func serveCollector(ctx context.Context, ln net.Listener, _ string) error {
	return proxies.ServeHTTP(ctx, ln, func(c *fasthttp.RequestCtx) {})
}
