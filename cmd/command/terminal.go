package command

import (
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
)

// colours reports whether the user of a terminal wants colours.
func colours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// steers reports whether a character must not be printed on a terminal. Text from servers, APIs and adapter files is
// not trusted: control characters can control the terminal, and format characters can make a text look like another.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// printable makes a text safe for one line of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return ' '
		}
		return r
	}, text)
}

// printableLines makes a text of several lines safe for a terminal.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// printableJSON makes JSON safe for a terminal without changing its meaning: it escapes the characters, which can
// only be in strings.
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
