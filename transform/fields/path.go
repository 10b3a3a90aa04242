package fields

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Rule says what to keep of a value and what to leave out.
type Rule struct {
	Include []string // paths to keep; if there are none, all is kept
	Exclude []string // paths to leave out, also of what is included
	Depth   int      // how many steps of an included path count, 1 to 10; all that lies deeper is kept. 0 means 3
	Through []string // names of list wrappers that paths may leave out; nil means nodes, edges, results, items
}

const (
	maxPaths     = 200
	maxPathBytes = 1000
	maxDepth     = 10
	defaultDepth = 3
)

// A PathError says what is wrong with a path, or that there are too many paths.
type PathError struct{ Path, Reason string }

func (e *PathError) Error() string { return fmt.Sprintf("field path %q: %s", e.Path, e.Reason) }

// A Selection is a rule ready for use. It does not change and is safe for
// concurrent use.
type Selection struct {
	include, exclude *node // nil when there are no such paths
	through          map[string]bool
}

// A node is a point that some paths lead to.
type node struct {
	end   bool             // a path ends here
	names map[string]*node // the next nodes by the name of a member
	index map[int]*node    // the next nodes by the index of an element; these are in names, too
	any   *node            // the next node by any name
	named bool             // some steps to a next node are not an index
}

// Wrappers returns the names of the usual list wrappers.
func Wrappers() []string { return []string{"nodes", "edges", "results", "items"} }

// Compile prepares a rule. The error is a [*PathError] if it is about a path.
func Compile(r Rule) (*Selection, error) {
	depth := cmp.Or(r.Depth, defaultDepth)
	if depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("depth %d is out of range: it must be 1 to %d", r.Depth, maxDepth)
	}
	include, err := rootOf(r.Include, depth)
	if err != nil {
		return nil, err
	}
	// An excluded path counts with all its steps: fewer would leave out more.
	exclude, err := rootOf(r.Exclude, maxPathBytes)
	if err != nil {
		return nil, err
	}
	s := &Selection{include: include, exclude: exclude, through: make(map[string]bool)}
	through := r.Through
	if through == nil {
		through = Wrappers()
	}
	for _, name := range through {
		s.through[name] = true
		if name == "edges" {
			s.through["node"] = true // edges[].node is one wrapper
		}
	}
	return s, nil
}

// rootOf returns the root node of paths, or nil if there are none. Of each path,
// the first depth steps count.
func rootOf(paths []string, depth int) (*node, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if len(paths) > maxPaths {
		return nil, &PathError{paths[maxPaths], fmt.Sprintf("there are more than %d paths", maxPaths)}
	}
	root := &node{}
	for _, p := range paths {
		steps, err := parse(p)
		if err != nil {
			return nil, err
		}
		n := root
		for _, s := range steps[:min(len(steps), depth)] {
			n = n.on(s)
		}
		n.end = true
	}
	return root, nil
}

// A step is one part of a path between its dots.
type step struct {
	name string
	any  bool
}

// parse cuts a path at its dots. A backslash makes the dot, star or backslash
// after it a part of a name.
func parse(path string) ([]step, error) {
	if len(path) > maxPathBytes {
		return nil, &PathError{path[:40] + "…", fmt.Sprintf("is longer than %d bytes", maxPathBytes)}
	}
	var steps []step
	var name strings.Builder
	escaped := false
	done := func() error {
		s := step{name: name.String()}
		if s.name == "" {
			return &PathError{path, "has an empty step"}
		}
		s.any = s.name == "*" && !escaped
		steps = append(steps, s)
		name.Reset()
		escaped = false
		return nil
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '.':
			if err := done(); err != nil {
				return nil, err
			}
		case '\\':
			if i++; i == len(path) || !strings.ContainsRune(`.*\`, rune(path[i])) {
				return nil, &PathError{path, `has a \ that is not \., \* or \\`}
			}
			name.WriteByte(path[i])
			escaped = true
		default:
			name.WriteByte(c)
		}
	}
	if err := done(); err != nil {
		return nil, err
	}
	return steps, nil
}

// on returns the node that step s leads to, and adds it if n does not have it.
func (n *node) on(s step) *node {
	if s.any {
		n.named = true
		if n.any == nil {
			n.any = &node{}
		}
		return n.any
	}
	next := n.names[s.name]
	if next == nil {
		next = &node{}
		if n.names == nil {
			n.names = make(map[string]*node)
		}
		n.names[s.name] = next
	}
	if i, err := strconv.Atoi(s.name); err == nil && i >= 0 && strconv.Itoa(i) == s.name {
		if n.index == nil {
			n.index = make(map[int]*node)
		}
		n.index[i] = next
	} else {
		n.named = true
	}
	return next
}
