package translate

import "slices"

// Revision is a protocol revision: its name on the wire and the traits that code
// outside this package may ask for. Revisions are compared by identity.
type Revision struct {
	Name string // "2025-06-18"

	// Modern revisions have no handshake and no session.
	Modern bool
	// Deprecated revisions still work; clients that use one are told once.
	Deprecated bool
	// Batches says that several messages may come as one JSON array.
	Batches bool
	// VersionHeader says that HTTP requests after the handshake carry MCP-Protocol-Version.
	VersionHeader bool

	// Elicitation says that servers may ask the user of a client.
	Elicitation bool
	// Structured says that results may have structuredContent, and tools an
	// outputSchema for it.
	Structured bool
	// Tasks says that requests may become tasks, by the revision itself and not by
	// an extension.
	Tasks bool

	// ErrorWithoutID says that an error about no request has no id; before, it is null.
	ErrorWithoutID bool
	// Schemas2020 says that a schema of a tool that names no dialect is one of JSON
	// Schema 2020-12.
	Schemas2020 bool

	toolAnnotations bool // tools have annotations
	order           int  // place in revisions
}

// The revisions, oldest first. A step leads from each to the next.
var (
	rev20241105 = &Revision{Name: "2024-11-05"}
	rev20250326 = &Revision{Name: "2025-03-26", Batches: true, toolAnnotations: true}
	rev20250618 = &Revision{Name: "2025-06-18", VersionHeader: true, Elicitation: true, Structured: true, toolAnnotations: true}
	rev20251125 = &Revision{Name: "2025-11-25", VersionHeader: true, Elicitation: true, Structured: true, Tasks: true, ErrorWithoutID: true, Schemas2020: true, toolAnnotations: true}
	rev20260728 = &Revision{Name: "2026-07-28", VersionHeader: true, Elicitation: true, Structured: true, ErrorWithoutID: true, Schemas2020: true, toolAnnotations: true, Modern: true}

	revisions = []*Revision{rev20241105, rev20250326, rev20250618, rev20251125, rev20260728}
)

func init() {
	for i, r := range revisions {
		r.order = i
	}
}

// String is the revision's name.
func (r *Revision) String() string { return r.Name }

// Number stands for the revision where its name is too long: a small number,
// not 0, that never changes.
func (r *Revision) Number() uint8 { return uint8(r.order) + 1 }

// Numbered finds a revision that we speak by its number, nil when there is none.
func Numbered(n uint8) *Revision {
	if n == 0 || int(n) > len(revisions) {
		return nil
	}
	return revisions[n-1]
}

// Lookup finds a revision that we speak by its name, nil when there is none.
func Lookup(name string) *Revision {
	for _, r := range revisions {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Handshake lists the revisions with a handshake that we speak, newest first.
func Handshake() []*Revision {
	var list []*Revision
	for i := len(revisions) - 1; i >= 0; i-- {
		if !revisions[i].Modern {
			list = append(list, revisions[i])
		}
	}
	return list
}

// All lists every revision that we speak, newest first.
func All() []*Revision {
	list := slices.Clone(revisions)
	slices.Reverse(list)
	return list
}

// Latest is the newest revision with a handshake: what a client is offered that
// asks for an unknown one.
func Latest() *Revision { return Handshake()[0] }

// Oldest is the oldest revision: what a client without any sign of its own speaks.
func Oldest() *Revision { return revisions[0] }

// Modern is the name of the oldest revision without a handshake.
func Modern() string { return rev20260728.Name }
