package translate

import (
	"reflect"
	"runtime"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Rule is one change: an action and the places where it is applied.
type Rule struct {
	ID   string // "C01", as in the loss report
	What string // the member or thing that it is about: "title"
	At   []Place
	Do   action
	To   string // the member to which it moves a value, if it does: "annotations.title"
	// Reads are the paths of the values below a place that Do looks at; "*" is every member, and "../" leads to
	// the place's siblings. Do can only see values that Reads or At of some rule name.
	Reads []string
	// When reports whether the rule applies with the given switches; nil means always.
	When func(Options) bool
}

// Place is where a rule is applied: a kind of message, a method (for a response, that of its request), and a path
// from the message to a value. The path "" is the message itself.
type Place struct {
	Kind   wire.Kind
	Method wire.Method
	Path   string
}

// anyMethod stands for every method, known or not.
const anyMethod = wire.NumMethods

// action applies a rule to one value.
type action func(x *pass, n wire.Node)

// action returns the name of the function Do.
func (r *Rule) action() string {
	name := runtime.FuncForPC(reflect.ValueOf(r.Do).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// does returns what the rule does, in words.
func (r *Rule) does() string { return sentences[r.action()] }

// Direction says whether a rule applies to messages to a newer or to an older revision.
type Direction string

// The directions of a rule.
const (
	Up   Direction = "up"   // from an older revision to a newer one
	Down Direction = "down" // from a newer revision to an older one
	Both Direction = "both"
)

// plan is the compiled form of the rules between two revisions: the places where they act for every kind and method, and
// one shape with which a scan records all these places.
type plan struct {
	sites [wire.Error + 1][wire.NumMethods]sites
	shape *wire.Shape
}

// sites holds the sites of the messages of one kind and method, by the number of the shape with which the scan has recorded
// the value; nil if no rule acts there, nor further in.
type sites []*site

// site is a place in a message, with the rules that act there, in order.
type site struct {
	rules []*Rule
	inner bool // some rule acts further in
}

// Translator rewrites messages of one revision as messages of another, from clients and servers alike. It is
// immutable and safe for concurrent use.
type Translator struct {
	from, to *Revision
	options  Options
	plan     func() *plan // compiled at the first call, since most pairs are never used; nil if the two are the same
}

// pass is the state of translating one message.
type pass struct {
	t     *Translator
	m     *wire.Message
	sites sites
	rule  *Rule
	dst   []byte

	verdict wire.Verdict
	local   bool // the verdict Forward becomes Local
	err     error

	lossOf []ruleLoss // so that not every loss of a rule has to be looked for

	scratch []byte // for texts that are compared
	said    said   // what the blocks of the result say whose structured content is removed

	origins recorder // nil unless the changes are to be explained
}

// ruleLoss says at which index of the message's losses the loss of a rule is.
type ruleLoss struct {
	rule *Rule
	loss int
}

// A recorder is told which rule made which edit.
type recorder interface {
	note(x *pass, r *Rule) // r made the edits that have no rule yet
	list(x *pass)          // all rules were applied, and the message is not written yet
}

func (x *pass) done() bool { return x.err != nil || x.verdict != wire.Forward }

// visit applies the rules to the value n and to all values in it, in the order of the text. What a rule has removed or
// replaced is not visited.
func (x *pass) visit(n wire.Node) {
	for c, end := n, n.Behind(); c != end; {
		s := x.sites[c.Shape()]
		if s == nil || c.Changed() {
			c = c.Behind()
			continue
		}
		for _, r := range s.rules {
			x.rule = r
			r.Do(x, c)
			if x.origins != nil {
				x.origins.note(x, r)
			}
			if x.done() {
				return
			}
			if c.Changed() {
				break
			}
		}
		if s.inner && !c.Changed() {
			c = c.Inside()
		} else {
			c = c.Behind()
		}
	}
}

// visitMember visits one member of the value to which a rule is being applied. A rule calls it to have the member
// translated before it goes on. A member that was removed or replaced is not visited.
func (x *pass) visitMember(c wire.Node) {
	rule := x.rule
	if x.origins != nil {
		x.origins.note(x, rule) // the edits that it has made before
	}
	x.visit(c)
	x.rule = rule
}

// lost reports what the rule does to n. Of the level Warn, the receiver misses it.
func (x *pass) lost(n wire.Node, level wire.Level) {
	x.report(n, level)
}

// moved is lost for a rule that puts a replacement with the same meaning into the message: the receiver misses nothing.
func (x *pass) moved(n wire.Node, level wire.Level) {
	x.replaced(x.report(n, level), level)
}

// lostAs is lost for a rule that reports several things; what replaces Rule.What.
func (x *pass) lostAs(what string, n wire.Node, level wire.Level) {
	x.lossAt(what, n, level)
}

// movedAs is moved, and what replaces Rule.What.
func (x *pass) movedAs(what string, n wire.Node, level wire.Level) {
	x.replaced(x.lossAt(what, n, level), level)
}

// replaced notes that the newest place of the loss with this index has a replacement.
func (x *pass) replaced(i int, level wire.Level) {
	l := &x.m.Losses[i]
	l.Standin = true
	if level == wire.Warn {
		l.Lost--
	}
	if x.m.Trace {
		x.m.Places[len(x.m.Places)-1].Standin = true
	}
}

// report returns the index of the rule's loss, to which it adds n.
func (x *pass) report(n wire.Node, level wire.Level) int {
	if x.m.Trace {
		return x.lossAt(x.rule.What, n, level)
	}
	for i := range x.lossOf {
		if at := &x.lossOf[i]; at.rule == x.rule {
			x.m.Losses[at.loss].Add(level)
			return at.loss
		}
	}
	i := x.lossAt(x.rule.What, n, level)
	x.lossOf = append(x.lossOf, ruleLoss{x.rule, i})
	return i
}

// lossAt is report for what. It returns the index of the loss.
func (x *pass) lossAt(what string, n wire.Node, level wire.Level) int {
	if x.m.Trace {
		x.m.Places = append(x.m.Places, wire.Place{Rule: x.rule.ID, What: what, Level: level, Path: string(n.AppendPath(nil))})
	}
	for i := range x.m.Losses {
		if l := &x.m.Losses[i]; l.What == what && l.Rule == x.rule.ID {
			l.Add(level)
			return i
		}
	}
	x.m.Lose(x.rule.ID, what, level, n)
	return len(x.m.Losses) - 1
}

// fail ends the translation of the message with an error (C40).
func (x *pass) fail(n wire.Node, cause error) {
	x.err = &Error{
		From: x.t.from, To: x.t.to, Kind: x.m.Kind, Method: x.m.Method,
		Rule: x.rule.ID, Path: n.Path().String(), Cause: cause,
	}
}
