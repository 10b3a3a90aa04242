package comingfrom

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// wholes decide what the lines of tools mean as a whole: the command of dragoman, the server, and what is not one to one. Lines of other
// tools are not run.
var wholes = map[string]func(g *given, l *Line) error{
	"mcp-remote": mcpRemote, "supergateway": supergateway, "mcp-proxy": mcpProxy, "mcp-proxy-py": mcpProxyPy, "tbxark": tbxark,
}

// Runs reports whether dragoman runs the lines of the tool.
func (t *Tool) Runs() bool { return wholes[t.Name] != nil }

// Translate returns the line of dragoman for the arguments of a tool. getenv looks up a variable.
func (t *Tool) Translate(args []string, getenv func(string) (string, bool)) (*Line, error) {
	whole := wholes[t.Name]
	if whole == nil {
		return nil, errors.New(t.Rows[0].Note)
	}
	g := &given{Tool: t, values: map[string][]string{}, getenv: getenv}
	l := &Line{Settings: map[string]string{}, From: map[string]string{}}
	if err := g.read(args); err != nil {
		return nil, err
	}
	for _, word := range g.unknown {
		l.ignore(word, t.unknown(word, ", which has no use for it either"))
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		for _, name := range append(slices.Clip(r.Also), r.Theirs) {
			value, _ := getenv(name)
			if value != "" && name[0] != '-' && (r.Kind == "variable" || r.Kind == "flag" && g.values[r.Theirs] == nil) && (r.Kind == "flag" || r.Choices == nil || slices.Contains(r.Choices, value)) {
				g.add(r, value)
			}
		}
	}
	if err := whole(g, l); err != nil {
		if len(g.unknown) > 0 {
			err = fmt.Errorf("%w; %s %s", err, g.unknown[0], t.unknown(g.unknown[0], ""))
		}
		return nil, err
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if values := g.values[r.Theirs]; len(values) > 0 && (r.Only == "" || r.Only == l.Command) {
			if err := r.write(l, values); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Theirs, err)
			}
		}
	}
	return l, nil
}

// write checks the values of a row, and adds to l what it stands for.
func (r *Row) write(l *Line, values []string) error {
	if r.Value == "" && values[len(values)-1] == "false" {
		return nil
	}
	if r.Takes != "list" && r.Takes != "each" {
		values = values[len(values)-1:]
	}
	var all []string
	for _, v := range values {
		v, err := r.read(v)
		if err != nil {
			return err
		}
		if v != "" {
			all = append(all, v)
		}
	}
	switch {
	case r.Answer == Refused:
		return errors.New(r.Note)
	case r.Answer == Ignored:
		l.ignore(r.Theirs, r.Note)
		return nil
	}
	for _, v := range all {
		if len(r.Flags) > 0 {
			var words []string
			for _, w := range r.Flags {
				words = append(words, filled(w, v))
			}
			l.flag(r.Theirs, words...)
		}
	}
	for name, form := range r.Env {
		if len(all) > 0 {
			l.set(r.Theirs, name, filled(form, strings.Join(all, ",")))
		}
	}
	return nil
}

// read returns what dragoman has for a value; "" if a list has none.
func (r *Row) read(v string) (string, error) {
	n, err := strconv.ParseFloat(v, 64)
	if v == "" || err == nil && n == 0 && r.Takes == "number" {
		v = cmp.Or(r.Zero, v)
		n, err = strconv.ParseFloat(v, 64)
	}
	switch {
	case v == "" && r.Takes != "list":
		return "", errors.New("a value is missing")
	case !strings.Contains(v, r.Holds):
		return "", errors.New("expected " + r.Value) // v may be a secret
	case r.Takes == "number" && (err != nil || math.IsNaN(n) || math.IsInf(n, 0)):
		return "", fmt.Errorf("%q is not a number", v)
	case r.Takes == "number" && n < r.Least:
		return "", fmt.Errorf("%q is less than %v", v, r.Least)
	case r.Takes == "number":
		return strconv.FormatFloat(n, 'f', -1, 64), nil
	case r.Choices == nil:
		return v, nil
	}
	var names []string
	for _, c := range r.Choices {
		theirs, ours, _ := strings.Cut(c, "=")
		if theirs == v {
			return cmp.Or(ours, theirs), nil
		}
		names = append(names, theirs)
	}
	return "", fmt.Errorf("%q is not one of %s", v, strings.Join(names, ", "))
}

// filled returns a word with a value in the place for it.
func filled(word, value string) string {
	return strings.NewReplacer("{}", value, "{ms}", value+"ms", "{s}", value+"s").Replace(word)
}

// Meant says whose flag an unknown one of a command of dragoman is, and what to write in its place; "" if no tool has it.
func Meant(flag, command string) string {
	var whose, as []string
	do := ""
	for _, t := range all() {
		for _, r := range t.Rows {
			if r.Kind != "flag" || r.Theirs != flag && !slices.Contains(r.Also, flag) || r.Only != "" && r.Only != command {
				continue
			}
			switch {
			case do != "":
			case r.Answer == Refused:
				do = r.Note
			case r.Answer == Ignored:
				do = "leave it out: " + r.Note
			case strings.HasPrefix(r.Ours, "leave it out"):
				do = r.Ours
			default:
				do = "write " + r.Ours
			}
			whose = append(whose, t.Title+"'s")
			if r.Answer != Refused && t.Runs() {
				as = append(as, " or dragoman as "+t.Name+" …")
			}
			break
		}
	}
	if do == "" {
		return ""
	}
	const most = 2
	do = "it is " + strings.Join(whose[:min(most, len(whose))], " and ") + ": " + do
	if len(as) > 0 {
		do += ";" + strings.Join(as[:min(most, len(as))], "")
	}
	return do
}
