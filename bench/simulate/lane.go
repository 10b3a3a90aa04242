package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/judge"
)

// lane plays worlds, one after another, in a process that it starts again when that is lost.
type lane struct {
	patience time.Duration // how long a process may be silent; 0 for a minute
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
		patience = time.Minute // a process that keeps a large message for hours of a world collects garbage in each second
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

// lawOf says which law a process broke by what it said on stderr.
func lawOf(law, said string) (string, string) {
	said = chatter.ReplaceAllString(said, "")
	if law == "hangs" {
		return law, strings.Join(stuckIn(said), ", ") + "\n" + said
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

// leftIn lists the functions that began the goroutines which a bubble has left.
func leftIn(said string) (by []string) {
	for stack := range strings.SplitSeq(said, "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		_, creator, ok := strings.Cut(stack, "created by ")
		if ok && strings.Contains(head, "(durable)") {
			creator, _, _ = strings.Cut(creator, " in goroutine")
			by = append(by, creator[strings.LastIndex(creator, "/")+1:])
		}
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// stuckIn lists what goroutines of a bubble do that keep its time from going on: they run, or wait for what is no part of the bubble, such
// as a mutex that is held while its holder waits for the time.
func stuckIn(said string) (in []string) {
	for stack := range strings.SplitSeq(said, "\n\n") {
		head, calls, _ := strings.Cut(stack, "\n")
		if !strings.Contains(head, "synctest bubble") || strings.Contains(head, "(durable)") {
			continue
		}
		_, state, _ := strings.Cut(head, "[")
		state, _, _ = strings.Cut(state, ",")
		for call := range strings.SplitSeq(calls, "\n") {
			if strings.Contains(call, "dragoman/") && !strings.HasPrefix(call, "\t") {
				call = call[strings.LastIndex(call[:strings.LastIndex(call, "(")], "/")+1:]
				in = append(in, state+" in "+call[:strings.LastIndex(call, "(")])
				break
			}
		}
	}
	slices.Sort(in)
	return slices.Compact(in)
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

// kindOf is a violation without what differs from world to world: its law, and the begin of its text without names and numbers.
func kindOf(v judge.Violation) string {
	text, _, _ := strings.Cut(v.Text, "\n")
	text = varying.ReplaceAllString(text, "*")
	return v.Law + ": " + text[:min(len(text), 110)]
}

var varying = regexp.MustCompile(`[A-Za-z0-9_-]{24,}|\b[a-z]*-?[0-9][0-9a-zA-Z.:/-]*`)
