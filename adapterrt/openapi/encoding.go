package openapi

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
)

// decoded returns a document in UTF-8, without a byte order mark. UTF-16 is recognized by its mark or, as both formats begin with
// a character of ASCII, by the zero beside it. What is neither is UTF-8, and its bytes that are not are read as Windows-1252, which
// has all characters of Latin-1; line is the first with such a byte, or 0.
func decoded(data []byte) (text []byte, line int) {
	for order, zero := range map[unicode.Endianness]int{unicode.LittleEndian: 1, unicode.BigEndian: 0} {
		if len(data) >= 2 && data[zero] == 0 && data[1-zero] != 0 {
			if text, err := unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder().Bytes(data); err == nil {
				return text, 0
			}
		}
	}
	data = plaintext.Of(data)
	if utf8.Valid(data) {
		return data, 0
	}
	text = make([]byte, 0, len(data)+len(data)/8)
	for at := 0; at < len(data); {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			if line == 0 {
				line = 1 + bytes.Count(data[:at], []byte("\n"))
			}
			if r = charmap.Windows1252.DecodeByte(data[at]); r < 0xa0 { // a byte that it does not have
				r = utf8.RuneError
			}
		}
		text = utf8.AppendRune(text, r)
		at += n
	}
	return text, line
}
