package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/bench/simulate/judge"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/bench/simulate/world"
)

// playsWorlds is a variable of the environment by which processes of a benchmark play worlds, and not a stand-in.
const playsWorlds = "SIMULATE_PLAYS_WORLDS"

// TestMain makes the processes of these tests play worlds of a stand-in.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		if os.Getenv(playsWorlds) == "" {
			play, judged = pretend, pretendJudge
		}
		child()
	}
	os.Exit(m.Run())
}

// pretend plays a world in which each step is an event, and some steps break the process.
func pretend(t *testing.T, s *script.Script, _ string, _ world.Mode, _ *zap.Logger) []trace.Event {
	tr := trace.New()
	for _, step := range s.Steps {
		switch step.Verb {
		case "wait":
			d, _ := time.ParseDuration(step.Word(0))
			time.Sleep(d)
		case "panics":
			panic("at a step")
		case "fails":
			t.Error("so it fails")
		case "hangs":
			for {
				time.Sleep(time.Second)
			}
		case "waits":
			var mu sync.Mutex
			mu.Lock()
			go func() { time.Sleep(time.Second); mu.Unlock() }()
			mu.Lock()
		case "leaks":
			go func() { <-make(chan int) }()
		}
		tr.Add(trace.Event{Who: step.Who, Kind: trace.Step, Session: rand.Text(), Text: step.String()})
	}
	return tr.All()
}

// pretendJudge finds fault with a large call before a cancellation.
func pretendJudge(_ *script.Script, all []trace.Event) *judge.Verdict {
	r := &judge.Verdict{Calls: 10, Excused: 1, ByCause: map[string]int{"restart": 1}}
	large := false
	for _, e := range all {
		step, _ := script.ParseStep(e.Text)
		large = large || step.Number("size") > 0
		if large && step.Verb == "cancel" {
			r.Violations = append(r.Violations, judge.Violation{Law: "large", At: e.At, Text: "a large call is cancelled"})
		}
	}
	return r
}

func TestSeedsThatFailAreFound(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"-worlds", "300", "-from", "1", "-lanes", "2"}, &out); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`from seed 1\n`, `large at [\d.]+s: a large call is cancelled\n    go run ./bench/simulate -seed \d+`, `300 worlds, \d+ a minute, [\d.]+ ms of CPU each; \d+ failed`,
		` +\d+  large: a large call is cancelled  seeds \[\d+ \d+ \d+ \d+ \d+\]`, `3000 calls, 300 excused \(restart 300\)`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	failed := regexp.MustCompile(`; (\d+) failed`).FindStringSubmatch(out.String())[1]
	if n := len(regexp.MustCompile(`(?m)^    go run ./bench/simulate -seed \d+   # large: a large call is cancelled$`).FindAllString(out.String(), -1)); strconv.Itoa(n) != failed {
		t.Errorf("%s worlds failed, and %d say how they are played again\n%s", failed, n, out.String())
	}
	seed := regexp.MustCompile(`-seed (\d+)`).FindStringSubmatch(out.String())[1]
	out.Reset()
	if code := run([]string{"-seed", seed, "-shrink=false"}, &out); code != 1 || !strings.Contains(out.String(), "a large call is cancelled") {
		t.Errorf("seed %s: exit code %d\n%s", seed, code, out.String())
	}
	out.Reset()
	if code := run([]string{"-seed", seed, "-again", "10"}, &out); code != 1 || !strings.Contains(out.String(), "fails in 10 of 10 (large 10); the same happens, by virtual instant, in 10 of 10") {
		t.Errorf("seed %s: exit code %d\n%s", seed, code, out.String())
	}
	out.Reset()
	run([]string{"-time", "60s", "-fail-fast", "-from", "1"}, &out)
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !regexp.MustCompile(`^found: large seed=\d+ after=[\d.]+s$`).MatchString(lines[len(lines)-1]) {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
}

