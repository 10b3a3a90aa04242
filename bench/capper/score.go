package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/transform"
)

// A cut is an answer after dragoman has cut it.
type cut struct {
	answer
	report transform.Report
}

func product(a *answer, budget int) *cut {
	call := &transform.Call{Tool: "x", Session: "s", Schemas: transform.None, MaxTokens: budget}
	if a.Schema != nil {
		call.Schemas, call.Schema = transform.Seen, a.Schema
	}
	out, report := uncapped.Apply(nil, a.Result, call)
	return &cut{answer{Name: a.Name, Kind: a.Kind, Result: out, Schema: a.Schema}, report}
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

// left returns the text of the cut answer that a model reads, and separately the notice.
func (c *cut) left() (text, notice string) {
	texts := c.texts()
	notes := gjson.GetBytes(c.Result, `content.#(_meta.dragoman/transform.notice==true)#.text`).Array()
	for _, n := range notes {
		notice = n.Str
		texts = slices.DeleteFunc(texts, func(t string) bool { return t == n.Str })
	}
	return strings.Join(texts, "\n"), notice
}

// A row is the mean of its cells: an answer at a budget.
type row struct {
	name  string
	cells []cell
}

type cell struct {
	answer string
	budget int
	kept   float64
	plain  []float64 // of each baseline
	used   float64
}

type table struct {
	rows    []row
	budgets []int
	faults  []string
	over    []float64 // the cost of one token over the budget, by answer
	count   int
	read    []float64 // the tokens for reading to the end, relative to the answer's
	calls   int
}

func (t *table) fault(a *answer, budget int, format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf("%s at %d: ", a.Name, budget)+fmt.Sprintf(format, args...))
}

func (t *table) broken() bool { return len(t.faults) > 0 }

