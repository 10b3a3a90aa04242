package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// names reports whether the golden case's title lists the rule, before the dot.
func (g *golden) names(rule string) bool {
	rules, _, _ := strings.Cut(g.title, "·")
	return slices.ContainsFunc(strings.Fields(rules), func(s string) bool {
		return strings.Trim(s, ",") == rule
	})
}

// acts reports whether the translation changes the message.
func (g *golden) acts() bool { return g.verdict != "want" || g.want != g.in }

// crosses reports whether the case's translation takes the step to the revision, in the
// direction d. If step is nil, the rule acts between any two revisions.
func (g *golden) crosses(t testing.TB, step *translate.Revision, d translate.Direction) bool {
	t.Helper()
	order := translate.All()
	age := func(r *translate.Revision) int { return slices.Index(order, r) }
	older, newer := age(revision(t, g.from)), age(revision(t, g.to))
	if d == translate.Down {
		older, newer = newer, older
	}
	if step == nil {
		return older > newer
	}
	return older > age(step) && newer <= age(step)
}

// scanned returns kind and method of the case's message.
func (g *golden) scanned(t testing.TB) (wire.Kind, wire.Method) {
	t.Helper()
	var m wire.Message
	if err := m.Scan([]byte(g.in), nil); err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	if m.Kind == wire.Result || m.Kind == wire.Error {
		return m.Kind, g.method
	}
	return m.Kind, m.Method
}

// TestEveryRuleHasAGoldenCase checks that for every rule, each of its directions, and
// each kind and method of message that it acts on, a golden file names the
// rule and shows a change.
func TestEveryRuleHasAGoldenCase(t *testing.T) {
	cases := goldens(t)
	rules := translate.Rules()
	if len(rules) == 0 {
		t.Fatal("no rules")
	}
	for _, rule := range rules {
		directions := []translate.Direction{rule.Direction}
		if rule.Direction == translate.Both {
			directions = []translate.Direction{translate.Up, translate.Down}
		}
		for _, d := range directions {
			for _, p := range rule.Places {
				if !slices.ContainsFunc(cases, func(g golden) bool {
					kind, method := g.scanned(t)
					return g.names(rule.ID) && g.acts() && g.crosses(t, rule.Revision, d) &&
						kind == p.Kind && (p.Method == wire.NumMethods || p.Method == method)
				}) {
					t.Errorf("%s %s (%s, %v): no golden case for %s of %v at %q", rule.ID, rule.What, d, rule.Revision, p.Kind, p.Method, p.Path)
				}
			}
		}
	}
}

// silent are rules that remove nothing and therefore report nothing.
var silent = map[string]string{
	"D.3 protocolVersion": "the handshake names the receiver's revision",
	"C15 completions up":  "adds",
	"C41 name up":         "adds; reports only what it cannot derive",
	"C19 multi-select up": "gives back what the server asked for",
	"C20 task":            "makes the message an error",
	"C22 uri":             "is remembered for the answer",
	"G.1 id":              "gives the message another name",
	"G.1 progressToken":   "gives the progress another name",
}

// TestEveryLossHasAGoldenCase checks that every loss that a rule can report is in a golden
// file.
func TestEveryLossHasAGoldenCase(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	type loss struct{ rule, what string }
	seen := map[loss]bool{}
	for _, g := range cases {
		for _, l := range g.byEngine(t, all).losses {
			seen[loss{l.Rule, l.What}] = true
		}
	}
	for _, rule := range translate.Rules() {
		name := rule.ID + " " + rule.What
		if silent[name] != "" || rule.Direction == translate.Up && silent[name+" up"] != "" {
			continue
		}
		if !seen[loss{rule.ID, rule.What}] {
			t.Errorf("no golden case loses %s", name)
		}
	}
}
