package tests

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

var update = flag.Bool("update", false, "write what docs/operations.md has of the code")

// allMetrics returns the descriptions of all metrics that the command exports.
func allMetrics(t *testing.T) (all []*prometheus.Desc) {
	t.Helper()
	srv := front(t, newFake(nil))
	srv.Register(metrics.LogLinesDropped(func() float64 { return 0 }))
	srv.Metrics.NewStore() // there with store.url
	descriptions := make(chan *prometheus.Desc, 1000)
	srv.Metrics.Registry.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		all = append(all, d)
	}
	return all
}

// TestOperationsPage compares the tables in docs/operations.md with the causes of failures, the
// metrics and the quirks in the code. With -update it writes them.
func TestOperationsPage(t *testing.T) {
	const file, from = "../../docs/operations.md", "\n## Causes of failures\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, got, found := strings.Cut(string(page), from)
	var want strings.Builder
	want.WriteString("\nA failure is one log line with its `cause` and `advice`; repeats are one line a minute. Where requests failed,\n" +
		"`dragoman_upstream_failures_total{cause}` counts them.\n\n| cause | level | what to do |\n|---|---|---|\n")
	for _, c := range failures.All() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", c, c.Level(), c.Advice())
	}
	want.WriteString("\n## Metrics\n\n| name | labels | |\n|---|---|---|\n")
	described := regexp.MustCompile(`fqName: "((?:dragoman|mcp)_[^"]*)", help: "((?:[^"\\]|\\.)*)".*variableLabels: \{([^}]*)\}`)
	var rows []string
	for _, d := range allMetrics(t) {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", m[1], strings.ReplaceAll(m[3], ",", ", "), m[2]))
		}
	}
	slices.Sort(rows)
	want.WriteString(strings.Join(rows, ""))
	if len(rows) < 20 {
		t.Fatalf("%d metrics", len(rows))
	}
	want.WriteString("\n## Quirks\n\nSome published clients and servers differ from the specification. `dragoman_quirks_total{quirk}` counts when\n" +
		"dragoman works around one. This needs no setting.\n\n" +
		"| quirk | software | what it does | what dragoman does |\n|---|---|---|---|\n")
	for _, q := range report.Quirks {
		fmt.Fprintf(&want, "| `%s` | %s (%s) | %s | %s |\n", q.Quirk, q.Peer, q.Versions, q.Does, q.Response)
	}
	if *update {
		got, found = want.String(), true
		if err := os.WriteFile(file, []byte(head+from+got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !found || got != want.String() {
		t.Error("docs/operations.md is not what the code says: go test ./proxy/tests -run TestOperationsPage -update")
	}
}
