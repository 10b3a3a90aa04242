package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
)

// The ways between clients and servers of which one or both have no handshake.
const (
	modernToLegacy = "modern client, legacy server"
	legacyToModern = "legacy client, modern server"
	modernToModern = "modern client, modern server"
)

// eras is the cost of calls between revisions with and without a handshake, compared with
// calls between two revisions with one.
type eras struct {
	ways     []*way
	measured map[key]*cell
	requests map[string]float64 // requests that the server got for each call, by the name of the way
}

// eraWays starts the proxies between eras in front of the running servers at the URLs legacy, with a handshake, and
// modern, without one.
func (l launcher) eraWays(ctx context.Context, legacy, modern string) ([]*way, error) {
	newest := translate.Lookup(translate.Modern())
	ways := []*way{{name: direct, url: legacy, speaks: serverRevision(), server: legacy}}
	for _, c := range []struct {
		name   string
		speaks *translate.Revision
		server string
	}{
		{dragoman, translate.Oldest(), legacy},
		{modernToLegacy, newest, legacy},
		{legacyToModern, translate.Oldest(), modern},
		{modernToModern, newest, modern},
	} {
		w, err := l.crossing(ctx, c.name, c.speaks, c.server)
		ways = append(ways, w...)
		if err != nil {
			return ways, err
		}
	}
	return ways, nil
}

// crossing starts a proxy in front of the server at url, for clients of the revision speaks.
func (l launcher) crossing(ctx context.Context, name string, speaks *translate.Revision, url string) ([]*way, error) {
	w, err := l.ours(ctx, url)
	if err != nil {
		return nil, err
	}
	w.name, w.speaks, w.server = name, speaks, url
	return []*way{w}, nil
}

func (l launcher) measureEras(ctx context.Context, p plan, legacy string, list []work) (*eras, error) {
	server, err := l.role(ctx, "modern", "")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	e := &eras{requests: map[string]float64{}}
	e.ways, err = l.eraWays(ctx, legacy, server.URL())
	defer stopAll(e.ways)
	if err != nil {
		return nil, err
	}
	if e.measured, err = measure(ctx, p, e.ways, list[small:small+1]); err != nil {
		return nil, fmt.Errorf("between eras: %w", err)
	}
	for _, w := range e.ways {
		if e.requests[w.name], err = w.requestsPerCall(&list[small]); err != nil {
			return nil, fmt.Errorf("requests of %s: %w", w.name, err)
		}
	}
	return e, nil
}

// requestsPerCall returns how many requests the server gets for each call of a client.
func (w *way) requestsPerCall(call *work) (float64, error) {
	const calls = 1000
	c, err := dial(w)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	request := c.wrap(call.request)
	size, err := c.warm(call, request)
	if err != nil {
		return 0, err
	}
	before, err := w.counted()
	if err != nil {
		return 0, err
	}
	for range calls {
		if err := c.call(request, size); err != nil {
			return 0, err
		}
	}
	after, err := w.counted()
	return float64(after-before) / calls, err
}

// counted returns how many messages the server at the end of the way has got so far.
func (w *way) counted() (int64, error) {
	resp, err := http.Get(strings.TrimSuffix(w.server, "/mcp") + counted)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	return strconv.ParseInt(string(body), 10, 64)
}

// goals returns the goals for calls between the eras.
func (e *eras) goals() []goal {
	busy := loads()[len(loads())-1]
	cpu := func(way string) float64 {
		return e.measured[key{way, 0, busy}].cpuPerCall() / e.measured[key{dragoman, 0, busy}].cpuPerCall()
	}
	added := func(way string, quantile float64) float64 {
		with, without := e.measured[key{way, 0, 1}], e.measured[key{direct, 0, 1}]
		return float64(with.latency.Quantile(quantile)-without.latency.Quantile(quantile)) / 1e6
	}
	goals := []goal{
		{modernToLegacy + ", added p50, ms", added(modernToLegacy, 0.5), 0.05, 0.08},
		{modernToLegacy + ", added p99, ms", added(modernToLegacy, 0.99), 0.5, 1},
	}
	for _, w := range e.ways[2:] {
		goals = append(goals,
			goal{w.name + ", CPU per small call, × within the legacy era", cpu(w.name), 1.25, 1.4},
			goal{w.name + ", requests to the server per call", e.requests[w.name], 1, 1})
	}
	return goals
}
