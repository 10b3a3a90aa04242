package comingfrom

import (
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
	used := make([]bool, len(args))
	for _, r := range g.tool.Rows {
		at := slices.Index(args, r.Theirs)
		if r.Kind != "flag" || at < 0 {
			continue
		}
		used[at] = true
		switch {
		case r.isSwitch():
			g.values[r.Theirs] = []string{"true"}
		case at+1 < len(args):
			g.values[r.Theirs] = []string{args[at+1]}
			used[at+1] = true
		default:
			g.values[r.Theirs] = []string{""}
		}
	}
	for i, word := range args {
		switch {
		case used[i]:
		case strings.HasPrefix(word, "-") && g.tool.row(word) == nil:
			g.unknown = append(g.unknown, word)
		case len(g.rest) == 0 || i == 1:
			g.rest = append(g.rest, word)
		}
	}
	return nil
}

// readYargs reads words as yargs does with these options: --some-name is --someName, --no-x sets a switch to false, a list takes all
// words up to the next flag, and of several values of one text the last counts. Words behind the first that is no flag are still
// read; those behind -- are not. A flag that the tool does not have is one of the command's if a command stands before it.
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
		next := i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || strings.Trim(args[i+1], "-0123456789.") == "" && args[i+1] != "--")
		name, value, hasValue := strings.Cut(word, "=")
		r := g.tool.row("--" + camel(strings.TrimLeft(name, "-")))
		no, negated := strings.CutPrefix(name, "--no-")
		switch {
		case r == nil && negated && g.tool.row("--"+camel(no)) != nil:
			g.values["--"+camel(no)] = []string{"false"}
		case r == nil && len(g.rest) > 0 && g.tool.row("COMMAND") != nil:
			g.rest = append(g.rest, word)
		case r == nil:
			g.unknown = append(g.unknown, name)
			if next && !hasValue {
				i++
			}
		case r.isSwitch():
			if next && !hasValue && (args[i+1] == "true" || args[i+1] == "false") {
				i++
				value, hasValue = args[i], true
			}
			g.values[r.Theirs] = []string{isTrue(value, hasValue)}
		case r.Takes == "list":
			g.values[r.Theirs] = append(g.values[r.Theirs], value)
			for ; i+1 < len(args) && !hasValue && !strings.HasPrefix(args[i+1], "-"); i++ {
				g.values[r.Theirs] = append(g.values[r.Theirs], args[i+1])
			}
			if all := g.values[r.Theirs]; len(all) > 1 {
				g.values[r.Theirs] = slices.DeleteFunc(all, func(v string) bool { return v == "" })
			}
		default:
			if next && !hasValue {
				i++
				value = args[i]
			}
			g.values[r.Theirs] = []string{value}
		}
	}
	for _, r := range g.tool.Rows {
		flag, isFlag := strings.CutPrefix(r.Theirs, "--")
		if value, ok := g.getenv(g.tool.Prefix + snake(flag)); isFlag && g.tool.Prefix != "" && ok && !g.has(r.Theirs) {
			if r.isSwitch() {
				value = isTrue(value, true)
			}
			g.values[r.Theirs] = []string{value}
		}
	}
	return nil
}

// isTrue is the value of a switch: true alone is on.
func isTrue(value string, hasValue bool) string {
	if hasValue && value != "true" {
		return "false"
	}
	return "true"
}

// camel returns some-name as someName.
func camel(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// snake returns someName as SOME_NAME.
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
	}
	return b.String()
}
