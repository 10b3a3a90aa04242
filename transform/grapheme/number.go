package grapheme

// InNumber reports whether a cut at n is within a number, such as 1,234.5 or 10:42:07.
func InNumber(text []byte, n int) bool {
	if n <= 0 || n >= len(text) {
		return false
	}
	before, after := isDigit(text[n-1]), isDigit(text[n])
	switch {
	case before && after:
		return true
	case before && joins(text[n]):
		return n+1 < len(text) && isDigit(text[n+1])
	case after && joins(text[n-1]):
		return n > 1 && isDigit(text[n-2])
	}
	return false
}

// longNumber is how many bytes a number has at most. What is longer is cut like other text.
const longNumber = 24

// BeforeNumber returns n, or where the number begins that a cut at n would be within.
func BeforeNumber(text []byte, n int) int {
	from, _ := around(text, n)
	return from
}

// AfterNumber returns n, or where the number ends that a cut at n would be within.
func AfterNumber(text []byte, n int) int {
	_, to := around(text, n)
	return to
}

// around returns where the number begins and ends that n is within; both are n if there is none.
func around(text []byte, n int) (from, to int) {
	for from, to = n, n; to-from <= longNumber; {
		switch {
		case InNumber(text, from):
			from--
		case InNumber(text, to):
			to++
		default:
			return from, to
		}
	}
	return n, n
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func joins(c byte) bool { return c == '.' || c == ',' || c == ':' || c == '-' || c == '_' || c == '\'' }
