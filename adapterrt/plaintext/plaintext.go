// Package plaintext reads the text of files whatever program wrote them: editors and shells of Windows put a byte order mark before it,
// or write UTF-16.
package plaintext

import (
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Of returns a file's text without a byte order mark, in UTF-8 if the mark is that of UTF-16. Text without a mark is returned as it is.
func Of(file []byte) []byte {
	text, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), file)
	if err != nil {
		return file // cannot happen: what is no UTF-16 becomes U+FFFD
	}
	return text
}
