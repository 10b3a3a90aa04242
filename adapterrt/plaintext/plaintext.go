// Package plaintext reads the text of files whatever program wrote them: editors and shells of Windows put a byte order mark before it,
// or write UTF-16.
package plaintext

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// marks are the byte order marks of UTF-8 and UTF-16.
var marks = [...][]byte{{0xef, 0xbb, 0xbf}, {0xff, 0xfe}, {0xfe, 0xff}}

// Of returns a file's text without a byte order mark, in UTF-8 if the mark is that of UTF-16. Text without a mark is returned as it is.
func Of(file []byte) []byte {
	if !slices.ContainsFunc(marks[:], func(mark []byte) bool { return bytes.HasPrefix(file, mark) }) {
		return file
	}
	text, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), file)
	if err != nil {
		return file // cannot happen: what is no UTF-16 becomes U+FFFD
	}
	return text
}

// Read returns the text of a file as [Of] does. A file of more than this many bytes is an error.
func Read(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", file, most)
	}
	return Of(text), err
}
