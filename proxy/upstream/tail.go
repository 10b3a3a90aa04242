package upstream

// tail is the end of what a child writes to its standard error.
type tail struct {
	lines [maxTail][]byte // a ring
	count int             // of lines ever
}

const (
	// maxTail is how many lines are kept, and maxTailLine how much of each, in bytes. A quote
	// is shorter: what is struck out of it is found in the whole line.
	maxTail     = 20
	maxTailLine = 1 << 10
)

func (t *tail) add(line []byte) {
	at := &t.lines[t.count%maxTail]
	*at = append((*at)[:0], line[:min(len(line), maxTailLine)]...)
	t.count++
}

// quoted are the lines as errors may quote them, oldest first.
func (t *tail) quoted(quote func(string) string) (lines []string) {
	for n := max(0, t.count-maxTail); n < t.count; n++ {
		if text := quote(string(t.lines[n%maxTail])); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// last is the last of the quoted lines, "" for none.
func last(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
