package httpcall

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const notCSV = "not CSV, or too many columns"

// The limits for answers that are converted.
const (
	maxItems      = 1000
	maxColumns    = 1000
	maxColumnName = 100     // characters
	maxTable      = 2 << 20 // bytes of CSV that are read
	maxNodes      = 100_000 // elements and attributes of XML
	maxTags       = 256     // nesting depth of elements and lists
	maxPage       = 4 << 20 // bytes of HTML that are read, and that XML may have
)

// table returns CSV as a list of objects. The first line has the names of their members.
func (c *Call) table(text string) (data []byte, problem string) {
	whole := len(text) <= maxTable
	if !whole {
		text = text[:strings.LastIndexByte(text[:maxTable], '\n')+1]
	}
	first, _, _ := strings.Cut(text, "\n")
	r := csv.NewReader(strings.NewReader(text))
	for _, comma := range ";\t" {
		if strings.Count(first, string(comma)) > strings.Count(first, string(r.Comma)) {
			r.Comma = comma
		}
	}
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	header, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) || len(header) > maxColumns {
		return nil, notCSV
	}
	var names []string
	taken := map[string]bool{}
	add := func(base string) {
		if base = clean.FirstRunes(strings.TrimSpace(base), maxColumnName); base == "" {
			base = "column_" + strconv.Itoa(len(names)+1)
		}
		word := base
		for n := 2; taken[word]; n++ {
			word = base + "_" + strconv.Itoa(n)
		}
		taken[word] = true
		names = append(names, word)
	}
	for _, cell := range header {
		add(cell)
	}
	data = []byte(`{"items":[`)
	n := 0
	for ; ; n++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(row) > maxColumns {
			return nil, notCSV
		}
		if n == maxItems || len(data) > 8*maxTable {
			whole = false
			break
		}
		data = wire.Comma(data)
		var o wire.Members
		for i, cell := range row {
			if i == len(names) { // the row is longer than the first line
				add("")
			}
			o = o.Str(names[i], cell)
		}
		data = append(data, o.End()...)
	}
	if !whole {
		c.cut("items", n)
	}
	return append(data, `]}`...), ""
}

// element is an element of an XML document.
type element struct {
	name     string
	attrs    []xml.Attr
	text     strings.Builder
	children []*element
}

// xmlToJSON returns an XML document as JSON. An element is an object. Its members are the
// attributes, as @name, the child elements, and the text, as #text. Several child elements
// with the same name are a list. An element with nothing but text is a string. Prefixes of
// names are left out. Declarations of a document type are ignored.
func xmlToJSON(text string) (data []byte, problem string) {
	if len(text) > maxPage {
		return nil, "XML beyond " + strconv.Itoa(maxPage) + " bytes"
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // text is UTF-8 already
	root := &element{}
	open := []*element{root}
	for count := 0; ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			return nil, "not XML: line " + strconv.Itoa(syntax.Line)
		}
		if err != nil {
			return nil, "not XML"
		}
		last := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if count += 1 + len(t.Attr); count > maxNodes || len(open) > maxTags {
				return nil, "too many elements, or too deep"
			}
			e := &element{name: t.Name.Local, attrs: t.Copy().Attr}
			last.children = append(last.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text.Write(t)
		}
	}
	if len(root.children) != 1 {
		return nil, "not XML: no document element"
	}
	return root.append(nil), ""
}

