package wire

import "unsafe"

// View returns b as a string, without a copy, to look something up in it. b must not change while the
// string is in use.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes returns s as a slice, without a copy. The slice must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
