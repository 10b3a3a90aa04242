package wire

import "iter"

// EachMember calls f for every member of an object: with its text, from its name to the end of its value, and with its value. It
// ends early when f returns false.
func EachMember(raw []byte, f func(member, value []byte) bool) {
	for i := skipSpace(raw, skipSpace(raw, 0)+1); raw[i] != '}'; {
		from := skipColon(raw, skipName(raw, i))
		end := skipValue(raw, from, 0)
		if !f(raw[i:end:end], raw[from:end:end]) {
			return
		}
		i = nextItem(raw, end)
	}
}

// Strings yields where the strings in a valid JSON text are, names of members included: the indexes of the first byte
// behind the opening quote and of the closing quote.
func Strings(raw []byte) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i := 0; i < len(raw); i++ {
			if raw[i] != '"' {
				continue
			}
			end := skipString(raw, i+1)
			if !yield(i+1, end-1) {
				return
			}
			i = end - 1
		}
	}
}
