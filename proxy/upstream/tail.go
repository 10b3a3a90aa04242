package upstream

// tail holds the last lines that a child wrote to its standard error.
type tail struct {
	lines [maxTail][]byte // a ring
	count int             // number of all lines
}

const (
	// maxTail is how many lines are kept, and maxTailLine how many bytes of each. A quote is
	// shorter: secrets are removed from the kept line before it is cut to a quote.
	maxTail     = 20
	maxTailLine = 1 << 10
)

func (t *tail) add(line []byte) {
	at := &t.lines[t.count%maxTail]
	*at = append((*at)[:0], line[:min(len(line), maxTailLine)]...)
	t.count++
}

// quoted returns the lines as errors may quote them, oldest first.
func (t *tail) quoted(quote func(string) string) (lines []string) {
	for n := max(0, t.count-maxTail); n < t.count; n++ {
		if text := quote(string(t.lines[n%maxTail])); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// last returns the last of the quoted lines, or "" if there is none.
func last(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
