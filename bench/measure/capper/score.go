// Package capper measures what is kept of real answers that are cut to a budget of tokens, and compares it with simple ways to cut.
//
// testdata has the answers, and SOURCES.md their sources. facts.go has the rules that say what a reader looks for in an answer,
// jsonfacts.go and textfacts.go those for JSON and for texts.
package capper

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/transform"
)

// Measurement says which answers are cut to which budgets.
type Measurement struct {
	Set     string // tune, held (not used for tuning) or all
	Only    string // only answers whose name has this in it
	Folder  string // of answers, instead of the sets; "" for none
	Budgets []int  // in tokens
	Lost    int    // a budget, at which the facts that are lost are printed instead; 0 for none
	Out     io.Writer
}

// Run prints what is kept.
func (m Measurement) Run() error {
	answers, err := load(m.Set, m.Only, m.Folder)
	if err != nil {
		return err
	}
	if m.Lost > 0 {
		for _, a := range answers {
			lost(m.Out, a, m.Lost)
		}
		return nil
	}
	cells := measure(answers, m.Budgets)
	fmt.Fprintf(m.Out, "%-22s %6s | %5s |", "", "budget", "kept")
	for _, b := range baselines {
		fmt.Fprintf(m.Out, " %9s", b.name)
	}
	fmt.Fprintln(m.Out)
	var kinds []string
	for _, c := range cells {
		kinds = append(kinds, c.kind)
	}
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		line(m.Out, kind, "all", cells, func(c cell) bool { return c.kind == kind })
	}
	for _, b := range m.Budgets {
		line(m.Out, "ALL", fmt.Sprint(b), cells, func(c cell) bool { return c.budget == b })
	}
	line(m.Out, "ALL", "all", cells, func(cell) bool { return true })
	worse := 0
	for _, c := range cells {
		if c.kept < c.plain[1]-1e-9 {
			worse++
		}
	}
	fmt.Fprintf(m.Out, "%d answers, %d cells; worse than head+tail in %.1f %%\n", len(answers), len(cells), 100*float64(worse)/float64(max(1, len(cells))))
	return nil
}

// uncapped has no default budget, so that each call can set any budget.
var uncapped = func() *transform.Engine {
	cfg := transform.DefaultConfig()
	cfg.DefaultMaxTokens = 0
	e, err := transform.New(cfg, transform.Options{Keys: [][]byte{make([]byte, 32)}}) // the same handles each time
	if err != nil {
		panic(err)
	}
	return e
}()

// left returns the text that a model reads of an answer that dragoman has cut, without the notice.
func left(a *answer, budget int) string {
	call := &transform.Call{Tool: "x", Session: "s", Schemas: transform.None, MaxTokens: budget}
	if a.Schema != nil {
		call.Schemas, call.Schema = transform.Seen, a.Schema
	}
	out, _ := uncapped.Apply(nil, a.Result, call)
	texts := (&answer{Result: out}).texts()
	for _, n := range gjson.GetBytes(out, `content.#(_meta.dragoman/transform.notice==true)#.text`).Array() {
		texts = slices.DeleteFunc(texts, func(t string) bool { return t == n.Str })
	}
	return strings.Join(texts, "\n")
}

// cell is an answer at a budget: the share of what could be kept.
type cell struct {
	kind   string
	budget int
	kept   float64
	plain  []float64 // of each baseline
}

// room is what the notice takes.
const room = 40

// measure cuts every answer to every budget that is too small for it.
func measure(answers []*answer, budgets []int) (cells []cell) {
	for _, a := range answers {
		facts, needs, cost := weighed(a)
		all := tokensOf(a.Result)
		for _, budget := range budgets {
			if all <= budget {
				continue
			}
			most := possible(facts, cost, budget-room)
			now := cell{kind: a.Kind, budget: budget, kept: weightOf(facts, keptOf(left(a, budget), needs)) / most}
			for _, b := range baselines {
				now.plain = append(now.plain, weightOf(facts, keptOf(b.cut(a, budget), needs))/most)
			}
			cells = append(cells, now)
		}
	}
	return cells
}

