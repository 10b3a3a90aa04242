package fit

import (
	"bytes"
	"slices"
)

// A survey is what stands out in a text: lines, in the order in which they count.
type survey struct {
	sections []mark
	causes   []int // lines that say what was thrown, what ended the program, what a plan comes to
	failures []int // lines that name what failed
	states   []int // lines with a state in which things do not work
	odd      []int // rows that stand out in a table
	errors   []int // other lines that tell of an error
	rare     []int // lines unlike all others
	code     []fenced
	prose    bool // sections are headings
	source   bool // the text is a program, or prose with headings
}

// A mark is a line that begins a section, a definition or the hits in a file,
// and its level.
type mark struct{ line, level int }

// fenced is a block of code.
type fenced struct{ open, shut int }

// maxSeen bounds how many lines or values are remembered, to know whether the
// next one is new.
const maxSeen = 1 << 12

// survey looks at each line once.
func (p *Plan) survey(n uint32) (s survey) {
	src, kids := p.docOf(n).src, p.kids(n)
	var heads, signs, hits []mark
	alone, found, others, fence := 0, 0, 0, ""
	var file []byte
	shapes, frame, grades := make([]uint16, len(kids)), make([]bool, len(kids)), make([]grade, len(kids))
	within := -1 // the indent of a frame whose code follows
	seen := make(map[string]bool)
	isNew := func(line []byte) bool {
		again := seen[string(line)]
		if !again && len(seen) < maxSeen {
			seen[string(line)] = true
		}
		return !again
	}
	for i := range kids {
		line := lineOf(src, &kids[i])
		rest := bytes.TrimLeft(line, " \t")
		indent := len(line) - len(rest)
		if within >= 0 && indent > within { // the code of a frame of Python
			frame[i] = true
		} else if within = -1; isFrame(line, rest) {
			frame[i] = true
			if rest[0] == 'F' {
				within = indent
			} else if i > 0 && rest[0] != 'a' && bytes.Contains(rest, []byte(".go:")) { // the function of a frame of Go
				frame[i-1] = true
			}
		}
		shapes[i], grades[i] = look(line)
		if namesFailure(rest, grades[i] > plain) {
			grades[i] = max(grades[i], wrong)
			if !frame[i] && isNew(rest) {
				s.failures = append(s.failures, i)
			}
		}
		was := fence
		if fence = nextFence(fence, line); was == "" && fence != "" {
			s.code = append(s.code, fenced{i, len(kids) - 1})
		} else if was != "" && fence == "" {
			s.code[len(s.code)-1].shut = i
		}
		if was != "" || fence != "" {
			continue
		}
		if f := fileOf(line); f == nil {
			others++
		} else if found++; !bytes.Equal(f, file) {
			file, hits = f, append(hits, mark{i, 0})
		}
		if level, ok := heading(line); ok {
			if rest[0] == '<' && i+1 < len(kids) && len(textIn(rest)) == 0 { // its text is in the next line
				rest = lineOf(src, &kids[i+1])
			}
			if isNew(rest) {
				heads = append(heads, mark{i, level})
			}
			// A # begins a heading in Markdown, where blank lines stand around it, and a
			// comment in a program.
			if i+1 < len(kids) && kids[i+1].at > kids[i].at+1 && (i == 0 || kids[i].at > kids[i-1].at+1) {
				alone++
			}
		} else if level, ok := signature(rest, len(line)-len(rest), bytes.Count(line[:len(line)-len(rest)], []byte("\t"))); ok && isNew(rest) {
			signs = append(signs, mark{i, level})
		} else if i+1 < len(kids) && kids[i+1].at == kids[i].at+1 && underlines(src[kids[i+1].pos:kids[i+1].end]) && isNew(rest) {
			heads = append(heads, mark{i, 0})
		}
	}
	s.rare = slices.DeleteFunc(rareLines(shapes), func(i int) bool { return frame[i] })
	s.grade(grades, frame, shapes, causes(frame, func(i int) []byte { return lineOf(src, &kids[i]) }))
	markdown := p.docOf(n).part.Markdown || alone > 1 && alone*8 > len(signs)
	switch {
	case len(hits) > 1 && len(hits)*2 <= found && others <= 8+found/3: // the output of a search
		s.sections, s.source = hits, true
	case len(s.failures)*16 > max(len(heads), len(signs)) && !markdown: // what failed says more than where sections begin
	case markdown || len(heads) >= len(signs):
		s.prose = true
		s.sections, s.source = heads, len(heads) > len(kids)/200 && len(heads) >= len(signs)
	default:
		s.sections, s.source = signs, len(signs) > len(kids)/50
	}
	if !s.source && !markdown {
		indent, opens := -1, false // of the table; the line before ends with a colon
		s.odd = oddLines(len(kids), len(s.failures)*16 > max(len(heads), len(signs)) || len(hits) > 1 && len(hits)*2 <= found, func(i int) ([]byte, bool) {
			line := lineOf(src, &kids[i])
			rest := bytes.TrimLeft(line, " \t")
			here := len(line) - len(rest)
			begins := i > 0 && kids[i].at > kids[i-1].at+1 || here < indent || here > indent && opens // behind blank lines, or in another section
			opens = bytes.HasSuffix(line, []byte(":"))
			if begins || indent < 0 {
				indent = here
			} else if here > indent+2 || frame[i] {
				rest = nil
			}
			return rest, begins
		})
	}
	return s
}

