package pattern

import (
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxECMA is the largest number of bytes of an expression that is written for ECMA-262.
const maxECMA = 1000

// ECMA returns an expression for JSON Schema that accepts the same texts as re, which is in the syntax of RE2. It is valid in
// ECMA-262 with the flag u, with which client libraries compile patterns; what is valid there already stays as it is written.
// The second result is false if there is no such expression, or only a far longer one. \s and . stay as they are: they differ
// in rare white space, and a document means those of ECMA-262.
func ECMA(re string) (string, bool) {
	if _, err := syntax.Parse(re, syntax.Perl); err != nil {
		return "", false
	}
	e := &ecma{in: re}
	for e.in != "" && !e.failed && len(e.out) <= maxECMA {
		e.next()
	}
	if e.failed || len(e.out) > maxECMA {
		return "", false
	}
	return string(e.out), true
}

// ecma writes an expression, piece by piece. Since the expression has been parsed before, it is known to be well-formed.
type ecma struct {
	in     string // what is left
	out    []byte
	modes           // those in force
	open   []group  // the groups around the place
	last   int      // where in out the last atom begins
	kind   atomKind // of the last atom
	failed bool
}

type modes struct{ fold, dotAll, lines bool }

type group struct {
	modes
	start int // in out
}

// atomKind says what a repetition may follow: ECMA-262 allows none of an assertion or of another repetition.
type atomKind uint8

const (
	plain atomKind = iota
	assertion
	repeated
)

// syntaxChars are the characters that may be escaped with the flag u: https://tc39.es/ecma262/#prod-IdentityEscape
const syntaxChars = `^$\.*+?()[]{}|/`

func (e *ecma) atom(kind atomKind, text string) {
	e.last, e.kind = len(e.out), kind
	e.out = append(e.out, text...)
}

// take removes the first n bytes of what is left and returns them.
func (e *ecma) take(n int) string {
	s := e.in[:n]
	e.in = e.in[n:]
	return s
}

// next writes the next piece.
func (e *ecma) next() {
	switch c := e.in[0]; c {
	case '\\':
		e.escape()
	case '[':
		e.class()
	case '(':
		e.begin()
	case ')':
		e.take(1)
		g := e.open[len(e.open)-1]
		e.open = e.open[:len(e.open)-1]
		e.out = append(e.out, ')')
		e.modes, e.last, e.kind = g.modes, g.start, plain
	case '|':
		e.out = append(e.out, e.take(1)...)
	case '^':
		e.take(1)
		e.anchor("^", e.lines)
	case '$':
		e.take(1)
		e.anchor("$", e.lines)
	case '.':
		if e.take(1); e.dotAll {
			e.atom(plain, `[\s\S]`)
		} else {
			e.atom(plain, ".")
		}
	case '*', '+', '?':
		e.repeat(1)
	case '{':
		if n := repetition(e.in); n > 0 {
			e.repeat(n)
			return
		}
		e.take(1)
		e.atom(plain, `\{`)
	case '}', ']':
		e.atom(plain, `\`+e.take(1))
	default:
		r, n := utf8.DecodeRuneInString(e.in)
		e.literal(r, e.take(n))
	}
}

// anchor writes ^ or $, which stand for the ends of a line in the mode m.
func (e *ecma) anchor(text string, lines bool) {
	if lines {
		text = map[string]string{"^": `(?<![^\n])`, "$": `(?![^\n])`}[text]
	}
	e.atom(assertion, text)
}

// repetition returns the length of {n}, {n,} or {n,m} at the beginning of s, or 0: RE2 takes all else for literal text.
func repetition(s string) int {
	end := strings.IndexByte(s, '}')
	if end < 2 {
		return 0
	}
	low, high, ranged := strings.Cut(s[1:end], ",")
	for i, digits := range [...]string{low, high} {
		if i == 1 && digits == "" && (!ranged || low != "") {
			continue
		}
		if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
			return 0
		}
	}
	return end + 1
}

// repeat writes a repetition, which is n bytes long without the mark of a lazy one.
func (e *ecma) repeat(n int) {
	if n < len(e.in) && e.in[n] == '?' {
		n++
	}
	if e.kind != plain {
		e.out = slices.Insert(e.out, e.last, '(', '?', ':')
		e.out = append(e.out, ')')
	}
	e.out = append(e.out, e.take(n)...)
	e.kind = repeated
}

// begin writes the beginning of a group, or changes the modes.
func (e *ecma) begin() {
	start := len(e.out)
	if !strings.HasPrefix(e.in, "(?") {
		e.open = append(e.open, group{e.modes, start})
		e.out = append(e.out, e.take(1)...)
		return
	}
	rest := e.in[2:]
	if rest[0] == 'P' || rest[0] == '<' {
		name := e.take(strings.IndexByte(e.in, '>') + 1)
		if rest[0] == 'P' || name[3] >= '0' && name[3] <= '9' {
			name = "(" // nothing refers to it
		}
		e.open = append(e.open, group{e.modes, start})
		e.out = append(e.out, name...)
		return
	}
	end := strings.IndexAny(rest, ":)")
	before, on := e.modes, true
	for _, c := range rest[:end] {
		switch c {
		case 'i':
			e.fold = on
		case 's':
			e.dotAll = on
		case 'm':
			e.lines = on
		case '-':
			on = false
		} // U changes only which match is found, not whether there is one
	}
	e.take(2 + end + 1)
	if rest[end] == ':' {
		e.open = append(e.open, group{before, start})
		e.out = append(e.out, "(?:"...)
	}
}

// escape writes an escape outside of a class.
func (e *ecma) escape() {
	switch c := e.in[1]; c {
	case 'A':
		e.take(2)
		e.anchor("^", false)
	case 'z':
		e.take(2)
		e.anchor("$", false)
	case 'b', 'B':
		e.atom(assertion, e.take(2))
	case 'd', 'D', 's', 'S', 'w', 'W':
		if text := e.take(2); e.fold && (c == 'w' || c == 'W') {
			e.atom(plain, map[byte]string{'w': "[", 'W': "[^"}[c]+`\w\u017F\u212A]`)
		} else {
			e.atom(plain, text)
		}
	case 'p', 'P':
		e.atom(plain, e.property())
	case 'Q':
		text, rest, _ := strings.Cut(e.in[2:], `\E`)
		e.in = rest
		for _, r := range text {
			e.literal(r, "")
		}
	default:
		r, text := e.character()
		if text == `\-` {
			text = "-"
		}
		e.literal(r, text)
	}
}

// character takes an escape that stands for one character. text is how ECMA-262 writes it; - stays escaped.
func (e *ecma) character() (r rune, text string) {
	switch c := e.in[1]; {
	case strings.IndexByte("fnrtv", c) >= 0:
		text = e.take(2)
		return map[byte]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[c], text
	case c == 'a':
		e.take(2)
		r = 7
	case c == 'x' && e.in[2] == '{':
		digits, rest, _ := strings.Cut(e.in[3:], "}")
		e.in = rest
		n, _ := strconv.ParseUint(digits, 16, 32)
		r = rune(n)
	case c == 'x':
		text = e.take(4)
		n, _ := strconv.ParseUint(text[2:], 16, 8)
		return rune(n), text
	case c >= '0' && c <= '7':
		n := 2
		for n < 4 && n < len(e.in) && e.in[n] >= '0' && e.in[n] <= '7' {
			n++
		}
		i, _ := strconv.ParseUint(e.take(n)[1:], 8, 16)
		r = rune(i)
	case strings.IndexByte(syntaxChars+"-", c) >= 0:
		return rune(c), e.take(2)
	default:
		return rune(c), e.take(2)[1:]
	}
	return r, coded(r)
}

// coded returns r by its number, or r itself if it is a visible character that needs no escape.
func coded(r rune) string {
	switch {
	case r < 0x80 && strings.ContainsRune(syntaxChars+"-", r):
		return `\` + string(r)
	case r >= 0x20 && r < 0x7f:
		return string(r)
	case r <= 0xff:
		return fmt.Sprintf(`\x%02X`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04X`, r)
	}
	return fmt.Sprintf(`\u{%X}`, r)
}