func (e *element) append(dst []byte) []byte {
	text := strings.TrimSpace(e.text.String())
	if len(e.attrs)+len(e.children) == 0 {
		return wire.AppendQuoted(dst, text)
	}
	start := len(dst)
	member := func(name string) {
		if len(dst) > start {
			dst = append(dst, ',')
		} else {
			dst = append(dst, '{')
		}
		dst = append(wire.AppendQuoted(dst, name), ':')
	}
	for _, a := range e.attrs {
		if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
			member("@" + a.Name.Local)
			dst = wire.AppendQuoted(dst, a.Value)
		}
	}
	order := map[string]int{} // index in groups by name
	var groups [][]*element
	for _, child := range e.children {
		i, ok := order[child.name]
		if !ok {
			i = len(groups)
			order[child.name], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], child)
	}
	for _, g := range groups {
		member(g[0].name)
		if len(g) == 1 {
			dst = g[0].append(dst)
			continue
		}
		for i, child := range g {
			if i == 0 {
				dst = append(dst, '[')
			} else {
				dst = append(dst, ',')
			}
			dst = child.append(dst)
		}
		dst = append(dst, ']')
	}
	if text != "" {
		member("#text")
		dst = wire.AppendQuoted(dst, text)
	}
	if len(dst) == start { // there are no attributes but declarations of prefixes
		return wire.AppendQuoted(dst, text)
	}
	return append(dst, '}')
}

// lines returns a list of the JSON values in text, which has one on each line:
// https://github.com/ndjson/ndjson-spec
func (c *Call) lines(text string) (data []byte, problem string) {
	p := parts{c: c, data: []byte(`{"items":[`)}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if bad := wire.Check([]byte(line), wire.Limits{}); bad != nil {
			return nil, "line " + strconv.Itoa(n) + " is not JSON: " + failure.BadJSON(bad.Why)
		}
		if !p.add([]byte(line)) {
			break
		}
	}
	return p.end(), ""
}

// events returns a list of the data of an event stream's events:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func (c *Call) events(text string) (data []byte, problem string) {
	p := parts{c: c, data: []byte(`{"items":[`)}
	var event strings.Builder
	begun := false
	send := func() bool {
		defer func() { event.Reset(); begun = false }()
		text := event.String()
		switch {
		case !begun, text == "[DONE]": // the last event of some APIs
			return true
		case wire.Valid([]byte(text)):
			return p.add([]byte(text))
		}
		return p.add(wire.AppendQuoted(nil, text))
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			if !send() {
				return p.end(), ""
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if name == "data" {
			if begun {
				event.WriteByte('\n')
			}
			begun = true
			event.WriteString(strings.TrimPrefix(value, " "))
		}
	}
	return p.end(), "" // an event without a blank line after it is incomplete and ignored
}

// parts collects the items of an answer, or the text to which they are joined.
type parts struct {
	c    *Call
	data []byte
	text strings.Builder
	n    int
}

// add adds an item. It reports false if there are maxItems already.
func (p *parts) add(item []byte) bool {
	if join := p.c.Op.Answer.Join; join != nil {
		if v := lookup(item, join[0]); v != nil && wire.KindOf(v) == wire.String {
			p.text.Write(wire.Unquoted(v))
		}
		return true
	}
	if p.n == maxItems {
		p.c.cut("items", maxItems)
		return false
	}
	p.n++
	p.data = wire.Comma(p.data)
	p.data = append(p.data, item...)
	return true
}

func (p *parts) end() []byte {
	if p.c.Op.Answer.Join != nil {
		return wire.AppendQuoted(nil, p.text.String())
	}
	return append(p.data, `]}`...)
}

// markdown returns the readable content of a web page in Markdown: headings, lists, links,
// tables and text. It reads tags one by one and builds no tree, so that its time is linear in
// the length of the page.
func (c *Call) markdown(text string) string {
	if len(text) > maxPage {
		text = strings.ToValidUTF8(text[:maxPage], "") // it may end within a character
		c.cut("bytes", len(text))
	}
	var p page
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(p.out.String())
		case html.TextToken:
			p.words(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			var attr [2]string // href or src, alt
			for more {
				var k, v []byte
				k, v, more = z.TagAttr()
				switch string(k) {
				case "href", "src":
					attr[0] = string(v)
				case "alt":
					attr[1] = string(v)
				}
			}
			p.open(tag, attr[0], attr[1])
		case html.EndTagToken:
			name, _ := z.TagName()
			p.close(string(name))
		}
	}
}

// page is the Markdown text of a web page while it is written.
type page struct {
	out    strings.Builder
	hidden string // the tag whose content is not shown
	pre    bool
	lines  int  // line ends to write before the next text
	blank  bool // a space is to be written before the next text
	lists  []int
	link   string
	cells  int // in the current row of a table
	rows   int // of the current table
}

