package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// pair is what dragoman adds between clients and servers of two revisions on a transport.
type pair struct {
	transport      string
	client, server *translate.Revision
	added          [kinds]added
}

// added is the difference between a way and the direct one, in µs.
type added struct{ p50, p99, cpu float64 }

func difference(w, direct *way, kind int) added {
	a, b := &w.cells[kind], &direct.cells[kind]
	return added{a.quantile(0.5) - b.quantile(0.5), a.quantile(0.99) - b.quantile(0.99), a.cpuPerCall()}
}

// measurePairs measures all pairs on both kinds of transports. The direct client speaks the server's revision.
func (l launcher) measurePairs(ctx context.Context, slice time.Duration, revisions []*translate.Revision) (all []pair, err error) {
	for _, transport := range []string{overPipe, remote} {
		for _, server := range revisions {
			some, err := l.measureServer(ctx, slice, transport, server, revisions)
			if err != nil {
				return nil, fmt.Errorf("%s, server of %s: %w", transport, server.Name, err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

func (l launcher) measureServer(ctx context.Context, slice time.Duration, transport string, server *translate.Revision, revisions []*translate.Revision) ([]pair, error) {
	ways, err := l.waysTo(ctx, transport, server, revisions)
	defer func() {
		for _, w := range ways {
			w.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := measure(ctx, ways, slice); err != nil {
		return nil, err
	}
	var list []pair
	for i, client := range revisions {
		p := pair{transport: transport, client: client, server: server}
		for kind := range kinds {
			p.added[kind] = difference(ways[i+1], ways[0], kind)
		}
		list = append(list, p)
	}
	return list, nil
}

// waysTo starts a server, the direct way to it and one through dragoman for each revision of clients. After an error,
// the result has what was started before.
func (l launcher) waysTo(ctx context.Context, transport string, server *translate.Revision, revisions []*translate.Revision) (ways []*way, err error) {
	if transport == overPipe {
		command := l.serverCommand(server)
		w, err := l.pipe(ctx, "direct", server, command)
		if err != nil {
			return nil, err
		}
		w.pid = 0
		ways = append(ways, w)
		for _, client := range revisions {
			w, err := l.pipe(ctx, "dragoman, client of "+client.Name, client, append([]string{l.dragoman, "stdio", "--"}, command...))
			if err != nil {
				return ways, err
			}
			ways = append(ways, w)
		}
		return ways, nil
	}
	p, err := l.server(ctx, roleOf(server), server, 50)
	if err != nil {
		return nil, err
	}
	ways = []*way{{name: "direct", dial: dialer(p.URL(), server), stop: p.Stop}}
	for _, client := range revisions {
		d, err := l.serve(ctx, "--upstream", p.URL(), "--upstream-transport", roleOf(server))
		if err != nil {
			return ways, err
		}
		ways = append(ways, &way{name: "dragoman, client of " + client.Name, dial: dialer(endpoint(d.URL(), client), client), pid: d.PID(), stop: d.Stop})
	}
	for _, w := range ways {
		if err := w.connect(ctx); err != nil {
			return ways, err
		}
	}
	return ways, nil
}

// endpoint returns where clients of a revision connect to dragoman at url.
func endpoint(url string, client *translate.Revision) string {
	if roleOf(client) == "sse" {
		return strings.TrimSuffix(url, "/mcp") + "/sse"
	}
	return url
}
