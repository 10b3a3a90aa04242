package translate

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Change is one difference between a message before and after its translation, and the rule that made it.
type Change struct {
	Rule string          `json:"rule"` // the rule's number: "C01"
	What string          `json:"what"` // the member or thing that the rule is about, as in a [wire.Loss]: "title"
	Kind wire.ChangeKind `json:"change"`
	// Before is the path of the value in the message before the translation, and After its path in the message
	// after it: "result.tools[3].title"; both are empty for the message itself. Of a removed value there is only
	// Before, of an added one only After. Of a value within one that is removed or replaced as a whole there is only
	// Before, too.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Does is what the rule does, in words.
	Does string `json:"does"`
}

// Path returns Before or, of an added value, After.
func (c Change) Path() string {
	if c.Kind == wire.Added {
		return c.After
	}
	return c.Before
}

// The kinds of change of a whole message. The others are those of a [wire.Change].
const (
	Dropped    wire.ChangeKind = "dropped"
	Answered   wire.ChangeKind = "answered"    // Out is the reply to the sender
	HandedOver wire.ChangeKind = "handed over" // to the caller, which has the state of the session; see [wire.Local]
)

// Known is what a caller of [Translator.Rewrite] knew of a message besides its text.
type Known struct {
	Method wire.Method // of a response: that of the request that it answers
	Note   []byte      // of a response: what the translation of its request left
	Facts  wire.Facts
	Stamp  *wire.Stamp
}

// Explanation says what a translation made of a message, and why.
type Explanation struct {
	// Out, Verdict and Err are what Rewrite returns. If Err is not nil, there are no changes.
	Out     []byte
	Verdict wire.Verdict
	Err     error
	// Changes explains every difference between the message and Out, in the order of the text. If the verdict is
	// Drop or Answer, there is one change, of the whole message. If it is Local, the first is of the whole message.
	Changes []Change
	// More is how many further changes there are: Changes has at most MaxChanges, and their paths have at most 1 MiB.
	More int
}

// Explain translates a copy of a message once more and returns which rule made which difference. It takes much longer
// than Rewrite. The error is that of the scan.
func (t *Translator) Explain(raw []byte, known Known) (Explanation, error) {
	m := wire.Message{Facts: known.Facts, Stamp: known.Stamp}
	if err := m.Scan(bytes.Clone(raw), t.Shape()); err != nil {
		return Explanation{}, t.ScanError(&m, err)
	}
	if m.Kind.Response() {
		m.Method, m.Note = known.Method, known.Note
	}
	var o origins
	out, verdict, err := t.rewrite(nil, &m, &o)
	if err != nil {
		return Explanation{Verdict: verdict, Err: err}, nil
	}
	return Explanation{Out: out, Verdict: verdict, Changes: o.changes, More: o.more}, nil
}

// origins is the recorder of Explain.
type origins struct {
	edits []*Rule // in the order of the edits
	ended *Rule   // gave the verdict
	local *Rule   // handed the message over

	changes []Change
	more    int
	paths   int // length of all paths
}

func (o *origins) note(x *pass, r *Rule) {
	for len(o.edits) < x.m.Edits() {
		o.edits = append(o.edits, r)
	}
	if x.verdict != wire.Forward && o.ended == nil {
		o.ended = r
	}
	if x.local && o.local == nil {
		o.local = r
	}
}

func (o *origins) list(x *pass) {
	switch {
	case x.err != nil:
		return
	case x.verdict == wire.Drop:
		o.add(o.ended, wire.Change{Kind: Dropped})
		return
	case x.verdict == wire.Answer:
		o.add(o.ended, wire.Change{Kind: Answered})
		return
	case x.verdict == wire.Local: // the message is handed over as it came
		o.add(o.ended, wire.Change{Kind: HandedOver})
		return
	case x.local:
		o.add(o.local, wire.Change{Kind: HandedOver})
	}
	x.m.EachChange(func(c wire.Change) {
		if r := o.edits[c.Edit]; c.Within < 0 || o.edits[c.Within] != r { // otherwise the change of the outer value says it all
			o.add(r, c)
		}
	})
}

func (o *origins) add(r *Rule, c wire.Change) {
	size := len(c.Before) + len(c.After)
	if len(o.changes) == MaxChanges || o.more > 0 || o.paths+size > maxPaths {
		o.more++
		return
	}
	o.paths += size
	o.changes = append(o.changes, Change{
		Rule: r.ID, What: r.What, Kind: c.Kind, Before: string(c.Before), After: string(c.After), Does: r.does(),
	})
}

const maxPaths = 1 << 20

// MaxChanges is how many changes an Explanation has at most.
const MaxChanges = 1000
