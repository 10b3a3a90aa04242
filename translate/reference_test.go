package translate_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	referencePage  = "../docs/revisions-and-losses.md"
	referenceStart = "## Every rule\n"
)

const referenceIntro = `
A revision is a list of rules: what it changed in the one before. A message between two revisions meets the rules of all
steps between them, in one pass. The rule's number is in its log lines and in the label ` + "`rule`" + ` of
` + "`dragoman_losses_total` and `dragoman_changes_total`" + `. The level is the highest at which the rule reports a change: WARN where something is lost,
INFO where nothing is missed that held anything, ASSUMED where the receiver assumes the value anyway, such as a tool's ` + "`execution`" + ` that
forbids tasks, DEBUG where only the form changes. What is ASSUMED is logged for debugging, shown by ` + "`translate --explain`" + `, and neither counted nor reported.

The receiver misses what is *lost*: a value goes and nothing takes its place. The rest is *changed*: dragoman adds something that
the receiver's revision wants, moves a value to where that revision has it, such as structured content into a text, or
removes what holds nothing. A rule that may lose a value is listed as one that loses; what became of a message is counted place by place.
`

// TestReferenceOfRules compares the page's list of rules with the rules, the comments of their actions, and the losses
// of the golden cases. With -update it writes the list.
func TestReferenceOfRules(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	before, list, found := strings.Cut(string(page), referenceStart)
	if !found {
		t.Fatalf("%s has no %q", referencePage, referenceStart)
	}
	w := ruleWriter{t: t, comments: actionComments(t), does: map[string]string{}, reported: reports(t)}
	w.out.WriteString(referenceIntro)
	older := slices.MinFunc(translate.All(), func(a, b *translate.Revision) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range translate.Steps {
		w.table(fmt.Sprintf("From %s to %s", older.Name, s.To.Name), translate.Up, s.Up)
		w.table(fmt.Sprintf("From %s to %s", s.To.Name, older.Name), translate.Down, s.Down)
		older = s.To
	}
	w.table("Between any two", translate.Both, translate.Always)
	checkSentences(t, w.does)
	if *update {
		if err := os.WriteFile(referencePage, []byte(before+referenceStart+w.out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if list != w.out.String() {
		t.Errorf("%s is not what the rules say: make docs", referencePage)
	}
}

const sentencesFile = "sentences.go"

// checkSentences compares the sentences that [translate.Explain] gives with those of the page. With -update it writes
// them.
func checkSentences(t *testing.T, does map[string]string) {
	if !*update {
		if !maps.Equal(does, translate.Sentences) {
			t.Errorf("%s is not what the comments of the actions say: make docs", sentencesFile)
		}
		return
	}
	var out strings.Builder
	out.WriteString("// Code generated from the comments of the rules' actions by make docs. DO NOT EDIT.\n\npackage translate\n\n" +
		"// sentences has what the action of a rule does, by the name of its function.\nvar sentences = map[string]string{\n")
	for _, action := range slices.Sorted(maps.Keys(does)) {
		fmt.Fprintf(&out, "\t%q: %q,\n", action, does[action])
	}
	out.WriteString("}\n")
	text, err := format.Source([]byte(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sentencesFile, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

type ruleWriter struct {
	t        *testing.T
	comments map[string]string // by the action's name
	does     map[string]string // the comments of the actions that rules have
	reported map[lossKey]wire.Loss
	out      strings.Builder
}

// lossKey identifies the rule of a loss. what is "" if the loss is about a part of the rule's What.
type lossKey struct {
	rule, what string
	direction  translate.Direction
}

func (w *ruleWriter) table(title string, d translate.Direction, rules []translate.Rule) {
	if len(rules) == 0 {
		return
	}
	fmt.Fprintf(&w.out, "\n### %s\n\n| rule | about | in | does | is | level |\n|---|---|---|---|---|---|\n", title)
	for _, r := range rules {
		does := w.comments[r.Action()]
		if does == "" {
			w.t.Errorf("rule %s %s: its action %s has no comment that begins with its name", r.ID, r.What, r.Action())
		}
		w.does[r.Action()] = does
		loss, found := w.reported[lossKey{r.ID, r.What, d}]
		if !found {
			loss, found = w.reported[lossKey{r.ID, "", d}]
		}
		is, said := "changed", "none"
		if found {
			said = loss.Level.String()
		}
		if loss.Lost > 0 {
			is = "lost"
		}
		fmt.Fprintf(&w.out, "| %s | `%s` | %s | %s | %s | %s |\n", r.ID, r.What, places(r.At), strings.ReplaceAll(does, "|", `\|`), is, said)
	}
}

// places names the messages that a rule acts on.
func places(at []translate.Place) string {
	var kinds []wire.Kind
	methods := map[wire.Kind][]string{}
	for _, p := range at {
		name := "every method"
		if p.Method != wire.NumMethods {
			name = "`" + p.Method.String() + "`"
		}
		if !slices.Contains(kinds, p.Kind) {
			kinds = append(kinds, p.Kind)
		}
		if !slices.Contains(methods[p.Kind], name) {
			methods[p.Kind] = append(methods[p.Kind], name)
		}
	}
	var list []string
	for _, k := range kinds {
		list = append(list, fmt.Sprintf("%s of %s", k, strings.Join(methods[k], ", ")))
	}
	return strings.Join(list, "; ")
}

var ruleNumbers = regexp.MustCompile(` \((?:[A-Z][0-9.]+(?:, )?)+\)`)

// actionComments returns the comments of the package's functions, each as one line, without the function's name and
// the numbers of rules.
func actionComments(t *testing.T) map[string]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			text, named := strings.CutPrefix(strings.Join(strings.Fields(fn.Doc.Text()), " "), fn.Name.Name+" ")
			if !named {
				continue
			}
			all[fn.Name.Name] = ruleNumbers.ReplaceAllString(strings.TrimSuffix(text, "."), "")
		}
	}
	return all
}

// reports returns the losses that the golden cases report, each with the highest level and with the places of all.
func reports(t *testing.T) map[lossKey]wire.Loss {
	cases := goldens(t)
	all, reported, about := byName(cases), map[lossKey]wire.Loss{}, map[string]bool{}
	for _, r := range translate.Rules() {
		about[r.ID+" "+r.What] = true
	}
	for _, g := range cases {
		d := translate.Up
		if g.from > g.to {
			d = translate.Down
		}
		for _, l := range g.byEngine(t, all).losses {
			what := l.What
			if !about[l.Rule+" "+what] {
				what = "" // it is about a part of the rule's What
			}
			for _, key := range []lossKey{{l.Rule, what, d}, {l.Rule, what, translate.Both}} {
				sum := reported[key]
				sum.Level, sum.Lost = max(sum.Level, l.Level), sum.Lost+l.Lost
				reported[key] = sum
			}
		}
	}
	return reported
}
