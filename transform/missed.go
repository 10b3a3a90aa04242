package transform

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// A search looks for paths that match nothing in any document of one result.
type search struct {
	fields, texts findings
}

type findings struct {
	missed []Missed
	docs   int
	unsure bool
}

// meet adds what was missed in one more document.
func (f *findings) meet(missed []Missed, sure bool) {
	if f.docs > 0 {
		missed = slices.DeleteFunc(f.missed, func(m Missed) bool {
			return !slices.ContainsFunc(missed, func(here Missed) bool { return here.Setting == m.Setting && here.Path == m.Path })
		})
	}
	f.missed, f.unsure = missed, f.unsure || !sure
	f.docs++
}

// selects looks for the paths of a rule in a document of which it selects fields.
func (s *search) selects(r *rule, doc []byte) {
	missed, sure := r.selection.Missed(doc)
	var here []Missed
	for _, m := range missed {
		setting := "include_fields"
		if m.Exclude {
			setting = "exclude_fields"
		}
		here = append(here, Missed{setting, m.Path, m.Step, m.Names})
	}
	s.fields.meet(here, sure)
}

// shortens looks for the texts that a rule shortens. met says which of the rule's cuts
// matched a text.
func (s *search) shortens(r *rule, t *tree.Document, met []bool) {
	var here []Missed
	var names []string
	for i, c := range r.cuts {
		if met[i] || len(c.steps) == 0 {
			continue
		}
		if names == nil {
			names = namesOfTexts(t)
		}
		here = append(here, Missed{"truncate", c.name, c.steps[len(c.steps)-1], names})
	}
	s.texts.meet(here, true)
}

// namesOfTexts returns the names of members that are texts.
func namesOfTexts(t *tree.Document) (names []string) {
	const most = 100
	for n := range uint32(len(t.Nodes)) {
		if t.Text[t.Nodes[n].Pos] != '"' || t.Name(n) == nil {
			continue
		}
		if name := t.Label(n); !slices.Contains(names, name) {
			if names = append(names, name); len(names) == most {
				break
			}
		}
	}
	return names
}

// seek begins a search if the rule has paths and no result of the tool has shown yet which
// of them match nothing. done records what was found.
func (r *run) seek() (done func()) {
	if r.rule.selection == nil && len(r.rule.cuts) == 0 || !r.rule.watch.begin(r.call.Tool) {
		return func() {}
	}
	s := new(search)
	r.search = s
	return func() {
		if s.fields.docs+s.texts.docs == 0 {
			return
		}
		r.report.Missed = append(s.fields.missed, s.texts.missed...)
		r.rule.watch.end(r.call.Tool, !s.fields.unsure && !s.texts.unsure || len(r.report.Missed) > 0)
	}
}
