// Package losses counts and logs what translation removes from messages.
package losses

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Log reports what translation removed from messages. The counters count every loss but those of a value that the receiver assumes without it. The log has one line for each message with
// losses of a new kind, and, at each Flush, one line about the repeats for each pair of revisions. It is safe for concurrent use.
type Log struct {
	log     *zap.Logger
	counter *prometheus.CounterVec // by from, to, rule and level

	mu       sync.Mutex
	counters map[count]prometheus.Counter // looking them up by their labels takes longer
	kinds    map[kind]*sum                // that were logged, and the repeats since the last Flush
	advised  bool                         // a line has said what to do
}

// way is from which revision to which messages are translated.
type way struct{ from, to *translate.Revision }

// count has what losses are counted by.
type count struct {
	way
	rule  string
	level wire.Level
}

// kind has what a loss and its repeats have in common. All of it is from the rules, so that there are not many kinds.
type kind struct {
	way
	method     wire.Method
	rule, what string
}

// sum is losses of one kind.
type sum struct {
	kind
	wire.Loss     // the worst of them, with the count of all
	messages  int // that had them, if they are repeats
}

// New returns an empty Log.
func New(log *zap.Logger, counter *prometheus.CounterVec) *Log {
	return &Log{log: log, counter: counter, counters: make(map[count]prometheus.Counter), kinds: make(map[kind]*sum)}
}

// Note counts and logs the losses of one rewritten message. header has the headers that the message
// came with.
func (l *Log) Note(from, to *translate.Revision, method wire.Method, losses []wire.Loss, header []upstream.Header) {
	if len(losses) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var first []sum
	for i := range losses {
		loss := &losses[i]
		if loss.Level != wire.Assumed {
			l.counterOf(count{way{from, to}, loss.Rule, loss.Level}).Add(float64(loss.Count))
		}
		if !l.log.Core().Enabled(zapLevel(loss.Level)) {
			continue // it would not be written
		}
		k := kind{way{from, to}, method, loss.Rule, loss.What}
		at := l.kinds[k]
		if at == nil {
			l.kinds[k] = &sum{kind: k}
			first = append(first, sum{kind: k, Loss: *loss})
			continue
		}
		at.add(loss)
	}
	l.write(way{from, to}, first, header)
}

func (l *Log) counterOf(by count) prometheus.Counter {
	c := l.counters[by]
	if c == nil {
		c = l.counter.WithLabelValues(by.from.Name, by.to.Name, by.rule, levelName(by.level))
		l.counters[by] = c
	}
	return c
}

// add adds a repeat.
func (s *sum) add(loss *wire.Loss) {
	all := s.Count + loss.Count
	if loss.Level >= s.Level {
		s.Loss = *loss
	}
	s.Count = all
	s.messages++
}

// Flush writes a line about what was seen again since the last time, and forgets what was not.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := make(map[way][]sum)
	for k, at := range l.kinds {
		if at.messages == 0 {
			delete(l.kinds, k)
			continue
		}
		again[k.way] = append(again[k.way], *at)
		*at = sum{kind: k}
	}
	for w, sums := range again {
		slices.SortFunc(sums, func(a, b sum) int {
			return cmp.Or(cmp.Compare(a.method.String(), b.method.String()), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.What, b.What))
		})
		l.write(w, sums, nil)
	}
}

// advice is in the first line that is not for debugging.
const advice = "the revision of the receiver has no form for it: dragoman probe says what clients of each revision lose, docs/revisions-and-losses.md what each rule does"

// write writes one line about losses. Called with l.mu held.
func (l *Log) write(w way, sums []sum, header []upstream.Header) {
	if len(sums) == 0 {
		return
	}
	worst := slices.MaxFunc(sums, func(a, b sum) int { return cmp.Compare(a.Level, b.Level) })
	entry := l.log.Check(zapLevel(worst.Level), "lost in translation")
	if entry == nil {
		return
	}
	fields := append([]zap.Field{
		zap.String("from", w.from.Name),
		zap.String("to", w.to.Name),
		zap.Objects("losses", sums),
	}, trace.Fields(header)...)
	if worst.Level >= wire.Info && !l.advised {
		l.advised = true
		fields = append(fields, zap.String("advice", advice))
	}
	entry.Write(fields...)
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (s sum) MarshalLogObject(o zapcore.ObjectEncoder) error {
	o.AddString("method", s.method.String())
	o.AddString("rule", s.Rule)
	o.AddString("what", s.What)
	o.AddString("path", s.Path.String())
	o.AddInt("count", s.Count)
	if s.messages > 0 {
		o.AddInt("messages", s.messages)
	}
	if s.Standin {
		o.AddBool("standin", true)
	}
	return nil
}

func zapLevel(l wire.Level) zapcore.Level {
	switch l {
	case wire.Warn:
		return zap.WarnLevel
	case wire.Info:
		return zap.InfoLevel
	}
	return zap.DebugLevel
}

func levelName(l wire.Level) string { return zapLevel(l).String() }
