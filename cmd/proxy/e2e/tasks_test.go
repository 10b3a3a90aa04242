package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTasks checks that a published client of 2025-11-25 gets the same tasks of a published server of that revision, and
// the same questions during them, directly and through two proxies that use 2026-07-28 and its tasks extension between
// them.
func TestTasks(t *testing.T) {
	t.Parallel()
	m := nodePeers(t)
	bin := build(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("contract: {tasks: bridge}\nadmin: {listen: \"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := m.everything("2026.8.31", "2025-11-25", all...)
	url, stop, err := m.serveEverything("2026.8.31", streamable)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	want := m.tasks(ctx, t, url)
	if len(want) < 5 {
		t.Fatalf("the client alone says %q", want)
	}
	for _, to := range []endpoint{
		{over: stdio, command: server.command("2025-11-25", "tasks"), stderr: new(output)},
		{over: streamable, url: url, stderr: new(output)},
	} {
		t.Run(string(to.over), func(t *testing.T) {
			err := bin.serve(ctx, streamable, to, []string{"--config", config}, func(between endpoint) error {
				between.stderr = new(output)
				flags := []string{"--config", config, "--upstream-version", newest}
				return bin.serve(ctx, streamable, between, flags, func(front endpoint) error {
					if diff := cmp.Diff(want, m.tasks(ctx, t, front.url)); diff != "" {
						t.Error(diff)
					}
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// tasks returns the published client's report of its tasks at a server.
func (m modules) tasks(ctx context.Context, t *testing.T, url string) []string {
	t.Helper()
	to := endpoint{over: streamable, url: url, stderr: new(output)}
	out, err := runNode(ctx, "tasks.mjs", to, map[string]any{"sdk": filepath.Join(string(m), "sdk-1.32.2")})
	if err != nil {
		t.Errorf("%v: %s", err, to.stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
