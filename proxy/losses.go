package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/repeats"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lossLog tells what translation took from messages: counters always count
// all; the log has the first of each kind at once, and a sum of the repeats
// with each flush.
type lossLog struct {
	log     *zap.Logger
	counter *prometheus.CounterVec
	every   atomic.Bool

	repeats  *repeats.Set[lossKind, lossLine]
	mu       sync.Mutex
	counters map[lossCount]prometheus.Counter // looking them up by their labels takes longer
}

// lossCount is what losses are counted by.
type lossCount struct {
	from, to *translate.Revision
	rule     string
	level    wire.Level
}

type lossKind struct {
	from, to *translate.Revision
	method   wire.Method
	rule     string
}

// maxLossKinds bounds what is merged. There are as many kinds as rules, methods and pairs of
// revisions.
const maxLossKinds = 4096

// lossLine is a loss, and the headers that its message came with; nil where it stands for
// several.
type lossLine struct {
	loss   wire.Loss
	header []upstream.Header
}

func newLossLog(log *zap.Logger, counter *prometheus.CounterVec, every bool) *lossLog {
	l := &lossLog{log: log, counter: counter, counters: make(map[lossCount]prometheus.Counter)}
	l.repeats = repeats.New(maxLossKinds, l.write, mergeLosses)
	l.every.Store(every)
	return l
}

// note takes down what rewriting one message cost, which came with header.
func (l *lossLog) note(from, to *translate.Revision, method wire.Method, losses []wire.Loss, header []upstream.Header) {
	for i := range losses {
		loss := &losses[i]
		l.counterOf(lossCount{from, to, loss.Rule, loss.Level}).Add(float64(loss.Count))
		kind, line := lossKind{from, to, method, loss.Rule}, lossLine{*loss, header}
		if l.every.Load() {
			l.write(kind, line, 0)
			continue
		}
		l.repeats.Add(kind, line)
	}
}

func (l *lossLog) counterOf(by lossCount) prometheus.Counter {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counters[by]
	if c == nil {
		c = l.counter.WithLabelValues(by.from.Name, by.to.Name, by.rule, levelName(by.level))
		l.counters[by] = c
	}
	return c
}

// mergeLosses keeps the worst of several losses of a kind, with the sum of their counts.
func mergeLosses(sum *lossLine, v lossLine) {
	count := sum.loss.Count + v.loss.Count
	if v.loss.Level >= sum.loss.Level {
		sum.loss = v.loss
	}
	sum.loss.Count = count
}

// flush writes one line for each kind that was seen again since the last time.
func (l *lossLog) flush() { l.repeats.Flush() }

func (l *lossLog) write(kind lossKind, line lossLine, repeated int) {
	loss := &line.loss
	entry := l.log.Check(zapLevel(loss.Level), "lost in translation")
	if entry == nil {
		return
	}
	fields := append([]zap.Field{
		zap.String("from", kind.from.Name),
		zap.String("to", kind.to.Name),
		zap.String("method", kind.method.String()),
		zap.String("rule", loss.Rule),
		zap.String("what", loss.What),
		zap.String("path", loss.Path.String()),
		zap.Int("count", loss.Count),
	}, traced(line.header)...)
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
