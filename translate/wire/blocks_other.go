//go:build !amd64 && !arm64

package wire

// hasBlocks, hasWalk and hasWalk512 are variables for the tests.
var hasBlocks, hasWalk, hasWalk512 = false, false, false

// skipText returns an index of b, i or a later one, which is inside a string. Between them are only whole characters
// and escapes of two bytes: no quote that ends the string and nothing that is a fault. What is before i must be so too.
func skipText(_ []byte, i int) int { return i }

// skipWalk is called only if hasWalk.
func skipWalk([]byte, int, int) int { return -1 }
