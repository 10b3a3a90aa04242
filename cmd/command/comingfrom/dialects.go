package comingfrom

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// readAnywhere reads words as mcp-remote does: it looks for each flag anywhere in the line, takes the first of several, and the word
// behind it whatever that is. The first two words, flags that may be repeated left out, are arguments.
func readAnywhere(g *given, args []string) error {
	for i := 0; i < len(args); {
		if r := g.tool.row(args[i]); r != nil && r.Takes == "list" && i+1 < len(args) {
			g.values[r.Theirs] = append(g.values[r.Theirs], args[i+1])
			args = slices.Delete(args, i, i+2)
			continue
		}
		i++
	}
	for _, r := range g.tool.Rows {
		switch at := slices.Index(args, r.Theirs); {
		case r.Kind != "flag" || at < 0:
		case r.isSwitch():
			g.values[r.Theirs] = []string{"true"}
		case at+1 < len(args):
			g.values[r.Theirs] = []string{args[at+1]}
		}
	}
	g.rest = args
	return nil
}

// readYargs reads words as yargs does with these options: --some-name is --someName, --no-x sets a switch to false, a list takes all
// words up to the next flag, and of several values of one text the last counts. Words behind the first that is no flag are still
// read; those behind -- are not.
func readYargs(g *given, args []string) error {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			g.behind = args[i+1:]
			break
		}
		if len(word) < 2 || word[0] != '-' {
			g.rest = append(g.rest, word)
			continue
		}
		name, value, hasValue := strings.Cut(word, "=")
		r := g.tool.row("--" + camel(strings.TrimLeft(name, "-")))
		no, negated := strings.CutPrefix(name, "--no-")
		switch {
		case r == nil && negated && g.tool.row("--"+camel(no)) != nil:
			g.values["--"+camel(no)] = []string{"false"}
		case r == nil:
			return fmt.Errorf("%s is not an option of %s %s", name, g.tool.Title, g.tool.Version)
		case r.isSwitch():
			if !hasValue && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
				i++
				value, hasValue = args[i], true
			}
			if !hasValue {
				value = "true"
			}
			g.values[r.Theirs] = []string{value}
		case r.Takes == "list":
			if hasValue {
				g.values[r.Theirs] = append(g.values[r.Theirs], value)
			}
			for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				g.values[r.Theirs] = append(g.values[r.Theirs], args[i])
			}
		default:
			if !hasValue && i+1 < len(args) && args[i+1] != "--" {
				i++
				value, hasValue = args[i], true
			}
			g.values[r.Theirs] = append(g.values[r.Theirs], value)
		}
	}
	return nil
}

// camel returns some-name as someName.
func camel(name string) string {
	var b strings.Builder
	up := false
	for _, c := range name {
		if c == '-' {
			up = true
			continue
		}
		if up {
			c = unicode.ToUpper(c)
		}
		up = false
		b.WriteRune(c)
	}
	return b.String()
}
