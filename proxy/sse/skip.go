package sse

import "io"

// skip discards the event under way, up to the blank line behind it. data is the part
// of its data that was read. noRoom says why there was no memory for the event; it is
// nil if the event is too large.
func (r *Reader) skip(data span, noRoom error) error {
	e := &TooLargeError{Limit: r.max, Skipped: true, NoRoom: noRoom}
	if data != noSpan {
		_, _ = e.Message.Write(r.buf[r.start+data.from : r.start+data.to])
	}
	var l skipped
	length := r.pos - r.start
	for {
		for i, c := range r.buf[r.pos:r.end] {
			if l.next(c, e) {
				r.pos += i + 1
				r.start, r.skipLF, r.open = r.pos, c == '\r', false
				return e
			}
		}
		length += r.end - r.pos
		r.start, r.pos, r.open = r.end, r.end, false
		if r.err == nil && length > maxSkipped*r.max {
			e.Skipped = false
			r.err = e
		}
		if r.err != nil {
			if r.err == io.EOF {
				r.err = io.ErrUnexpectedEOF
			}
			r.drop()
			r.start, r.pos, r.end, r.lf, r.cr = 0, 0, 0, 0, 0
			return e
		}
		if r.fill(); r.err == ErrInterrupted {
			r.err = nil // the event ends soon
		}
	}
}

// skipped is the state of the current line of an event that is skipped.
type skipped struct {
	name   []byte // the beginning of the line, at most five bytes
	n      int    // bytes of the line so far
	data   bool   // the rest of the line is data
	first  bool   // no byte of the data was read yet
	lineCR bool   // the line before ended in "\r"
}

// next takes one byte, and reports whether it ends the event.
func (l *skipped) next(c byte, e *TooLargeError) bool {
	switch {
	case c == '\n' && l.lineCR:
		l.lineCR = false
		return false
	case c == '\n' || c == '\r':
		blank := l.n == 0
		*l = skipped{name: l.name[:0], lineCR: c == '\r'}
		return blank
	}
	l.lineCR = false
	l.n++
	switch {
	case l.data && l.first && c == ' ':
		l.first = false
	case l.data:
		l.first = false
		_, _ = e.Message.Write([]byte{c})
	case l.n <= len("data:"):
		l.name = append(l.name, c)
		l.data = string(l.name) == "data:"
		l.first = l.data
	}
	return false
}
