package translate

import "slices"

// Revision is a protocol revision: its name in messages and its properties. Revisions are compared by identity.
type Revision struct {
	Name string // "2025-06-18"

	// Modern revisions have no handshake and no session.
	Modern bool
	// Deprecated revisions still work; the log names a peer that uses one when its session begins.
	Deprecated bool
	// Batches says that a JSON array may carry several messages.
	Batches bool
	// VersionHeader says that HTTP requests after the handshake carry MCP-Protocol-Version.
	VersionHeader bool

	// Elicitation says that servers may send elicitation/create.
	Elicitation bool
	// Structured says that results may have structuredContent, and tools an
	// outputSchema for it.
	Structured bool
	// Tasks says that the revision itself, not an extension, has tasks.
	Tasks bool

	// ErrorStatuses says that an HTTP response with status 400 or 404 may be the JSON-RPC error of its request.
	ErrorStatuses bool
	// ErrorWithoutID says that an error that answers no request has no id. In other revisions
	// its id is null.
	ErrorWithoutID bool
	// Schemas2020 says that a tool's schema without $schema is JSON Schema 2020-12.
	Schemas2020 bool
	// EmptyCursor says that an empty cursor is a cursor like any other. In other revisions it is the same as none.
	EmptyCursor bool

	toolAnnotations bool // tools have annotations
	order           int  // index in revisions
}

// The revisions, oldest first. A step leads from each to the next.
var (
	rev20241105 = &Revision{Name: "2024-11-05"}
	rev20250326 = &Revision{Name: "2025-03-26", Batches: true, toolAnnotations: true}
	rev20250618 = &Revision{Name: "2025-06-18", VersionHeader: true, Elicitation: true, Structured: true, toolAnnotations: true}
	rev20251125 = &Revision{Name: "2025-11-25", VersionHeader: true, Elicitation: true, Structured: true, Tasks: true, ErrorWithoutID: true, Schemas2020: true, toolAnnotations: true}
	rev20260728 = &Revision{Name: "2026-07-28", VersionHeader: true, Elicitation: true, Structured: true, ErrorWithoutID: true, Schemas2020: true, toolAnnotations: true, ErrorStatuses: true, EmptyCursor: true, Modern: true}

	revisions = []*Revision{rev20241105, rev20250326, rev20250618, rev20251125, rev20260728}
)

func init() {
	for i, r := range revisions {
		r.order = i
	}
}

// String returns the revision's name.
func (r *Revision) String() string { return r.Name }

// Newer reports whether r came after other.
func (r *Revision) Newer(other *Revision) bool { return r.order > other.order }

// HeaderName returns the value of the MCP-Protocol-Version header of requests to a server of this revision,
// or "" if they have none.
func (r *Revision) HeaderName() string {
	if !r.VersionHeader {
		return ""
	}
	return r.Name
}

// HasCursor reports whether a cursor, as JSON, leads to a page of a list. It is "" if the message has none.
// See https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination.
func (r *Revision) HasCursor(cursor string) bool {
	return cursor != "" && cursor != "null" && (r.EmptyCursor || cursor != `""`)
}

// Number returns a number for the revision, for places where its name is too long. It is not 0 and never changes.
func (r *Revision) Number() uint8 { return uint8(r.order) + 1 }

// Numbered returns the revision with that number, or nil if there is none.
func Numbered(n uint8) *Revision {
	if n == 0 || int(n) > len(revisions) {
		return nil
	}
	return revisions[n-1]
}

// Lookup returns the revision with that name, or nil if dragoman does not support it.
func Lookup(name string) *Revision {
	for _, r := range revisions {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Handshake returns the supported revisions with a handshake, newest first.
func Handshake() []*Revision {
	var list []*Revision
	for i := len(revisions) - 1; i >= 0; i-- {
		if !revisions[i].Modern {
			list = append(list, revisions[i])
		}
	}
	return list
}

// WithHandshake returns the supported revision with this name that begins with initialize, or nil if there is none.
func WithHandshake(name string) *Revision {
	if r := Lookup(name); r != nil && !r.Modern {
		return r
	}
	return nil
}

// WithoutHeader returns the revision of a request over HTTP that names no session and has no MCP-Protocol-Version. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header.
func WithoutHeader() *Revision { return rev20250326 }

// SameEra reports whether both revisions have a handshake, or neither has.
func (r *Revision) SameEra(other *Revision) bool { return r.Modern == other.Modern }

// All returns every supported revision, newest first.
func All() []*Revision {
	list := slices.Clone(revisions)
	slices.Reverse(list)
	return list
}

// Names returns the names of the supported revisions, newest first.
func Names() (names []string) {
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return names
}

// Latest returns the newest revision with a handshake. A client that requests an unknown revision is offered this
// one.
func Latest() *Revision { return Handshake()[0] }

// Oldest returns the oldest revision. A client that names no revision is assumed to use it.
func Oldest() *Revision { return revisions[0] }

// Modern returns the name of the oldest revision without a handshake.
func Modern() string { return rev20260728.Name }
