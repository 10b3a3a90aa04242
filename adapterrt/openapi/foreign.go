package openapi

import (
	"regexp"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// maxPattern is the largest number of bytes of a pattern, mostTold of characters of one that a description tells.
const maxPattern, mostTold = 1000, 80

// unicodeEscape is how ECMA-262, whose expressions schemas have, writes a character by its number.
var unicodeEscape = pattern.Later(`\\(?:\\|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\})`)

// checked returns a pattern of a schema in the syntax of adapter files, RE2, or "" if there is no such expression.
func checked(text string) string {
	text = unicodeEscape().ReplaceAllStringFunc(text, func(s string) string {
		if s == `\\` || strings.HasPrefix(strings.ToLower(s), `\ud`) && len(s) == 6 && s[3] >= '8' { // half of a pair
			return s
		}
		return `\x{` + strings.Trim(s[2:], "{}") + "}"
	})
	if _, err := regexp.Compile(text); err != nil || len(text) > maxPattern || clean.Text(text, maxPattern) != text {
		return ""
	}
	return text
}

// told returns what a description says of a pattern that cannot be checked, or "".
func told(text string) string {
	if text == "" || len(text) > mostTold || checked(text) != "" || clean.Text(text, mostTold) != text || clean.IsSecret(text) {
		return ""
	}
	return "Pattern: " + text
}
