package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestMain lets the test's binary be the other processes of a measurement.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestAQuickRunFillsTheFile measures everything that needs no network, for milliseconds: each pair must answer.
func TestAQuickRunFillsTheFile(t *testing.T) {
	testset.Need(t, testset.Measurements)
	if runtime.GOOS != "linux" {
		t.Skip("needs the process clocks of Linux")
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	if end, limited := t.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute)) // so that its processes end with it
		defer cancel()
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "performance.md")
	if err := os.WriteFile(file, []byte("# Head\n<!-- latency:begin -->\nold\n<!-- latency:end -->\n\n<!-- growth:begin -->\n<!-- growth:end -->\ntail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	p := plan{slice: 4 * time.Millisecond, out: dir, write: file, quick: true}
	if err := p.run(ctx); err != nil {
		t.Fatal(err)
	}
	p.growth = true
	if err := p.run(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	for _, want := range []string{"# Head\n", "tail\n", "| 2024-11-05 | 2024-11-05 | sse |", "| 2024-11-05 | 2026-07-28 | sse to http |", "| 2026-07-28 | 2024-11-05 | stdio |", "| bare fasthttp ", "the numbers mean nothing", "mcp-remote (", "memory with open sessions"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "old\n") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("not as it should be:\n%s", text)
	}
	if got, want := strings.Count(text, "| stdio |"), len(translate.All())*len(translate.All()); got != want {
		t.Errorf("%d pairs on stdio, want %d", got, want)
	}
	for _, name := range []string{heatFile, loadFile} {
		picture, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		checkPicture(t, name, picture)
	}
}

// checkPicture checks that a picture is well-formed, loads nothing, and has both modes.
func checkPicture(t *testing.T, name string, picture []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if s := string(picture); !strings.Contains(s, "prefers-color-scheme:dark") || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") || strings.Contains(s, "href") {
		t.Errorf("%s: %.2000s", name, s)
	}
}

func TestPicturesOfNothing(t *testing.T) {
	checkPicture(t, heatFile, heatMap(nil))
	checkPicture(t, loadFile, loadChart(nil))
	checkPicture(t, loadFile, loadChart([]curve{{way: "slow", points: []point{{rate: 100}}}}))
}

func TestARateThatWasNotKeptIsNotDrawn(t *testing.T) {
	points := []point{{rate: 100, p50: 50, p99: 90, kept: true}, {rate: 1000, p50: 500_000, p99: 900_000}}
	if got := bytes.Count(loadChart([]curve{{way: "slow", points: points}}), []byte("<circle")); got != 2 {
		t.Errorf("%d points, want one in each panel", got)
	}
}

func TestGrowthHasAVerdict(t *testing.T) {
	for want, costs := range map[string][2]float64{"constant": {10, 10.5}, "less than linear": {10, 50}, "linear": {10, 102}, "**more than linear from 10 to 100: n^2.00**": {10, 1000}} {
		s := series{points: []sized{{10, costs[0]}, {100, costs[1]}}}
		if got := s.verdict(); got != want {
			t.Errorf("%v: %s, want %s", costs, got, want)
		}
	}
	s := series{points: []sized{{1, 1}, {10, 100}, {100, 1000}}}
	if got, want := s.verdict(), "linear; **more than linear from 1 to 10: n^2.00**"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCapacityIsTheStatedFormula(t *testing.T) {
	if got := carried(35, 2); got != 2*0.7*1e6/35 {
		t.Error(got)
	}
	for f, want := range map[float64]string{12345: "12,000", 99.4: "99", 996: "1,000", 28571: "29,000"} {
		if got := thousands(round2(f)); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

func TestMarkers(t *testing.T) {
	for _, bad := range []string{"", "<!-- latency:begin -->\n", "<!-- latency:end -->\n<!-- latency:begin -->\n"} {
		if _, err := replaceMarked([]byte(bad), "latency", "x"); err == nil {
			t.Errorf("%q was filled", bad)
		}
	}
}

func TestAnAnswerOfAnotherCallIsRefused(t *testing.T) {
	s := &session{carrier: always(`{"jsonrpc":"2.0","id":1,"result":{}}`), speaks: translate.Latest(), number: 10_000_000}
	if err := s.do(s.request(small, 0)); err == nil {
		t.Error("the answer to another call was counted")
	}
}

type always string

func (a always) exchange([]byte, bool) ([]byte, error) { return []byte(a), nil }
func (always) close()                                  {}

// TestDragomanBesideOthers plays the worlds of the README's table with dragoman alone.
func TestDragomanBesideOthers(t *testing.T) {
	testset.Need(t, testset.Measurements)
	if runtime.GOOS != "linux" {
		t.Skip("needs the process clocks of Linux")
	}
	dir := t.TempDir()
	t.Chdir("../..")
	binary, err := process.Build(t.Context(), dir, "./cmd/dragoman")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := launcher{dir: dir, self: self, dragoman: binary}
	r := l.rivals(&installed{})[0]
	for _, world := range []struct {
		play func(context.Context, *rival) (string, error)
		want []string
	}{
		{l.transports, []string{"9"}},
		{l.serverRestarts, []string{"answered"}},
		{l.commandDies, []string{"answered", "second answered"}}, // a call that was on its way to the command fails: it may have been carried out
	} {
		if got, err := world.play(t.Context(), r); err != nil || !slices.Contains(world.want, got) {
			t.Errorf("%q, %v; want one of %q", got, err, world.want)
		}
	}
	table := besideTable(time.Now(), []string{"dragoman", "mcp-remote"}, []besideRow{{"calls", []string{"9", ""}}}, []string{"mcp-proxy (no node here)"})
	for _, want := range []string{"| | dragoman | mcp-remote 0.15.1 |\n|---|---|---|\n| calls | 9 | – |\n", "Not measured: mcp-proxy (no node here)."} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}
