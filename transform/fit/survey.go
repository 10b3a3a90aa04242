package fit

import "bytes"

// A survey is what stands out in a text: units, in the order in which they count.
type survey struct {
	titles []uint32
	levels []uint8
	errors []uint32
	rare   []uint32
	source bool // it is a program, or prose with headings: errors are only a subject there
}

// survey looks at each line once.
func (t *text) survey(markdown bool) (s survey) {
	n := len(t.line)
	var shapes [1 << 14]uint16 // how many lines have a shape, by its hash
	hashes := make([]uint16, n)
	bad := make([]uint32, 0, 16)
	var heads, signs []uint32
	var tools []uint32 // sections of what tools print
	var toolLevels []uint8
	var headLevels, signLevels []uint8
	start := bytes.ToLower(t.src[:min(len(t.src), 1000)])
	html := bytes.Contains(start, []byte("<html")) || bytes.Contains(start, []byte("<!doctype html"))
	code := 0 // the block that comes next
	for i := range n {
		if i > 0 && t.line[i] == t.line[i-1] {
			hashes[i] = hashes[i-1]
			continue
		}
		line := bytes.TrimRight(t.unit(i), "\r\n")
		hash, wrong := look(line[:min(len(line), 2*piece)])
		hashes[i] = hash
		if shapes[hash]++; shapes[hash] == 0 {
			shapes[hash]--
		}
		if wrong {
			bad = append(bad, uint32(i))
		}
		for code < len(t.blocks) && int(t.blocks[code].close) < i {
			code++
		}
		if code < len(t.blocks) && int(t.blocks[code].open) <= i {
			continue
		}
		if level, ok := headingLevel(line, html); ok {
			heads, headLevels = append(heads, uint32(i)), append(headLevels, level)
		} else if level, ok := signatureLevel(line); ok {
			signs, signLevels = append(signs, uint32(i)), append(signLevels, level)
			if word := firstWord(line); toolWords[string(word)] || ruled(word) {
				tools, toolLevels = append(tools, uint32(i)), append(toolLevels, level)
			}
		} else if i+1 < n && underlined(t.unit(i+1)) && len(line) < 100 {
			heads, headLevels = append(heads, uint32(i)), append(headLevels, 0)
		}
	}
	// A # begins a heading in Markdown, where blank lines stand around it, and a comment
	// in a program.
	alone := 0
	for _, i := range heads {
		if int(i)+1 < n && t.line[i+1] > t.line[i]+1 && (i == 0 || t.line[i] > t.line[i-1]+1) {
			alone++
		}
	}
	markdown = markdown || alone > 1 && alone*8 > len(signs)
	s.titles, s.levels = heads, headLevels
	if !markdown && len(signs) > len(heads) {
		if s.titles, s.levels, s.source = signs, signLevels, len(signs)-len(tools) > n/50; !s.source && len(tools) > 0 {
			s.titles, s.levels = tools, toolLevels
		}
	}
	s.source = s.source || len(heads) > 0 && len(heads) >= len(signs) && len(heads) > n/200
	// Errors: those of rare shapes first, then from the end.
	for most := uint16(1); most < 1<<14; most *= 4 {
		for k := len(bad) - 1; k >= 0; k-- {
			if c := shapes[hashes[bad[k]]]; c <= most && c > most/4 {
				s.errors = append(s.errors, bad[k])
			}
		}
	}
	if n > 40 {
		for i := n - 1; i >= 0 && len(s.rare) < 1<<12; i-- {
			if shapes[hashes[i]] == 1 && (i == 0 || t.line[i] != t.line[i-1]) {
				s.rare = append(s.rare, uint32(i))
			}
		}
		if len(s.rare) > n/8 { // then it does not repeat itself
			s.rare = nil
		}
	}
	return s
}

// look hashes the shape of a line, its letters, and says whether it looks like an
// error.
func look(line []byte) (hash uint16, wrong bool) {
	var h, window uint32
	h = 2166136261
	digit := false
	for i, c := range line {
		class := classes[c]
		switch class {
		case 0:
			window = 0
			digit = false
			h = (h ^ uint32(c)) * 16777619
			continue
		case 1: // a digit
			window = 0
			if !digit {
				digit = true
				h = (h ^ '0') * 16777619
			}
			continue
		}
		digit = false
		h = (h ^ uint32(class)) * 16777619
		window = window<<8 | uint32(class)
		if !wrong && errorStarts[(window*0x9E3779B1)>>24] && errorWord(line, i-3, window) {
			wrong = true
		}
	}
	if !wrong {
		trimmed := bytes.TrimLeft(line, " \t")
		for _, m := range errorMarks {
			if bytes.HasPrefix(trimmed, m) {
				wrong = true
				break
			}
		}
	}
	return uint16(h>>18) & (1<<14 - 1), wrong
}

