package wire

// Shape names the values of a message that rules use: a tree of member names. Scan records
// the values that the shape names, and only checks all others. With a nil Shape, Scan records
// nothing and only finds the parts of the envelope.
type Shape struct {
	members [NumNames]*Shape // what to record inside the member of that name
	Any     *Shape           // the same for every member without an entry of its own
	Elem    *Shape           // the same for every element, when the value is an array
	Number  uint16           // what [Node.Shape] returns for the values that are recorded with this shape
	shut    bool             // members and Any are empty: no members are recorded
	never   uint64           // bits that no name in members has, see likeness; 0 if that is not known
}

// noShape is the shape of a value in which nothing is recorded.
var noShape = Shape{shut: true}

// likeness returns the bit of a name by its first byte and its length. If the bit of a name is set in Shape.never, the shape
// does not have the name, and which one it is need not be found out.
func likeness(first byte, length int) uint64 { return 1 << ((uint(first) + uint(length)<<3) & 63) }

// member returns the shape of a member's value, or nil if the value is not recorded.
func (s *Shape) member(name Name) *Shape {
	if inner := s.members[name]; inner != nil {
		return inner
	}
	return s.Any
}

// Put makes inner what to record inside the member of that name.
func (s *Shape) Put(name Name, inner *Shape) {
	text := name.String()
	s.members[name], s.shut = inner, false
	s.never &^= likeness(text[0], len(text))
}

// At returns the shape at a path below s. It adds missing shapes on the way.
func (s *Shape) At(steps ...Step) *Shape {
	for _, st := range steps {
		var at **Shape
		switch {
		case st.Elem:
			at = &s.Elem
		case st.Any:
			at, s.shut, s.never = &s.Any, false, 0
		default:
			at = &s.members[st.Name]
		}
		if *at == nil {
			*at = &Shape{shut: true, never: ^uint64(0)}
		}
		if !st.Elem && !st.Any {
			s.Put(st.Name, *at)
		}
		s = *at
	}
	return s
}

// Each calls f for the shape of each member and of the elements that s has.
func (s *Shape) Each(f func(step Step, inner *Shape)) {
	for name, inner := range s.members {
		if inner != nil {
			f(Step{Name: Name(name)}, inner)
		}
	}
	if s.Any != nil {
		f(Step{Any: true}, s.Any)
	}
	if s.Elem != nil {
		f(Step{Elem: true}, s.Elem)
	}
}

// Step is one step of a path: into a member by name, into any member, or into
// every element.
type Step struct {
	Name Name
	Any  bool
	Elem bool
}

// ParsePath parses a path such as "result.tools[].annotations.title";
// "*" stands for any member. It panics on a name that is not a [Name], because all paths are
// constants of the program.
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