// lineOf returns the beginning of a line.
func lineOf(src []byte, n *node) []byte {
	line := bytes.TrimRight(src[n.pos:min(n.end, n.pos+2*pieceLength)], "\r\n")
	if at := bytes.IndexByte(line, '\n'); at >= 0 { // blank or very short lines share the node
		line = bytes.TrimRight(line[:at], "\r")
	}
	return line
}

// oftenMet is how many errors of the same shape come before those of other shapes are all shown.
const oftenMet = 8

// grade sorts the lines by their grades. Of lines with the same shape, the first and the last
// are causes, and the last one is the first error; the others come after these.
func (s *survey) grade(grades []grade, frame []bool, shapes []uint16, thrown []int) {
	var first, last [1 << 16 / 64]uint64
	met := make([]uint8, 1<<16)
	seen := func(set *[1 << 16 / 64]uint64, shape uint16) bool {
		was := set[shape/64]
		set[shape/64] |= 1 << (shape % 64)
		return set[shape/64] == was
	}
	for _, i := range thrown {
		grades[i] = grave
	}
	late := make(map[int]bool) // the last of their shapes
	for i, g := range slices.Backward(grades) {
		if g == grave && !frame[i] && !seen(&last, shapes[i]) {
			late[i] = true
		}
	}
	var repeats, warnings []int
	for i, g := range grades {
		switch {
		case frame[i]:
		case g == grave && (!seen(&first, shapes[i]) || late[i]):
			s.causes = append(s.causes, i)
		case g == state:
			s.states = append(s.states, i)
		}
	}
	isCause := make(map[int]bool, len(s.causes))
	for _, i := range s.causes {
		isCause[i] = true
	}
	for i, g := range slices.Backward(grades) { // the last error is nearest to the cause
		switch {
		case frame[i] || g == plain || g == state || isCause[i]:
		case g == weak:
			warnings = append(warnings, i)
		case met[shapes[i]] == oftenMet:
			repeats = append(repeats, i)
		default:
			met[shapes[i]]++
			s.errors = append(s.errors, i)
		}
	}
	s.errors = append(append(s.errors, repeats...), warnings...)
}

// rareLines returns the lines whose shape no other line has, the last one first. It returns
// none if the text is short or does not repeat itself.
func rareLines(shapes []uint16) (rare []int) {
	if len(shapes) <= 40 {
		return nil
	}
	var counts [1 << 16]uint8
	for _, s := range shapes {
		counts[s] = min(counts[s]+1, 2)
	}
	for i, s := range slices.Backward(shapes) {
		if counts[s] == 1 {
			rare = append(rare, i)
		}
	}
	if len(rare) > len(shapes)/8 {
		return nil
	}
	return rare
}

// fileOf returns the file name that a line of a search's output begins with, as
// in file:line:text, or nil if there is none.
func fileOf(line []byte) []byte {
	name, _, ok := bytes.Cut(line, []byte(":"))
	if !ok || !bytes.ContainsAny(name, "/.") || bytes.ContainsAny(name, " \t\"'(") {
		return nil
	}
	return name
}

// heading returns the level of an ATX heading of Markdown or of a heading of
// HTML, and whether the line is one.
func heading(line []byte) (level int, ok bool) {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n > 0 {
		return n - 1, n <= 6 && n < len(line) && line[n] == ' '
	}
	if at := bytes.IndexByte(line, '<'); at < 0 {
		return 0, false
	} else if i := at + bytes.Index(line[at:], []byte("<h")) + 2; i > at+1 && i < len(line) && line[i]-'1' < 4 {
		return int(line[i] - '1'), true
	}
	return -1, bytes.Contains(line, []byte("<title>"))
}

