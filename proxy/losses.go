package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lossLog tells what translation took from messages: counters always count
// all; the log has the first of each kind at once, and the number of repeats
// with each flush.
type lossLog struct {
	log     *zap.Logger
	counter *prometheus.CounterVec
	every   atomic.Bool

	mu       sync.Mutex
	repeats  map[lossKind]*repeat
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

// repeat is what was seen of one kind since the last flush.
type repeat struct {
	messages, count int
	last            wire.Loss
}

func newLossLog(log *zap.Logger, counter *prometheus.CounterVec, every bool) *lossLog {
	l := &lossLog{log: log, counter: counter, repeats: make(map[lossKind]*repeat), counters: make(map[lossCount]prometheus.Counter)}
	l.every.Store(every)
	return l
}

// note takes down what rewriting one message cost, which came with header.
func (l *lossLog) note(from, to *translate.Revision, method wire.Method, losses []wire.Loss, header []upstream.Header) {
	for i := range losses {
		loss := &losses[i]
		l.counterOf(lossCount{from, to, loss.Rule, loss.Level}).Add(float64(loss.Count))
		if !l.every.Load() && !l.first(lossKind{from, to, method, loss.Rule}, loss) {
			continue
		}
		l.write(lossKind{from, to, method, loss.Rule}, loss, traced(header)...)
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

// first reports whether this kind was never seen, and counts it otherwise.
func (l *lossLog) first(kind lossKind, loss *wire.Loss) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, seen := l.repeats[kind]
	if !seen {
		l.repeats[kind] = new(repeat)
		return true
	}
	r.messages++
	r.count += loss.Count
	if r.messages == 1 || loss.Level >= r.last.Level {
		r.last = *loss
	}
	return false
}

// flush writes one line for each kind that was seen again since the last time.
func (l *lossLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, r := range l.repeats {
		if r.messages == 0 {
			continue
		}
		r.last.Count = r.count
		l.write(kind, &r.last, zap.Int("messages", r.messages))
		*r = repeat{}
	}
}

func (l *lossLog) write(kind lossKind, loss *wire.Loss, more ...zap.Field) {
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
	}, more...)
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
