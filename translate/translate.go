package translate

import (
	"errors"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Table holds a translator for every ordered pair of revisions. It is immutable.
type Table struct {
	pairs [][]*Translator // indexed by Revision.order of from, then of to
}

// NewTable returns the translators for the given switches. It returns an error if a switch has an invalid value.
func NewTable(o Options) (*Table, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	tables.Lock()
	defer tables.Unlock()
	t := tables.of[o]
	if t == nil {
		t = newTable(o)
		tables.of[o] = t
	}
	return t, nil
}

// tables are those that were made, so that what is compiled at the first message of a pair of revisions is still there after a reload. There
// is at most one for each value of the switches.
var tables = struct {
	sync.Mutex
	of map[Options]*Table
}{of: map[Options]*Table{}}

func newTable(o Options) *Table {
	t := &Table{pairs: make([][]*Translator, len(revisions))}
	for i, from := range revisions {
		t.pairs[i] = make([]*Translator, len(revisions))
		for j, to := range revisions {
			t.pairs[i][j] = newTranslator(from, to, o)
		}
	}
	return t
}

// Between returns the translator from one revision to another, in O(1).
func (t *Table) Between(from, to *Revision) *Translator { return t.pairs[from.order][to.order] }

func newTranslator(from, to *Revision, o Options) *Translator {
	if !from.Tasks && !to.Tasks {
		o.Tasks = "strip"
	}
	t := &Translator{from: from, to: to, options: o}
	if from != to {
		t.plan = sync.OnceValue(func() *plan { return lay(rulesBetween(from, to, o)) })
	}
	return t
}

// rulesBetween collects the rules of all steps between two revisions, oldest
// change first.
func rulesBetween(from, to *Revision, o Options) []*Rule {
	var list []*Rule
	take := func(rules []Rule) {
		for i := range rules {
			if r := &rules[i]; r.When == nil || r.When(o) {
				list = append(list, r)
			}
		}
	}
	take(always)
	for i := range steps {
		switch s := &steps[i]; {
		case from.order < s.To.order && s.To.order <= to.order:
			take(s.Up)
		case to.order < s.To.order && s.To.order <= from.order:
			take(s.Down)
		}
	}
	return list
}

// From returns the revision of the messages that Rewrite takes, in O(1).
func (t *Translator) From() *Revision { return t.from }

// To returns the revision of the messages that Rewrite produces, in O(1).
func (t *Translator) To() *Revision { return t.to }

// Identity reports whether the two revisions are the same. Rewrite then returns every message unchanged.
func (t *Translator) Identity() bool { return t.plan == nil }

// Shape returns the shape with which a message must be scanned before Rewrite. It is nil if the revisions are the
// same.
func (t *Translator) Shape() *wire.Shape {
	if t.plan == nil {
		return nil
	}
	return t.plan().shape
}

// Rewrite translates m. The caller has scanned m with [Translator.Shape] and, if m is a response, has set its
// Method.
//
// out is the message to send or, with verdict Answer, the reply to its sender; it is nil with verdict Drop. out is
// m.Raw itself if nothing had to change, or a slice of the memory of m.Raw and m.Room if the new message fits
// there; otherwise it is written to scratch[:0] and may have outgrown it. In each case the parts of m are no
// longer valid, and out belongs to the caller. m.Losses lists what was removed or changed, and m.Note holds what
// the caller must remember for the response.
//
// With verdict Local, out is the message as far as it could be translated. The caller, which has the state of the
// session, must complete it: it is a message of the handshake or of a session, or a question. A request of the
// server is then an entry for the inputRequests of an InputRequiredResult.
//
// If the message cannot be translated, the error is an *Error.
func (t *Translator) Rewrite(scratch []byte, m *wire.Message) (out []byte, v wire.Verdict, err error) {
	return t.rewrite(scratch, m, nil)
}

// rewrite is Rewrite. Unless o is nil, it is told of the changes.
func (t *Translator) rewrite(scratch []byte, m *wire.Message, o recorder) (out []byte, v wire.Verdict, err error) {
	if t.plan == nil {
		return m.Raw, wire.Forward, nil
	}
	sites := t.plan().sites[m.Kind][min(m.Method, wire.NumMethods-1)]
	if sites == nil {
		return m.Raw, wire.Forward, nil
	}
	if m.Kind == wire.Result && m.Result()[0] != '{' {
		return nil, wire.Drop, &Error{From: t.from, To: t.to, Kind: m.Kind, Method: m.Method, Path: "result", Cause: errNotObject}
	}
	x := passes.Get().(*pass)
	*x = pass{t: t, m: m, sites: sites, dst: scratch[:0], lossOf: x.lossOf[:0], scratch: x.scratch[:0], said: x.said, origins: o}
	x.visit(m.Root())
	if o != nil {
		o.list(x)
	}
	out, v, err = x.finish()
	if cap(x.scratch) > maxScratch {
		x.scratch = nil
	}
	x.said.forget()
	*x = pass{lossOf: x.lossOf, scratch: x.scratch, said: x.said}
	passes.Put(x)
	return out, v, err
}

var errNotObject = errors.New("not an object")

func (x *pass) finish() (out []byte, v wire.Verdict, err error) {
	switch {
	case x.err != nil:
		return nil, wire.Drop, x.err
	case x.verdict == wire.Drop:
		return nil, wire.Drop, nil
	case x.verdict != wire.Forward:
		return x.dst, x.verdict, nil
	}
	if x.local {
		v = wire.Local
	}
	if !x.m.Edited() {
		return x.m.Raw, v, nil
	}
	if out = x.m.InPlace(); out == nil {
		out = x.m.AppendTo(x.dst)
	}
	return out, v, nil
}

// maxMethod is how many bytes of a method's name an error contains at most.
const maxMethod = 64

// ScanError adds the revisions to the error of a scan, and the method if the scan found it.
func (t *Translator) ScanError(m *wire.Message, err error) error {
	var fault *wire.EnvelopeError
	if !errors.As(err, &fault) {
		return err
	}
	about := t.from.Name
	if t.from != t.to {
		about += " to " + t.to.Name
	}
	if name := methodName(m); name != "" {
		about += ", " + name
	}
	explained := *fault
	explained.Why += " (" + about + ")"
	return &explained
}

// methodName returns the name of the message's method for an error; "" if the scan has found none.
func methodName(m *wire.Message) string {
	name := m.MethodName()
	return strings.ToValidUTF8(string(wire.AppendUnescaped(nil, name[:min(len(name), maxMethod)])), "")
}

// passes pools passes, for their scratch memory.
var passes = sync.Pool{New: func() any { return new(pass) }}
