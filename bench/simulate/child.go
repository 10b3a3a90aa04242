package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"flag"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
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
	Trace  string
	Ran    time.Duration
	Judged time.Duration // what the judge took of it
}

func lost(law, text string) result {
	return result{Verdict: judge.Verdict{Violations: []judge.Violation{{Law: law, Text: text}}}}
}

// play and judged are a world and its judge. The tests of the runner replace both.
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
		from := time.Now()
		r.Verdict = *judged(s, all)
		r.Judged = time.Since(from)
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
