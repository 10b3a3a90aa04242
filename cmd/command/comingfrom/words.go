package comingfrom

import (
	"fmt"
	"slices"
	"strings"
)

// read reads the words of a tool's line. Flags stand anywhere, and a value behind = or in the next word; a list takes all words up to
// the next flag. Words behind -- are the server's command. A flag that the tool does not have belongs to the command if that has begun.
func (g *given) read(args []string) error {
	if at := slices.Index(args, "--"); at >= 0 {
		args, g.behind = args[:at], args[at+1:]
	}
	for len(args) > 0 {
		word := args[0]
		name, value, assigned := strings.Cut(word, "=") // what follows may be a secret
		r := g.Row(name)
		args = args[1:]
		switch {
		case !isFlag(word), r == nil && len(g.rest) > 0 && g.Row("COMMAND") != nil:
			g.rest = append(g.rest, word)
			continue
		case r == nil && g.Strict && len(g.rest) > 0 && g.meant(name) == "":
			return fmt.Errorf("%s %s", name, g.Tool.unknown(name, "; write -- before the server's command, whose options follow"))
		case r == nil && g.Strict:
			return fmt.Errorf("%s %s", name, g.Tool.unknown(name, ""))
		case r == nil:
			g.unknown = append(g.unknown, name)
			if len(args) > 0 && !assigned && !isFlag(args[0]) && !isURL(args[0]) {
				args = args[1:] // its value, for the tool too
			}
			continue
		}
		n := slices.IndexFunc(args, isFlag) // words that can be its values
		if n < 0 {
			n = len(args)
		}
		switch {
		case r.Pair != "" && (n < 2 || assigned || strings.ContainsAny(args[0], ":= ")):
			return fmt.Errorf("%s: expected two words, %s", name, r.Value)
		case r.Pair != "":
			n, value = 2, args[0]+r.Pair+args[1]
		case assigned:
			n = 0
		case r.Value == "" && (n == 0 || args[0] != "true" && args[0] != "false"):
			n, value = 0, "true"
		case n > 0 && r.Takes == "list":
			g.values[r.Theirs], value = append(g.values[r.Theirs], args[:n-1]...), args[n-1]
		case n > 0:
			n, value = 1, args[0]
		}
		g.add(r, value)
		args = args[n:]
	}
	return nil
}

// isFlag reports whether a word is a flag: a number below zero, and a text that begins with - and holds a space, are none.
func isFlag(word string) bool {
	return len(word) > 1 && word[0] == '-' && !strings.Contains(word, " ") && (word == "--" || strings.Trim(word, "-.0123456789") != "")
}

// add adds a value of an option. Of the texts of a switch, true alone is on.
func (g *given) add(r *Row, value string) {
	if r.Value == "" && value != "true" {
		value = "false"
	}
	g.values[r.Theirs] = append(g.values[r.Theirs], value)
}
