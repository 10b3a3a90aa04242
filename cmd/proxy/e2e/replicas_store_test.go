package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// withStore writes a configuration for replicas that share a store, with a redis-server of its own. Without one on
// this system it skips the test.
func withStore(t *testing.T, more string) (config string) {
	t.Helper()
	engine, err := replicas.StartEngineAt(t.Context(), peertest.Port(t), t.TempDir())
	if errors.Is(err, replicas.ErrNoEngine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Stop)
	config = keyFile(t)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, fmt.Appendf(text, "store: {url: %q}\n%s", engine.URL(), more), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestPublishedClientsAcrossReplicasWithAStore runs published clients of every revision through three replicas in turn that
// share a store and know nothing else of each other. What they see must be what they see through one process.
func TestPublishedClientsAcrossReplicasWithAStore(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	proxy := build(t)
	withStore(t, "") // skips
	legacy, modern := goServer("2025-11-25"), goServer(newest)
	const apart = "each replica has a session of its own with the server, which knows nothing of the others"
	not := withAll(withAll(notModern, legacy.notModern(streamable)), map[string]string{"resource updated": apart, "cancellations seen": apart})
	for _, c := range []cell{
		{client: m.typescript("1.10.2", "2024-11-05", all...), server: legacy},
		{client: m.typescript("1.12.3", "2025-03-26", all...), server: modern},
		{client: m.typescript("1.22.0", "2025-06-18", all...), server: legacy},
		{client: m.typescript("1.32.2", "2025-11-25", all...), server: modern},
		{client: m.typescript2(pinned(newest), newest, not), server: legacy},
		{client: m.typescript2("auto", newest, not), server: legacy},
	} {
		c.down, c.up = streamable, streamable
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			want := proxied(ctx, proxy, c, markOf(fmt.Sprintf("store-%p", t)))
			url, stop, err := c.server.serve(c.server.revision, streamable)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			b := &balancer{called: map[string]*replica{}}
			b.set(proxy.replicas(t, 3, withStore(t, ""), url)...)
			front := httptest.NewServer(b)
			defer front.Close()
			defer front.CloseClientConnections()
			got := outcome{}
			got.steps, got.err = c.client.run(ctx, endpoint{over: streamable, url: front.URL, stderr: &output{}})
			for _, r := range b.replicas {
				got.log += r.log.String()
			}
			if want.err != nil || got.err != nil {
				t.Fatalf("one process: %v\nacross replicas: %v\n%s", want.err, got.err, tail(got.log))
			}
			before, after := want.steps.comparable(), got.steps.comparable()
			for _, e := range want.steps {
				if diff := cmp.Diff(before[e.Step], after[e.Step]); diff != "" {
					t.Errorf("%s (-one process +across replicas):\n%s", e.Step, diff)
				}
			}
			if b.crossed == 0 && c.client.revision >= "2025-06-18" {
				t.Error("no question was answered through another replica")
			}
			if t.Failed() {
				t.Log(tail(got.log))
			}
		})
	}
}

// TestTasksAcrossReplicasWithAStore checks that a published client of 2025-11-25 gets the same tasks, and the same questions
// during them, of a published server directly and through three replicas in turn: in front of the server itself, and of
// a server without sessions, with the tasks extension between them.
func TestTasksAcrossReplicasWithAStore(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	bin := build(t)
	withStore(t, "") // skips
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	url, stop, err := m.serveEverything("2026.8.31", streamable)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	want := m.tasks(ctx, t, url)
	if len(want) < 5 {
		t.Fatalf("the client alone says %q", want)
	}
	across := func(t *testing.T, upstream string) {
		b := &balancer{called: map[string]*replica{}}
		b.set(bin.replicas(t, 3, withStore(t, "contract: {tasks: bridge}\n"), upstream)...)
		front := httptest.NewServer(b)
		defer front.Close()
		defer front.CloseClientConnections()
		if diff := cmp.Diff(want, m.tasks(ctx, t, front.URL)); diff != "" {
			t.Error(diff)
		}
	}
	t.Run("at the server", func(t *testing.T) { across(t, url) })
	t.Run("at a server without sessions", func(t *testing.T) {
		to := endpoint{over: streamable, url: url, stderr: new(output)}
		flags := []string{"--config", config(t, "contract: {tasks: bridge}\nadmin: {listen: \"\"}\n")}
		err := bin.serve(ctx, streamable, to, flags, func(between endpoint) error {
			across(t, between.url)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
