package mcp

// Quirk names a behaviour of published software that differs from the specification, or that the
// specification leaves open. The code that handles it counts it; package report has all of them.
type Quirk string

// Quirks in the responses of servers.
const (
	TextID        Quirk = "text-id"
	NullMember    Quirk = "null-member"
	ByteOrderMark Quirk = "byte-order-mark"
	LostAs200     Quirk = "lost-as-200"
)
