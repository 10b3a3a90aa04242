package adapterrt

import "strings"

// envelope is a request taken apart. Its slices point into the request.
type envelope struct {
	top       []entry
	params    []entry
	operation []byte // unquoted; nil when absent
	adapter   []byte
	batch     []byte // the raw value of operations
	repeated  bool   // a member was given twice; the last one counts
}

// entry is one member of an object.
type entry struct {
	key  []byte // unescaped
	raw  []byte
	kind kind
}

// limits of a request.
type limits struct{ size, text, elements, depth int }

const (
	maxText     = 1 << 20
	maxElements = 10_000
	maxNesting  = 32
)

// parse takes body apart and checks all that can be said without knowing the
// operation. A member given twice counts as the last time.
func (e *envelope) parse(body []byte, lim limits) *Failure {
	e.top, e.params = e.top[:0], e.params[:0]
	e.operation, e.adapter, e.batch, e.repeated = nil, nil, nil, false
	if len(body) > lim.size {
		return tooLarge("request_size", lim.size, len(body), "bytes")
	}
	s := scanner{data: body, maxDepth: lim.depth, maxString: lim.text, maxArray: lim.elements, clean: true}
	if s.space(); s.pos < len(body) && body[s.pos] != '{' {
		return e.noObject(&s)
	}
	var f *Failure
	e.top, f = e.members(&s, e.top, 1, "")
	if f != nil {
		return f
	}
	if s.space(); s.pos < len(body) {
		return badJSON(faultTrailing, s.pos)
	}
	var op *entry
	params := false
	for i := range e.top {
		switch m := &e.top[i]; string(m.key) {
		case "operation":
			e.repeated = e.repeated || op != nil
			op = m
		case "params":
			e.repeated = e.repeated || params
			params = true
		case "adapter":
			if m.kind != text && m.kind != null {
				return invalidType("adapter", "string", kindWords[m.kind])
			}
			if m.kind == text {
				e.adapter = unquoted(m.raw)
			}
		case "operations":
			e.batch = m.raw
		}
	}
	if op == nil || op.kind == null {
		return nil
	}
	if op.kind != text {
		return invalidType("operation", "string", typeOf(op.raw))
	}
	e.operation = unquoted(op.raw)
	return nil
}

// noObject is the failure for a text that is not an object, when it is JSON.
func (e *envelope) noObject(s *scanner) *Failure {
	at := s.pos
	if f := s.document(); f != fine {
		return e.fault(s, f, "request")
	}
	return invalidType("params", "object", typeOf(s.data[at:]))
}

// members reads the object before s and appends what is in it to dst. within is
// its name, "" for the request.
func (e *envelope) members(s *scanner, dst []entry, depth int, within string) ([]entry, *Failure) {
	if s.pos >= len(s.data) {
		return dst, badJSON(faultEnd, s.pos)
	}
	s.pos++
	if s.space(); s.pos < len(s.data) && s.data[s.pos] == '}' {
		s.pos++
		return dst, nil
	}
	for {
		at := s.pos
		if f := s.key(); f != fine {
			if within == "" {
				return dst, e.fault(s, f, "request")
			}
			return dst, e.fault(s, f, within)
		}
		key := unquoted(s.data[at : at+keyLength(s.data[at:])])
		at = s.pos
		if within == "" && string(key) == "params" && at < len(s.data) && s.data[at] == '{' {
			var f *Failure
			if e.params, f = e.members(s, e.params[:0], depth+1, "params"); f != nil {
				return dst, f
			}
		} else if f := s.value(depth + 1); f != fine {
			location := string(key)
			if within != "" {
				location = within + "." + location
			}
			return dst, e.fault(s, f, location)
		}
		m := entry{key, s.data[at:s.pos:s.pos], kindOf(s.data[at:])}
		if within == "" && string(key) == "params" && m.kind != object {
			if m.kind != null {
				return dst, invalidType("params", "object", typeOf(m.raw))
			}
			e.params = e.params[:0]
		}
		dst = append(dst, m)
		more, f := s.next('}')
		if f != fine {
			return dst, e.fault(s, f, "request")
		}
		if !more {
			return dst, nil
		}
	}
}

// keyLength is the length of the valid JSON string at the start of b.
func keyLength(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}

func (e *envelope) fault(s *scanner, f fault, location string) *Failure {
	location = firstRunes(strings.ToValidUTF8(location, "\uFFFD"), 100)
	switch f {
	case faultUTF8, faultNUL, faultSurrogate:
		return invalidEncoding(location, s.pos)
	case faultDepth:
		return tooLarge("nesting_depth", s.maxDepth, s.size, "levels")
	case faultString:
		return tooLarge("string_length", s.maxString, s.size, "bytes")
	case faultArray:
		return tooLarge("array_elements", s.maxArray, s.size, "elements")
	}
	return badJSON(f, s.pos)
}

func badJSON(f fault, pos int) *Failure {
	return &Failure{
		Code:    ValidationInvalidType,
		Message: "Request is not valid JSON: " + f.reason(),
		Details: jsonObject(nil).str("param_name", "params").str("expected_type", "object").int("byte_offset", int64(pos)).end(),
	}
}
