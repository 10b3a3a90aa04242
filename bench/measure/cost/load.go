package cost

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// connections is how many clients share the calls of a rate.
const connections = 32

// curve is the latency of small calls on one way, by rate.
type curve struct {
	way    string
	points []point
}

// point is one rate. Its latencies are in µs.
type point struct {
	rate     int
	p50, p99 float64
	kept     bool // whether the rate was kept
	cpu      float64
}

// measureLoad makes small calls at fixed rates between two sides that speak HTTP, and in front of a server on stdio where
// other proxies have nothing else. A way that cannot keep a rate is not asked for a higher one.
func (l launcher) measureLoad(ctx context.Context, slice time.Duration, rates []int, n *installed) (curves []curve, err error) {
	speaks := translate.Handshake()[1]
	server, err := l.server(ctx, "http", speaks, 50)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	g, err := l.betweenHTTP(ctx, server.URL(), speaks, &installed{})
	defer func() { closeAll(g.ways) }()
	if err != nil {
		return nil, err
	}
	if len(n.files) > 0 {
		more, err := l.toStdio(ctx, "", speaks, &installed{node: n.node, files: map[string]string{"mcp-proxy": n.files["mcp-proxy"], "supergateway": n.files["supergateway"]}})
		for i, w := range more.ways {
			w.name += " before a command"
			if i == 0 || err != nil {
				w.close()
				continue
			}
			g.ways = append(g.ways, w)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, w := range g.ways {
		c, err := w.atRates(ctx, slice, rates)
		if _, foreign := n.files[firstWord(w.name)]; err != nil && foreign {
			n.skip(w.name, fmt.Sprintf("at fixed rates: %.120s", err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		curves = append(curves, c)
	}
	return curves, nil
}

func (w *way) atRates(ctx context.Context, slice time.Duration, rates []int) (curve, error) {
	c := curve{way: w.name}
	callers, err := w.ready(ctx, small, connections)
	if err != nil {
		return c, err
	}
	calls := make([]func() error, len(callers))
	for i, one := range callers {
		calls[i] = func() error { return one.do(one.call) }
	}
	for _, rate := range rates {
		before, err := w.cpu()
		if err != nil {
			return c, err
		}
		r, err := openLoop(ctx, rate, slice, calls)
		if err != nil {
			return c, fmt.Errorf("%d calls a second: %w", rate, err)
		}
		after, err := w.cpu()
		if err != nil {
			return c, err
		}
		p := point{rate: rate, kept: r.kept(), p50: float64(r.latency.Quantile(0.5)) / 1e3, p99: float64(r.latency.Quantile(0.99)) / 1e3,
			cpu: float64((after - before).Nanoseconds()) / 1e3 / float64(max(r.made, 1))}
		c.points = append(c.points, p)
		if !p.kept {
			break
		}
	}
	return c, nil
}
