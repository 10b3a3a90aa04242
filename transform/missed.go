package transform

import (
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/transform/tape"
)

// Missed is a path of a rule that matches nothing in a result.
type Missed struct {
	Setting string   // of the rule: include_fields, exclude_fields or truncate
	Path    string   // as far as it counts
	Step    string   // the step of Path that is missing
	Names   []string // the names of members that exist, one of which may be meant
}

const (
	maxWatched = 200 // tools of one rule
	maxLooks   = 20  // results of one tool: more than one, because an empty list does not show its fields
)

// A watch says of which results to look for paths that match nothing: of each tool's
// results until one of them has shown it.
type watch struct {
	mu    sync.Mutex
	looks map[string]int // by tool
}

// begin reports whether a result of the tool is to be looked at.
func (w *watch) begin(tool string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, known := w.looks[tool]
	return n < maxLooks && (known || len(w.looks) < maxWatched)
}

// end records that a result of the tool was looked at. If told is true, no other result of
// it will be.
func (w *watch) end(tool string, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looks == nil {
		w.looks = make(map[string]int)
	}
	if _, known := w.looks[tool]; !known {
		tool = strings.Clone(tool)
	}
	w.looks[tool]++
	if told {
		w.looks[tool] = maxLooks
	}
}

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
func (s *search) shortens(r *rule, t *tape.Tape, met []bool) {
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
func namesOfTexts(t *tape.Tape) (names []string) {
	const most = 100
	for n := range uint32(len(t.Nodes)) {
		if t.Doc[t.Nodes[n].Pos] != '"' || t.Name(n) == nil {
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
