package observe

import "bytes"

// place moves p, with this text, into a chunk, or gives it memory of its own if it is long.
func (c *chunks) place(p *packedCall, text []byte) {
	size := len(text)
	for _, raw := range p.long {
		size += len(raw)
	}
	if size > maxInChunk {
		p.text = bytes.Clone(text) // the messages stay where they are
		return
	}
	if c.now == nil || cap(c.now.text)-len(c.now.text) < size {
		c.next()
	}
	c.now.calls++
	p.in, p.text = c.now, c.now.keep(text)
	for i, raw := range p.long {
		p.long[i] = c.now.keep(raw)
	}
}

// next begins another chunk.
func (c *chunks) next() {
	full := c.now
	if n := len(c.free); n > 0 {
		c.now, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.now = newChunk()
	}
	if full != nil && full.calls == 0 {
		c.put(full)
	}
}

func (c *chunks) put(unused *chunk) {
	if len(c.free) < maxFree {
		unused.text = unused.text[:0]
		c.free = append(c.free, unused)
	}
}

// release frees the memory of p, which nothing may use any more.
func (c *chunks) release(p *packedCall) {
	in := p.in
	if *p = (packedCall{}); in == nil {
		return
	}
	if in.calls--; in.calls == 0 && in != c.now {
		c.put(in)
	}
}

// keep copies text into the chunk, which has room for it.
func (c *chunk) keep(text []byte) []byte {
	at := len(c.text)
	c.text = append(c.text, text...)
	return c.text[at:len(c.text):len(c.text)]
}