// underlines reports whether a line makes the line before it a heading.
func underlines(line []byte) bool {
	if line[0] != '=' && line[0] != '-' {
		return false
	}
	line = bytes.TrimRight(line, " \r\n")
	return len(line) > 2 && len(bytes.Trim(line, string(line[:1]))) == 0
}

// sectionWords are the first words of lines that begin a definition in a
// program, or a section in the output of git. controlWords are the first words
// of lines that open a block without a name.
var (
	sectionWords = set("func def class interface struct enum type export public private protected static async abstract pub impl fn module function trait package namespace template internal extern typedef override final @interface @implementation diff commit @@")
	controlWords = set("if for while switch else do try return catch } foreach synchronized using with")
)

// beginsSection has the first letters of sectionWords, which most lines do not begin with.
var beginsSection = func() (b [256]bool) {
	for w := range sectionWords {
		b[w[0]] = true
	}
	return b
}()

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range bytes.FieldsSeq([]byte(words)) {
		m[string(w)] = true
	}
	return m
}

// signature returns how deep a line is indented, and whether it begins a
// function, a type, or a section of a tool's output.
func signature(line []byte, indent, tabs int) (level int, ok bool) {
	level = (indent-tabs)/2 + tabs*2
	if level > 4 || len(line) < 4 {
		return 0, false
	}
	end := wordEnd(line)
	if end == 0 || end == len(line) {
		return 0, false
	}
	word := line[:end]
	switch {
	case end == 1:
		return level, isMethod(line)
	case beginsSection[line[0]] && sectionWords[string(word)]:
		return level, true
	}
	// void Database::Open(…) {, validate(schema) {
	return level + 1, level <= 2 && line[len(line)-1] == '{' && bytes.IndexByte(line, '(') > 0 && !controlWords[string(word)]
}

// isMethod reports whether a line is a method of Objective-C, and not an item
// of a list. The method's type stands right before its name: - (void)save
func isMethod(line []byte) bool {
	i := bytes.IndexByte(line, ')')
	return (bytes.HasPrefix(line, []byte("- (")) || bytes.HasPrefix(line, []byte("+ ("))) && i > 0 && i+1 < len(line) && isLetter(line[i+1])
}

// endsWord are the bytes that end the word which a line begins with.
var endsWord = [256]bool{' ': true, '\t': true, '(': true, ':': true, '{': true, '<': true, '[': true}

// wordEnd returns the length of the word that a line begins with.
func wordEnd(line []byte) int {
	n := 0
	for n < len(line) && !endsWord[line[n]] {
		n++
	}
	return n
}

// failMarks begin lines of test runs that name what failed.
var failMarks = [...]string{"✕", "✗", "✖", "●", "not ok", "--- FAIL", "FAIL"}

// namesFailure reports whether a line names what failed, or says what was thrown:
// error[E0106]:, java.lang.IllegalStateException:. wrong says whether the line has one of
// errorWords in it.
func namesFailure(line []byte, wrong bool) bool {
	for _, m := range failMarks {
		if len(line) > len(m) && line[0] == m[0] && string(line[:len(m)]) == m {
			return true
		}
	}
	if !wrong || bytes.Contains(line, []byte(" FAILED")) {
		return wrong
	}
	end := wordEnd(line)
	if end < 5 || end == len(line) || line[end] != ':' && line[end] != '[' {
		return false
	}
	for _, w := range [...]string{"error", "exception", "fatal", "panic"} {
		if end >= len(w) && bytes.EqualFold(line[end-len(w):end], []byte(w)) {
			return true
		}
	}
	return false
}

// FenceOf returns the fence that a line begins with, or "" if there is none.
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks
func FenceOf(line []byte) string {
	line = bytes.TrimLeft(line, " ")
	n := 0
	for n < len(line) && (line[n] == '`' || line[n] == '~') && line[n] == line[0] {
		n++
	}
	if n < 3 || line[0] == '`' && bytes.IndexByte(line[n:], '`') >= 0 {
		return ""
	}
	return string(line[:n])
}

// nextFence returns the fence that is open after a line; open is the one before
// it.
func nextFence(open string, line []byte) string {
	switch fence := FenceOf(line); {
	case fence == "":
	case open == "":
		return fence
	case fence[0] == open[0] && len(fence) >= len(open) && len(bytes.TrimSpace(line)) == len(fence):
		return ""
	}
	return open
}

// OpenFence returns the fence that is open at the end of a text, and where its
// line begins. It returns "" if there is none.
func OpenFence(text []byte) (open string, at int) {
	for i := 0; i < len(text); {
		end := lineEnd(text, i)
		was := open
		if open = nextFence(open, text[i:end]); was == "" {
			at = i
		}
		i = end + 1
	}
	return open, at
}

func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}
