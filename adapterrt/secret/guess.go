package secret

import "strings"

// keyBeginnings are the beginnings of well-known kinds of keys.
var keyBeginnings = []string{
	"sk-", "sk_live_", "sk_test_", "rk_live_", "whsec_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-",
	"xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "AKIA", "ASIA", "AIza", "hf_", "npm_", "pypi-", "ya29", "shpat_",
	"dop_v1_", "lin_api_", "lin_oauth_", "ntn_", "secret_", "glsa_", "AGE-SECRET-KEY-",
}

const (
	minKey       = 16 // bytes of a key
	maxGap       = 32 // bytes between a name and its value
	maxQuoted    = 4 << 10
	maxOpen      = 256        // bytes of what may be a value, and is read again if it is none
	handleOpen   = "[handle " // of what stands in the place of a handle
	confirmStart = "conf_"    // of the tokens that confirm a call
)

// scan goes through a text word by word, and copies what it leaves out of secrets.
type scan struct {
	in     string
	out    strings.Builder
	done   int                 // what is copied
	handle func(string) string // nil if handles stay
	yaml   answer
}

// answer is that to a question which costs a look at the whole text.
type answer uint8

const (
	unasked answer = iota
	yes
	no
)

// Guess returns text without what looks like a credential: keys with a well-known beginning, JSON Web Tokens, private keys
// in PEM, the user of a URL, what follows Bearer and Basic, and the values of names of secrets in JSON, also if it was cut,
// in forms, YAML, XML and assignments. A value of a few words that only say what is wrong with it stays, see [IsAdvice].
// Handles become what handle returns for them; if it is nil, they stay. It takes time linear in the length of text.
func Guess(text string, handle func(string) string) string {
	s := scan{in: text, handle: handle}
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		end := i + 1
		for end < len(text) && isWord(text[end]) {
			end++
		}
		i = s.word(i, end)
	}
	if s.done == 0 {
		return text
	}
	return s.out.String() + text[s.done:]
}

// strike puts with in the place of a part of the text, and returns its end.
func (s *scan) strike(from, to int, with string) int {
	if from < to && s.in[from:to] != with {
		s.out.WriteString(s.in[s.done:from])
		s.out.WriteString(with)
		s.done = to
	}
	return to
}

// word strikes out what a word is, or is the name of. It returns where to go on.
func (s *scan) word(from, end int) int {
	word, rest := s.in[from:end], s.in[end:]
	switch {
	case word[0] == '-':
		if to := KeyLength(s.in[from:]); to > 0 {
			return s.strike(from, from+to, Struck)
		}
	case strings.HasPrefix(word, "eyJ") && strings.HasPrefix(rest, "."):
		if to := end + jwt(rest); to-from > minKey {
			return s.strike(from, to, Struck)
		}
	case isKey(word):
		return s.strike(from, end, Struck)
	case s.handle != nil && strings.HasPrefix(word, confirmStart) && len(word) >= minKey:
		return s.strike(from, end, s.handle(word))
	case strings.HasPrefix(rest, "://"):
		return s.userinfo(end + len("://"))
	case strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic"):
		if at := end + blanks(rest); at > end {
			if to := at + value(s.in[at:]); isToken(word, s.in[at:to]) {
				return s.strike(at, to, Struck)
			}
		}
		return end
	}
	if at := s.assigned(from, end); at > 0 {
		return at
	}
	return end
}

// isToken reports whether a value behind the name of a scheme is a credential, and not a word of a sentence.
func isToken(scheme, value string) bool {
	switch {
	case len(value) < Shortest || isReference(value) || strings.HasPrefix(Struck, value):
		return false
	case scheme == "Bearer", len(value) >= minKey:
		return true
	}
	return strings.ContainsAny(value, "0123456789=") || strings.ToLower(value[1:]) != value[1:]
}

// isKey reports whether a word looks like a well-known kind of key.
func isKey(word string) bool {
	if len(word) < minKey {
		return false
	}
	for _, b := range keyBeginnings {
		if rest, ok := strings.CutPrefix(word, b); ok {
			return strings.ContainsAny(rest, "0123456789")
		}
	}
	return false
}

// jwt returns the length of the parts of a token behind its first one.
func jwt(rest string) (n int) {
	for n < len(rest) && (isWord(rest[n]) || rest[n] == '.') {
		n++
	}
	return n
}

