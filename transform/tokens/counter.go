package tokens

// A Counter counts the tokens of a text that comes in parts, cut anywhere. Its
// Sum is what [Encoding.Count] returns for the whole text. It is an [io.Writer]
// that never fails. Between calls it holds the text that it has not counted
// yet: some kilobytes, and at most twice the length of the run of letters,
// symbols, numbers or white space that the text ends in. It is not safe for
// concurrent use.
type Counter struct {
	encoding *Encoding
	units    int
	rest     []byte // not counted yet
	retry    int    // the length of rest at which counting is tried again
}

// enough is how many bytes of text a counter collects before it counts.
const enough = 1 << 10

// Counter returns a counter of this encoding that has counted nothing. Release
// it when it is not needed any more.
func (e *Encoding) Counter() *Counter {
	c, _ := e.counters.Get().(*Counter)
	if c == nil {
		c = &Counter{encoding: e}
	}
	c.Reset()
	return c
}

// Write counts p, which it does not keep. It returns len(p) and no error.
func (c *Counter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part := p[:min(len(p), keptScratch/2)]
		p = p[len(part):]
		c.rest = append(c.rest, part...)
		if len(c.rest) < c.retry {
			continue
		}
		units, used := c.encoding.loaded().take(c.rest, true, unlimited)
		c.units += units
		c.rest = c.rest[:copy(c.rest, c.rest[used:])]
		// Trying again only at twice the length keeps the time for a long run
		// linear.
		c.retry = max(enough, 2*len(c.rest))
	}
	return n, nil
}

// AtLeast returns a lower bound of Sum, whatever text follows. It counts
// nothing and is therefore cheap.
func (c *Counter) AtLeast() int {
	return c.encoding.tokens(c.units + (len(c.rest)+longestToken-1)/longestToken)
}

// Sum returns the number of tokens of all that was written. The caller may
// write more of the same text afterwards.
func (c *Counter) Sum() int {
	units, _ := c.encoding.loaded().take(c.rest, false, unlimited)
	return c.encoding.tokens(c.units + units)
}

// Reset makes c count a new text.
func (c *Counter) Reset() { c.units, c.rest, c.retry = 0, c.rest[:0], enough }

// Release returns c to its pool. The caller must not use c afterwards.
func (c *Counter) Release() {
	if cap(c.rest) > keptScratch {
		c.rest = nil
	}
	c.encoding.counters.Put(c)
}
