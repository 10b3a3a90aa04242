package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// What servers, APIs and adapter files say is shown on terminals, on which control
// characters could do anything, and formatting ones make text look like another.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// printable is a text for one line of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return ' '
		}
		return r
	}, text)
}

// printableLines is a text for a terminal that may have several lines.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// printableJSON is JSON for a terminal, of the same meaning: only its texts can hold
// such characters, and there they can be escaped.
func printableJSON(json string) string {
	var b strings.Builder
	for _, r := range json {
		if r == '\n' || !steers(r) {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", u)
		}
	}
	return b.String()
}
