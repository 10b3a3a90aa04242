package peers

import (
	"bytes"
	"io"
	"maps"
	"slices"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// readPipe takes what comes on a pipe until it ends.
func (c *Client) readPipe() {
	r := newReader(&deafReader{c: c, r: c.o.In})
	for {
		line, err := readLine(r)
		c.mu.Lock()
		s := c.session
		switch {
		case c.closed:
		case err != nil:
			c.pipeEnds(err, len(line))
		case len(line) == 0:
		case s == nil:
			if !c.gone && !c.spoilt {
				c.note(trace.Event{Kind: trace.Strange, Text: "a line outside any session", Raw: bytes.Clone(line)})
			}
		default:
			s.takeAll(line, nil)
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// pipeEnds notes that dragoman says no more. rest is how long the line is that it did not end.
func (c *Client) pipeEnds(err error, rest int) {
	c.gone = true
	c.box.close()
	s := c.session
	if s == nil {
		return
	}
	why := ended(err)
	if rest > 0 {
		why += " within a line"
	}
	if s.ok && !c.modern {
		s.note(nil, trace.Event{Kind: trace.Closed, Text: why})
	}
	s.refuseAll(why)
	s.lose("")
}

// refuseAll refuses what is open, also what its user is asked about.
func (s *clientSession) refuseAll(why string) {
	for _, list := range maps.Clone(s.open) {
		for _, k := range slices.Clone(list) {
			k.refuse(why)
		}
	}
	for k := range s.c.wanted {
		if k.s == s {
			k.refuse(why)
		}
	}
}

// deafReader reads from what dragoman writes, but when the client is deaf.
type deafReader struct {
	c   *Client
	r   io.Reader
	end error // how it ended; nil if it has not
}

func (d *deafReader) Read(p []byte) (int, error) {
	d.c.hear()
	n, err := d.r.Read(p)
	d.end = err
	d.c.hear()
	return n, err
}
