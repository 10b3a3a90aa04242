package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Printer writes lines as text, those of each check below its name.
type Printer struct {
	Out     io.Writer
	check   string
	where   string
	skipped []Line
}

// End writes what Print has kept back.
func (p *Printer) End() {
	for len(p.skipped) > 0 {
		reason, names := p.skipped[0].What, []string{}
		for len(p.skipped) > 0 && p.skipped[0].What == reason {
			names = append(names, p.skipped[0].Check)
			p.skipped = p.skipped[1:]
		}
		fmt.Fprintf(p.Out, "%s\n  %-4s  %s\n", strings.Join(names, ", "), Skip, reason)
	}
}

// Print writes one line, and what to do below it. It keeps back lines about skipped checks, so that those with the same reason
// share one.
func (p *Printer) Print(l Line) {
	if l.Mark == Skip {
		p.skipped = append(p.skipped, l)
		return
	}
	p.End()
	if l.Check != p.check {
		fmt.Fprintln(p.Out, l.Check)
		p.check, p.where = l.Check, ""
	}
	mark := string(l.Mark)
	if l.Mark == Info {
		mark = ""
	}
	what := l.What
	if l.Where != "" && l.Where != p.where { // said once for lines about the same place
		what = l.Where + ": " + what
		p.where = l.Where
	}
	fmt.Fprintf(p.Out, "  %-4s  %s\n", mark, what)
	if l.Do != "" {
		fmt.Fprintf(p.Out, "        → %s\n", strings.ReplaceAll(l.Do, "\n", "\n          "))
	}
}

// Summary returns a sentence about the whole examination.
func (r *Report) Summary() string {
	warnings := 0
	var failed []string
	for _, l := range r.Lines {
		switch {
		case l.Mark == Warn:
			warnings++
		case l.Mark == Fail && (len(failed) == 0 || failed[len(failed)-1] != l.Check):
			failed = append(failed, l.Check)
		}
	}
	switch {
	case len(failed) > 0:
		return "failed: " + strings.Join(failed, ", ")
	case warnings > 0:
		return "fine, with " + plural(warnings, "warning")
	}
	return "fine"
}
