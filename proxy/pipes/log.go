package pipes

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// How many lines of a server's stderr are written to the log.
const (
	linesRate  = 100 // a second
	linesBurst = 500
)

// skippedEvery is how often the number of lines on a server's stdout that are no messages is logged.
const skippedEvery = time.Minute

// A Log relays what a server writes to its stderr, and counts the lines over the rate. It also tells of lines on the server's
// stdout that are no messages.
type Log struct {
	log     *zap.Logger
	secrets secret.Known  // are removed from the lines
	limiter *rate.Limiter // of lines on stderr
	noise   *rate.Limiter // of lines on stdout that are no messages
	watch   *Watch

	mu      sync.Mutex
	dropped int
	warned  bool // of the first line on stdout that is no message
	skipped int  // further ones, since the last line about them
}

// Watch has the function that is called with each line, as the process wrote it. There is none at first.
type Watch struct {
	atomic.Pointer[func(line string)]
}

// NewLog returns a Log that writes to log, without the secrets.
func NewLog(log *zap.Logger, secrets secret.Known, watch *Watch) *Log {
	limiter := func() *rate.Limiter { return rate.NewLimiter(linesRate, linesBurst) }
	return &Log{log: log, secrets: secrets, limiter: limiter(), noise: limiter(), watch: watch}
}

// Line relays one line. It is safe for concurrent use: a server may be several processes.
func (l *Log) Line(text []byte) {
	if f := l.watch.Load(); f != nil {
		(*f)(string(text))
	}
	if l.limiter.Allow() {
		l.log.Info("upstream stderr", zap.String("line", failures.Printable(failures.Redacted(string(text), l.secrets.Sets()...))))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped++; l.dropped == 1 {
		time.AfterFunc(time.Second, l.tell)
	}
}

// Skipped tells of a line that the server has written to its stdout and that is no message. The first one is a warning;
// further ones are shown at debug and counted. It is safe for concurrent use.
func (l *Log) Skipped(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := func() zap.Field { return zap.String("line", failures.Quote(string(text), l.secrets.Sets()...)) }
	if !l.warned {
		l.warned = true
		l.log.Warn("upstream stdout: a line is no message and was skipped", line(),
			zap.String("advice", "the server, or what starts it, must log to stderr: stdout is for JSON-RPC alone; further lines are shown at log.level debug"))
		return
	}
	if l.log.Core().Enabled(zap.DebugLevel) && l.noise.Allow() {
		l.log.Debug("upstream stdout: a line is no message and was skipped", line())
	}
	if l.skipped++; l.skipped == 1 {
		time.AfterFunc(skippedEvery, l.tellSkipped)
	}
}

// tellSkipped logs how many lines on stdout were skipped.
func (l *Log) tellSkipped() {
	l.mu.Lock()
	n := l.skipped
	l.skipped = 0
	l.mu.Unlock()
	l.log.Info("upstream stdout: further lines are no messages and were skipped", zap.Int("count", n))
}

// tell logs how many lines of the last second are missing.
func (l *Log) tell() {
	l.mu.Lock()
	n := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	l.log.Warn("upstream stderr lines dropped: the process writes more than the log accepts", zap.Int("count", n), zap.Int("lines_per_second", linesRate))
}
