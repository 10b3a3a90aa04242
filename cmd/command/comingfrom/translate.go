package comingfrom

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// A Line is a line of dragoman.
type Line struct {
	Face     string            // serve or stdio
	Flags    []string          // of the face
	Server   []string          // a URL, or -- and a command
	Settings map[string]string // DRAGOMAN_ variables, which win over those of the environment
	Ignored  []string          // what of the tool's line has no effect here, and why
	Program  string            // the program of the server's command, if it must exist at start; "" for none

	secret map[string]bool   // names of Settings that are secrets
	from   map[string]string // options of the tool's line, by the flag or variable of dragoman that has their value
}

// Words are the arguments of dragoman.
func (l *Line) Words() []string { return slices.Concat([]string{l.Face}, l.Flags, l.Server) }

// String is the line as one types it, settings in front, with "…" in the place of secrets.
func (l *Line) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.Settings)) {
		all = append(all, name+"="+shown(l.Settings[name], l.secret[name]))
	}
	all = append(all, "dragoman", l.Face)
	for i, word := range l.Flags {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case i > 0 && l.Flags[i-1] == "--oauth" && ok:
			word = name + "=" + shown(value, secret.Named(strings.TrimPrefix(name, "params.")) && strings.HasPrefix(name, "params."))
		case i > 0 && l.Flags[i-1] == "--header" && reference().MatchString(word):
			word = config.Quoted(word)
		case i > 0 && l.Flags[i-1] == "--header":
			word = config.AsTyped([]string{"--header", word})[len("--header "):]
		default:
			word = config.AsTyped([]string{word})
		}
		all = append(all, word)
	}
	return strings.Join(append(all, config.AsTyped(l.Server)), " ")
}

// reference matches a header whose value is in a variable.
var reference = pattern.Later(`^[A-Za-z0-9-]+: ?([A-Za-z]+ )?\$\{[A-Za-z0-9_]+\}$`)

// shown is a value as one types it.
func shown(value string, isSecret bool) string {
	if isSecret && !strings.HasPrefix(value, "${") {
		return "…"
	}
	return config.AsTyped([]string{value})
}

// Options are the options of the tool's line, by the flags, variables and paths of dragoman's settings that have their values.
func (l *Line) Options() map[string]string { return l.from }

// ignore notes a word that has no effect, and why.
func (l *Line) ignore(theirs, why string) { l.Ignored = append(l.Ignored, theirs+": "+why) }

func (l *Line) set(theirs, name, value string) {
	l.Settings[name] = value
	l.from[name] = theirs
}

func (l *Line) flag(theirs string, words ...string) {
	l.Flags = append(l.Flags, words...)
	key := words[0]
	if name, _, ok := strings.Cut(words[len(words)-1], "="); ok && key == "--oauth" {
		key = "upstream.auth." + name
	}
	l.from[key] = theirs
}

// given is what a tool's line has.
type given struct {
	tool    *Tool
	values  map[string][]string // by [Row.Theirs]; a switch has "true" or "false"
	rest    []string            // words that are no flags
	behind  []string            // words behind --
	unknown []string            // flags that the tool does not have
	getenv  func(string) (string, bool)
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

// preset adds a setting that a tool has by default. One of the environment wins over it.
func (g *given) preset(l *Line, theirs, setting, value string) {
	if _, set := g.getenv(setting); !set {
		l.set(theirs, setting, value)
	}
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
	l := &Line{Settings: map[string]string{}, from: map[string]string{}, secret: map[string]bool{}}
	if err := dialects[t.Words](g, slices.Clone(args)); err != nil {
		return nil, err
	}
	for _, word := range g.unknown {
		l.ignore(word, "is no option of "+t.Title+" "+t.Version+", which has no use for it either")
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

// write checks the values of a row, and adds to l what it stands for.
func (r *Row) write(l *Line, values []string) error {
	if r.isSwitch() && values[len(values)-1] == "false" {
		return nil
	}
	if r.Takes != "list" {
		values = values[len(values)-1:]
	}
	var all []string
	for _, v := range values {
		v, err := r.value(v)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Theirs, err)
		}
		if v != "" {
			all = append(all, v)
		}
	}
	switch {
	case r.Answer == Refused:
		return fmt.Errorf("%s: %s", r.Theirs, r.Note)
	case r.Answer == Ignored:
		l.ignore(r.Theirs, r.Note)
		return nil
	case len(all) == 0:
		return nil
	}
	for _, v := range all {
		if len(r.Flags) > 0 {
			l.flag(r.Theirs, filled(r.Flags, v)...)
		}
	}
	for name, form := range r.Env {
		l.secret[name] = r.Secret && strings.Contains(form, "{")
		l.set(r.Theirs, name, filled([]string{form}, strings.Join(all, ","))[0])
	}
	return nil
}

// value returns what dragoman has for a value; "" for one of a list that has none.
func (r *Row) value(v string) (string, error) {
	n, err := strconv.ParseFloat(v, 64)
	if v == "" || err == nil && n == 0 && r.Takes == "number" {
		v = cmp.Or(r.Zero, v)
		n, err = strconv.ParseFloat(v, 64)
	}
	ours, chosen := r.choice(v)
	switch {
	case v == "" && r.Takes == "list":
		return "", nil
	case v == "":
		return "", errors.New("a value is missing")
	case r.Takes == "number" && (err != nil || !(n >= r.Least) || math.IsInf(n, 0)):
		if err == nil && n < r.Least {
			return "", fmt.Errorf("%q is less than %v", v, r.Least)
		}
		return "", fmt.Errorf("%q is not a number", v)
	case r.Takes == "number":
		return strconv.FormatFloat(n, 'f', -1, 64), nil
	case len(r.Choices) > 0 && !chosen:
		return "", fmt.Errorf("%q is not one of %s", v, strings.Join(r.names(), ", "))
	case chosen:
		return ours, nil
	}
	return v, nil
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

// Listen returns the address of a line of serve, where its own flags name it; "" for none.
func (l *Line) Listen() string {
	if at := slices.Index(l.Flags, "--listen"); at >= 0 {
		return l.Flags[at+1]
	}
	return ""
}
