package translate

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
