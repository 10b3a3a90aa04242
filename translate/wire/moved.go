package wire

import (
	"bytes"
	"unsafe"
)

// Within reports whether part is in the memory of whole, or empty.
func Within(part, whole []byte) bool {
	if len(part) == 0 || len(whole) == 0 {
		return len(part) == 0
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return at <= uintptr(len(whole)) && at+uintptr(len(part)) <= uintptr(len(whole))
}

// Moved returns the bytes of to, a copy of from, that are at the same place as part is in from. If part
// is not within from, Moved returns a clone of part.
func Moved(part, from, to []byte) []byte {
	if len(part) == 0 || !Within(part, from) {
		return bytes.Clone(part)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(from)))
	end := int(at) + len(part)
	return to[at:end:end]
}
