// Package losses counts and logs what translation removes from messages.
package losses

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/repeats"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Log reports what translation removed from messages. The counters count every loss. The log has the
// first loss of each kind at once, and a summary of the repeats at each Flush. It is safe for
// concurrent use.
type Log struct {
	log     *zap.Logger
	counter *prometheus.CounterVec // by from, to, rule and level

	repeats  *repeats.Set[kind, line]
	mu       sync.Mutex
	counters map[count]prometheus.Counter // looking them up by their labels takes longer
}

// count has what losses are counted by.
type count struct {
	from, to *translate.Revision
	rule     string
	level    wire.Level
}

type kind struct {
	from, to *translate.Revision
	method   wire.Method
	rule     string
}

// maxKinds bounds how many kinds are merged. There are as many kinds as rules, methods and pairs of
// revisions.
const maxKinds = 4096

// line is a loss, and the headers of its message; these are nil if the line stands for several
// losses.
type line struct {
	loss   wire.Loss
	header []upstream.Header
}

// New returns an empty Log.
func New(log *zap.Logger, counter *prometheus.CounterVec) *Log {
	l := &Log{log: log, counter: counter, counters: make(map[count]prometheus.Counter)}
	l.repeats = repeats.New(maxKinds, l.write, merge)
	return l
}

// Note counts and logs the losses of one rewritten message. header has the headers that the message
// came with.
func (l *Log) Note(from, to *translate.Revision, method wire.Method, losses []wire.Loss, header []upstream.Header) {
	for i := range losses {
		loss := &losses[i]
		l.counterOf(count{from, to, loss.Rule, loss.Level}).Add(float64(loss.Count))
		if l.log.Core().Enabled(zapLevel(loss.Level)) { // else nothing would be written
			l.repeats.Add(kind{from, to, method, loss.Rule}, line{*loss, header})
		}
	}
}

func (l *Log) counterOf(by count) prometheus.Counter {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counters[by]
	if c == nil {
		c = l.counter.WithLabelValues(by.from.Name, by.to.Name, by.rule, levelName(by.level))
		l.counters[by] = c
	}
	return c
}

// merge keeps the worst of several losses of a kind, with the sum of their counts.
func merge(sum *line, v line) {
	all := sum.loss.Count + v.loss.Count
	if v.loss.Level >= sum.loss.Level {
		sum.loss = v.loss
	}
	sum.loss.Count = all
}

// Flush writes one line for each kind that was seen again since the last time.
func (l *Log) Flush() { l.repeats.Flush() }

func (l *Log) write(k kind, v line, repeated int) {
	loss := &v.loss
	entry := l.log.Check(zapLevel(loss.Level), "lost in translation")
	if entry == nil {
		return
	}
	fields := append([]zap.Field{
		zap.String("from", k.from.Name),
		zap.String("to", k.to.Name),
		zap.String("method", k.method.String()),
		zap.String("rule", loss.Rule),
		zap.String("what", loss.What),
		zap.String("path", loss.Path.String()),
		zap.Int("count", loss.Count),
	}, trace.Fields(v.header)...)
	if repeated > 0 {
		fields = append(fields, zap.Int("messages", repeated))
	}
	if loss.Standin {
		fields = append(fields, zap.Bool("standin", true))
	}
	entry.Write(fields...)
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