func (p *page) words(s string) {
	if p.hidden != "" || s == "" {
		return
	}
	if p.pre {
		p.put(s)
		return
	}
	p.blank = p.blank || strings.HasPrefix(s, " ") || s[0] <= ' '
	words := strings.Fields(s)
	for i, w := range words {
		if i > 0 {
			p.blank = true
		}
		p.put(w)
	}
	if len(words) > 0 && s[len(s)-1] <= ' ' {
		p.blank = true
	}
}

// put writes the pending line ends or space, and s.
func (p *page) put(s string) {
	if p.lines > 0 && p.out.Len() > 0 {
		p.out.WriteString("\n\n"[:min(p.lines, 2)])
	} else if p.blank && p.out.Len() > 0 && p.lines == 0 {
		p.out.WriteByte(' ')
	}
	p.lines, p.blank = 0, false
	p.out.WriteString(s)
}

func (p *page) lineEnds(n int) { p.lines, p.blank = max(p.lines, n), false }

func (p *page) open(tag, address, alt string) {
	if p.hidden != "" {
		return
	}
	switch tag {
	case "script", "style", "title", "noscript", "template", "svg", "iframe", "textarea", "select":
		p.hidden = tag
	case "h1", "h2", "h3", "h4", "h5", "h6":
		p.lineEnds(2)
		p.put("######"[:tag[1]-'0'] + " ")
	case "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "form", "figure", "blockquote", "dl", "address", "body":
		p.lineEnds(2)
	case "br":
		p.lineEnds(1)
	case "hr":
		p.lineEnds(2)
		p.put("---")
		p.lineEnds(2)
	case "ul", "ol":
		p.lineEnds(1)
		if len(p.lists) < maxTags {
			p.lists = append(p.lists, map[string]int{"ul": -1}[tag])
		}
	case "li", "dt", "dd":
		p.lineEnds(1)
		mark := "- "
		if n := len(p.lists); n > 0 {
			if p.lists[n-1] >= 0 {
				p.lists[n-1]++
				mark = strconv.Itoa(p.lists[n-1]) + ". "
			}
			mark = strings.Repeat("  ", min(n-1, 8)) + mark
		}
		p.put(mark)
	case "pre":
		p.lineEnds(2)
		p.put("```\n")
		p.pre = true
	case "a":
		if strings.HasPrefix(address, "http") || strings.HasPrefix(address, "/") {
			p.link = address
			p.put("[")
		}
	case "img":
		if alt = strings.Join(strings.Fields(alt), " "); alt != "" {
			p.put("[image: " + alt + "]")
		}
	case "table":
		p.lineEnds(2)
		p.rows = 0
	case "tr":
		p.lineEnds(1)
		p.cells = 0
	case "td", "th":
		p.blank = p.cells > 0
		p.cells++
		p.put("| ")
	}
}

func (p *page) close(tag string) {
	if p.hidden != "" {
		if tag == p.hidden {
			p.hidden = ""
		}
		return
	}
	switch tag {
	case "h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "form", "figure", "blockquote", "table", "dl":
		p.lineEnds(2)
	case "ul", "ol":
		if n := len(p.lists); n > 0 {
			p.lists = p.lists[:n-1]
		}
		p.lineEnds(1)
		if len(p.lists) == 0 {
			p.lineEnds(2)
		}
	case "pre":
		if p.pre {
			p.pre = false
			p.lines = 1
			p.put("```")
			p.lineEnds(2)
		}
	case "a":
		if p.link != "" {
			p.blank = false
			p.put("](" + p.link + ")")
			p.link = ""
		}
	case "tr":
		if p.cells > 0 {
			p.blank = true
			p.put("|")
			if p.rows++; p.rows == 1 {
				p.lineEnds(1)
				p.put(strings.Repeat("| --- ", min(p.cells, maxColumns)) + "|")
			}
			p.cells = 0
		}
		p.lineEnds(1)
	}
}
