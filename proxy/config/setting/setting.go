// Package setting fills a struct from a YAML file and environment variables. It reports every
// mistake in them at once: where it is, and what was expected.
//
// The struct's yaml tags name its settings. A nested setting has a path such as
// "session.max"; with the prefix "APP_" its variable is APP_SESSION_MAX.
package setting

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// Mistake is one thing that is wrong in a configuration.
type Mistake struct {
	Where string // "dragoman.yaml:12" or the name of a variable; "" if unknown
	Path  string // path of the setting; "" for none
	Text  string // what is wrong, and what was expected; never the value of a secret
}

// Error returns the parts that are not empty, joined by ": ". A flag for one member of a map is followed by that member in place of the path.
func (m Mistake) Error() string {
	if flag, ok := strings.CutPrefix(m.Where, "--"); ok {
		if _, member, ok := strings.Cut(m.Path, "."+flag+"s."); ok {
			m.Where, m.Path = m.Where+" "+member, ""
		}
	}
	parts := slices.DeleteFunc([]string{m.Where, m.Path, m.Text}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// OneLine returns a text with the lines that begin with two spaces, such as commands to choose from, behind the line before them.
func OneLine(text string) string {
	var b strings.Builder
	sep := ""
	for line := range strings.SplitSeq(text, "\n") {
		if rest, goesOn := strings.CutPrefix(line, "  "); goesOn && b.Len() > 0 {
			b.WriteString(sep + rest)
			sep = "; "
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		sep = " "
	}
	return b.String()
}

// Mistakes lists all that is wrong in a configuration.
type Mistakes []Mistake

// Error returns the text of a single mistake, or a list with a line for each.
func (m Mistakes) Error() string {
	if len(m) == 1 {
		return m[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mistakes in the configuration:", len(m))
	for _, one := range m {
		b.WriteString("\n  ")
		b.WriteString(one.Error())
	}
	return b.String()
}

// Addf notes a mistake in the setting at path.
func (m *Mistakes) Addf(path, format string, a ...any) {
	*m = append(*m, Mistake{Path: path, Text: fmt.Sprintf(format, a...)})
}

// pathFirst matches an error that begins with the path of a setting.
var pathFirst = pattern.Later(`(?s)^([a-z0-9_]+(?:\.[^\s.:]+|\[\d+\])*): (.*)$`)

// Add notes an error, which may be Mistakes, join several errors, or begin with the path of a setting. It ignores
// nil.
func (m *Mistakes) Add(err error) {
	switch e := err.(type) {
	case nil:
	case Mistakes:
		*m = append(*m, e...)
	case Mistake:
		*m = append(*m, e)
	default:
		if several, ok := err.(interface{ Unwrap() []error }); ok && errors.Join(several.Unwrap()...).Error() == err.Error() {
			for _, one := range several.Unwrap() {
				m.Add(one)
			}
			return
		}
		if at := pathFirst().FindStringSubmatch(err.Error()); at != nil {
			m.Addf(at[1], "%s", at[2])
			return
		}
		m.Addf("", "%s", err)
	}
}

// Err returns m as an error, or nil if m is empty.
func (m Mistakes) Err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

// Layers fills a struct layer by layer. A later layer overrides earlier ones.
type Layers struct {
	MeantList func(path, text string) string // what list a text means, without secrets; "" if that is not clear; may be nil

	listed   map[string]bool // paths of which all settings were named
	into     reflect.Value
	removed  map[string]string // paths of removed settings, and what replaces each
	origins  map[string]string // sources of the settings, by path
	mistakes Mistakes
	unknown  []Mistake // variables that belong to no setting; Where is the name
	values   int       // number of values read from this file or variable so far
}

// Over returns Layers that fill the struct that into points to. The values that the struct
// holds already are the defaults. removed maps the path of each removed setting to what
// replaces it, which is part of the error for the setting.
func Over(into any, removed map[string]string) *Layers {
	return &Layers{into: reflect.ValueOf(into).Elem(), removed: removed, origins: map[string]string{}}
}

// Flag notes that the setting at path comes from the flag.
func (l *Layers) Flag(path, flag string) { l.origins[path] = flag }

// Origin returns the source of the setting at path: "dragoman.yaml:12", the name of a variable, or a flag; "" for the
// default.
func (l *Layers) Origin(path string) string { return l.origins[path] }

// Forgive removes the mistake that the variable of this name belongs to no setting. It is for
// variables that a setting refers to.
func (l *Layers) Forgive(name string) {
	l.unknown = slices.DeleteFunc(l.unknown, func(m Mistake) bool { return m.Where == name })
}

// Add notes an error, as [Mistakes.Add] does, with the source of its setting.
func (l *Layers) Add(err error) {
	before := len(l.mistakes)
	l.mistakes.Add(err)
	for i := range l.mistakes[before:] {
		m := &l.mistakes[before+i]
		m.Where = cmp.Or(m.Where, l.origin(m.Path))
		if m.Where == "--"+m.Path {
			m.Path = "" // the flag has the setting's name
		}
	}
}

// Err returns all mistakes, or nil if there are none.
func (l *Layers) Err() error { return append(slices.Clip(l.mistakes), l.unknown...).Err() }

func (l *Layers) add(where, path, format string, a ...any) {
	l.mistakes = append(l.mistakes, Mistake{where, path, fmt.Sprintf(format, a...)})
}

// origin returns the source of the setting at path, or of the nearest setting around it; ""
// if none is known.
func (l *Layers) origin(path string) string {
	for path != "" {
		if where, ok := l.origins[path]; ok {
			return where
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}
