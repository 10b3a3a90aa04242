package linear

import (
	"regexp"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// maxWrappers is how many objects may be around a list of issues: for
	// example data, a team, its issues, their nodes.
	maxWrappers = 5
	// maxKept is how many members beside the list are kept.
	maxKept = 50
)

// finder looks for the one issue or list of issues in a value.
type finder struct {
	issue tree.Value
	list  tree.Value   // an array of issues or of edges, or the wrapper of an empty one
	kept  []tree.Value // members of the wrappers, the innermost first
	loose bool         // a member of kept is not about the answer, but about an object that has issues
	other bool         // there are values other than issues and kept members
}

// one reports whether v holds one issue, or one list of them, and nothing that a
// summary would lose.
func (f *finder) one(v tree.Value) bool {
	return f.find(v, 0) && !f.other && len(f.kept) <= maxKept && !(f.loose && f.issue.Present())
}

// find looks into v, which may be a wrapper, and reports whether there is an
// issue or a list.
func (f *finder) find(v tree.Value, depth int) bool {
	switch {
	case v.Is(wire.Array):
		return holdsIssues(v) && f.take(&f.list, v)
	case !v.Is(wire.Object) || depth > maxWrappers:
		return false
	case isIssue(v):
		if depth == 0 {
			f.keepOf(v) // a summary has these members beside the others
		}
		return f.take(&f.issue, v)
	}
	var (
		found, other bool
		loose        bool
		kept         []tree.Value
	)
	for m := range v.All() {
		name := m.Key()
		switch {
		case !m.Present() || m.Empty() && name != "issues":
		case name == "issues" && isEmptyList(m):
			f.keepOf(m)
			found = f.take(&f.list, m)
		case isAboutAnswer(name):
			kept = append(kept, m)
		case name == "__typename" || name == "lastSyncId":
		case !m.Is(wire.Object) && !m.Is(wire.Array):
			kept, loose = append(kept, m), true
		case f.find(m, depth+1):
			found = true
		default:
			other = true
		}
	}
	if found {
		f.kept = append(f.kept, kept...)
		f.loose, f.other = f.loose || loose, f.other || other
	}
	return found
}

// isAboutAnswer reports whether a member says how to get the next page, or
// whether the request succeeded.
func isAboutAnswer(name string) bool {
	switch name {
	case "pageInfo", "hasNextPage", "endCursor", "nextCursor", "next_cursor", "has_more", "cursor", "totalCount", "errors", "success":
		return true
	}
	return false
}

// keepOf keeps the members of an object that are about the answer.
func (f *finder) keepOf(v tree.Value) {
	if !v.Is(wire.Object) {
		return
	}
	for m := range v.All() {
		if isAboutAnswer(m.Key()) && m.Present() && !m.Empty() {
			f.kept = append(f.kept, m)
		}
	}
}

func (f *finder) take(into *tree.Value, v tree.Value) bool {
	f.other = f.other || f.issue.Present() || f.list.Present()
	*into = v
	return true
}

// isEmptyList reports whether a member called issues has none.
func isEmptyList(v tree.Value) bool {
	if v.Is(wire.Object) {
		v = v.First("nodes", "edges")
	}
	return v.Is(wire.Array) && v.Empty()
}

// holdsIssues reports whether the first object in an array is an issue.
func holdsIssues(v tree.Value) bool {
	for e := range v.Elements() {
		if e.Is(wire.Object) {
			return isIssue(node(e))
		}
	}
	return false
}

// node returns the value of an element of a list: its node if it is an edge,
// else the element itself.
func node(e tree.Value) tree.Value {
	if n := e.Get("node"); n.Is(wire.Object) {
		return n
	}
	return e
}

// entries yields the elements of a list: an array, or the nodes or edges of an
// object.
func entries(v tree.Value) func(func(tree.Value) bool) {
	if v.Is(wire.Object) {
		v = v.First("nodes", "edges")
	}
	return v.Elements()
}

// isIssue reports whether v is an issue: it has an issue's identifier, or it
// has an id, a title, and a member that only issues have.
func isIssue(v tree.Value) bool {
	if !v.Is(wire.Object) {
		return false
	}
	if identified(v) {
		return true
	}
	title := v.Get("title").Kind() != wire.Absent && v.First("id", "identifier").Present()
	return title && slices.ContainsFunc([]string{"state", "status", "priority", "assignee"}, func(name string) bool {
		return v.Get(name).Kind() != wire.Absent
	})
}

func identified(v tree.Value) bool {
	return identifier().MatchString(v.Get("identifier").Text()) || identifier().MatchString(v.Get("id").Text())
}

// identifier matches the identifier of an issue, such as LIN-123.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9]*-\d+$`) })
