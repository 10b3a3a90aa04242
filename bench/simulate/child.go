package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/bench/simulate/judge"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/bench/simulate/world"
)

// childFlag makes this program one that plays the worlds of another.
const childFlag = "-child"

// job is a world to play, a line of JSON.
type job struct {
	Seed    uint64
	Script  string // "" for that of the seed
	Inside  bool   // without a wait between steps
	Only    string // only violations of kinds that begin so count
	Trace   bool   // the result has what happened
	Raw     bool   // and its bytes
	Log     bool   // and what dragoman has logged
	Compare bool   // the trace is for comparing: sorted within each virtual instant, random names replaced
}

// result is what came of a job, a line of JSON.
type result struct {
	judge.Verdict
	Trace string
	Ran   time.Duration
}

func lost(law, text string) result {
	return result{Verdict: judge.Verdict{Violations: []judge.Violation{{Law: law, Text: text}}}}
}

// What plays a world, and who judges it: other ones in the tests of the runner.
var (
	play   = world.Play
	judged = judge.Judge
)

// child plays the worlds that come on stdin, and writes their results to stdout. It does not return.
func child() {
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // what package testing prints
	os.Args = os.Args[:1]
	testing.Init()
	flag.Set("test.v", "true") // or it prints only at the end
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "worlds", F: func(t *testing.T) {
		in := json.NewDecoder(os.Stdin)
		out.Encode(result{}) // it is there
		for {
			var j job
			if err := in.Decode(&j); err != nil {
				return
			}
			if err := out.Encode(j.play(t)); err != nil {
				return
			}
		}
	}}}, nil, nil)
}

// play plays the world of j in a bubble, and judges it.
func (j job) play(t *testing.T) (r result) {
	s, err := script.Make(j.Seed), error(nil)
	if j.Script != "" {
		if s, err = script.Parse(j.Script); err != nil {
			return lost("script", err.Error())
		}
	}
	begun := time.Now()
	ok := t.Run("world", func(t *testing.T) {
		seeded(t, s.Seed)
		mode := world.InTurn
		if j.Inside {
			mode = world.AtOnce
		}
		var all []trace.Event
		log := &logged{}
		synctest.Test(t, func(t *testing.T) {
			log.begun = time.Now()
			all = play(t, s, ".", mode, log.logger(j.Log))
		})
		r.Verdict = *judged(s, all)
		all = append(all, log.all...)
		slices.SortStableFunc(all, func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
		switch {
		case j.Trace && j.Compare:
			r.Trace = sameText(all)
		case j.Trace:
			var b strings.Builder
			trace.Write(&b, all, j.Raw)
			r.Trace = b.String()
		}
	})
	if !ok && len(r.Violations) == 0 {
		r = lost("failed", "")
	}
	r.Ran = time.Since(begun)
	return r
}

// seeded makes crypto/rand follow the seed. cryptotest.SetGlobalRandom would reach the nonces of package cipher as well, but refuses
// programs that "go test" has not built; so ids that are sealed differ from one play of a seed to the next, in their bytes only.
func seeded(t *testing.T, seed uint64) {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	was := rand.Reader
	rand.Reader = &reader{of: mathrand.NewChaCha8(key)}
	t.Cleanup(func() { rand.Reader = was })
}

type reader struct {
	mu sync.Mutex
	of *mathrand.ChaCha8
}

func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of.Read(p)
}

// random matches what is random in a trace, beside ids of sessions.
var random = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)

