package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/tidwall/gjson"
	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

const (
	leastWidth  = 40     // the least columns of a terminal for two sides
	shownLines  = 50_000 // the most lines of each side
	shownGone   = 3      // the most lines of a run of removed ones
	gone, added = "<", ">"
)

// terminalWidth returns the number of a terminal's columns, or 0 if out is not a terminal or has fewer than
// leastWidth columns.
func terminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < leastWidth {
		return 0
	}
	return width
}

// A row is a line on either side, or on both.
type row struct{ before, after, mark string }

// sideBySide writes two results beside each other, in width columns.
func sideBySide(out io.Writer, before, after []byte, width int) error {
	coloured := colours()
	side := (width - 3) / 2
	var b strings.Builder
	line := func(r row) {
		left, right := cell(r.before, side), strings.TrimRight(cell(r.after, side), " ")
		if coloured && r.mark != " " {
			left, right = "\x1b[31m"+left+"\x1b[0m", "\x1b[32m"+right+"\x1b[0m"
		}
		b.WriteString(strings.TrimRight(left+" "+r.mark+" "+right, " ") + "\n")
	}
	line(row{"before", "after", " "})
	line(row{strings.Repeat("─", side), strings.Repeat("─", side), " "})
	for _, r := range rows(linesOf(before), linesOf(after)) {
		line(r)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cell cuts a line, or fills it with blanks, to width columns.
func cell(text string, width int) string {
	text = strings.ReplaceAll(text, "\t", "    ")
	if n := uniseg.StringWidth(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	var b strings.Builder
	used := 0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var w int
		if cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state); used+w > width-1 {
			break
		}
		b.WriteString(cluster)
		used += w
	}
	return b.String() + "…" + strings.Repeat(" ", width-1-used)
}

// linesOf returns a result as lines of text: JSON is indented, of media only the size is given.
func linesOf(result []byte) (lines []string) {
	add := func(title, text string) {
		if indented := new(bytes.Buffer); strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(strings.TrimSpace(text), "[") {
			if json.Indent(indented, []byte(text), "", "  ") == nil {
				text = indented.String()
			}
		}
		lines = append(lines, "── "+title)
		for l := range strings.Lines(text) {
			if len(lines) == shownLines {
				lines = append(lines, "… too many lines to show")
				return
			}
			lines = append(lines, printable(strings.ReplaceAll(strings.TrimRight(l, "\r\n"), "\t", "    ")))
		}
	}
	r := gjson.ParseBytes(result)
	for _, name := range []string{"content", "contents", "messages"} {
		for i, block := range r.Get(name).Array() {
			title := fmt.Sprintf("%s[%d]", name, i)
			if inner := block.Get("content"); name == "messages" && inner.IsObject() {
				block = inner
			}
			text := block.Get("text")
			if inner := block.Get("resource.text"); inner.Exists() {
				text = inner
			}
			switch {
			case len(lines) > shownLines:
				return lines
			case text.Exists():
				add(title, text.String())
			case len(block.Raw) > 1000:
				lines = append(lines, printable(fmt.Sprintf("── %s: %s %s, %d bytes", title, block.Get("type"), block.Get("mimeType"), len(block.Raw))))
			default:
				add(title, block.Raw)
			}
		}
	}
	if s := r.Get("structuredContent"); s.Exists() {
		add("structuredContent", s.Raw)
	}
	return lines
}

// rows aligns the lines of two sides. Of a long run of removed lines it includes only the first.
func rows(before, after []string) (all []row) {
	var left, right []string
	differ := func() {
		if n := len(left) - shownGone; n > 1 {
			left = append(left[:shownGone], fmt.Sprintf("⋮ %d more lines", n))
		}
		for k := range max(len(left), len(right)) {
			r := row{mark: "|"}
			if k < len(left) {
				r.before = left[k]
			} else {
				r.mark = added
			}
			if k < len(right) {
				r.after = right[k]
			} else {
				r.mark = gone
			}
			all = append(all, r)
		}
		left, right = left[:0], right[:0]
	}
	for _, p := range observe.Align(before, after) {
		switch {
		case p.B < 0:
			left = append(left, before[p.A])
		case p.A < 0:
			right = append(right, after[p.B])
		default:
			differ()
			all = append(all, row{before[p.A], after[p.B], " "})
		}
	}
	differ()
	return all
}
