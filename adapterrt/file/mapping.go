package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// Mapping is a compiled maps_to.
type Mapping struct {
	Method   string
	Template string // "/repos/{owner}?force=true", as written
	Segments []Segment
	Query    []QueryPart
	Names    []string // placeholders, in order, each once
}

// Segment is the part of the path between two slashes, or a value in the query.
type Segment []Part

// Part is a literal, escaped for a URL, or the place of a parameter.
type Part struct {
	Literal string
	Name    string // of the parameter; "" for a literal
	Param   int    // index of the parameter in the operation, set when the operation is compiled
}

// QueryPart is one key=value of a literal query.
type QueryPart struct {
	Key   string // escaped, with its "="; without "=" if the part has no value
	Value Segment
}

// CheckMapping returns an error if s is no valid maps_to.
func CheckMapping(s string) error {
	_, err := parseMapping(s)
	return err
}

// parseMapping compiles "METHOD /path/{name}?key={name}".
func parseMapping(s string) (*Mapping, error) {
	method, path, ok := strings.Cut(s, " ")
	if !ok {
		return nil, errors.New("a method and a path are needed")
	}
	method = strings.ToUpper(method)
	switch method {
	case "GET", "POST", "PUT", "PATCH", "DELETE":
	default:
		return nil, errors.New("the method must be GET, POST, PUT, PATCH or DELETE")
	}
	path = strings.TrimLeft(path, " ")
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("the path must start with /")
	}
	for _, r := range path {
		if r <= ' ' || r == 0x7f || r == '#' || r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfffd {
			return nil, fmt.Errorf("the path must not hold %q", r)
		}
	}
	m := &Mapping{Method: method, Template: path}
	path, query, hasQuery := strings.Cut(path, "?")
	for _, s := range strings.Split(path[1:], "/") {
		seg, err := m.parts(s)
		if err != nil {
			return nil, err
		}
		if len(seg) == 1 && seg[0].Name == "" && escape.Climbs([]byte(seg[0].Literal)) {
			return nil, errors.New("the path must not hold a segment . or ..")
		}
		m.Segments = append(m.Segments, seg)
	}
	if !hasQuery {
		return m, nil
	}
	for _, pair := range strings.Split(query, "&") {
		if pair == "" {
			continue
		}
		key, value, hasValue := strings.Cut(pair, "=")
		if strings.ContainsAny(key, "{}") {
			return nil, errors.New("a placeholder must not stand in a query key")
		}
		if err := escape.CheckPercent(key); err != nil {
			return nil, err
		}
		q := QueryPart{Key: string(escape.AppendLiteral(nil, key))}
		if hasValue {
			q.Key += "="
			var err error
			if q.Value, err = m.parts(value); err != nil {
				return nil, err
			}
		}
		m.Query = append(m.Query, q)
	}
	return m, nil
}

// parts splits text into literals and placeholders.
func (m *Mapping) parts(s string) (Segment, error) {
	var seg Segment
	literal := func(t string) error {
		if strings.ContainsRune(t, '}') {
			return errors.New("a } has no {")
		}
		if t == "" {
			return nil
		}
		seg = append(seg, Part{Literal: shared(t, escape.AppendLiteral(nil, t)), Param: -1})
		return escape.CheckPercent(t)
	}
	for {
		before, rest, found := strings.Cut(s, "{")
		if err := literal(before); err != nil {
			return nil, err
		}
		if !found {
			return seg, nil
		}
		name, after, closed := strings.Cut(rest, "}")
		switch {
		case strings.ContainsRune(name, '{'):
			return nil, errors.New("braces must not be nested")
		case !closed:
			return nil, errors.New("a { has no }")
		case !isParamName(name):
			return nil, fmt.Errorf("%q is not a parameter name", clean.FirstRunes(name, 60))
		}
		seg = append(seg, Part{Name: name, Param: -1})
		if !slices.Contains(m.Names, name) {
			m.Names = append(m.Names, name)
		}
		s = after
	}
}

// holdsSecret reports whether a literal of the mapping looks like a credential, by its form or by its name in the query.
func (m *Mapping) holdsSecret() bool {
	literal := func(seg Segment) (text string) {
		for _, p := range seg {
			text += p.Literal
		}
		return text
	}
	for _, seg := range m.Segments {
		if clean.IsSecret(literal(seg)) {
			return true
		}
	}
	for _, q := range m.Query {
		if value := literal(q.Value); value != "" && (clean.IsSecret(value) || secret.InQuery(strings.TrimSuffix(q.Key, "="), value)) {
			return true
		}
	}
	return false
}

// shared returns b as a string. If s is equal, it returns s, which needs no new memory.
func shared(s string, b []byte) string {
	if s == string(b) {
		return s
	}
	return string(b)
}
