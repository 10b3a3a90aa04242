package filter

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Explaining says how a Filter explains what the translation changes in each message.
type Explaining string

// The ways to explain changes. With ExplainWords all of Notes is text for people instead of lines of JSON.
const (
	ExplainNone  Explaining = ""
	ExplainWords Explaining = "words"
	ExplainJSON  Explaining = "json" // one line for each change
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

// subject names the message at hand.
func (r *filterRun) subject(kind, method string) string {
	text := fmt.Sprintf("line %d", r.line)
	if r.index != nil {
		text += fmt.Sprintf(", message %d", *r.index+1)
	}
	if kind == "" {
		return text
	}
	return text + ": " + method + " " + kind
}

// words returns a note as text.
func (r *filterRun) words(n note) string {
	text := n.Error
	switch n.Verdict {
	case wire.Drop.String():
		text = "dropped, the receiver gets nothing"
	case wire.Answer.String():
		text = "not sent; the sender gets the answer " + string(n.Answer)
	case wire.Local.String():
		text = "not sent as it is: a proxy needs the state of the session for it; translated so far: " + string(n.Message)
	case answeredBefore:
		text = "answers a request that was not sent, but answered by the translation"
	}
	return r.subject(n.Kind, n.Method) + ": " + printable(text) + "\n"
}

// printable escapes the characters that could control a terminal or make a text look like another.
func printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
