package clean

import (
	"regexp"
	"slices"
	"strings"
)

// sqlForms are the statements that are recognised: how they begin, the keyword that
// makes a statement of it, and what has to come behind that.
var sqlForms = []struct {
	begins *regexp.Regexp
	then   string
	needs  string
}{
	{regexp.MustCompile(`^select\b`), "from", ""},
	{regexp.MustCompile(`^insert\s+into\b`), "values", ""},
	{regexp.MustCompile(`^update\b`), "set", "="},
	{regexp.MustCompile(`^delete\s+from\b`), "where", ""},
}

var (
	sqlVerb = regexp.MustCompile(`\b(?:select|insert|update|delete)\s`)
	// No table is called like that, so that "select an item from the list" is English.
	plainWords = regexp.MustCompile(`^\s+(?:the|an?|your|our|my|their|its|this|that|these|those|all|any|each|every|either|which|where)\s+[a-z]`)
	// With what a line begins, or ends, that goes on with a statement.
	sqlGoesOn = regexp.MustCompile(`^\s*(?:\(|(?:from|where|and|or|(?:left|right|inner|outer|full|cross)?\s*join|on|group|order|having|limit|offset|values|set|union|returning)\b)`)
	sqlIsOpen = regexp.MustCompile(`(?:[,(=]|\b(?:select|distinct|from|where|and|or|join|on|by|into|values|set|as|update))\s*$`)
)

// withoutSQL puts [sql] in the place of statements, up to the quote that they stand in,
// else a semicolon or the line's end. Words that merely begin like one stay.
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
		verb := sqlVerb.FindStringIndex(lower[at:])
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

// wording is what a text is that begins like a statement.
type wording uint8

const (
	neither wording = iota
	sql
	english
)

// kindOf tells what a text is. lower is the same in lower case.
func kindOf(statement, lower string) wording {
	for _, form := range sqlForms {
		begin := form.begins.FindString(lower)
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

// isEnglish reports whether what looks like a statement names no table: behind each from
// and into are words that no table is called by.
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
			if rest = rest[i+len(word):]; !plainWords.MatchString(rest) {
				return false
			}
		}
	}
	return true
}

// indexWord is where word is in s, with no letter before or behind it; -1 for nowhere.
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

// statementEnd is where the statement ends that begins at i of a text in lower case.
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
		if end += n; s[end] == ';' || !sqlIsOpen.MatchString(s[max(i, end-20):end]) && !sqlGoesOn.MatchString(s[end+1:]) {
			return end
		}
	}
}

// quoteEnd is where the quote ends that i stands in: twice the quote, or one behind a
// backslash, is part of the text. It is -1 for nowhere.
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