func TestSomeWorldsMayFail(t *testing.T) {
	for _, c := range []struct {
		may   string
		fails [3]bool // if 0, 2 and 40 of 199 worlds have failed
	}{
		{"0", [3]bool{false, true, true}},
		{"2", [3]bool{false, false, true}},
		{"0%", [3]bool{false, true, true}},
		{"0.5%", [3]bool{false, true, true}},
		{"1%", [3]bool{false, false, true}}, // rounded up
		{"100%", [3]bool{false, false, false}},
	} {
		may, err := parseAllowance(c.may)
		if err != nil {
			t.Fatal(err)
		}
		for i, failed := range []int{0, 2, 40} {
			s := summary{worlds: 199, failed: failed}
			if got := s.write(io.Discard, time.Second, may); got != c.fails[i] {
				t.Errorf("%s: with %d of 199 failed: %t", c.may, failed, got)
			}
		}
	}
	for _, text := range []string{"", "%", "-1", "-1%", "101%", "NaN%", "1.5", "x"} {
		var out bytes.Buffer
		if code := run([]string{"-worlds", "1", "-may-fail", text}, &out); code != 2 {
			t.Errorf("%q: exit code %d\n%s", text, code, out.String())
		}
	}
	for may, code := range map[string]int{"1%": 1, "100%": 0} {
		if got := run([]string{"-worlds", "100", "-from", "1", "-lanes", "1", "-shrink=false", "-may-fail", may}, io.Discard); got != code {
			t.Errorf("%s: exit code %d", may, got)
		}
	}
}

func TestAWorldWithoutFaultPasses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "world.txt")
	os.WriteFile(file, []byte("# nothing happens\nserver http 2025-06-18\nclient c1 http 2025-06-18\nsteps\nc1 call 1\nwait 10m\n"), 0o600)
	var out bytes.Buffer
	if code := run([]string{"-file", file}, &out); code != 0 || !strings.Contains(out.String(), "600.000s") {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
}

func TestAScriptIsShrunk(t *testing.T) {
	s, err := script.Parse(`world seed=7 replicas=3 store=true portable=true
server http both
client c1 http 2025-06-18
client c2 sse 2024-11-05
client c3 stdio 2026-07-28
set session.max: 3
set heartbeat: 1s
steps
c1 begin
c3 call 1 progress=1
c2 call 1 size=30 how=sse progress=2
wait 300ms
server restart
c2 cancel 1
c1 ping
c3 call 2 size=20
`)
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{}
	defer l.close()
	got := shrink(s, l.fails(job{}, "large: a large call is cancelled")).String()
	want := `world seed=7 replicas=1 store=false portable=false
server http both
client c2 sse 2024-11-05
steps
c2 call 1 size=30
c2 cancel 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAProcessThatIsLostIsAViolation, whatever has ended it, and the next world is played all the same.
func TestAProcessThatIsLostIsAViolation(t *testing.T) {
	l := &lane{patience: 3 * time.Second}
	defer l.close()
	for _, c := range []struct{ step, law, text string }{
		{"operator panics", "panic", "at a step"},
		{"operator fails", "failed", "so it fails"},
		{"operator hangs", "hangs", "pretend("},
		{"operator waits", "hangs", "sync.Mutex.Lock in simulate.pretend"},
		{"operator leaks", "goroutines", "blocked goroutines remain: simulate.pretend"},
		{"operator steps", "", ""},
	} {
		r := l.play(job{Script: "server http both\nsteps\n" + c.step + "\n"})
		if c.law == "" {
			if len(r.Violations) > 0 {
				t.Errorf("%s: %v", c.step, r.Violations)
			}
			continue
		}
		asleep := func(v judge.Violation) bool { // which the runtime of a process without cgo finds itself
			return c.step == "operator waits" && v.Law == "fatal" && strings.Contains(v.Text, "all goroutines are asleep")
		}
		if !slices.ContainsFunc(r.Violations, func(v judge.Violation) bool { return v.Law == c.law && strings.Contains(v.Text, c.text) || asleep(v) }) {
			t.Errorf("%s: want %s, got %.2000v", c.step, c.law, r.Violations)
		}
	}
}
