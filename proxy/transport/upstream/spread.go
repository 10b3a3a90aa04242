package upstream

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
)

// spread recognizes a message that a child prints over several lines, as programs do that indent their JSON. None of these lines
// is a message. It keeps no more of them than their beginning.
type spread struct {
	first  int // the number of the line that may begin such a message; 0 for none
	read   int // bytes since then
	begins []byte
	found  *envelope.Finder
}

// line looks at the line with this number. within says that the line belongs to what may be a message; message is not nil if it
// ends one. Only a line that is nothing but a brace begins one: others may be broken messages.
func (s *spread) line(text []byte, number, limit int) (within bool, message *SpreadError) {
	if s.first == 0 {
		if len(text) != 1 || text[0] != '{' {
			return false, nil
		}
		s.first, s.found = number, new(envelope.Finder)
	} else if s.read > limit || isClosed(text) && bytes.Contains(text, []byte(`"jsonrpc"`)) {
		*s = spread{} // it was something else that has no end
		return false, nil
	}
	s.read += len(text)
	if room := maxTailLine - len(s.begins); room > 0 { // more than a quote, as in a tail
		s.begins = append(s.begins, text[:min(len(text), room)]...)
		if len(text) > room {
			s.begins = append(s.begins, ellipsis...)
		}
		s.begins = append(s.begins, ' ')
	}
	if s.found.Write(text); !s.found.Whole() { //nolint:errcheck // it never fails
		return true, nil
	}
	if s.found.JSONRPC() && (s.found.Method() || s.found.ID() != nil) {
		message = &SpreadError{From: s.first, To: number, Begins: string(bytes.TrimSpace(s.begins)), Asks: s.found.Method()}
		if !message.Asks {
			message.Answers = s.found.ID()
		}
	}
	*s = spread{}
	return true, message
}

// isClosed reports whether a line may be one message or a batch.
func isClosed(text []byte) bool {
	last := text[len(text)-1]
	return text[0] == '{' && last == '}' || text[0] == '[' && last == ']'
}
