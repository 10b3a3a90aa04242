// Package losses counts and logs what translation removes from messages, and what else it changes.
package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Log reports what translation did to messages: what the receiver misses is lost, the rest is changed. The counters count both,
// but for values that the receiver assumes without them. The log has one line about each kind, the first time that it is
// met between two peers, and at most once an hour a line about the repeats. It is safe for concurrent use.
type Log struct {
	log   *zap.Logger
	total *metrics.Metrics
	setup func() (server string, known []string)

	mu       sync.Mutex
	counters map[count]prometheus.Counter // looking them up by their labels takes longer
	told     map[told]struct{}            // what the log has; at most maxTold with a client's name
	repeats  map[kind]*sum                // since the last line about repeats
	summed   time.Time                    // when that was
	advised  bool                         // a line has said what to do
}

// Peers says between which peers a message went.
type Peers struct {
	From, To *translate.Revision
	Client   string // name and version, "" if it has said none
}

// way is from which revision to which messages are translated.
type way struct{ from, to *translate.Revision }

// count has what losses and changes are counted by.
type count struct {
	way
	rule string
	lost bool
}

// kind has what a loss or change and its repeats have in common. All of it is from the rules, so that there are not many kinds.
type kind struct {
	way
	rule, what string
	lost       bool
}

// told is a kind that the log has about a client and the server. The client has no version in it: what an update brings
// is no news.
type told struct {
	kind
	client, server string
}

// maxTold bounds the memory for clients' names. What comes later is told without a name, once for all such clients.
const maxTold = 4096

// every is how often repeats are logged.
const every = time.Hour

// sum is losses or changes of one kind.
type sum struct {
	kind
	method   wire.Method
	path     wire.Path
	level    wire.Level
	count    int
	messages int // that had them, if they are repeats
}

// New returns an empty Log.
func New(log *zap.Logger, total *metrics.Metrics, setup func() (server string, known []string)) *Log {
	return &Log{
		log: log, total: total, setup: setup,
		counters: make(map[count]prometheus.Counter), told: make(map[told]struct{}), repeats: make(map[kind]*sum), summed: time.Now(),
	}
}

// Note counts and logs what the translation did to one message. header has the headers that the message
// came with.
func (l *Log) Note(p Peers, method wire.Method, losses []wire.Loss, header []mcp.Header) {
	if len(losses) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := way{p.From, p.To}
	var news []sum
	for i := range losses {
		loss := &losses[i]
		if loss.Lost > 0 {
			l.counterOf(count{w, loss.Rule, true}).Add(float64(loss.Lost))
			news = l.note(news, p, loss, sum{kind: kind{w, loss.Rule, loss.What, true}, method: method, level: wire.Warn, count: loss.Lost})
		}
		if n := loss.Changed(); n > 0 {
			level := loss.Level
			if loss.Lost > 0 {
				level = wire.Debug // the line about the loss says enough
			}
			if level != wire.Assumed {
				l.counterOf(count{w, loss.Rule, false}).Add(float64(n))
			}
			news = l.note(news, p, loss, sum{kind: kind{w, loss.Rule, loss.What, false}, method: method, level: level, count: n})
		}
	}
	if news == nil {
		return
	}
	server, _ := l.setup()
	about := append([]zap.Field{zap.String("client", p.Client), zap.String("server", server)}, trace.Fields(header)...)
	l.write(w, news, "", about)
}

// note appends s, what loss says, to news if the log does not have it about these peers. Called with l.mu held.
func (l *Log) note(news []sum, p Peers, loss *wire.Loss, s sum) []sum {
	if s.level >= wire.Info || l.log.Core().Enabled(zapcore.DebugLevel) {
		server, known := l.setup()
		if slices.Contains(known, loss.Rule) {
			s.level = wire.Debug
		}
		if !l.log.Core().Enabled(zapLevel(s.level)) {
			return news
		}
		if l.isNew(told{s.kind, nameOf(p.Client), server}) {
			s.path = loss.Path
			return append(news, s)
		}
		again := l.repeats[s.kind]
		if again == nil {
			again = &sum{kind: s.kind}
			l.repeats[s.kind] = again
		}
		again.method, again.path, again.level = s.method, loss.Path, max(again.level, s.level)
		again.count += s.count
		again.messages++
	}
	return news
}

