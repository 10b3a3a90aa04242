package wire

// Shape is the part of a message that rules speak of: a tree of member names
// that Scan follows, recording what stands there. What the shape does not name
// is checked and passed over. A nil Shape stops at the envelope.
type Shape struct {
	Members [NumNames]*Shape // what to record inside the member of that name
	Any     *Shape           // the same for every member without an entry of its own
	Elem    *Shape           // the same for every element, when the value is an array
	shut    bool             // no members are recorded: neither Members nor Any has any
}

// member is the shape of a member's value, nil when it is passed over.
func (s *Shape) member(name Name) *Shape {
	if inner := s.Members[name]; inner != nil {
		return inner
	}
	return s.Any
}

// At returns the shape at a path below s, adding what is missing on the way.
func (s *Shape) At(steps ...Step) *Shape {
	for _, st := range steps {
		var at **Shape
		switch {
		case st.Elem:
			at = &s.Elem
		case st.Any:
			at, s.shut = &s.Any, false
		default:
			at, s.shut = &s.Members[st.Name], false
		}
		if *at == nil {
			*at = &Shape{shut: true}
		}
		s = *at
	}
	return s
}

// Step is one step of a path: into a member by name, into any member, or into
// every element.
type Step struct {
	Name Name
	Any  bool
	Elem bool
}

// ParsePath reads a path such as "result.tools[].annotations.title";
// "*" stands for any member. It panics on a name that is not a [Name]: paths are
// written by hand, at start.
func ParsePath(path string) []Step {
	var steps []Step
	for path != "" {
		n := 0
		for n < len(path) && path[n] != '.' && path[n] != '[' {
			n++
		}
		switch part := path[:n]; part {
		case "":
		case "*":
			steps = append(steps, Step{Any: true})
		default:
			steps = append(steps, Step{Name: parseName(part)})
		}
		path = path[n:]
		switch {
		case path == "":
		case path[0] == '.':
			path = path[1:]
		default: // "[]"
			steps = append(steps, Step{Elem: true})
			path = path[len("[]"):]
			if path != "" && path[0] == '.' {
				path = path[1:]
			}
		}
	}
	return steps
}
