// Package secrettest has secrets, and the ways in which a peer may spell them.
package secrettest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// Secrets are of the kinds that are sent.
var Secrets = []string{
	"planted-secret-1", "pl/anted+secret==", `pl"anted\secret/2+3`, "plänted-sécret", "correct horse battery", "123456789", "p%2Fanted%25", "a:b@c/d?e=f&g#h",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "AbC_d-E~f.g!h*i'j(k)", "aaaaaaaab", "ünïcödé—🔑", "<&>'\"/;",
}

// Spell are the ways in which a peer may write what it got.
var Spell = map[string]func(string) string{
	"as it is":                 func(s string) string { return s },
	"a query":                  url.QueryEscape,
	"a path":                   url.PathEscape,
	"a query in lower case":    func(s string) string { return lower(url.QueryEscape(s)) },
	"every byte as %":          func(s string) string { return every(s, "%%%02X") },
	"every byte as % in lower": func(s string) string { return every(s, "%%%02x") },
	"every second byte as %":   func(s string) string { return second(s, "%%%02x") },
	"escaped twice for a URL":  func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"escaped, and all of it":   func(s string) string { return every(url.QueryEscape(s), "%%%02x") },
	"JSON":                     inJSON,
	"JSON with slashes":        func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	`every character as \u`:    everyRune,
	`every second as \u`:       secondRune,
	`\u in capitals`:           func(s string) string { return strings.ReplaceAll(strings.ToUpper(everyRune(s)), `\U`, `\u`) },
	"JSON in JSON":             func(s string) string { return inJSON(inJSON(s)) },
	"JSON thrice":              func(s string) string { return inJSON(inJSON(inJSON(s))) },
	`\u in JSON`:               func(s string) string { return inJSON(everyRune(s)) },
	"JSON in a URL":            func(s string) string { return url.QueryEscape(inJSON(s)) },
	"a URL in JSON":            func(s string) string { return inJSON(url.QueryEscape(s)) },
	"quoted by Go":             func(s string) string { q := strconv.QuoteToASCII(s); return q[1 : len(q)-1] },
	"HTML":                     html.EscapeString,
	"every character in HTML":  func(s string) string { return everyRuneAs(s, "&#%d;") },
	"hexadecimal in HTML":      func(s string) string { return everyRuneAs(s, "&#x%X;") },
	"HTML in JSON":             func(s string) string { return inJSON(html.EscapeString(s)) },
	"base64":                   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 without =":         func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64 for URLs":          func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64, one byte before":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(":" + s + "\x00")) },
	"base64, two bytes before": func(s string) string { return base64.URLEncoding.EncodeToString([]byte("ü" + s + "ab")) },
	"base64 of a longer text":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte("client:" + s + `","more":1`)) },
	"base64 of a form":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte("id:" + url.QueryEscape(s))) },
	"base64 of JSON": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(`{"token":"` + inJSON(s) + `"}`))
	},
	"base64 in a URL":           func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
	"base64 in lines":           func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), "\r\n") },
	"base64 in lines, in JSON":  func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), `\n`) },
	"base64 in every second as": func(s string) string { return second(base64.StdEncoding.EncodeToString([]byte(s)), "%%%02x") },
}

func every(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func second(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		if i%2 == 0 || s[i] == '%' || s[i] == '\\' {
			fmt.Fprintf(&b, format, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func everyRuneAs(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func everyRune(s string) string {
	var b strings.Builder
	for _, r := range s {
		q := strconv.QuoteToASCII(string(r))
		switch {
		case r >= 0x10000:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case len(q) >= 0:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func secondRune(s string) string {
	var b strings.Builder
	for i, r := range []rune(s) {
		if i%2 == 0 || r == '\\' || r == '"' {
			b.WriteString(everyRune(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func inJSON(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(q[1 : len(q)-1])
}

// lower returns a text with its escapes in lower case.
func lower(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], strings.ToLower(s[i:i+3]))
		}
	}
	return string(b)
}

func lines(s, end string) string {
	var b strings.Builder
	for i := range len(s) {
		if b.WriteByte(s[i]); i%5 == 4 {
			b.WriteString(end)
		}
	}
	return b.String()
}
