// Package mcpheader reads and writes the headers of HTTP requests that repeat what the body
// says: Mcp-Method, Mcp-Name and Mcp-Param-*, so that what stands between the peers need not
// read bodies. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
package mcpheader

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Mismatch is the failure of a request whose header does not say what the body says.
func Mismatch(header, with string) *mcp.Failure {
	f := mcp.Fail(mcp.HeaderMismatch, "")
	f.Text = fmt.Sprintf("%.100s header does not match %s", header, with)
	return f
}

// The form of a header's value that plain text cannot have.
const (
	headerOpen  = "=?base64?"
	headerClose = "?="
)

// Decode reads the value of Mcp-Name or Mcp-Param-*; false when it is not
// what it says it is.
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

// Encode writes the value of such a header: what is not plain ASCII as base64.
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

// Repeated is the name of a header that is there more than once, "" for none: each reader may
// take another one of the two.
func Repeated(header []upstream.Header) string {
	for i, h := range header {
		for _, other := range header[:i] {
			if strings.EqualFold(h.Name, other.Name) {
				return h.Name
			}
		}
	}
	return ""
}
