//go:build !amd64

package wire

// skipPlain returns an index of b, i or a later one. No byte between them is one that care marks.
func skipPlain(_ []byte, i int) int { return i }