// classes is 0 for signs, 1 for digits and the lower-case letter for letters.
var classes = func() (c [256]byte) {
	for i := range c {
		switch b := byte(i); {
		case b >= '0' && b <= '9':
			c[i] = 1
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			c[i] = b | 0x20
		}
	}
	return c
}()

// errorWords are words of lines that tell of an error, errorMarks how such lines
// begin.
var (
	errorWords = []string{"error", "fatal", "panic", "exception", "fail", "traceback", "cannot", "unable", "undefined", "denied", "assert", "warning", "expected", "received", "refused", "timed out", "unexpected", "caused by"}
	errorMarks = [][]byte{[]byte("✕"), []byte("✗"), []byte("✖"), []byte("●"), []byte("not ok"), []byte("E  "), []byte("^")}
)

var errorStarts = func() (b [256]bool) {
	for _, w := range errorWords {
		b[(four(w)*0x9E3779B1)>>24] = true
	}
	return b
}()

func four(w string) uint32 {
	return uint32(w[0])<<24 | uint32(w[1])<<16 | uint32(w[2])<<8 | uint32(w[3])
}

// errorWord reports whether one of the words begins at i, as a word or a part of a
// name that begins with a capital.
func errorWord(line []byte, i int, window uint32) bool {
	if i > 0 && classes[line[i-1]] > 1 && (line[i]|0x20 == line[i] || line[i-1]|0x20 != line[i-1]) {
		return false
	}
	if i >= 2 && line[i-1] == ' ' && (line[i-2] == '0' || line[i-2] == 'o') { // 0 errors, no errors
		return false
	}
	for _, w := range errorWords {
		if four(w) == window && len(line) >= i+len(w) && bytes.EqualFold(line[i:i+len(w)], []byte(w)) {
			return true
		}
	}
	return false
}

// headingLevel is how deep an ATX heading of Markdown is, or one of HTML.
func headingLevel(line []byte, html bool) (level uint8, ok bool) {
	if html {
		for _, at := range [...]string{"<title", "<h1", "<h2", "<h3", "<h4"} {
			if i := bytes.Index(line, []byte(at)); i >= 0 {
				return uint8(max(0, int(at[2]-'1'))) & 3, true
			}
		}
		return 0, false
	}
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n > 0 && n <= 6 && n < len(line) && line[n] == ' ' {
		return uint8(n - 1), true
	}
	return 0, false
}

// underlined reports whether a line underlines the one before it as a heading.
func underlined(line []byte) bool {
	line = bytes.TrimRight(line, " \r\n")
	return len(line) >= 3 && (line[0] == '=' || line[0] == '-') && len(bytes.Trim(line, string(line[:1]))) == 0
}

// sectionWords begin lines that begin something in programs.
var sectionWords = set([]string{
	"func", "def", "class", "interface", "struct", "enum", "type", "export", "public", "private", "protected",
	"static", "async", "abstract", "pub", "impl", "fn", "module", "function", "trait", "package", "namespace",
	"template", "internal", "override", "final", "@interface", "@implementation", "-", "+",
})

// toolWords begin lines that begin something in what tools print.
var toolWords = set([]string{"diff", "commit", "Traceback", "@@", "FAIL"})

// ruled reports whether a word is a rule: === FAILURES ===
func ruled(word []byte) bool {
	return len(word) >= 5 && (word[0] == '=' || word[0] == '_') && len(bytes.Trim(word, string(word[:1]))) == 0
}

func firstWord(line []byte) []byte {
	line = bytes.TrimLeft(line, " \t")
	return line[:max(0, bytes.IndexAny(line, " \t(:{<"))]
}

// signatureLevel is how deep a line is indented that begins a function, a type, or
// a section of what a tool prints.
func signatureLevel(line []byte) (level uint8, ok bool) {
	indent := 0
	for indent < len(line) && (line[indent] == ' ' || line[indent] == '\t') {
		if line[indent] == '\t' {
			level += 2
		} else if indent%2 == 1 {
			level++
		}
		indent++
	}
	rest := line[indent:]
	if level > 4 || len(rest) < 4 {
		return 0, false
	}
	end := bytes.IndexAny(rest, " \t(:{<")
	if end <= 0 {
		return 0, false
	}
	word := rest[:end]
	switch {
	case len(word) == 1: // - (void)method, of Objective-C; no list of Markdown
		return level, (word[0] == '-' || word[0] == '+') && bytes.HasPrefix(rest[1:], []byte(" (")) && rest[len(rest)-1] == '{'
	case sectionWords[string(word)]:
		return level, true
	case toolWords[string(word)], ruled(word):
		return level, true
	}
	// app.use = function use(…) {, void Database::Open(…) {
	if level == 0 && (rest[len(rest)-1] == '{' && bytes.IndexByte(rest, '(') > 0 || bytes.Contains(rest, []byte("= function"))) {
		return level + 1, true
	}
	return 0, false
}
