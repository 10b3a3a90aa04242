package filter

import (
	"fmt"
	"io"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// explain notes the changes of a message.
func (r *filterRun) explain(kind, method string, e translate.Explanation) error {
	if r.Explain == ExplainWords {
		return r.explainInWords(kind, method, e)
	}
	for _, c := range e.Changes {
		if err := r.note(note{
			Kind: kind, Method: method, Rule: c.Rule, What: c.What,
			Change: string(c.Kind), Before: c.Before, After: c.After, Does: c.Does,
		}); err != nil {
			return err
		}
	}
	if e.More == 0 {
		return nil
	}
	return r.note(note{Kind: kind, Method: method, More: e.More})
}

// explainInWords writes the changes by rule, each rule with its sentence. The line about a message that is not
// forwarded has been written.
func (r *filterRun) explainInWords(kind, method string, e translate.Explanation) error {
	var text strings.Builder
	if n := len(e.Changes) + e.More; e.Verdict == wire.Forward {
		fmt.Fprintf(&text, "%s: ", r.subject(kind, method))
		switch n {
		case 0:
			text.WriteString("unchanged\n")
		case 1:
			text.WriteString("1 change\n")
		default:
			fmt.Fprintf(&text, "%d changes\n", n)
		}
	}
	type rule struct{ id, what, does string }
	var rules []rule
	lines := map[rule][]string{}
	for _, c := range e.Changes {
		by := rule{c.Rule, c.What, c.Does}
		if _, known := lines[by]; !known {
			rules = append(rules, by)
		}
		lines[by] = append(lines[by], changeInWords(c))
	}
	for _, by := range rules {
		fmt.Fprintf(&text, "  %s %s: %s\n", by.id, by.what, by.does)
		for _, line := range lines[by] {
			text.WriteString(line)
		}
	}
	if e.More > 0 {
		fmt.Fprintf(&text, "  and %d more changes\n", e.More)
	}
	_, err := io.WriteString(r.Notes, text.String())
	return err
}

// changeInWords returns the line for a change, or "" for one of a whole message.
func changeInWords(c translate.Change) string {
	if c.Path() == "" {
		return ""
	}
	line := fmt.Sprintf("    %-8s  %s", c.Kind, printable(c.Path()))
	if c.After != "" && c.After != c.Path() {
		line += " -> " + printable(c.After)
	}
	return line + "\n"
}