// line prints the means of the cells that are wanted.
func line(w io.Writer, name, budget string, cells []cell, wanted func(cell) bool) {
	n, kept, plain := 0.0, 0.0, make([]float64, len(baselines))
	for _, c := range cells {
		if !wanted(c) {
			continue
		}
		n++
		kept += c.kept
		for i := range plain {
			plain[i] += c.plain[i]
		}
	}
	if n == 0 {
		return
	}
	fmt.Fprintf(w, "%-22s %6s | %5.2f |", name, budget, kept/n)
	for _, p := range plain {
		fmt.Fprintf(w, " %9.2f", p/n)
	}
	fmt.Fprintln(w)
}

// lost prints the facts of an answer that are not kept at a budget, with their weight and
// their size in tokens.
func lost(w io.Writer, a *answer, budget int) {
	facts, needs, cost := weighed(a)
	got := keptOf(left(a, budget), needs)
	most := possible(facts, cost, budget-room)
	fmt.Fprintf(w, "=== %s (%s): %.2f of %.1f\n", a.Name, a.Kind, weightOf(facts, got)/most, most)
	for i, f := range facts {
		if !got[i] {
			fmt.Fprintf(w, "  %4.1f %3d  %.120s\n", f.weight, cost[i], strings.Join(f.parts, " + "))
		}
	}
}

// weighed returns the facts of an answer, the parts that a text needs for each, and the size of each in tokens.
func weighed(a *answer) (facts []fact, needs [][]string, cost []int) {
	facts = factsOf(a)
	needs, cost = make([][]string, len(facts)), make([]int, len(facts))
	for i, f := range facts {
		for _, p := range f.parts {
			needs[i] = append(needs[i], normal(p))
			cost[i] += encoding.Count([]byte(p))
		}
	}
	return facts, needs, cost
}

// tokensOf counts the tokens of a result that a model reads.
func tokensOf(result []byte) (n int) {
	gjson.GetBytes(result, "content").ForEach(func(_, b gjson.Result) bool {
		switch {
		case b.Get("type").Str == "image", b.Get("type").Str == "audio":
		case b.Get("text").Exists():
			n += encoding.Count([]byte(b.Get("text").Str))
		case b.Get("resource.text").Exists():
			n += encoding.Count([]byte(b.Get("resource.text").Str))
		default:
			n += encoding.Count([]byte(b.Get("@ugly").Raw))
		}
		return true
	})
	if s := gjson.GetBytes(result, "structuredContent"); s.Exists() {
		n += encoding.Count([]byte(s.Get("@ugly").Raw))
	}
	return n
}

// keptOf returns which facts are in a text. A member whose value is a number is not found in a member with a
// longer number.
func keptOf(text string, needs [][]string) []bool {
	text = normal(text)
	kept := make([]bool, len(needs))
	for i, parts := range needs {
		kept[i] = true
		for _, p := range parts {
			kept[i] = kept[i] && contains(text, p)
		}
	}
	return kept
}

func contains(text, part string) bool {
	for {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		end := i + len(part)
		if strings.Contains(part, `":`) && digit(part[len(part)-1]) && end < len(text) && (digit(text[end]) || text[end] == '.') {
			text = text[end:]
			continue
		}
		return true
	}
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func weightOf(facts []fact, kept []bool) (w float64) {
	for i, f := range facts {
		if kept[i] {
			w += f.weight
		}
	}
	return w
}

// possible returns the most weight of facts that fit into room tokens. It takes facts in the order of their weight
// per token.
func possible(facts []fact, cost []int, room int) (w float64) {
	order := make([]int, len(facts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(facts[b].weight/float64(cost[b]), facts[a].weight/float64(cost[a]))
	})
	for _, i := range order {
		if cost[i] <= room {
			room -= cost[i]
			w += facts[i].weight
		}
	}
	return max(w, .01)
}
