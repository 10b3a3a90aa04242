package server

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/dragoman-proxy/dragoman/proxy/failures"
)

// How many lines of a server's stderr are written to the log.
const (
	linesRate  = 100 // a second
	linesBurst = 500
)

// A Log relays what a server writes to its stderr, and counts the lines over the rate.
type Log struct {
	log     *zap.Logger
	secrets []string // values that are removed from the lines
	limiter *rate.Limiter
	watch   *Watch

	mu      sync.Mutex
	dropped int
}

// Watch has the function that is called with each line, as the process wrote it. There is none at first.
type Watch struct {
	atomic.Pointer[func(line string)]
}

// NewLog returns a Log that writes to log, without the secrets.
func NewLog(log *zap.Logger, secrets []string, watch *Watch) *Log {
	return &Log{log: log, secrets: secrets, limiter: rate.NewLimiter(linesRate, linesBurst), watch: watch}
}

// Line relays one line. It is safe for concurrent use: a server may be several processes.
func (l *Log) Line(text []byte) {
	if f := l.watch.Load(); f != nil {
		(*f)(string(text))
	}
	if l.limiter.Allow() {
		l.log.Info("upstream stderr", zap.String("line", failures.Printable(failures.Redacted(string(text), l.secrets))))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped++; l.dropped == 1 {
		time.AfterFunc(time.Second, l.tell)
	}
}

// tell logs how many lines of the last second are missing.
func (l *Log) tell() {
	l.mu.Lock()
	n := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	l.log.Warn("upstream stderr lines dropped: the process writes more than the log accepts", zap.Int("count", n), zap.Int("lines_per_second", linesRate))
}
