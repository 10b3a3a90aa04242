package wire

import "bytes"

// mark is the byte order mark in UTF-8.
const mark = "\xef\xbb\xbf"

// TrimMark returns raw without a byte order mark at its beginning, and whether there was one.
func TrimMark(raw []byte) (text []byte, marked bool) {
	if len(raw) == 0 || raw[0] != mark[0] {
		return raw, false
	}
	return bytes.CutPrefix(raw, []byte(mark))
}

// Mend takes a null error beside a result out of raw, a response that Scan has refused, or a null result beside an error, as some
// libraries write them. It puts blanks in its place, and returns false, with raw as it was, if raw is no message even so. The
// text of another message stays as it is.
func Mend(raw []byte) bool {
	var m Message
	if m.Scan(raw, nil) == nil || m.result.end == 0 || m.err.end == 0 {
		return false
	}
	gone := m.err
	if string(m.part(gone)) != "null" {
		gone = m.result
	}
	if string(m.part(gone)) != "null" || string(m.part(m.err)) == string(m.part(m.result)) {
		return false
	}
	member := m.memberAt(gone)
	was := bytes.Clone(member)
	for i := range member {
		member[i] = ' '
	}
	if m.Scan(raw, nil) == nil {
		return true
	}
	copy(member, was)
	return false
}

// memberAt returns the member of the envelope with this value, with the comma before it or, if it is the first one, behind it.
func (m *Message) memberAt(value span) []byte {
	raw := m.Raw
	quote := backOverSpace(raw, backOverSpace(raw, value.pos)-1) - 1 // behind the name, in which there is no other
	from, to := uint32(bytes.LastIndexByte(raw[:quote], '"')), value.end
	if before := backOverSpace(raw, from); raw[before-1] == ',' {
		return raw[before-1 : to]
	}
	if next := skipSpace(raw, int(to)); raw[next] == ',' {
		to = uint32(next + 1)
	}
	return raw[from:to]
}
