package transform

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Source knows the results of some servers, and makes them shorter. It is
// safe for concurrent use and keeps none of its arguments.
type Source interface {
	// Name returns the source's name in rules and the configuration: lower-case
	// letters.
	Name() string
	// Match returns how sure the source is that a value is one of its own: 0 is
	// not at all, 100 entirely. value is a valid JSON object or array; Match
	// should rule out most values by a look at their beginning. Match is called
	// only if auto_detect lets the source recognize results by their shape.
	Match(server, tool string, value []byte) int
	// Options returns the source's options, with their defaults. No option is
	// called enabled or tools.
	Options() []Option
	// Apply converts value, a valid JSON object or array nested no deeper than
	// 512, and appends the output to dst. [ErrUnchanged] says that value is not
	// one of the source's own; value then stays as it is. After any other error
	// it stays too, and the error is reported. After an error or a panic, out
	// is not used.
	Apply(dst, value []byte, opt Values) (out []byte, kind Kind, err error)
}

// Wrapper is a [Source] that returns lists as a member of an object. Paths to
// fields may leave out the member's name, as with other list wrappers.
type Wrapper interface {
	// Wraps returns the member's name.
	Wraps() string
}

// ErrUnchanged says that a source does not convert a value.
var ErrUnchanged = errors.New("not of this source")

// Kind is the kind of a source's output.
type Kind int

// JSON is a JSON value, Text is Markdown or plain text.
const (
	JSON Kind = iota
	Text
)

// Option is a setting of a source.
type Option struct {
	Name    string
	Default any      // a bool, an int or a string
	Allowed []string // of a string; nil allows any
	Min     int      // of an int
	Max     int
	About   string // what it does, in a sentence
}

// Values holds the values of all of a source's options, checked.
type Values struct{ set map[string]any }

// Bool returns the value of an option that is a bool.
func (v Values) Bool(name string) bool { b, _ := v.set[name].(bool); return b }

// Int returns the value of an option that is an int.
func (v Values) Int(name string) int { i, _ := v.set[name].(int); return i }

// String returns the value of an option that is a string.
func (v Values) String(name string) string { s, _ := v.set[name].(string); return s }

// An OptionError says what is wrong with an option of a source.
type OptionError struct{ Source, Option, Reason string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s of %s: %s", e.Option, e.Source, e.Reason)
}

// ResolveOptions combines settings: later ones override earlier ones, and all
// override the defaults of s. The error is an [*OptionError].
func ResolveOptions(s Source, settings ...map[string]any) (Values, error) {
	v := Values{make(map[string]any)}
	options := s.Options()
	for _, o := range options {
		v.set[o.Name] = o.Default
	}
	for _, set := range settings {
		for _, name := range sortedKeys(set) {
			i := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
			if i < 0 {
				return Values{}, &OptionError{s.Name(), name, "there is no such option"}
			}
			if reason := options[i].check(set[name]); reason != "" {
				return Values{}, &OptionError{s.Name(), name, reason}
			}
			v.set[name] = set[name]
		}
	}
	return v, nil
}

// check returns what is wrong with a value, or "" if nothing is.
func (o *Option) check(value any) string {
	switch o.Default.(type) {
	case bool:
		if _, ok := value.(bool); !ok {
			return "is not true or false"
		}
	case int:
		most := cmp.Or(o.Max, math.MaxInt)
		if i, ok := value.(int); !ok || i < o.Min || i > most {
			return fmt.Sprintf("is not a number from %d to %d", o.Min, most)
		}
	case string:
		if text, ok := value.(string); !ok {
			return "is not a text"
		} else if o.Allowed != nil && !slices.Contains(o.Allowed, text) {
			return fmt.Sprintf("%q is not one of %s", text, strings.Join(o.Allowed, ", "))
		}
	}
	return ""
}

// onlyFields is the source that leaves values as they are, for rules that only
// select fields and name that as their adapter.
type onlyFields struct{}

func (onlyFields) Name() string                    { return "fields" }
func (onlyFields) Match(_, _ string, _ []byte) int { return 0 }
func (onlyFields) Options() []Option               { return nil }
func (onlyFields) Apply(dst, _ []byte, _ Values) ([]byte, Kind, error) {
	return dst, JSON, ErrUnchanged
}
