package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/tidwall/gjson"
	"golang.org/x/term"
)

const (
	leastWidth  = 40     // the least columns of a terminal for two sides
	shownLines  = 50_000 // the most lines of each side
	shownGone   = 3      // the most lines of a run of removed ones
	tableCells  = 1 << 20
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
	colours := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	side := (width - 3) / 2
	var b strings.Builder
	line := func(r row) {
		left, right := cell(r.before, side), strings.TrimRight(cell(r.after, side), " ")
		if colours && r.mark != " " {
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
	i, j := 0, 0
	differ := func(to, upTo int) {
		left, right := before[i:to], after[j:upTo]
		if n := len(left) - shownGone; n > 1 {
			left = append(slices.Clone(left[:shownGone]), fmt.Sprintf("⋮ %d more lines", n))
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
		i, j = to, upTo
	}
	for _, p := range same(before, after, 0, 0) {
		if p.i > i || p.j > j {
			differ(p.i, p.j)
		}
		all = append(all, row{before[i], after[j], " "})
		i, j = i+1, j+1
	}
	differ(len(before), len(after))
	return all
}

// A pair is the indexes of two equal lines, one of each side.
type pair struct{ i, j int }

// same returns pairs of the lines that two sides have in common, in their order: first the lines at both
// ends, then those that each side has once, and then, by recursion, the lines between these (a patience
// diff). i and j are the indexes of a[0] and b[0].
func same(a, b []string, i, j int) (pairs []pair) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		pairs = append(pairs, pair{i, j})
		a, b, i, j = a[1:], b[1:], i+1, j+1
	}
	var tail []pair
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
		tail = append(tail, pair{i + len(a), j + len(b)})
	}
	slices.Reverse(tail)
	switch anchors := unique(a, b); {
	case len(anchors) > 0:
		x, y := 0, 0
		for _, p := range anchors {
			pairs = append(pairs, same(a[x:p.i], b[y:p.j], i+x, j+y)...)
			pairs = append(pairs, pair{i + p.i, j + p.j})
			x, y = p.i+1, p.j+1
		}
		pairs = append(pairs, same(a[x:], b[y:], i+x, j+y)...)
	case len(a)*len(b) <= tableCells:
		pairs = append(pairs, common(a, b, i, j)...)
	}
	return append(pairs, tail...)
}

// unique returns the longest run of lines, in the order of both sides, that each side has exactly once.
func unique(a, b []string) []pair {
	count := make(map[string][2]int)
	at := make(map[string]int)
	for i, l := range a {
		c := count[l]
		c[0]++
		count[l], at[l] = c, i
	}
	for _, l := range b {
		c := count[l]
		c[1]++
		count[l] = c
	}
	var all []pair
	for j, l := range b {
		if count[l] == [2]int{1, 1} {
			all = append(all, pair{at[l], j})
		}
	}
	// The longest increasing run by patience sorting: piles holds the top of each pile, the least
	// line that can end a run of that length, and below the top of the pile before.
	var piles []int
	below := make([]int, len(all))
	for k, p := range all {
		n, _ := slices.BinarySearchFunc(piles, p, func(top int, p pair) int { return cmp.Compare(all[top].i, p.i) })
		if below[k] = -1; n > 0 {
			below[k] = piles[n-1]
		}
		if n == len(piles) {
			piles = append(piles, k)
		} else {
			piles[n] = k
		}
	}
	if len(piles) == 0 {
		return nil
	}
	var run []pair
	for k := piles[len(piles)-1]; k >= 0; k = below[k] {
		run = append(run, all[k])
	}
	slices.Reverse(run)
	return run
}

// common returns the pairs of a longest common subsequence of two short sides.
func common(a, b []string, i, j int) (pairs []pair) {
	length := make([][]int32, len(a)+1) // length[x][y] is that of a[x:] and b[y:]
	for x := range length {
		length[x] = make([]int32, len(b)+1)
	}
	for x := len(a) - 1; x >= 0; x-- {
		for y := len(b) - 1; y >= 0; y-- {
			if length[x][y] = max(length[x+1][y], length[x][y+1]); a[x] == b[y] {
				length[x][y] = length[x+1][y+1] + 1
			}
		}
	}
	for x, y := 0, 0; x < len(a) && y < len(b); {
		switch {
		case a[x] == b[y]:
			pairs = append(pairs, pair{i + x, j + y})
			x, y = x+1, y+1
		case length[x+1][y] >= length[x][y+1]:
			x++
		default:
			y++
		}
	}
	return pairs
}
