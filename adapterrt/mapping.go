package adapterrt

import (
	"errors"
	"fmt"
	"strings"
)

// mapping is a compiled maps_to.
type mapping struct {
	method   string
	template string // "/repos/{owner}?force=true", as written
	segments []segment
	query    []queryPart
	names    []string // placeholders, in order, each once
}

// segment is what stands between two slashes of the path.
type segment []part

// part is a literal, ready to be sent, or the place of a parameter.
type part struct {
	literal string
	name    string // the parameter's
	param   int    // its index in the operation, set when the operation is compiled
}

// queryPart is one key=value of a literal query.
type queryPart struct {
	key   string // with its "=", ready to be sent; the whole of a lone key
	value segment
}

// parseMapping compiles "METHOD /path/{name}?key={name}".
func parseMapping(s string) (*mapping, error) {
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
	m := &mapping{method: method, template: path}
	path, query, hasQuery := strings.Cut(path, "?")
	for _, s := range strings.Split(path[1:], "/") {
		seg, err := m.parts(s)
		if err != nil {
			return nil, err
		}
		if len(seg) == 1 && seg[0].name == "" && isDots([]byte(seg[0].literal)) {
			return nil, errors.New("the path must not hold a segment . or ..")
		}
		m.segments = append(m.segments, seg)
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
		if err := checkPercent(key); err != nil {
			return nil, err
		}
		q := queryPart{key: string(appendLiteral(nil, key))}
		if hasValue {
			q.key += "="
			var err error
			if q.value, err = m.parts(value); err != nil {
				return nil, err
			}
		}
		m.query = append(m.query, q)
	}
	return m, nil
}

// parts splits text into literals and placeholders.
func (m *mapping) parts(s string) (segment, error) {
	var seg segment
	literal := func(t string) error {
		if strings.ContainsRune(t, '}') {
			return errors.New("a } has no {")
		}
		if t == "" {
			return nil
		}
		seg = append(seg, part{literal: shared(t, appendLiteral(nil, t)), param: -1})
		return checkPercent(t)
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
			return nil, fmt.Errorf("%q is no parameter name", firstRunes(name, 60))
		}
		seg = append(seg, part{name: name, param: -1})
		known := false
		for _, n := range m.names {
			known = known || n == name
		}
		if !known {
			m.names = append(m.names, name)
		}
		s = after
	}
}

// shared is b as a string, and s itself when that says the same.
func shared(s string, b []byte) string {
	if s == string(b) {
		return s
	}
	return string(b)
}

func checkPercent(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 < len(s) {
			_, ok1 := hexDigit(s[i+1])
			_, ok2 := hexDigit(s[i+2])
			if ok1 && ok2 && s[i+1:i+3] != "00" {
				continue
			}
		}
		return errors.New("a % must start two hexadecimal digits, and not 00")
	}
	return nil
}

// isParamName: ^[A-Za-z][A-Za-z0-9_-]*$
func isParamName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// isSnake: ^[a-z][a-z0-9_]*$
func isSnake[T string | []byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return len(s) > 0
}
