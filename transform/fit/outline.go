package fit

import (
	"bytes"
	"slices"
)

// A title begins a section: a heading, a signature, the first hit in a file.
type title struct {
	at    uint32
	level uint8 // 0 is the outermost
}

// An outline collects the titles of a text.
type outline struct {
	*text
	html         bool
	markdown     bool // once titles was called: it has headings
	code         int  // the block that comes next
	heads, signs []title
}

func (t *text) outline() *outline {
	start := bytes.ToLower(t.src[:min(len(t.src), 1000)])
	return &outline{text: t, html: bytes.Contains(start, []byte("<html")) || bytes.Contains(start, []byte("<!doctype html"))}
}

// look looks at the line that the i-th unit begins.
func (o *outline) look(i int, line []byte) {
	for o.code < len(o.blocks) && int(o.blocks[o.code].close) < i {
		o.code++
	}
	if o.code < len(o.blocks) && int(o.blocks[o.code].open) <= i {
		return
	}
	if level, ok := headingLevel(line, o.html); ok {
		o.heads = append(o.heads, title{uint32(i), level})
	} else if level, ok := signatureLevel(line); ok {
		o.signs = append(o.signs, title{uint32(i), level})
	}
}

// titles are the headings or the signatures, each text once. source says that the text
// is a program, or prose with headings.
func (o *outline) titles(markdown bool) (all []title, source bool) {
	n := len(o.line)
	// A # begins a heading in Markdown, where blank lines stand around it, and a comment
	// in a program.
	alone := 0
	for _, h := range o.heads {
		i := int(h.at)
		if i+1 < n && o.line[i+1] > o.line[i]+1 && (i == 0 || o.line[i] > o.line[i-1]+1) {
			alone++
		}
	}
	o.markdown = markdown || alone > 1 && alone*8 > len(o.signs)
	all, source = o.heads, len(o.heads) > n/200
	if len(o.signs) > len(o.heads) {
		source = false
		if !o.markdown {
			all, source = o.signs, len(o.signs) > n/50
		}
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(all, func(h title) bool {
		line := bytes.TrimSpace(o.unit(int(h.at)))
		again := seen[string(line)]
		if !again && len(seen) < maxNamed {
			seen[string(line)] = true
		}
		return again
	}), source
}

// firstHits are the first lines of each file in what a search found: file:line:text.
func (t *text) firstHits() (first []title) {
	hits, others, before := 0, 0, []byte(nil)
	for i := range t.line {
		if i > 0 && t.line[i] == t.line[i-1] {
			continue
		}
		line := t.unit(i)
		file := line[:max(0, bytes.IndexByte(line, ':'))]
		if !bytes.ContainsAny(file, "/.") || bytes.ContainsAny(file, " \t\"'(") {
			if others++; others > 8+hits/3 {
				return nil
			}
			continue
		}
		if hits++; !bytes.Equal(file, before) {
			first, before = append(first, title{uint32(i), 0}), file
		}
	}
	if len(first) < 2 || len(first)*2 > hits {
		return nil
	}
	return first
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
	if n > 0 && n <= 6 && n < len(line) && line[n] == ' ' && !directives[string(firstWord(line[n+1:]))] {
		return uint8(n - 1), true
	}
	return 0, false
}

// sectionWords begin lines that begin something in programs.
var sectionWords = set([]string{
	"func", "def", "class", "interface", "struct", "enum", "type", "export", "public", "private", "protected",
	"static", "async", "abstract", "pub", "impl", "fn", "module", "function", "trait", "package", "namespace",
	"template", "internal", "extern", "typedef", "override", "final", "@interface", "@implementation",
	"diff", "commit", "@@", // what git prints
})

// controlWords begin lines that open a block, but not of something with a name.
var controlWords = set([]string{"if", "for", "while", "switch", "else", "do", "try", "return", "catch", "}", "foreach", "synchronized", "using", "with"})

// directives begin lines of C that are no headings: # define X
var directives = set([]string{"define", "if", "ifdef", "ifndef", "else", "elif", "endif", "include", "undef", "pragma", "error"})

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
		return level, isMethod(rest)
	case sectionWords[string(word)]:
		return level, true
	}
	// void Database::Open(…) {, validate(schema) {, app.use = function use(…)
	opens := rest[len(rest)-1] == '{' && bytes.IndexByte(rest, '(') > 0 && !controlWords[string(word)]
	return level + 1, opens && level <= 2 || level == 0 && bytes.Contains(rest, []byte("= function"))
}

// isMethod reports whether a line is a method of Objective-C, whose type stands right
// before its name, and no item of a list: - (void)save
func isMethod(line []byte) bool {
	i := bytes.IndexByte(line, ')')
	return bytes.HasPrefix(line[1:], []byte(" (")) && (line[0] == '-' || line[0] == '+') && i > 0 && i+1 < len(line) && classes[line[i+1]] > 1
}
