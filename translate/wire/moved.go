package wire

import (
	"bytes"
	"unsafe"
)

// Moved returns the bytes of to, a copy of from, that are at the same place as part is in from. If part
// is not within from, Moved returns a clone of part.
func Moved(part, from, to []byte) []byte {
	if len(part) == 0 || len(from) == 0 {
		return bytes.Clone(part)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(from)))
	if at > uintptr(len(from)) || at+uintptr(len(part)) > uintptr(len(from)) {
		return bytes.Clone(part)
	}
	end := int(at) + len(part)
	return to[at:end:end]
}