// userinfo strikes out the user and password of a URL whose host begins at from or behind these.
func (s *scan) userinfo(from int) int {
	at := -1
	for i := from; i < len(s.in); i++ {
		switch s.in[i] {
		case '@':
			at = i
			continue
		case '/', '?', '#', '"', '\'', '\\', ' ', '\t', '\r', '\n', '<', '>':
		default:
			continue
		}
		break
	}
	if at < 0 {
		return from
	}
	return s.strike(from, at, Struck)
}

func blanks(s string) (n int) {
	for n < len(s) && n < maxGap && (s[n] == ' ' || s[n] == '\t') {
		n++
	}
	return n
}

// value returns the length of the value that text begins with, if it has no quotes.
func value(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', '"', '\'', '`', '&', ',', ';', '<', '>', ')', '}', ']', '|', '\\':
			return i
		case '%':
			if strings.HasPrefix(text[i:], "%26") {
				return i
			}
		}
	}
	return len(text)
}

// isReference reports whether a value is the name of a variable instead of its content.
func isReference(value string) bool {
	inner, ok := strings.CutPrefix(value, "$")
	if !ok {
		return false
	}
	inner = strings.TrimSuffix(strings.TrimPrefix(inner, "{"), "}")
	return inner != "" && strings.Trim(inner, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// parameters are names of secrets in the query of a URL, beside those of [ClassOf] and in the same form.
var parameters = map[string]bool{
	"key": true, "code": true, "sig": true, "signature": true, "auth": true, "jwt": true, "sid": true, "session": true,
	"xamzsignature": true, "xgoogsignature": true,
}

// InQuery reports whether a parameter of a URL is a secret: by its name, or by a name that says less and the form of its value.
func InQuery(name, value string) bool {
	return ClassOf(name, value) == Hidden || parameters[string(appendFolded(nil, name))] && isRandom(value)
}

// weak are names that only a value of the form of a key makes those of secrets, outside of URLs.
var weak = map[string]bool{"key": true, "sig": true, "signature": true, "jwt": true}

// assigned strikes out the value that is assigned to a name. It returns where to go on, or 0 if the name is not that of a
// secret or nothing is assigned to it.
func (s *scan) assigned(from, end int) int {
	name, rest := s.in[from:end], s.in[end:]
	c := ClassOf(strings.TrimLeft(name, "-"), "")
	inQuery := from > 0 && strings.IndexByte("?&#", s.in[from-1]) >= 0
	isWeak := false
	switch {
	case c == Handle && s.handle == nil:
		return 0
	case c == Plain:
		var buf [64]byte
		folded := appendFolded(buf[:0], name)
		if isWeak = weak[string(folded)]; inQuery && parameters[string(folded)] {
			isWeak = false
		} else if !isWeak {
			return 0
		}
		c = Hidden
	}
	if at := s.element(from, end, isWeak); at > 0 {
		return at
	}
	sep, quote, gap := separator(rest)
	flag := gap == 0 && strings.HasPrefix(name, "--") && blanks(rest) > 0 && !strings.HasPrefix(rest[blanks(rest):], "-")
	at := end + gap
	switch {
	case flag:
		at += blanks(rest)
	case gap == 0, c == Handle && quote == "" && sep == ':': // or prose
		return 0
	}
	if after := s.in[at:]; strings.HasPrefix(after, Struck) || strings.HasPrefix(after, handleOpen) {
		return 0
	}
	if c == Hidden && !isWeak && !flag && quote == "" {
		if to := s.container(from, end, at); to > 0 {
			return to
		}
		if sep == ':' {
			if to := s.block(from, at); to > 0 {
				return to
			}
		}
	}
	to := at + s.extent(at, quote, isWeak)
	if sep == '=' && quote == "" && !isWeak && (from == 0 || inQuery || strings.HasPrefix(rest, "]") || strings.HasPrefix(rest, "%5")) {
		to = at + formValue(s.in[at:])
	}
	text := s.in[at:to]
	switch {
	case isReference(text) || text == "" || text == "null" || text == "true" || text == "false":
		return 0
	case isHeader(name) && isReference(behind(s.in[to:])): // of a scheme, as advice has it
		return 0
	case strings.HasPrefix(Struck, text) && len(text) >= len(Struck)-1:
		return 0
	case ClassOf(name, text) == Plain && isCount(text):
		return 0
	case isWeak && !isRandom(text):
		return 0
	case isWeak:
		return s.strike(at, at+s.extent(at, quote, false), Struck)
	case c == Handle:
		return s.strike(at, to, s.handle(text))
	case isHeader(name) && saysUnset(s.in[at:]): // what dragoman itself says of a header
		return to
	case (quote != "" || isHeader(name)) && IsAdvice(text):
		return to
	case isHeader(name) && quote == "":
		to = at + line(s.in[at:])
	case sep == ':' && quote == "" && !s.looksSecret(name, at, to):
		return 0
	}
	return s.strike(at, to, Struck)
}

// isRandom reports whether a value has the form of a key: long, of one word, with digits and letters.
func isRandom(value string) bool {
	letters, digits := 0, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case '0' <= c && c <= '9':
			digits++
		case isWord(c):
			letters++
		case strings.IndexByte(".~+/=%", c) < 0:
			return false
		}
	}
	return len(value) >= minKey && letters > 0 && digits > 0
}