// sameText is a trace as text that is equal for equal worlds: within an instant the order is not defined, so it is sorted there, and what
// is counted in that order is left out: connections and ids of messages. Sessions are numbered.
func sameText(all []trace.Event) string {
	type line struct {
		at            time.Duration
		text, session string
	}
	lines := make([]line, len(all))
	for i, e := range all {
		lines[i].at, lines[i].session = e.At, e.Session
		e.Session, e.Conn, e.ID = "", 0, ""
		lines[i].text = random.ReplaceAllString(e.String(), "?")
	}
	const unknown = 1 << 30
	sessions := map[string]int{"": 0}
	order := func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) }
	number := func(l line) int {
		if n, known := sessions[l.session]; known {
			return n
		}
		return unknown
	}
	slices.SortFunc(lines, order)
	var b strings.Builder
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && order(lines[0], lines[n]) == 0 {
			n++
		}
		slices.SortStableFunc(lines[:n], func(a, b line) int { return number(a) - number(b) })
		for _, l := range lines[:n] {
			if number(l) == unknown {
				sessions[l.session] = len(sessions)
			}
			fmt.Fprintf(&b, "%s session=%d\n", l.text, number(l))
		}
		lines = lines[n:]
	}
	return b.String()
}

// logged is what dragoman has logged, as notes of the trace.
type logged struct {
	begun time.Time
	mu    sync.Mutex
	all   []trace.Event
}

func (l *logged) logger(wanted bool) *zap.Logger {
	if !wanted {
		return zap.NewNop()
	}
	text := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", LevelKey: "l", NameKey: "n", EncodeLevel: zapcore.LowercaseLevelEncoder, ConsoleSeparator: " "})
	return zap.New(zapcore.NewCore(text, zapcore.AddSync(l), zapcore.DebugLevel))
}

// Write writes down a line of the log.
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, trace.Event{At: time.Since(l.begun), Who: "log", Kind: trace.Note, Text: string(bytes.TrimSpace(line))})
	return len(line), nil
}

// lane plays worlds, one after another, in a process that it starts again when that is lost.
type lane struct {
	patience time.Duration // how long a process may be silent; 0 for 20 s
	cpu      time.Duration // of the processes that have ended

	command *exec.Cmd
	in      io.WriteCloser
	results chan result // closed at the end of the process
	said    head
	played  int
	folder  string // of the process
}

// maxPlayed is how many worlds a process plays: what package testing and the program keep of each does not add up.
const maxPlayed = 5000

// play plays j. A process that dies or is silent is a violation.
func (l *lane) play(j job) result {
	r := l.ask(j)
	r.Violations = slices.DeleteFunc(r.Violations, func(v judge.Violation) bool { return !strings.HasPrefix(kindOf(v), j.Only) })
	return r
}

func (l *lane) ask(j job) result {
	if l.command == nil {
		if err := l.start(); err != nil {
			return lost("start", err.Error())
		}
	}
	l.said.reset()
	if err := json.NewEncoder(l.in).Encode(j); err != nil {
		return l.lost("dead")
	}
	patience := l.patience
	if patience == 0 {
		patience = 20 * time.Second
	}
	silence := time.NewTimer(patience)
	defer silence.Stop()
	select {
	case r, alive := <-l.results:
		if !alive {
			return l.lost("dead")
		}
		for i := range r.Violations {
			if r.Violations[i].Law == "failed" {
				l.close() // or not all that it said has come
				r.Violations[i].Law, r.Violations[i].Text = lawOf("failed", l.said.text())
			}
		}
		if l.played++; l.played == maxPlayed && l.command != nil {
			l.close()
		}
		return r
	case <-silence.C:
		l.command.Process.Signal(syscall.SIGQUIT) // its goroutines go to stderr
		select {
		case <-l.results:
		case <-time.After(5 * time.Second):
		}
		return l.lost("hangs")
	}
}

func (l *lane) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if l.folder, err = os.MkdirTemp("", "simulate"); err != nil {
		return err
	}
	l.command = exec.Command(self, childFlag)
	l.command.Dir = l.folder
	l.command.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400", "GOTRACEBACK=all")
	l.command.Stderr = &l.said
	if l.in, err = l.command.StdinPipe(); err != nil {
		return err
	}
	out, err := l.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.command.Start(); err != nil {
		l.command = nil
		os.RemoveAll(l.folder)
		return err
	}
	l.results, l.played = make(chan result), 0
	go func(results chan<- result) {
		defer close(results)
		in := json.NewDecoder(bufio.NewReaderSize(out, 1<<16))
		for {
			var r result
			if in.Decode(&r) != nil {
				return
			}
			results <- r
		}
	}(l.results)
	select {
	case _, ok := <-l.results:
		if ok {
			return nil
		}
	case <-time.After(time.Minute):
	}
	l.command.Process.Kill()
	l.close()
	return fmt.Errorf("the process of the worlds does not begin: %s", l.said.text())
}

