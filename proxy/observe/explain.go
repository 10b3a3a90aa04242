package observe

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Explain returns why the message left in another form than it came, by the rules of the translation. m is the message as it
// came, or as it left. It takes much longer than the translation did. A message that was cut, or was not translated, has no
// changes.
func (m *Message) Explain() (translate.Explanation, error) {
	if in := m.From; in != nil {
		if m.Why.Translator == nil || in.Recorded != nil || in.Cut {
			return in.Explain()
		}
		return m.Why.Translator.Explain(in.Raw, m.Why.Known)
	}
	switch {
	case m.Recorded != nil:
		return translate.Explanation{Out: m.Raw, Changes: m.Recorded}, nil
	case m.Why.Translator == nil || m.Cut:
		return translate.Explanation{Out: m.Raw}, nil
	}
	return m.Why.Translator.Explain(m.Raw, m.Why.Known)
}

// changes says why a message changed that came in at one edge and left at the other.
type changes struct {
	list        []translate.Change
	more        int
	unexplained int    // differences that no change accounts for
	failure     string // why the translation failed
	verdict     wire.Verdict
}

// changesOf explains why the message in became out, which is nil if it did not leave. notes are those of the call: what
// else than the translation was done.
func changesOf(in, out *Message, notes []*Note) (c changes) {
	explained := in
	if out != nil {
		explained = out
	}
	e, err := explained.Explain()
	switch {
	case err != nil:
		return changes{failure: err.Error()}
	case e.Err != nil:
		return changes{failure: e.Err.Error()}
	}
	c.list, c.more, c.verdict = slices.Clone(e.Changes), e.More, e.Verdict
	if out == nil || in.Recorded != nil || in.Cut || out.Cut || e.Verdict != wire.Forward || len(e.Out) == 0 {
		return c
	}
	d := differences(e.Out, out.Raw)
	for _, at := range d.list {
		n := whoDid(at, in, notes)
		if n == nil {
			c.unexplained++
			continue
		}
		change := translate.Change{Rule: n.By, What: n.What, Kind: wire.Replaced, Before: at.before, After: at.after, Does: n.Detail}
		switch {
		case at.before == "":
			change.Kind = wire.Added
		case at.after == "":
			change.Kind = wire.Removed
		}
		if len(c.list) < translate.MaxChanges {
			c.list = append(c.list, change)
		} else {
			c.more++
		}
	}
	if d.more > 0 {
		if whoDid(d.list[len(d.list)-1], in, notes) != nil {
			c.more += d.more
		} else {
			c.unexplained += d.more
		}
	}
	return c
}

// traced is what telemetry adds to a message that it follows.
var traced = &Note{By: Trace, What: "context", Detail: "the trace goes on with a span of dragoman's"}

// whoDid returns the note of what made a difference, or nil.
func whoDid(at difference, in *Message, notes []*Note) *Note {
	path := cmp.Or(at.after, at.before)
	switch path {
	case "params._meta", "params._meta.traceparent", "params._meta.tracestate", "params":
		if at.before == "" || strings.HasPrefix(path, "params._meta.trace") {
			return traced
		}
	}
	var best *Note
	for _, n := range notes {
		if n.By == "" || n.To != 0 && n.To != in.Direction {
			continue
		}
		switch {
		case n.Path == "" && best == nil:
			best = n
		case n.Path != "" && strings.HasPrefix(path, n.Path) && (best == nil || len(n.Path) > len(best.Path)):
			best = n
		}
	}
	return best
}