// isNew notes that t is told, and reports whether it was not before.
func (l *Log) isNew(t told) bool {
	if _, is := l.told[t]; is {
		return false
	}
	if len(l.told) >= maxTold {
		t.client, t.server = "", ""
		if _, is := l.told[t]; is {
			return false
		}
	}
	l.told[t] = struct{}{}
	return true
}

// NameOf returns the name and version in a clientInfo, JSON, as far as the log has them.
func NameOf(clientInfo string) string {
	const most = 100
	said := gjson.GetMany(clientInfo, "name", "version")
	return failures.Beginning(strings.TrimSpace(said[0].Str+" "+said[1].Str), most)
}

// nameOf returns a client's name without its version.
func nameOf(client string) string {
	if i := strings.LastIndexByte(client, ' '); i > 0 {
		return client[:i]
	}
	return client
}

func (l *Log) counterOf(by count) prometheus.Counter {
	c := l.counters[by]
	if c == nil {
		if by.lost {
			c = l.total.Losses.WithLabelValues(by.from.Name, by.to.Name, by.rule, "warn")
		} else {
			c = l.total.Changes.WithLabelValues(by.from.Name, by.to.Name, by.rule)
		}
		l.counters[by] = c
	}
	return c
}

// Flush writes lines about what was met again, if the last ones are an hour ago.
func (l *Log) Flush(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.summed) >= every {
		l.summed = now
		l.sumUp()
	}
}

// Close writes lines about what was met again since the last ones.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sumUp()
}

// sumUp writes a line about the repeats for each two revisions. Called with l.mu held.
func (l *Log) sumUp() {
	again := make(map[way][]sum)
	for _, s := range l.repeats {
		s.level = min(s.level, wire.Info)
		again[s.way] = append(again[s.way], *s)
	}
	clear(l.repeats)
	for w, sums := range again {
		l.write(w, sums, " again", nil)
	}
}

// advice is in the first line about a loss.
const advice = "the revision of the receiver has no form for it: docs/revisions-and-losses.md says what each rule does. " +
	"Each kind is said once for a client; log.known_losses lists rules that are not worth a warning"

// write writes a line about what is lost, one about what is changed, and apart from them what is for debugging. Called with l.mu
// held.
func (l *Log) write(w way, sums []sum, again string, about []zap.Field) {
	var parts [2][2]list // changed and lost, for debugging or not
	index := map[bool]int{true: 1}
	for _, s := range sums {
		part := &parts[index[s.lost]][index[s.level < wire.Info]]
		*part = append(*part, s)
	}
	for i, name := range []string{"changes", "losses"} {
		for _, of := range parts[i] {
			if of != nil {
				l.writeLine(w, of, [...]string{"changed", "lost"}[i]+" in translation"+again, name, about)
			}
		}
	}
}

// writeLine writes one line. The first warning has advice.
func (l *Log) writeLine(w way, of list, message, name string, about []zap.Field) {
	level := slices.MaxFunc(of, func(a, b sum) int { return cmp.Compare(a.level, b.level) }).level
	entry := l.log.Check(zapLevel(level), message)
	if entry == nil {
		return
	}
	slices.SortStableFunc(of, func(a, b sum) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.what, b.what))
	})
	fields := append([]zap.Field{zap.String("from", w.from.Name), zap.String("to", w.to.Name)}, about...)
	fields = append(fields, zap.Array(name, of))
	if level == wire.Warn && !l.advised {
		l.advised = true
		fields = append(fields, zap.String("advice", advice))
	}
	entry.Write(fields...)
}

// list is what one line says.
type list []sum

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (of list) MarshalLogArray(a zapcore.ArrayEncoder) error {
	for _, s := range of {
		if err := a.AppendObject(s); err != nil {
			return err
		}
	}
	return nil
}

// String returns the list for a log line as text.
func (of list) String() string {
	texts := make([]string, len(of))
	for i, s := range of {
		texts[i] = fmt.Sprintf("%s %s ×%d", s.rule, s.what, s.count)
	}
	return strings.Join(texts, ", ")
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (s sum) MarshalLogObject(o zapcore.ObjectEncoder) error {
	o.AddString("method", s.method.String())
	o.AddString("rule", s.rule)
	o.AddString("what", s.what)
	o.AddString("path", s.path.String())
	o.AddInt("count", s.count)
	if s.messages > 0 {
		o.AddInt("messages", s.messages)
		return nil
	}
	o.AddString("does", translate.DoesBetween(s.from, s.to, s.method, s.rule, s.what))
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
