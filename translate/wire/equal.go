package wire

import (
	"bytes"
	"slices"
)

// Valid reports whether b is one JSON value, by the rules of Scan (grammar, UTF-8, MaxDepth).
func Valid(b []byte) bool {
	i := skipSpace(b, 0)
	return whole(b, skipValue(b, i, 0)) >= 0
}

// Equal reports whether two valid JSON values are equal. The order of members does not matter; strings compare
// unescaped and numbers by value. An object with two members of one name equals another object only if that has the
// same members in the same order. The time is O(n log m) for a of n bytes with at most m members in an object,
// whatever the size of b.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	_, _, same := equalAt(a, skipSpace(a, 0), b, skipSpace(b, 0))
	return same
}

// equalAt compares the values at i and j and returns the indexes behind them.
func equalAt(a []byte, i int, b []byte, j int) (int, int, bool) {
	switch c := a[i]; {
	case c == '{' && b[j] == '{':
		return equalObjects(a, i, b, j)
	case c == '[' && b[j] == '[':
		return equalArrays(a, i, b, j)
	case c == '"' && b[j] == '"':
		ei, ej := skipString(a, i+1), skipString(b, j+1)
		return ei, ej, SameText(a[i+1:ei-1], b[j+1:ej-1])
	case isNumber(c) && isNumber(b[j]):
		ei, ej := skipScalar(a, i), skipScalar(b, j)
		return ei, ej, sameNumber(a[i:ei], b[j:ej])
	case c == b[j] && c != '{' && c != '[' && c != '"':
		return skipScalar(a, i), skipScalar(b, j), true
	}
	return i, j, false
}

func isNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

func sameNumber(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, ex, _ := decimal(a)
	y, ey, _ := decimal(b)
	if x == nil || y == nil {
		return x == nil && y == nil
	}
	return (a[0] == '-') == (b[0] == '-') && ex == ey && sameDigits(x, y)
}

// sameDigits compares two strings of digits, without their decimal points.
func sameDigits(x, y []byte) bool {
	i, j := 0, 0
	for {
		if i < len(x) && x[i] == '.' {
			i++
		}
		if j < len(y) && y[j] == '.' {
			j++
		}
		if i == len(x) || j == len(y) {
			return i == len(x) && j == len(y)
		}
		if x[i] != y[j] {
			return false
		}
		i++
		j++
	}
}

func equalArrays(a []byte, i int, b []byte, j int) (int, int, bool) {
	i, j = skipSpace(a, i+1), skipSpace(b, j+1)
	for a[i] != ']' && b[j] != ']' {
		var same bool
		if i, j, same = equalAt(a, i, b, j); !same {
			return i, j, false
		}
		i, j = nextItem(a, i), nextItem(b, j)
	}
	return i + 1, j + 1, a[i] == ']' && b[j] == ']'
}

// nextItem returns the index of the member or element after the one that ends at i, or of the closing bracket.
func nextItem(b []byte, i int) int {
	if i = skipSpace(b, i); b[i] == ',' {
		return skipSpace(b, i+1)
	}
	return i
}

type member struct{ name, value []byte }

// nextMember reads the member at i.
func nextMember(b []byte, i int) (m member, next int) {
	end := skipName(b, i)
	pos := skipColon(b, end)
	next = skipValue(b, pos, 0)
	return member{b[i+1 : end-1], b[pos:next]}, nextItem(b, next)
}

func equalObjects(a []byte, i int, b []byte, j int) (int, int, bool) {
	fromI, fromJ := i, j
	i, j = skipSpace(a, i+1), skipSpace(b, j+1)
	for a[i] != '}' && b[j] != '}' { // as long as the names are in the same order
		ei, ej := skipName(a, i), skipName(b, j)
		if !SameText(a[i+1:ei-1], b[j+1:ej-1]) {
			return equalSorted(a, fromI, b, fromJ)
		}
		var same bool
		if i, j, same = equalAt(a, skipColon(a, ei), b, skipColon(b, ej)); !same {
			return i, j, false
		}
		i, j = nextItem(a, i), nextItem(b, j)
	}
	return i + 1, j + 1, a[i] == '}' && b[j] == '}'
}

// equalSorted compares two objects in the order of their names.
func equalSorted(a []byte, i int, b []byte, j int) (int, int, bool) {
	var x, y []member
	i, j = skipSpace(a, i+1), skipSpace(b, j+1)
	for a[i] != '}' {
		var m member
		m, i = nextMember(a, i)
		x = append(x, m)
	}
	for b[j] != '}' {
		if len(y) == len(x) {
			return i, j, false
		}
		var m member
		m, j = nextMember(b, j)
		y = append(y, m)
	}
	if len(x) != len(y) {
		return i, j, false
	}
	sortMembers(x)
	sortMembers(y)
	for k := range x {
		if !bytes.Equal(x[k].name, y[k].name) || !Equal(x[k].value, y[k].value) ||
			k > 0 && bytes.Equal(x[k].name, x[k-1].name) {
			return i, j, false
		}
	}
	return i + 1, j + 1, true
}

// sortMembers unescapes the names and sorts by them.
func sortMembers(list []member) {
	for k := range list {
		if bytes.IndexByte(list[k].name, '\\') >= 0 {
			list[k].name = AppendUnescaped(nil, list[k].name)
		}
	}
	slices.SortFunc(list, func(p, q member) int { return bytes.Compare(p.name, q.name) })
}