// literal writes a character outside of a class. text is how it may be written, "" if that must be found.
func (e *ecma) literal(r rune, text string) {
	if all := variants(r); e.fold && len(all) > 1 {
		text = "["
		for _, v := range all {
			text += coded(v)
		}
		text += "]"
	} else if text == "" {
		if text = coded(r); r == '-' {
			text = "-"
		} else if r >= 0x80 && unicode.IsPrint(r) {
			text = string(r)
		}
	}
	e.atom(plain, text)
}

// variants returns r and the characters that differ from it only in case.
func variants(r rune) []rune {
	all := []rune{r}
	for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}

// property takes \pL, \p{Greek} or one of their kind.
func (e *ecma) property() string {
	letter := e.in[1]
	n := 3
	if e.in[2] == '{' {
		n = strings.IndexByte(e.in, '}') + 1
	} else {
		_, size := utf8.DecodeRuneInString(e.in[2:])
		n = 2 + size
	}
	name := strings.Trim(e.take(n)[2:], "{}")
	if strings.HasPrefix(name, "^") {
		name, letter = name[1:], 'P'+'p'-letter
	}
	known := func(names []string) string {
		for _, k := range names {
			if folded(k) == folded(name) {
				return k
			}
		}
		return ""
	}
	category := known(slices.Sorted(maps.Keys(unicode.Categories)))
	if alias := known(slices.Sorted(maps.Keys(unicode.CategoryAliases))); category == "" && alias != "" {
		category = unicode.CategoryAliases[alias]
	}
	script := known(slices.Sorted(maps.Keys(unicode.Scripts)))
	switch {
	case folded(name) == "any":
		name = "Any"
	case category != "" && !(e.fold && unicode.FoldCategory[category] != nil):
		name = category
	case category == "" && script != "" && !slices.Contains(recentScripts, script) && !(e.fold && unicode.FoldScript[script] != nil):
		name = "Script=" + script
	default:
		e.failed = true
	}
	return `\` + string(letter) + "{" + name + "}"
}

// folded returns a name of Unicode without what does not count: https://www.unicode.org/reports/tr44/#UAX44-LM3
func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// recentScripts are scripts of Unicode that clients in use may not know.
var recentScripts = strings.Fields("Cypro_Minoan Old_Uyghur Tangsa Toto Vithkuqi Kawi Nag_Mundari Garay Gurung_Khema Kirat_Rai Ol_Onal Sunuwar " +
	"Todhri Tulu_Tigalari Beria_Erfe Sidetic Tai_Yo Tolong_Siki")

// posix are the classes of POSIX: https://pkg.go.dev/regexp/syntax
var posix = map[string]string{
	"alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f", "digit": "09", "graph": "!~",
	"lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf",
}

// class writes a class.
func (e *ecma) class() {
	text := e.take(1)
	if e.in[0] == '^' {
		text += e.take(1)
	}
	const (
		first = iota
		character
		ranged
		several
	)
	before := first
	for before == first || e.in[0] != ']' {
		if e.failed || len(text) > maxECMA { // a class of nothing but case variants
			e.failed = true
			return
		}
		if strings.HasPrefix(e.in, "[:") {
			if end := strings.Index(e.in, ":]"); end > 0 {
				name := e.take(end + 2)[2:end]
				text += e.posixClass(name)
				before = several
				continue
			}
		}
		if e.in[0] == '\\' && strings.IndexByte("dDsSwWpP", e.in[1]) >= 0 {
			switch c := e.in[1]; {
			case c == 'p' || c == 'P':
				text += e.property()
			case c == 'w' && e.fold:
				text += e.take(2) + `\u017F\u212A`
			default:
				e.failed = e.failed || e.fold && c == 'W'
				text += e.take(2)
			}
			before = several
			continue
		}
		lo, written := e.member()
		if len(e.in) > 1 && e.in[0] == '-' && e.in[1] != ']' {
			if e.take(1); written == "-" && before != first {
				written = `\-`
			}
			hi, end := e.member()
			text += written + "-" + end + e.caseOf(lo, hi)
			before = ranged
			continue
		}
		if written == "-" && e.in[0] != ']' && before != first && (before != ranged || e.fold) {
			written = `\-`
		}
		text += written + e.caseOf(lo, lo)
		before = character
	}
	e.atom(plain, text+e.take(1))
}

// member takes one character in a class.
func (e *ecma) member() (r rune, text string) {
	if e.in[0] == '\\' {
		return e.character()
	}
	r, n := utf8.DecodeRuneInString(e.in)
	if text = e.take(n); text == "]" {
		text = `\]`
	}
	return r, text
}

// maxFolded is the largest range of which the variants in case are looked up.
const maxFolded = 0x200

// caseOf returns the members of a class that differ only in case from those of lo to hi, if case does not count.
func (e *ecma) caseOf(lo, hi rune) string {
	if !e.fold {
		return ""
	}
	if hi-lo > maxFolded {
		e.failed = e.failed || lo > 0 || hi < unicode.MaxRune
		return ""
	}
	var more []rune
	for r := lo; r <= hi; r++ {
		for _, v := range variants(r) {
			if v < lo || v > hi {
				more = append(more, v)
			}
		}
	}
	slices.Sort(more)
	more = slices.Compact(more)
	text := ""
	for i := 0; i < len(more); i++ {
		from := i
		for i+1 < len(more) && more[i+1] == more[i]+1 {
			i++
		}
		if text += coded(more[from]); i > from+1 {
			text += "-"
		}
		if i > from {
			text += coded(more[i])
		}
	}
	return text
}

// posixClass returns the members of the class of that name.
func (e *ecma) posixClass(name string) (text string) {
	spans := []rune(posix[strings.TrimPrefix(name, "^")])
	if name[0] != '^' {
		for i := 0; i < len(spans); i += 2 {
			text += span(spans[i], spans[i+1]) + e.caseOf(spans[i], spans[i+1])
		}
		return text
	}
	e.failed = e.failed || e.fold
	from := rune(0)
	for i := 0; i < len(spans); i += 2 {
		if spans[i] > from {
			text += span(from, spans[i]-1)
		}
		from = spans[i+1] + 1
	}
	return text + span(from, unicode.MaxRune)
}

func span(lo, hi rune) string {
	if lo == hi {
		return coded(lo)
	}
	return coded(lo) + "-" + coded(hi)
}
