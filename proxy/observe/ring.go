package observe

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Ring keeps the newest calls. It is a [Reader], and safe for concurrent use.
type Ring struct {
	redact Redactor

	mu       sync.Mutex
	rows     map[uint64]*row
	age      []*row // the oldest first; nil where one was removed
	history  []change
	version  uint64
	read     uint64 // the newest version that a watch has read
	newest   uint64
	bytes    int
	dropped  uint64
	watches  map[*Watch]struct{}
	sessions sessionTallies
	losses   map[Loss]*lossTally // by rule and what
	errors   errorRate
	past     bool     // sessions are shown when they have ended, too
	memory   chunks   // of packed calls
	once     contents // of a call of which only the end is known
}

// change says that the row of call n was changed. Only the newest change of a row counts. It does not name the row, which
// the ring may have forgotten since.
type change struct{ version, n uint64 }

// isNewest reports whether c is the newest change of a row that the ring still has. Called with r.mu held.
func (r *Ring) isNewest(c change) bool {
	at := r.rows[c.n]
	return at != nil && at.version == c.version
}

// NewRing returns an empty ring, which shows only what redact lets through.
func NewRing(redact Redactor) *Ring {
	return &Ring{redact: redact, rows: map[uint64]*row{}, watches: map[*Watch]struct{}{}, sessions: sessionTallies{}, losses: map[Loss]*lossTally{}}
}

// NewPast returns an empty ring for a recording, whose sessions have ended and are shown nevertheless.
func NewPast(redact Redactor) *Ring {
	r := NewRing(redact)
	r.past = true
	return r
}

// of returns the row of a call, which it makes if there is none. Called with r.mu held.
func (r *Ring) of(c *Call) *row {
	at, is := r.find(c)
	if !is {
		at.live = newContents(c)
		r.grow(at, liveBytes(c))
	}
	return at
}

// find returns the row of a call. is is false if there was none: then the new one has no contents. Called with r.mu held.
func (r *Ring) find(c *Call) (at *row, is bool) {
	if at := r.rows[c.N]; at != nil {
		return at, true
	}
	at = &row{n: c.N, peers: c.peers(), bytes: rowBytes, born: r.version}
	r.rows[c.N] = at
	r.age = append(r.age, at)
	r.bytes += at.bytes
	r.newest = max(r.newest, c.N)
	r.sessions.began(c)
	return at, false
}

// open returns the contents of a row to add to them. Called with r.mu held.
func (r *Ring) open(at *row) *contents {
	if at.live == nil {
		at.live = at.packed.unpack(at.calls).owned()
		r.memory.release(&at.packed)
		r.grow(at, at.size()-at.bytes)
	}
	return at.live
}

// grow notes that a row takes more bytes. Called with r.mu held.
func (r *Ring) grow(at *row, by int) {
	at.bytes += by
	r.bytes += by
}

// changed notes that a row has changed, and takes more bytes. Called with r.mu held.
func (r *Ring) changed(at *row, grown int) {
	r.grow(at, grown)
	if at.live != nil && at.live.end != nil {
		if p, ok := at.live.pack(&r.memory); ok {
			at.calls, at.live, at.packed = at.live.call.Peers, nil, p
			r.grow(at, at.size()-at.bytes)
		}
	}
	if at.version <= r.read { // otherwise no watch has read the last change
		r.version++
		at.version = r.version
		r.history = append(r.history, change{at.version, at.n})
	}
	if len(r.history) > 4*maxRows {
		r.history = slices.DeleteFunc(r.history, func(c change) bool { return !r.isNewest(c) })
	}
	for r.bytes > maxBytes && len(r.rows) > 1 || len(r.rows) > maxRows {
		r.evict()
	}
}

// evict forgets the oldest row.
func (r *Ring) evict() {
	oldest := r.age[0]
	r.age[0] = nil
	r.age = r.age[1:]
	delete(r.rows, oldest.n)
	r.memory.release(&oldest.packed)
	r.bytes -= oldest.bytes
	for w := range r.watches {
		if w.seen < oldest.version {
			w.missed++
		}
	}
}

// Message implements [Reader].
func (r *Ring) Message(m *Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.of(m.Call)
	has := r.open(at)
	if len(has.messages)+len(has.notes) >= maxParts {
		at.more++
		r.changed(at, 0)
		return
	}
	has.messages = append(has.messages, m)
	grown := 0
	if len(has.messages) > m.Call.ready() {
		grown = messageBytes
	}
	if !m.Unchanged() {
		grown += cap(m.Raw)
	}
	if m.Edge == ClientEdge {
		switch {
		case m.asks():
			at.asked++
			r.sessions.asked(m.Call, 1)
		case m.Direction == ToServer && at.asked > 0 && (m.Kind.Response() || m.Kind == wire.Request):
			at.asked--
			r.sessions.asked(m.Call, -1)
		}
	}
	for _, l := range m.Losses {
		r.lost(m.Call, m.Direction, l)
	}
	r.changed(at, grown)
}

// Note implements [Reader].
func (r *Ring) Note(n *Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.By == Dialect {
		r.sessions.changed(n.Call.peers(), n.By)
	}
	at := r.of(n.Call)
	has := r.open(at)
	if len(has.messages)+len(has.notes) >= maxParts {
		at.more++
		return
	}
	has.notes = append(has.notes, n)
	r.changed(at, noteBytes)
}