// formValue returns the length of the value in a form that text begins with.
func formValue(text string) int {
	if i := strings.IndexAny(text, "& \t\r\n\"'<>"); i >= 0 {
		return i
	}
	return len(text)
}

// element strikes out the content of an XML element, <password>…</password>. It returns where to go on, or 0 if the name is
// not that of an element.
func (s *scan) element(from, end int, isWeak bool) int {
	if isWeak || from == 0 || s.in[from-1] != '<' || !strings.HasPrefix(s.in[end:], ">") {
		return 0
	}
	at := end + 1
	to := strings.IndexByte(s.in[at:], '<')
	if to < 0 {
		to = len(s.in) - at
	}
	if to += at; strings.TrimSpace(s.in[at:to]) == "" || IsAdvice(s.in[at:to]) {
		return to
	}
	return s.strike(at, to, Struck)
}

// container strikes out a list or an object at an index, which is assigned to the name from from to end. It returns where to
// go on, or 0 if there is none. If it does not end, it is the rest of the text if the name has quotes, which says that the
// text is JSON that was cut.
func (s *scan) container(from, end, at int) int {
	if at == len(s.in) || s.in[at] != '{' && s.in[at] != '[' {
		return 0
	}
	quoted := from > 0 && s.in[from-1] == '"' && s.in[end] == '"' || from > 1 && s.in[from-2] == '\\'
	most := len(s.in)
	if !quoted {
		most = min(most, at+maxOpen)
	}
	depth, inText, to := 0, false, 0
	for i := at; i < most && to == 0; i++ {
		switch c := s.in[i]; {
		case c == '\\':
			if i+1 < most && s.in[i+1] != '"' { // of an escaped text the quotes count as such
				i++
			}
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				to = i + 1
			}
		}
	}
	switch {
	case to == 0 && !quoted:
		return 0
	case to == 0:
		to = len(s.in)
	}
	inner := strings.Trim(s.in[at:to], "[]{}\"' \t\r\n")
	if inner == "" || isCount(inner) || IsAdvice(inner) || inner == Struck[1:len(Struck)-1] {
		return to
	}
	return s.strike(at, to, `"`+Struck+`"`)
}

// isYAML reports whether at least two lines of the text name a value.
func (s *scan) isYAML() bool {
	if s.yaml == unasked {
		named := 0
		for l := range strings.Lines(s.in) {
			name, value, ok := strings.Cut(strings.TrimLeft(l, " -"), ":")
			name = strings.Trim(name, `"'`)
			if ok && name != "" && !strings.ContainsAny(name, " \t{[,=") && (strings.TrimSpace(value) == "" || value[0] == ' ') {
				named++
			}
		}
		if s.yaml = no; named > 1 {
			s.yaml = yes
		}
	}
	return s.yaml == yes
}

