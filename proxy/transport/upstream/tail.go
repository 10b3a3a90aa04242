package upstream

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// tail holds the last lines that a child wrote to its standard error.
type tail struct {
	lines [maxTail][]byte // a ring
	count int             // number of all lines
}

const (
	// maxTail is how many lines are kept, enough for most traces, and maxTailLine how many bytes of each. A quote is
	// shorter: secrets are removed from the kept line before it is cut to a quote.
	maxTail     = 64
	maxTailLine = 1 << 10
	// toldTail is how many of them an error has.
	toldTail = 20
)

func (t *tail) add(line []byte) {
	at := &t.lines[t.count%maxTail]
	*at = append((*at)[:0], line[:min(len(line), maxTailLine)]...)
	if len(line) > maxTailLine {
		*at = append(*at, ellipsis...)
	}
	t.count++
}

// beginning returns a line, cut as in a tail.
func beginning(line []byte) []byte {
	if len(line) <= maxTailLine {
		return line
	}
	return append(bytes.Clone(line[:maxTailLine]), ellipsis...)
}

// last returns the last n lines, oldest first.
func (t *tail) last(n int) (lines []string) {
	for i := max(0, t.count-min(n, maxTail)); i < t.count; i++ {
		lines = append(lines, string(t.lines[i%maxTail]))
	}
	return lines
}

// quoted returns the last lines as errors may quote them, oldest first.
func (t *tail) quoted(quote func(string) string) (lines []string) {
	for _, line := range t.last(toldTail) {
		if text := quote(line); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

const (
	// maxNoiseLines and maxNoiseBytes bound what a child may write before its first
	// message that is not a message. Package runners and print statements write such
	// lines.
	maxNoiseLines = 1000
	maxNoiseBytes = 1 << 20
	// maxSaid is how many of these lines are quoted.
	maxSaid = 5
)

// noise counts what a child writes to its standard output that is not a message.
type noise struct {
	spoken atomic.Bool // the child has written a message

	mu    sync.Mutex
	all   int64
	lines int // before the first message
	bytes int
	said  []string // the first of these lines
}

// add counts a line. It returns false if there were too many before the first message.
func (n *noise) add(text []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all++
	if n.spoken.Load() {
		return true
	}
	if n.lines < maxSaid {
		n.said = append(n.said, cut(text, maxTailLine))
	}
	n.lines++
	n.bytes += len(text)
	return n.lines <= maxNoiseLines && n.bytes <= maxNoiseBytes
}

// error returns the error for too many lines.
func (n *noise) error(quote func(string) string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &NoiseError{Lines: n.lines, First: quote(n.said[0])}
}
