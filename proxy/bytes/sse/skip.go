package sse

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