// measure cuts every answer to every budget that is too small for it.
func measure(answers []*answer, budgets []int) *table {
	t := &table{budgets: budgets, count: len(answers)}
	kinds := make(map[string]*row)
	for _, a := range answers {
		facts, needs, cost := weighed(a)
		held := make(map[int]bool) // facts kept at a smaller budget
		essential := a.essential()
		all := tokensOf(a.Result)
		for _, budget := range budgets {
			if all <= budget {
				continue
			}
			c := product(a, budget)
			text, notice := c.left()
			got := keptOf(text, needs)
			for i := range facts {
				if held[i] && !got[i] {
					t.fault(a, budget, "loses %q, which a smaller budget keeps", facts[i].parts)
				}
				held[i] = held[i] || got[i]
			}
			most := possible(facts, cost, budget-40)
			now := cell{answer: a.Name, budget: budget, kept: weightOf(facts, got) / most,
				used: float64(tokensOf(c.Result)) / float64(min(budget, essential))}
			for _, b := range baselines {
				now.plain = append(now.plain, weightOf(facts, keptOf(b.cut(a, budget), needs))/most)
			}
			t.check(a, c, budget, notice)
			if kinds[a.Kind] == nil {
				kinds[a.Kind] = &row{name: a.Kind}
			}
			kinds[a.Kind].cells = append(kinds[a.Kind].cells, now)
		}
		for _, budget := range budgets {
			if budget >= 2000 && all > budget {
				t.readOn(a, budget, needs)
			}
		}
		if all > 200 {
			c := product(a, all-1)
			t.over = append(t.over, max(0, 1-float64(tokensOf(c.Result))/float64(min(all-1, essential))))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.rows = append(t.rows, *kinds[k])
	}
	return t
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

// readOn follows the notices to the end. It records the tokens that a client spends, relative to the
// answer's, and checks which facts it has read.
func (t *table) readOn(a *answer, budget int, needs [][]string) {
	c := product(a, budget)
	spent, all := tokensOf(c.Result), ""
	text, notice := c.left()
	for all = text; ; t.calls++ {
		m := wholeCall.FindStringSubmatch(notice)
		if m == nil {
			break
		}
		out := uncapped.More(context.Background(), "s", "", []byte(m[1]))
		if n := tokensOf(out); n > budget {
			t.fault(a, budget, "reading on, %s: %d tokens", m[1], n)
		} else {
			spent += n
		}
		part := &cut{answer: answer{Result: out}}
		before := notice
		if text, notice = part.left(); notice == before || gjson.GetBytes(out, "isError").Bool() {
			t.fault(a, budget, "reading on, %s stops at %.200s", m[1], out)
			return
		}
		all += "\n" + text
	}
	for i, ok := range keptOf(all, needs) {
		for _, part := range needs[i] {
			if !ok && !contains(normal(all), part) {
				t.fault(a, budget, "reading on to the end never gives %q", part)
				return
			}
		}
	}
	t.read = append(t.read, float64(spent)/float64(tokensOf(a.Result)))
	if *verbose {
		fmt.Printf("read %s at %d: %.3f\n", a.Name, budget, t.read[len(t.read)-1])
	}
}

var wholeCall = regexp.MustCompile(`fetch_more (\{.*\})\]$`)

// namesCall matches the call for reading on in a notice.
var namesCall = regexp.MustCompile(`fetch_more \{"cursor":"[^"]+"`)

// check records a fault for each requirement that a cut does not meet.
func (t *table) check(a *answer, c *cut, budget int, notice string) {
	if n := tokensOf(c.Result); n > budget && !c.report.OverBudget {
		t.fault(a, budget, "%d tokens", n)
	}
	if !json.Valid(c.Result) {
		t.fault(a, budget, "invalid JSON")
	}
	if c.report.Err != nil {
		t.fault(a, budget, "%v", c.report.Err)
	}
	was, is := gjson.GetBytes(a.Result, "content").Array(), gjson.GetBytes(c.Result, "content").Array()
	if len(was) == 1 && len(is) > 0 {
		before, after := was[0].Get("text").Str, is[0].Get("text").Str
		if gjson.Valid(before) && (before[0] == '{' || before[0] == '[') && (!gjson.Valid(after) || after[0] != before[0]) && is[0].Get("_meta").Raw == "" {
			t.fault(a, budget, "the root is of another kind")
		}
	}
	if a.Schema != nil {
		if err := holds(a.Schema, gjson.GetBytes(c.Result, "structuredContent").Raw); err != nil {
			t.fault(a, budget, "schema: %v", err)
		}
	}
	if !namesCall.MatchString(notice) {
		t.fault(a, budget, "no call in the notice %q", notice)
	}
}

func holds(schema []byte, value string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		return err
	}
	s, err := c.Compile("s.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
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

func (t *table) print(w io.Writer, each bool) {
	fmt.Fprintf(w, "%-22s %6s | %5s %5s |", "", "budget", "kept", "used")
	for _, b := range baselines {
		fmt.Fprintf(w, " %9s", b.name)
	}
	fmt.Fprintln(w)
	var all []cell
	for _, r := range t.rows {
		all = append(all, r.cells...)
		if !each {
			line(w, r.name, "all", r.cells)
			continue
		}
		for _, c := range r.cells {
			line(w, c.answer, fmt.Sprint(c.budget), []cell{c})
		}
	}
	for _, b := range t.budgets {
		line(w, "ALL", fmt.Sprint(b), slices.DeleteFunc(slices.Clone(all), func(c cell) bool { return c.budget != b }))
	}
	line(w, "ALL", "all", all)
	worse, least := 0, 9.0
	for _, c := range all {
		if c.kept < c.plain[1]-1e-9 {
			worse++
		}
		least = min(least, c.used)
	}
	sum, worst := 0.0, 0.0
	for _, o := range t.over {
		sum += o
		worst = max(worst, o)
	}
	fmt.Fprintf(w, "%d answers, %d cells; worse than head+tail in %.1f %%; least used %.2f; one token over costs %.3f, at worst %.3f; %d faults\n",
		t.count, len(all), 100*float64(worse)/float64(max(1, len(all))), least, sum/float64(max(1, len(t.over))), worst, len(t.faults))
	sum, worst = 0, 0
	for _, r := range t.read {
		sum += r
		worst = max(worst, r)
	}
	fmt.Fprintf(w, "reading %d answers to their end takes %d calls and %.3f times their tokens, at worst %.3f\n", len(t.read), t.calls, sum/float64(max(1, len(t.read))), worst)
	for _, f := range t.faults[:min(20, len(t.faults))] {
		fmt.Fprintln(w, "  ", f)
	}
}

func line(w io.Writer, name, budget string, cells []cell) {
	if len(cells) == 0 {
		return
	}
	n := float64(len(cells))
	kept, used, plain := 0.0, 0.0, make([]float64, len(baselines))
	for _, c := range cells {
		kept += c.kept / n
		used += min(1, c.used) / n
		for i := range plain {
			plain[i] += c.plain[i] / n
		}
	}
	fmt.Fprintf(w, "%-22s %6s | %5.2f %5.2f |", name, budget, kept, used)
	for _, p := range plain {
		fmt.Fprintf(w, " %9.2f", p)
	}
	fmt.Fprintln(w)
}
