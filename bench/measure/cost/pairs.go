package cost

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
	added          []added // of a small call, and of a list
}

// added is the difference between a way and the direct one, in µs.
type added struct{ p50, p99, cpu float64 }

func difference(w, direct *way, kind int) added {
	a, b := w.cell(kind, 1), direct.cell(kind, 1)
	return added{a.quantile(0.5) - b.quantile(0.5), a.quantile(0.99) - b.quantile(0.99), a.cpuPerCall()}
}

const (
	overPipe = "stdio"
	remote   = "network" // HTTP+SSE for the revision that has nothing else, Streamable HTTP for all others
)

// timedKinds returns the names of the kinds of calls that are measured between all pairs.
func timedKinds() []string {
	names := kindNames()
	return names[:list+1]
}

// inTurns measures small calls and lists of one client on each way, for the length of slice in all.
func inTurns(ctx context.Context, ways []*way, slice time.Duration) error {
	const rounds = 4
	return measure(ctx, ways, []int{small, list}, []int{1}, rounds, slice/rounds)
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
	defer func() { closeAll(ways) }()
	if err != nil {
		return nil, err
	}
	if err := inTurns(ctx, ways, slice); err != nil {
		return nil, err
	}
	var all []pair
	for i, client := range revisions {
		p := pair{transport: transport, client: client, server: server}
		for _, kind := range []int{small, list} {
			p.added = append(p.added, difference(ways[i+1], ways[0], kind))
		}
		all = append(all, p)
	}
	return all, nil
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
		ways = append(ways, through("dragoman, client of "+client.Name, d, dialer(endpoint(d.URL(), client), client)))
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
