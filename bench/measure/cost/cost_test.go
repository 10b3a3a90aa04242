package cost

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestMain lets the test's binary be the other processes of a measurement: serve ROLE [--revision NAME] [--tools N] [ARGUMENT].
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "serve" {
		code := m.Run()
		os.RemoveAll(removeLater)
		os.Exit(code)
	}
	r := Role{Name: os.Args[2]}
	f := flag.NewFlagSet("serve", flag.ExitOnError)
	f.StringVar(&r.Revision, "revision", translate.Latest().Name, "")
	f.IntVar(&r.Tools, "tools", 50, "")
	f.Parse(os.Args[3:])
	r.Argument = f.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := r.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	p := Latency{Slice: 4 * time.Millisecond, Out: dir, Write: file, Quick: true, Binary: built(t)}
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Growth(ctx); err != nil {
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

func TestMarkers(t *testing.T) {
	for _, bad := range []string{"", "<!-- latency:begin -->\n", "<!-- latency:end -->\n<!-- latency:begin -->\n"} {
		if _, err := replaceMarked([]byte(bad), "latency", "x"); err == nil {
			t.Errorf("%q was filled", bad)
		}
	}
}

func TestAnAnswerOfAnotherCallIsRefused(t *testing.T) {
	s := &session{carrier: always(`{"jsonrpc":"2.0","id":1,"result":{}}`), speaks: translate.Latest(), number: firstNumber}
	if err := s.do(s.request(small)); err == nil {
		t.Error("the answer to another call was counted")
	}
	c := s.request(small)
	c.size = 1
	if err := s.do(c); err == nil {
		t.Error("an answer of another length was counted")
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
	l, err := newLauncher(t.Context(), built(t))
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(l.dir)
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

// built builds dragoman, once for all tests.
func built(t *testing.T) string {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "measured")
	if err != nil {
		return "", err
	}
	removeLater = dir
	return process.Build(context.Background(), dir, "../../../cmd/dragoman")
})

// removeLater is a folder that the tests leave behind.
var removeLater string

// start runs a role inside the test.
func start(t *testing.T, r Role) (url string) {
	t.Helper()
	testset.Need(t, testset.Measurements)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s *responder
	if r.Revision != "" {
		if s, err = newResponder(translate.Lookup(r.Revision), 50); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.serve(ctx, ln, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

func TestEveryCallIsAnsweredOnEveryWay(t *testing.T) {
	server := start(t, Role{Name: "http", Revision: serverRevision().Name})
	modern := start(t, Role{Name: "http", Revision: translate.Modern()})
	for _, w := range []*way{
		{name: direct, dial: streamable(server, serverRevision())},
		{name: bare, dial: streamable(start(t, Role{Name: bare, Argument: server}), serverRevision())},
		{name: standard, dial: streamable(start(t, Role{Name: standard, Argument: server}), serverRevision())},
		{name: "without a handshake", dial: streamable(modern, newest())},
	} {
		defer w.close()
		all := []int{small, list, large, streamed}
		if err := measure(t.Context(), []*way{w}, all, []int{2}, 1, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		for _, kind := range all {
			if c := w.cell(kind, 2); c.calls < 2 || c.latency.Total() != uint64(c.calls) || c.wall <= 0 {
				t.Errorf("%s, %s: %d calls, %d counted, in %v", w.name, kindNames()[kind], c.calls, c.latency.Total(), c.wall)
			}
		}
		if got := w.clients[0].carrier.(*overHTTP).notes; got != notices {
			t.Errorf("%s: %d notifications before the answer", w.name, got)
		}
	}
	if s, err := streamable(modern, translate.Oldest())(); err == nil {
		s.close()
		t.Error("a server without a handshake took one")
	}
}

// TestComparisonsWork measures every part of a comparison, with few clients and for milliseconds.
func TestComparisonsWork(t *testing.T) {
	testset.Need(t, testset.Measurements)
	if runtime.GOOS != "linux" {
		t.Skip("needs the process clocks of Linux")
	}
	var out strings.Builder
	c := Compare{Rounds: 1, Turn: 5 * time.Millisecond, Leaves: 1, Idle: 20, Users: 10, Binary: built(t), Out: &out, hasty: true}
	err := c.Run(t.Context(), slices.DeleteFunc(Parts(), func(name string) bool { return name == "store" }))
	if err == nil {
		err = c.Run(t.Context(), []string{"store"})
	}
	if errors.Is(err, replicas.ErrNoEngine) {
		err = nil
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"result of 1 MB, 8 at a time", "idle memory, MB", "leaving known upstream", "20 idle clients on HTTP+SSE", "10 parked questions", "all traces", "rows kept: all calls"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("not numbers:\n%s", out.String())
	}
}

func TestGoalsHaveThreeVerdicts(t *testing.T) {
	for got, want := range map[float64]string{1: "reached", 1.5: "within the limit", 2.5: "MISSED"} {
		if line := (goal{"x", got, 1, 2}).String(); !strings.HasSuffix(line, want) {
			t.Errorf("%v: %q, want %s", got, line, want)
		}
	}
}
