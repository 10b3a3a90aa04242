package clean

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// sqlForms are the SQL statements that are recognised: how they begin, the keyword that has
// to follow, and the text that has to follow the keyword.
var sqlForms = []struct {
	begins func() *regexp.Regexp
	then   string
	needs  string
}{
	{pattern.Later(`^select\b`), "from", ""},
	{pattern.Later(`^insert\s+into\b`), "values", ""},
	{pattern.Later(`^update\b`), "set", "="},
	{pattern.Later(`^delete\s+from\b`), "where", ""},
}

var (
	sqlVerb = pattern.Later(`\b(?:select|insert|update|delete)\s`)
	// plainWords match words that are not the name of a table, so that "select an item from the
	// list" is English.
	plainWords = pattern.Later(`^\s+(?:the|an?|your|our|my|their|its|this|that|these|those|all|any|each|every|either|which|where)\s+[a-z]`)
	// sqlGoesOn matches the beginning of a line that continues a statement, and sqlIsOpen the end
	// of a line after which the statement continues.
	sqlGoesOn = pattern.Later(`^\s*(?:\(|(?:from|where|and|or|(?:left|right|inner|outer|full|cross)?\s*join|on|group|order|having|limit|offset|values|set|union|returning)\b)`)
	sqlIsOpen = pattern.Later(`(?:[,(=]|\b(?:select|distinct|from|where|and|or|join|on|by|into|values|set|as|update))\s*$`)
)

// withoutSQL replaces SQL statements with [sql]. A statement ends at the closing quote if it is
// quoted, otherwise at a semicolon or at the end of the line. Text that only begins like a
// statement stays.
func withoutSQL(s string) string {
	lower := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
	var b strings.Builder
	done := 0
	for at := 0; ; {
		verb := sqlVerb().FindStringIndex(lower[at:])
		if verb == nil {
			return b.String() + s[done:]
		}
		from := at + verb[0]
		at += verb[1]
		end := statementEnd(lower, from)
		switch kindOf(s[from:end], lower[from:end]) {
		case sql:
			b.WriteString(s[done:from] + "[sql]")
			done, at = end, end
		case english:
			at = max(at, end)
		}
	}
}

// wording says whether a text that begins like a statement is one.
type wording uint8

const (
	neither wording = iota
	sql
	english
)

// kindOf returns what a text is that begins like a statement. lower is the same text in lower
// case.
func kindOf(statement, lower string) wording {
	for _, form := range sqlForms {
		begin := form.begins().FindString(lower)
		if begin == "" {
			continue
		}
		second := indexWord(lower[len(begin):], form.then)
		if second < 0 || !strings.Contains(lower[len(begin)+second:], form.needs) {
			return neither
		}
		if form.needs != "" || statement[:len(begin)] == strings.ToUpper(begin) || !isEnglish(lower) {
			return sql
		}
		return english
	}
	return neither
}

// isEnglish reports whether a text that looks like a statement names no table: each "from" and
// "into" is followed by one of plainWords.
func isEnglish(lower string) bool {
	if strings.ContainsAny(lower, "=*<>`") {
		return false
	}
	for _, word := range [...]string{"from", "into"} {
		for rest := lower; ; {
			i := indexWord(rest, word)
			if i < 0 {
				break
			}
			if rest = rest[i+len(word):]; !plainWords().MatchString(rest) {
				return false
			}
		}
	}
	return true
}

// indexWord returns the index of word in s, where no letter, digit or underscore is before or
// after it. It returns -1 if there is none.
func indexWord(s, word string) int {
	inWord := func(i int) bool {
		return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z')
	}
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		if from = i + len(word); !inWord(i-1) && !inWord(from) {
			return i
		}
	}
}

// statementEnd returns the end of the statement that begins at index i of s, a text in lower
// case.
func statementEnd(s string, i int) int {
	if i > 0 && slices.Contains([]byte("\"'`"), s[i-1]) {
		if end := quoteEnd(s, i, s[i-1]); end >= 0 {
			return end
		}
	}
	for end := i; ; end++ {
		n := strings.IndexAny(s[end:], ";\n")
		if n < 0 {
			return len(s)
		}
		if end += n; s[end] == ';' || !sqlIsOpen().MatchString(s[max(i, end-20):end]) && !sqlGoesOn().MatchString(s[end+1:]) {
			return end
		}
	}
}

// quoteEnd returns the index of the closing quote of the quoted text that contains i. A doubled
// quote and a quote after a backslash are part of the text. It returns -1 if there is no
// closing quote.
func quoteEnd(s string, i int, quote byte) int {
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i
		}
	}
	return -1
}
