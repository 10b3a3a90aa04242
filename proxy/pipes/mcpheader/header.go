// Package mcpheader reads and writes the headers of HTTP requests that repeat what the body
// says: Mcp-Method, Mcp-Name and Mcp-Param-*. With these, intermediaries need not read
// bodies. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
package mcpheader

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Mismatch returns the failure for a request whose header does not match the body. with names
// the part of the body.
func Mismatch(header, with string) *mcp.Failure {
	f := mcp.Fail(mcp.HeaderMismatch, "")
	f.Text = fmt.Sprintf("%.100s header does not match %s", header, with)
	return f
}

// The start and the end of a header's value that is in base64.
const (
	headerOpen  = "=?base64?"
	headerClose = "?="
)

// Decode returns the text in a value of Mcp-Name or Mcp-Param-*. It returns false if the
// value is marked as base64 and is not.
func Decode(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, headerOpen)
	if !ok {
		return value, true
	}
	if inner, ok = strings.CutSuffix(inner, headerClose); !ok {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// Encode returns text as the value of such a header: plain ASCII as it is, everything else as
// base64.
func Encode(text string) string {
	plain := strings.TrimSpace(text) == text && !(strings.HasPrefix(text, headerOpen) && strings.HasSuffix(text, headerClose))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] == '\t' || 0x20 <= text[i] && text[i] <= 0x7E
	}
	if plain {
		return text
	}
	return headerOpen + base64.StdEncoding.EncodeToString([]byte(text)) + headerClose
}

// Repeated returns the text of the failure of a request in which a header occurs more than once.
func Repeated(header string) string {
	return fmt.Sprintf("the %.100s header occurs more than once", header)
}

// IsName reports whether the value of Mcp-Name is this name, in the encoded form that the specification
// requires or as plain text. plain says that it is plain text that should have been encoded.
func IsName(value, name string) (ok, plain bool) {
	if text, good := Decode(value); !good || text == name {
		return good, good && text == value && Encode(name) != value
	}
	if utf8.ValidString(value) {
		return false, false
	}
	wide := make([]rune, len(value))
	for i := range len(value) {
		wide[i] = rune(value[i])
	}
	return string(wide) == name, true
}
