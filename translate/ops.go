package translate

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pass is the state of translating one message.
type pass struct {
	t    *Translator
	m    *wire.Message
	site *site // where the rule acts
	rule *Rule
	dst  []byte

	verdict wire.Verdict
	local   bool // the verdict Forward becomes Local
	err     error

	scratch []byte // for texts that are compared

	origins *origins // nil unless the changes are to be explained
}

func (x *pass) done() bool { return x.err != nil || x.verdict != wire.Forward }

// visit applies the rules of s to the value n, and then visits the members and elements that rules name.
func (x *pass) visit(s *site, n wire.Node) {
	for _, r := range s.rules {
		x.site, x.rule = s, r
		r.Do(x, n)
		if x.origins != nil {
			x.origins.note(x, r)
		}
		if x.done() || n.Changed() {
			return
		}
	}
	if !s.inner {
		return
	}
	for c := n.First(); c.OK() && !x.done(); c = c.Next() {
		if next := s.below(c); next != nil && !c.Changed() {
			x.visit(next, c)
		}
	}
}

// visitMember visits one member of the value to which a rule is being applied. A rule calls it to have the member
// translated before it goes on.
func (x *pass) visitMember(c wire.Node) {
	site, rule := x.site, x.rule
	if x.origins != nil {
		x.origins.note(x, rule) // the edits that it has made before
	}
	if next := site.below(c); next != nil {
		x.visit(next, c)
	}
	x.site, x.rule = site, rule
}

// lost reports what the rule does to n.
func (x *pass) lost(n wire.Node, level wire.Level) *wire.Loss {
	return x.lostAs(x.rule.What, n, level)
}

// lostAs is lost for a rule that reports several things; what replaces Rule.What.
func (x *pass) lostAs(what string, n wire.Node, level wire.Level) *wire.Loss {
	if x.m.Trace {
		x.m.Places = append(x.m.Places, wire.Place{Rule: x.rule.ID, What: what, Level: level, Path: string(n.AppendPath(nil))})
	}
	for i := range x.m.Losses {
		if l := &x.m.Losses[i]; l.What == what && l.Rule == x.rule.ID {
			l.Count++
			l.Level = max(l.Level, level)
			return l
		}
	}
	x.m.Losses = append(x.m.Losses, wire.Loss{
		Rule: x.rule.ID, What: what, Level: level, Count: 1, Path: n.Path(),
	})
	return &x.m.Losses[len(x.m.Losses)-1]
}

// fail ends the translation of the message with an error (C40).
func (x *pass) fail(n wire.Node, cause error) {
	x.err = &Error{
		From: x.t.from, To: x.t.to, Kind: x.m.Kind, Method: x.m.Method,
		Rule: x.rule.ID, Path: n.Path().String(), Cause: cause,
	}
}

// strip removes a member that the receiver's revision does not have.
func strip(x *pass, n wire.Node) {
	x.lost(n, stripLevel(n))
	n.Remove()
}

// stripLevel returns the level of the loss of n: Info for an empty value, else Warn.
func stripLevel(n wire.Node) wire.Level {
	if n.Hollow() {
		return wire.Info
	}
	return wire.Warn
}

// drop drops a notification that the receiver's revision does not have.
func drop(x *pass, n wire.Node) {
	x.lost(n, wire.Warn)
	x.verdict = wire.Drop
}

// methodNotFound answers the request with error -32601, since the receiver's revision does not have the
// method.
func methodNotFound(x *pass, n wire.Node) {
	x.lost(n, wire.Info)
	x.answerError(-32601, "Method not found: "+x.m.Method.String())
}

// answerError answers the request with an error, instead of sending it to the receiver.
func (x *pass) answerError(code int, message string) {
	x.dst = append(x.dst, `{"jsonrpc":"2.0","id":`...)
	x.dst = append(x.dst, x.m.ID()...)
	x.dst = fmt.Appendf(x.dst, `,"error":{"code":%d,"message":"`, code)
	x.dst = wire.AppendQuotedInner(x.dst, message)
	x.dst = append(x.dst, `"}}`...)
	x.verdict = wire.Answer
}

// answerResult answers the request with a result, instead of sending it to the receiver.
func (x *pass) answerResult(result string) {
	x.dst = append(x.dst, `{"jsonrpc":"2.0","id":`...)
	x.dst = append(x.dst, x.m.ID()...)
	x.dst = append(x.dst, `,"result":`...)
	x.dst = append(x.dst, result...)
	x.dst = append(x.dst, '}')
	x.verdict = wire.Answer
}

// nonEmpty returns a string value without its quotes. ok is false if the string is empty or n is not a string.
func nonEmpty(n wire.Node) (raw []byte, ok bool) {
	raw, ok = n.Text()
	return raw, ok && len(raw) > 0
}

// elements returns the first element of an array, or the zero Node if n is not an array or has no elements.
func elements(n wire.Node) wire.Node {
	if !n.OK() || n.Kind() != '[' {
		return wire.Node{}
	}
	return n.First()
}

// carriesTasks reports whether tasks are bridged between the two revisions and the server has tasks.
func (x *pass) carriesTasks() bool {
	return bridgesTasks(x.t.options) && x.t.from.Modern != x.t.to.Modern && x.m.Facts.Has(wire.ServerTasks)
}
