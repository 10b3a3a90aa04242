package translate

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// steps has one step for each revision but the oldest, oldest first.
var steps = []Step{step20250326, step20250618, step20251125, step20260728}

// RuleInfo describes one rule, for tests and documentation.
type RuleInfo struct {
	ID, What  string
	Does      string    // in words, after "the rule": "removes a member that …"
	Revision  *Revision // whose step it belongs to; nil for rules between any two revisions
	Direction Direction
	Places    []Place // Method is [wire.NumMethods] for any method
}

// Rules returns every rule.
func Rules() []RuleInfo {
	var list []RuleInfo
	add := func(rules []Rule, rev *Revision, d Direction) {
		for i := range rules {
			r := &rules[i]
			list = append(list, RuleInfo{r.ID, r.What, r.does(), rev, d, r.At})
		}
	}
	for _, s := range steps {
		add(s.Up, s.To, Up)
		add(s.Down, s.To, Down)
	}
	add(always, nil, Both)
	return list
}

// IsRule reports whether a rule has this number.
func IsRule(id string) bool {
	return slices.ContainsFunc(Rules(), func(r RuleInfo) bool { return r.ID == id })
}

// MovedTo returns where the receiver finds what a rule with this number moves, such as "annotations.title"; "" if that is no member of
// its own.
func MovedTo(id, what string) string {
	for _, s := range steps {
		for _, r := range slices.Concat(s.Up, s.Down) {
			if r.ID == id && r.What == what && r.To != "" {
				return r.To
			}
		}
	}
	return ""
}

// DoesBetween returns what the rules with this number do to messages of a method between two revisions, and to the thing that a
// [wire.Loss] names, in words. If it names a part of what a rule is about, these are all rules with the number.
func DoesBetween(from, to *Revision, method wire.Method, id, what string) string {
	var exact, all []string
	add := func(list []string, does string) []string {
		if slices.Contains(list, does) {
			return list
		}
		return append(list, does)
	}
	for _, r := range Rules() {
		switch rev := r.Revision; {
		case r.ID != id, !slices.ContainsFunc(r.Places, func(p Place) bool { return p.Method == method || p.Method == anyMethod }):
			continue
		case r.Direction == Up && (rev.order <= from.order || rev.order > to.order),
			r.Direction == Down && (rev.order <= to.order || rev.order > from.order):
			continue
		}
		if all = add(all, r.Does); r.What == what {
			exact = add(exact, r.Does)
		}
	}
	if exact == nil {
		exact = all
	}
	return strings.Join(exact, "; or ")
}