// block strikes out the value of a member of YAML: the rest of its line, or the lines below that are indented more. at is
// where the value begins, with or without blanks before it. It returns where to go on, or 0 if the name is none of YAML.
func (s *scan) block(from, at int) int {
	least := max(0, from-2*maxGap)
	begin := least + strings.LastIndexByte(s.in[least:from], '\n') + 1
	lead := s.in[begin:from]
	if strings.Trim(lead, " -\"'") != "" || begin == least && least > 0 || !s.isYAML() {
		return 0
	}
	to := at + line(s.in[at:])
	value := strings.TrimSpace(s.in[at:to])
	if value != "" && strings.IndexByte("|>&", value[0]) < 0 {
		if isReference(value) || value == "null" || value == "true" || value == "false" || value == "~" || isCount(value) && ClassOf(s.in[from:at], value) == Plain {
			return 0
		}
		if IsAdvice(value) || strings.Contains(value, Struck) {
			return to
		}
		return s.strike(at, to, Struck)
	}
	indent := len(strings.TrimRight(lead, "\"'"))
	below, end := 0, to
	for next := to + 1; next < len(s.in); {
		l := s.in[next : next+line(s.in[next:])]
		text := strings.TrimLeft(l, " ")
		if in := len(l) - len(text); strings.TrimSpace(text) != "" {
			if in < indent || in == indent && !strings.HasPrefix(text, "- ") {
				break
			}
			if below == 0 {
				below = next + in
			}
			end = next + len(l)
		}
		next += len(l) + 1
	}
	switch {
	case below == 0:
		return 0
	case IsAdvice(s.in[below:end]) || s.in[below:end] == Struck:
		return end
	}
	return s.strike(below, end, Struck)
}

// separator reads what is between a name and its value. quote is the quote around the value, with its backslashes. gap is the
// number of bytes, or 0 if there is no assignment.
func separator(rest string) (sep byte, quote string, gap int) {
	rest = rest[:min(len(rest), maxGap)]
	for _, bracket := range [...]string{"]=", "%5D=", "%5d="} { // of a form: user[password]=…
		if strings.HasPrefix(rest, bracket) {
			return '=', "", len(bracket)
		}
	}
	i := 0
	for i < len(rest) && rest[i] == '\\' {
		i++
	}
	if i < len(rest) && (rest[i] == '"' || rest[i] == '\'' || rest[i] == '`') {
		i++
	} else if i > 0 {
		return 0, "", 0
	}
	i += blanks(rest[i:])
	switch {
	case strings.HasPrefix(rest[i:], "%3D"), strings.HasPrefix(rest[i:], "%3d"):
		sep = '='
		i += len("%3D")
	default:
		for i < len(rest) && strings.IndexByte("=:>", rest[i]) >= 0 {
			if sep == 0 {
				sep = rest[i]
			}
			i++
		}
	}
	if sep == 0 || sep == '>' {
		return 0, "", 0
	}
	i += blanks(rest[i:])
	from := i
	for i < len(rest) && rest[i] == '\\' {
		i++
	}
	if i < len(rest) && (rest[i] == '"' || rest[i] == '\'' || rest[i] == '`') {
		return sep, rest[from : i+1], i + 1
	}
	return sep, "", from
}

// extent returns the length of the value at an index. If its quote does not end, it is the rest of the line. Of a value that
// may be none it reads only as much as a key has.
func (s *scan) extent(at int, quote string, isWeak bool) int {
	text := s.in[at:]
	if isWeak {
		text = text[:min(len(text), maxOpen)]
	}
	if quote == "" {
		return value(text)
	}
	near := text[:min(len(text), maxQuoted)]
	for i := 0; i < len(near); i++ {
		switch {
		case strings.HasPrefix(near[i:], quote):
			return i
		case near[i] == '\\' && len(quote) == 1:
			i++
		}
	}
	return line(text)
}

// behind returns the value that comes behind blanks, or "" if there are none.
func behind(text string) string {
	at := blanks(text)
	if at == 0 {
		return ""
	}
	return text[at : at+value(text[at:])]
}

// line returns the length of the first line of text.
func line(text string) int {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return i
	}
	return len(text)
}

// isHeader reports whether a name is that of a header whose value may have blanks in it.
func isHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "cookie")
}

// saysUnset reports whether a text begins with what dragoman says of a variable that a header names.
func saysUnset(text string) bool {
	text, ok := strings.CutPrefix(text, "environment variable ")
	name, _, found := strings.Cut(text, " is not set")
	return ok && found && !isKey(name) && isReference("$"+strings.ToUpper(name))
}

// looksSecret reports whether a value behind a name and a colon is one, and not a word of a sentence.
func (s *scan) looksSecret(name string, at, to int) bool {
	text := s.in[at:to]
	if len(text) < 4 || IsAdvice(text) {
		return false
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-' && c < 0x80 {
			return true
		}
	}
	return len(text) >= minKey || isChosen(name) && (to == len(s.in) || s.in[to] != ' ')
}
