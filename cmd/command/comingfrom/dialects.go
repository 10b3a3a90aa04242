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
	for i := 0; i < len(args); i++ {
		if r := g.Row(args[i]); r != nil && r.Takes == "list" && i+1 < len(args) {
			g.values[r.Theirs] = append(g.values[r.Theirs], args[i+1])
			args = slices.Delete(args, i, i+2)
			i--
		}
	}
	used := make([]bool, len(args)+1)
	for _, r := range g.Rows {
		at := slices.Index(args, r.Theirs)
		if r.Kind != "flag" || at < 0 {
			continue
		}
		used[at] = true
		g.values[r.Theirs] = []string{"true"}
		if r.Value != "" {
			g.values[r.Theirs] = []string{strings.Join(args[min(at+1, len(args)):min(at+2, len(args))], "")}
			used[at+1] = true
		}
	}
	for i, word := range args {
		switch {
		case used[i]:
		case strings.HasPrefix(word, "-") && g.Row(word) == nil:
			name, _, has := strings.Cut(word, "=") // what follows may be a secret
			if has && g.Row(name) != nil {
				name += joined
			}
			g.unknown = append(g.unknown, name)
		case len(g.rest) == 0 || i == 1:
			g.rest = append(g.rest, word)
		}
	}
	return nil
}

// readYargs reads words as yargs does with these options: --some-name is --someName, --no-x switches off, a list takes all words up
// to the next flag, and of several values of one text the last counts. Words behind the first that is no flag are still read; those
// behind -- are not. A flag that the tool does not have belongs to the command if that has begun.
func readYargs(g *given, args []string) error {
	if at := slices.Index(args, "--"); at >= 0 {
		args, g.behind = args[:at], args[at+1:]
	}
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		next := func() bool {
			more := !hasValue && i+1 < len(args) && (!strings.HasPrefix(args[i+1], "-") || strings.Trim(args[i+1], "-.0123456789") == "")
			if more {
				i++
				value = args[i]
			}
			return more
		}
		r := g.Row(camel(name))
		no, negated := strings.CutPrefix(name, "--no-")
		switch {
		case len(name) < 2 || name[0] != '-', r == nil && len(g.rest) > 0 && g.Row("COMMAND") != nil:
			g.rest = append(g.rest, args[i])
		case r == nil && negated && g.Row(camel("--"+no)) != nil:
			g.values[camel("--"+no)] = []string{"false"}
		case r == nil:
			g.unknown = append(g.unknown, name)
			next()
		case r.Value == "":
			if !hasValue && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
				next()
			}
			g.values[r.Theirs] = []string{isTrue(value, "")}
		case r.Takes == "list":
			before := len(g.values[r.Theirs])
			for hasValue || next() {
				g.values[r.Theirs] = append(g.values[r.Theirs], value)
				if hasValue {
					break
				}
			}
			if len(g.values[r.Theirs]) == before {
				g.values[r.Theirs] = append(g.values[r.Theirs], "")
			}
		default:
			next()
			g.values[r.Theirs] = []string{value}
		}
	}
	for _, r := range g.Rows {
		value, ok := g.getenv(g.Prefix + snake(r.Theirs))
		if _, given := g.values[r.Theirs]; g.Prefix == "" || r.Kind != "flag" || !ok || given {
			continue
		}
		if r.Value == "" {
			value = isTrue(value, "false")
		}
		g.values[r.Theirs] = []string{value}
	}
	return nil
}

// isTrue is the value of a switch: of texts, true alone is on.
func isTrue(value, empty string) string {
	if value == "true" || value == empty {
		return "true"
	}
	return "false"
}

// snake returns --someName as SOME_NAME.
func snake(flag string) (name string) {
	for _, c := range strings.TrimLeft(flag, "-") {
		if unicode.IsUpper(c) {
			name += "_"
		}
		name += string(unicode.ToUpper(c))
	}
	return name
}

// readArgparse reads words as Python's argparse does: values do not begin with -, flags may stand behind arguments, and all words behind
// -- are arguments.
func readArgparse(g *given, args []string) error {
	isFlag := func(word string) bool {
		return len(word) > 1 && word[0] == '-' && !strings.Contains(word, " ") && (word == "--" || strings.Trim(word, "-.0123456789") != "")
	}
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(args[0], "=")
		r := g.Row(name)
		switch {
		case args[0] == "--":
			g.rest = append(g.rest, args[1:]...)
			return nil
		case !isFlag(args[0]):
			g.rest, args = append(g.rest, args[0]), args[1:]
			continue
		case r == nil:
			do := g.meant(name)
			if len(g.rest) > 0 && do == "" {
				do = "; write -- before the server's command, whose options follow"
			}
			return fmt.Errorf("%s %s%s", name, g.Tool.unknown(name), do)
		}
		args = args[1:]
		words := slices.IndexFunc(append(slices.Clone(args), "--"), isFlag)
		switch {
		case r.Value == "" && !hasValue:
			words, value = 0, "true"
		case r.Pair != "" && (words < 2 || hasValue || strings.ContainsAny(args[0], ":= ")):
			return fmt.Errorf("%s: expected two words, %s", name, r.Value)
		case r.Pair != "":
			words, value = 2, args[0]+r.Pair+args[1]
		case r.Takes != "list" && words > 0 && !hasValue:
			words, value = 1, args[0]
		case hasValue || words == 0:
			words = 0
		default: // of several such lists the last counts
			g.values[r.Theirs], value = slices.Clone(args[:words-1]), args[words-1]
		}
		g.values[r.Theirs], args = append(g.values[r.Theirs], value), args[words:]
	}
	return nil
}
