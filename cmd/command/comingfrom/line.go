package comingfrom

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// A Line is a line of dragoman.
type Line struct {
	Command  string            // of dragoman: serve or stdio
	Flags    []string          // of Command
	Server   []string          // a URL, or -- and a command
	Settings map[string]string // DRAGOMAN_ variables, which win over those of the environment
	Ignored  []string          // what of the tool's line has no effect here, and why
	Program  string            // the program that must exist at start; "" for none
	From     map[string]string // options of the tool's line, by the flag, variable or path of dragoman's settings that has their value
}

// Words are the arguments of dragoman.
func (l *Line) Words() []string { return slices.Concat([]string{l.Command}, l.Flags, l.Server) }

// String is the line as one types it, settings in front, with "…" in the place of secrets.
func (l *Line) String() string {
	line := ""
	for _, name := range slices.Sorted(maps.Keys(l.Settings)) {
		value := "…"
		if !strings.HasSuffix(name, "_AUTH_TOKENS") && !strings.HasSuffix(name, "_CLIENT_SECRET") {
			value = config.AsTyped([]string{l.Settings[name]})
		}
		line += name + "=" + value + " "
	}
	return line + config.AsTyped(append([]string{"dragoman"}, l.Words()...))
}

func (l *Line) set(theirs, name, value string) { l.Settings[name], l.From[name] = value, theirs }

func (l *Line) flag(theirs string, words ...string) {
	l.Flags = append(l.Flags, words...)
	key := words[0]
	if key == "--oauth" {
		key = "upstream.auth." + words[1][:strings.IndexAny(words[1]+"=", ".=")]
	}
	l.From[key] = theirs
}

func (l *Line) ignore(theirs, why string) { l.Ignored = append(l.Ignored, theirs+": "+why) }

// given is what a tool's line has.
type given struct {
	*Tool
	values  map[string][]string // by [Row.Theirs]; a switch has "true" or "false"
	rest    []string            // words that are no flags
	behind  []string            // words behind --
	unknown []string            // flags that the tool does not have
	getenv  func(string) (string, bool)
}

// last returns the last value of an option, or other if there is none.
func (g *given) last(theirs, other string) string {
	if all := g.values[theirs]; len(all) > 0 {
		return all[len(all)-1]
	}
	return other
}

// preset adds a setting that a tool has by default. One of the environment wins over it.
func (g *given) preset(l *Line, theirs, setting, value string) {
	if given, _ := g.getenv(setting); given == "" {
		l.set(theirs, setting, value)
	}
}
