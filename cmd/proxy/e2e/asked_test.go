package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestEachUserGetsOnlyTheQuestionsOfItsCalls makes three clients call a tool that asks its user something, at once and several times
// each. No user may get the question of another, and every answer must come back to its call, whatever the eras on the
// two sides are and whether or not the server says for which call it asks.
func TestEachUserGetsOnlyTheQuestionsOfItsCalls(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	proxy := build(t)
	legacy := map[string]any{"sdk": filepath.Join(string(m), "sdk-1.32.2"), "revision": "2025-11-25"}
	legacy2 := map[string]any{"sdk": filepath.Join(string(m), "@modelcontextprotocol", "client"), "mode": "legacy"}
	modern := map[string]any{"sdk": filepath.Join(string(m), "@modelcontextprotocol", "client"), "mode": pinned(newest)}
	rows := []struct {
		name    string
		over    transport
		clients []map[string]any // three that call at once
	}{
		{"with sessions", streamable, []map[string]any{legacy, legacy2, legacy}},
		{"with sessions", withSSE, []map[string]any{legacy, legacy2, legacy}},
		{"without sessions", streamable, []map[string]any{modern, modern, modern}},
		{"of both eras", streamable, []map[string]any{modern, legacy, modern}},
	}
	servers := []*server{
		m.typescriptServer2("2025-11-25"), goServer("2025-11-25"),
		m.typescriptServer2(newest), goServer(newest),
	}
	several := newSeveral(t)
	defer several.wait()
	outcomes := map[string]func() outcome{}
	var names []string
	for _, row := range rows {
		for _, s := range servers {
			for _, up := range s.transports {
				name := strings.ReplaceAll(fmt.Sprintf("%s %s to %s %s (%s)", row.name, row.over, up, s.name, s.revision), " ", "_")
				names = append(names, name)
				outcomes[name] = several.start(func(ctx context.Context) outcome { return askedAtOnce(ctx, proxy, row.clients, row.over, s, up) })
			}
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			o := outcomes[name]()
			if o.err != nil {
				t.Errorf("%v\n%s", o.err, tail(o.log))
			}
			for _, line := range errorLines(o.log) {
				t.Errorf("logged: %s", line)
			}
		})
	}
}

// askedAtOnce makes clients call through one proxy at once, and checks the results. Each client has a name of its
// own, since without tokens the proxy tells clients of one address apart by their clientInfo.
func askedAtOnce(ctx context.Context, proxy dragoman, clients []map[string]any, down transport, s *server, up transport) (o outcome) {
	const calls = 4
	to, stop, err := s.open(s.revision, up, "e2e-asked")
	if err != nil {
		return outcome{err: err}
	}
	defer stop()
	o.err = proxy.serve(ctx, down, to, nil, func(to endpoint) error {
		var group sync.WaitGroup
		wrong := make([]error, len(clients))
		for i, config := range clients {
			me := string(rune('A' + i))
			group.Go(func() {
				printed, err := runNode(ctx, "asked.mjs", to, withAll(config, map[string]any{"me": me, "calls": calls}))
				if err != nil {
					wrong[i] = fmt.Errorf("client %s: %w", me, err)
					return
				}
				var got, want []string
				if err := json.Unmarshal(printed, &got); err != nil {
					wrong[i] = fmt.Errorf("client %s: %w", me, err)
				}
				for n := range calls {
					want = append(want, fmt.Sprintf("%s%d: %s was asked: Are you %s%d?", me, n, me, me, n))
				}
				if !slices.Equal(got, want) {
					wrong[i] = fmt.Errorf("client %s: got\n\t%s", me, strings.Join(got, "\n\t"))
				}
			})
		}
		group.Wait()
		return errors.Join(wrong...)
	})
	o.log = to.stderr.String()
	return o
}
