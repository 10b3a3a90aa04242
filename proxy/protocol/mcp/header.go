package mcp

import "strings"

// Header is one header field of HTTP. Its value may be a secret and never appears in an error.
type Header struct{ Name, Value string }

// HeaderValue returns the value of the first header with that name, or "" if there is none.
func HeaderValue(list []Header, name string) string {
	for _, h := range list {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}
