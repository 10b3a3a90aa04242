package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/transform"
)

// A description explains to the user how a result was transformed.
type description struct {
	*transform.Report
	call          *transform.Call
	rules         []transform.Rule
	before, after []transform.Part
}

func (d *description) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	say("outcome", "%s", d.Outcome)
	say("rule", "%s", d.rule())
	for _, m := range d.Missed {
		say("warning", "%s", missedWords(d.Rule, &m))
	}
	if d.Source != "" {
		how := ""
		if d.Detected {
			how = ", by the shape of the result"
		}
		say("adapter", "%s%s", d.Source, how)
	}
	if len(d.Steps) > 0 {
		say("steps", "%s", strings.Join(d.Steps, ", "))
	}
	say("bytes", "%d -> %d", d.BytesBefore, d.BytesAfter)
	if d.TokensBefore > 0 {
		about, budget := "", ""
		if d.Estimated {
			about = "about "
		}
		if d.Budget > 0 {
			budget = fmt.Sprintf(", the budget is %d", d.Budget)
		}
		say("tokens", "%s%d -> %d%s", about, d.TokensBefore, d.TokensAfter, budget)
	}
	for _, a := range d.Arrays {
		where := ""
		if a.Path != "." {
			where = " of " + a.Path
		}
		say("kept", "%d of %d %s%s", a.Kept, a.Total, a.What, where)
	}
	for _, n := range []struct {
		count int
		what  string
	}{{d.StringsCut, "texts shortened"}, {d.Omitted, "blocks left out"}, {d.Links, "links left out"}} {
		if n.count > 0 {
			say("cut", "%d %s", n.count, n.what)
		}
	}
	if len(d.Dropped) > 0 {
		say("dropped", "%s", strings.Join(d.Dropped, ", "))
	}
	if d.OverBudget {
		say("warning", "over its budget, since the tool's outputSchema allows no less")
	}
	if d.Err != nil {
		say("failed", "%v", d.Err)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return d.writeParts(out)
}

// rule returns the rule that matched, or the reason why none did.
func (d *description) rule() string {
	for i, r := range d.rules {
		if d.Rule == fmt.Sprintf("rules[%d]", i) {
			return fmt.Sprintf("transform.%s%s", d.Rule, matchWords(r.Match))
		}
	}
	tool := "no --tool was named"
	if d.call.Tool != "" {
		tool = "no rule is for tool " + d.call.Tool
		if d.call.Server != "" {
			tool += " of server " + d.call.Server
		}
	}
	switch {
	case len(d.rules) == 0:
		return "none: there are no rules"
	case d.call.Tool != "":
		var names []string
		for _, r := range d.rules {
			names = append(names, r.Match.Tool)
		}
		if near := setting.Nearest(d.call.Tool, names); near != "" && near != d.call.Tool {
			tool += "; there is one for " + near
		}
		if i := slices.IndexFunc(d.rules, func(r transform.Rule) bool { return r.Match.Tool == d.call.Tool }); i >= 0 {
			tool += fmt.Sprintf("; rules[%d] is for that tool of server %s", i, d.rules[i].Match.Server)
		}
	}
	return "none: " + tool
}

// matchWords returns the tool and the server that a rule is for.
func matchWords(m transform.Match) string {
	tool, server := m.Tool, m.Server
	tool = cmp.Or(tool, "*")
	server = cmp.Or(server, "*")
	return fmt.Sprintf(" (tool %s of server %s)", tool, server)
}

// missedWords returns a message about a path that matches nothing, with names that the user may have meant.
func missedWords(rule string, m *transform.Missed) string {
	text := fmt.Sprintf("%s.%s: %s matches nothing", rule, m.Setting, m.Path)
	if near := setting.Nearest(m.Step, m.Names); near != "" {
		return text + "; did you mean " + near + "?"
	}
	if n := len(m.Names); n > 0 && n <= 20 {
		text += "; there are " + strings.Join(m.Names, ", ")
	}
	return text
}

// maxPartLines is the maximum number of parts that are printed.
const maxPartLines = 40

// writeParts writes how many tokens each part of the result has, before and after.
func (d *description) writeParts(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "before\tafter\t  tokens of\n")
	lines := 0
	before, after := d.before, d.after
	if d.Omitted+d.Links > 0 { // the report does not say which blocks are left
		before, after = asOne(before), asOne(after)
	}
	pairs("", before, after, func(name string, before, after *transform.Part) {
		if lines++; lines <= maxPartLines {
			fmt.Fprintf(w, "%s\t%s\t  %s\n", cost(before), cost(after), printable(name))
		}
	})
	if lines > maxPartLines {
		fmt.Fprintf(w, "\t\t  and %d more parts\n", lines-maxPartLines)
	}
	return w.Flush()
}

// asOne merges the blocks of a result into one part.
func asOne(parts []transform.Part) (all []transform.Part) {
	blocks := transform.Part{Name: "all blocks"}
	for _, p := range parts {
		if strings.HasSuffix(p.Name, "]") {
			blocks.Tokens += p.Tokens
		} else {
			all = append(all, p)
		}
	}
	return append([]transform.Part{blocks}, all...)
}

// largest returns the names of the parts with the most tokens, before or after.
func largest(before, after []transform.Part) (names []string) {
	const most = 8
	all := slices.Concat(before, after)
	slices.SortStableFunc(all, func(a, b transform.Part) int { return b.Tokens - a.Tokens })
	for _, p := range all {
		if len(names) < most && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// pairs calls f with each part, before and after. One of the two is nil if the part is in the other only.
func pairs(indent string, before, after []transform.Part, f func(name string, before, after *transform.Part)) {
	left := after
	for i := range before {
		b := &before[i]
		k := slices.IndexFunc(left, func(p transform.Part) bool { return p.Name == b.Name })
		if k < 0 {
			f(indent+b.Name, b, nil)
			continue
		}
		for j := range left[:k] {
			f(indent+left[j].Name, nil, &left[j])
		}
		a := &left[k]
		left = left[k+1:]
		f(indent+b.Name, b, a)
		names := largest(b.Members, a.Members)
		pairs(indent+"  ", only(b.Members, names), only(a.Members, names), f)
	}
	for j := range left {
		f(indent+left[j].Name, nil, &left[j])
	}
}

func only(parts []transform.Part, names []string) []transform.Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p transform.Part) bool { return !slices.Contains(names, p.Name) })
}

func cost(p *transform.Part) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(p.Tokens)
}