// End implements [Reader].
func (r *Ring) End(e *End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, is := r.find(e.Call)
	if !is { // the call is only summarized, or what was before is lost
		r.once = contents{call: e.Call} // it is packed at once
		at.live = &r.once
	}
	r.open(at).end = e
	if more := e.Call.summary().more; more != nil {
		for _, l := range more.losses {
			r.lost(e.Call, 0, l)
		}
		if slices.Contains(more.by, Dialect) {
			r.sessions.changed(e.Call.peers(), Dialect)
		}
	}
	if at.asked > 0 {
		r.sessions.asked(e.Call, -at.asked)
		at.asked = 0
	}
	bad := IsFailure(e.Status)
	if bad {
		r.errors.add(e.At)
	}
	r.sessions.ended(e, bad)
	r.changed(at, 0)
}

// IsFailure reports whether a call with this status has failed.
func IsFailure(status string) bool {
	switch status {
	case "tool_error", "error", "refused", "failed":
		return true
	}
	return false
}

// Session implements [Reader].
func (r *Ring) Session(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions.heard(s)
	if s.Call != nil {
		at := r.of(s.Call)
		at.peers = &s.Peers
		r.changed(at, 0)
	}
}

// Stderr implements [Reader]. The ring does not keep it.
func (r *Ring) Stderr(*Stderr) {}

// Gap implements [Reader].
func (r *Ring) Gap(dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += dropped
	for w := range r.watches {
		w.missed += dropped
	}
}

// lost adds l, of a message to this side; 0 if that is not known.
func (r *Ring) lost(c *Call, to Direction, l wire.Loss) {
	r.sessions.changed(c.peers(), l.Rule)
	if l.Level == wire.Assumed {
		return
	}
	key := Loss{Rule: l.Rule, What: l.What}
	t := r.losses[key]
	if t == nil {
		if len(r.losses) >= maxLosses {
			return
		}
		t = new(lossTally)
		r.losses[key] = t
	}
	t.toward(c.peers(), to)
	t.lost += l.Lost
	t.changed += l.Changed()
	if l.Lost > 0 || t.lost == 0 {
		t.example = c.N
	}
}

// Watch is one reader of the ring's rows.
type Watch struct {
	ring   *Ring
	seen   uint64 // the version up to which it has read
	missed uint64
}

// Watch returns a reader of all rows that came or changed since the row of the call after came. It reads all rows if
// that is 0, or if no such call has come yet: then it is a number of an earlier process. The caller closes it.
func (r *Ring) Watch(after uint64) *Watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &Watch{ring: r}
	if at := r.rows[after]; at != nil {
		w.seen = at.born
	}
	r.watches[w] = struct{}{}
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	delete(w.ring.watches, w)
}

// Next returns up to max rows that changed since the last call, in the order of their changes, and how many rows or events
// were lost since then.
func (w *Watch) Next(max int) (rows []Row, missed uint64) {
	r := w.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	missed, w.missed = w.missed, 0
	redact := &remembering{Redactor: r.redact, texts: map[string]string{}}
	from, _ := slices.BinarySearchFunc(r.history, w.seen+1, func(c change, v uint64) int { return cmp.Compare(c.version, v) })
	for _, c := range r.history[from:] {
		if len(rows) == max {
			break
		}
		w.seen = c.version
		if c.version > r.read {
			r.read = c.version
		}
		if r.isNewest(c) {
			rows = append(rows, r.rows[c.n].view(redact))
		}
	}
	return rows, missed
}

// Bounds are the first and the newest call in the ring.
func (r *Ring) Bounds() (first, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.age) > 0 {
		first = r.age[0].n
	}
	return first, r.newest
}

// Each calls f with each row that changed after the version since, and with its messages, the oldest first, until f returns
// false. It returns the version up to which the caller has seen all rows.
func (r *Ring) Each(since uint64, f func(Row, []*Message) bool) (until uint64) {
	r.mu.Lock()
	all, until := slices.Clone(r.age), r.version
	r.read = max(r.read, until)
	r.mu.Unlock()
	for _, at := range all {
		r.mu.Lock()
		if at.version <= since || r.rows[at.n] != at { // it was forgotten meanwhile
			r.mu.Unlock()
			continue
		}
		view := at.view(r.redact)
		messages := at.owned().messages
		r.mu.Unlock()
		if !f(view, messages) {
			break
		}
	}
	return until
}

// Found is what a filter chooses of the calls that changed after some version of the ring.
type Found struct {
	Fit   []uint64 `json:"fit"`
	Not   []uint64 `json:"not"`   // those that it does not choose; only if there was an earlier version
	Until uint64   `json:"until"` // the version of the ring
}

// Search returns which of the calls that changed after the version since a filter chooses. It may take long, and does not
// block the ring.
func (r *Ring) Search(f Filter, since uint64) Found {
	found := Found{Fit: []uint64{}, Not: []uint64{}}
	found.Until = r.Each(since, func(row Row, messages []*Message) bool {
		if r.Matches(f, &row, messages) {
			found.Fit = append(found.Fit, row.N)
		} else if since > 0 {
			found.Not = append(found.Not, row.N)
		}
		return true
	})
	return found
}

// Matches reports whether a filter chooses a call. Texts are searched in what is shown of its messages, so that a filter cannot
// find a secret.
func (r *Ring) Matches(f Filter, row *Row, messages []*Message) bool {
	return f.Match(row, func(text string) bool {
		return slices.ContainsFunc(messages, func(m *Message) bool {
			return !m.Unchanged() && strings.Contains(strings.ToLower(string(r.redact.Payload(m.Method, row.Tool, m.Raw))), text)
		})
	})
}