// close ends the process.
func (l *lane) close() {
	if l.command == nil {
		return
	}
	l.in.Close()
	process := l.command.Process
	kill := time.AfterFunc(10*time.Second, func() { process.Kill() })
	for range l.results {
	}
	l.command.Wait()
	kill.Stop()
	l.cpu += l.command.ProcessState.UserTime() + l.command.ProcessState.SystemTime()
	l.command = nil
	os.RemoveAll(l.folder)
}

// lost ends the process, which is of no use any more, and says what it said at last.
func (l *lane) lost(law string) result {
	l.command.Process.Kill()
	l.close()
	return lost(lawOf(law, l.said.text()))
}

// fails returns whether a script fails in the way of kind: in two of three plays.
func (l *lane) fails(j job, kind string) func(*script.Script) bool {
	l.patience = 5 * time.Second // of a world of 10 ms
	return func(s *script.Script) bool {
		j.Script, j.Trace = s.String(), false
		failed := 0
		for play := range 3 {
			r := l.play(j)
			if slices.ContainsFunc(r.Violations, func(v judge.Violation) bool { return kindOf(v) == kind }) {
				failed++
			}
			if failed == 2 || play-failed == 1 {
				break
			}
		}
		return failed == 2
	}
}

// kindOf is a violation without what differs from world to world: its law, and the begin of its text without names and numbers.
func kindOf(v judge.Violation) string {
	text, _, _ := strings.Cut(v.Text, "\n")
	text = varying.ReplaceAllString(text, "*")
	return v.Law + ": " + text[:min(len(text), 110)]
}

var varying = regexp.MustCompile(`[A-Za-z0-9_-]{24,}|\b[a-z]*-?[0-9][0-9a-zA-Z.:/-]*`)

// lawOf says which law a process broke by what it said on stderr.
func lawOf(law, said string) (string, string) {
	said = chatter.ReplaceAllString(said, "")
	if law == "hangs" {
		return law, said
	}
	for _, known := range []struct{ text, law string }{
		{"WARNING: DATA RACE", "race"},
		{"does not end within", "shutdown"},
		{"blocked goroutines remain", "goroutines"},
		{"deadlock: all goroutines in bubble are blocked", "deadlock"},
		{"fatal error:", "fatal"},
		{"panic:", "panic"},
	} {
		if _, after, is := strings.Cut(said, known.text); is {
			if known.law == "goroutines" {
				after = ": " + strings.Join(leftIn(after), ", ") + "\n" + after
			}
			return known.law, known.text + after
		}
	}
	return law, said
}

// chatter is what package testing says of tests that pass.
var chatter = regexp.MustCompile(`(?m)^(=== RUN| *--- PASS).*\n`)

// leftIn lists who has begun the goroutines that a bubble has left.
func leftIn(said string) (by []string) {
	for stack := range strings.SplitSeq(said, "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		_, creator, ok := strings.Cut(stack, "created by ")
		if !ok || !strings.Contains(head, "(durable)") {
			continue
		}
		creator, _, _ = strings.Cut(creator, " in goroutine")
		if creator = creator[strings.LastIndex(creator, "/")+1:]; !slices.Contains(by, creator) {
			by = append(by, creator)
		}
	}
	slices.Sort(by)
	return by
}

// head keeps the first of what is written to it.
type head struct {
	mu sync.Mutex
	b  []byte
}

const maxHead = 256 << 10

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, p[:min(len(p), maxHead-len(h.b))]...)
	return len(p), nil
}

func (h *head) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = h.b[:0]
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}
