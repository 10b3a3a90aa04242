package comingfrom

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Line is a line of dragoman.
type Line struct {
	Face     string            // serve or stdio
	Flags    []string          // of the face
	Server   []string          // a URL, or -- and a command
	Settings map[string]string // DRAGOMAN_ variables, which win over those of the environment
	Ignored  []string          // what of the tool's line has no effect here, and why
	Program  string            // the program of the server's command, if it must exist at start; "" for none

	from map[string]string // options of the tool's line, by the flag or variable of dragoman that has their value
}

// Words are the arguments of dragoman.
func (l *Line) Words() []string { return slices.Concat([]string{l.Face}, l.Flags, l.Server) }

// Typed is the line as one types it: settings in front.
func (l *Line) Typed() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.Settings)) {
		all = append(all, name+"="+l.Settings[name])
	}
	return append(append(all, "dragoman"), l.Words()...)
}

// set adds a setting. A default of the tool's does not win over the environment: see [given.byDefault].
func (l *Line) set(theirs, name, value string) {
	l.Settings[name] = value
	l.from[name] = theirs
}

func (l *Line) flag(theirs string, words ...string) {
	l.Flags = append(l.Flags, words...)
	l.from[words[0]] = theirs
}

// given is what a tool's line has.
type given struct {
	tool   *Tool
	values map[string][]string // by [Row.Theirs]; a switch has "true" or "false"
	rest   []string            // words that are no flags
	behind []string            // words behind --
	getenv func(string) (string, bool)
}

func (g *given) has(theirs string) bool { return len(g.values[theirs]) > 0 }

// last returns the last value of an option, or by default other.
func (g *given) last(theirs, other string) string {
	if all := g.values[theirs]; len(all) > 0 {
		return all[len(all)-1]
	}
	return other
}

// on reports whether a switch is set.
func (g *given) on(theirs string) bool { return g.last(theirs, "false") == "true" }

// take removes an option, whose rows then write nothing, and returns its values.
func (g *given) take(theirs string) []string {
	all := g.values[theirs]
	delete(g.values, theirs)
	return all
}

// byDefault reports whether the environment leaves a setting to the default of the tool.
func (g *given) byDefault(setting string) bool {
	_, set := g.getenv(setting)
	return !set
}

// A dialect reads the words of a line, and variables that stand for words.
type dialect func(g *given, args []string) error

// dialects are the ways in which tools read their words.
var dialects = map[string]dialect{"anywhere": readAnywhere, "yargs": readYargs}

// A whole decides what a line as a whole means: its face, its server, and what is not one to one.
type whole func(g *given, l *Line) error

// wholes are by the tools' names.
var wholes = map[string]whole{"mcp-remote": mcpRemote, "supergateway": supergateway, "mcp-proxy": mcpProxy}

// Translate returns the line of dragoman for the arguments of a tool. getenv looks up a variable.
func (t *Tool) Translate(args []string, getenv func(string) (string, bool)) (*Line, error) {
	g := &given{tool: t, values: map[string][]string{}, getenv: getenv}
	l := &Line{Settings: map[string]string{}, from: map[string]string{}}
	if err := dialects[t.Words](g, slices.Clone(args)); err != nil {
		return nil, err
	}
	for _, r := range t.Rows {
		if r.Kind == "variable" {
			if value, ok := getenv(r.Theirs); ok && value != "" {
				g.values[r.Theirs] = []string{value}
			}
		}
	}
	if err := wholes[t.Name](g, l); err != nil {
		return nil, err
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Only != "" && r.Only != l.Face || !g.has(r.Theirs) {
			continue
		}
		if err := r.write(l, g.values[r.Theirs]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// write adds to l what a row stands for.
func (r *Row) write(l *Line, values []string) error {
	if r.isSwitch() && values[len(values)-1] == "false" {
		return nil
	}
	switch r.Answer {
	case Refused:
		return fmt.Errorf("%s: %s", r.Theirs, r.Note)
	case Ignored:
		l.Ignored = append(l.Ignored, r.Theirs+": "+r.Note)
		return nil
	}
	if r.Takes != "list" {
		values = values[len(values)-1:]
	}
	for i, v := range values {
		if r.Takes == "number" {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil || n < r.Least {
				return fmt.Errorf("%s: %q is not a number%s", r.Theirs, v, r.least())
			}
		}
		if ours, ok := r.choice(v); ok {
			v = ours
		} else if len(r.Choices) > 0 {
			return fmt.Errorf("%s: %q is not one of %s", r.Theirs, v, strings.Join(r.names(), ", "))
		}
		values[i] = v
		if len(r.Flags) > 0 {
			l.flag(r.Theirs, filled(r.Flags, v)...)
		}
	}
	for name, form := range r.Env {
		l.set(r.Theirs, name, filled([]string{form}, strings.Join(values, ","))[0])
	}
	return nil
}

func (r *Row) least() string {
	if r.Least == 0 {
		return ""
	}
	return fmt.Sprintf(" of at least %v", r.Least)
}

// names are the values of a row with Choices.
func (r *Row) names() (all []string) {
	for _, c := range r.Choices {
		theirs, _, _ := strings.Cut(c, "=")
		all = append(all, theirs)
	}
	return all
}

// filled returns words with a value in the places for it.
func filled(words []string, value string) []string {
	var all []string
	for _, w := range words {
		all = append(all, strings.NewReplacer("{}", value, "{ms}", value+"ms", "{s}", value+"s").Replace(w))
	}
	return all
}
