package fit

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// A row of a table stands out if one of its cells differs from what its column nearly always
// has. A column counts in two ways: by the cells as they are, and by what they are like (the
// first word, whether a number is 0, whether 1/2 is whole).

const (
	maxCells   = 16      // columns that are looked at
	maxValues  = 16      // different values of a column that are counted
	fewestRows = 4       // of a table
	mostRows   = 1 << 12 // of a longer table that many rows at a time are compared
	oddShare   = 8       // one row in so many may differ
	longCell   = 64      // bytes: what follows is not looked at
)

// A column counts values by their hashes.
type column struct {
	values [maxValues]struct{ sum, count uint32 }
	used   int
	rows   int // that have a cell there
}

func (c *column) add(sum uint32) {
	c.rows++
	for i := range c.values[:c.used] {
		if c.values[i].sum == sum {
			c.values[i].count++
			return
		}
	}
	if c.used < maxValues {
		c.values[c.used].sum, c.values[c.used].count = sum, 1
		c.used++
	}
}

// usual returns the values that nearly all rows have, and how many rows have others. If the column has no
// such values, few is false.
func (c *column) usual(rows, share int) (sums []uint32, others int, few bool) {
	least := uint32(max(2, (rows+7)/8))
	others = rows
	for _, v := range c.values[:c.used] {
		if v.count >= least {
			sums, others = append(sums, v.sum), others-int(v.count)
		}
	}
	if absent := rows - c.rows; absent >= int(least) { // most rows have no such cell
		sums, others = append(sums, 0), others-absent
	}
	return sums, others, len(sums) > 0 && others > 0 && others <= max(1, rows/share)
}

// A grid counts the cells of a table.
type grid struct {
	columns [2 * maxCells]column // of cells as they are, and of what they are like
	names   [maxCells]uint32     // hashes of names, if the cells have names
	width   int
	sums    [][2 * maxCells]uint32 // of each row; 0 if there is no such cell
	sizes   [][maxCells]uint8      // of the numbers of each row
}

func (g *grid) reset() { *g = grid{sums: g.sums[:0], sizes: g.sizes[:0]} }

// expect makes room for rows.
func (g *grid) expect(rows int) {
	g.sums, g.sizes = slices.Grow(g.sums, rows), slices.Grow(g.sizes, rows)
}

var cellSeed = maphash.MakeSeed()

func sumOf(text []byte) uint32 { return uint32(maphash.Bytes(cellSeed, text)) | 1 }

// row begins another row.
func (g *grid) row() {
	g.sums, g.sizes = append(g.sums, [2 * maxCells]uint32{}), append(g.sizes, [maxCells]uint8{})
}

// cell adds a cell to the last row.
func (g *grid) cell(i int, text []byte) {
	text = text[:min(len(text), longCell)]
	row := &g.sums[len(g.sums)-1]
	row[2*i] = sumOf(text)
	row[2*i+1] = row[2*i]
	if like := gist(text); !bytes.Equal(like, text) {
		row[2*i+1] = sumOf(like)
	}
	g.sizes[len(g.sizes)-1][i] = sizeOf(text)
	g.width = max(g.width, i+1)
}

// named returns the column of a name by its hash, or -1 if there are too many.
func (g *grid) named(sum uint32) int {
	for i := range g.width {
		if g.names[i] == sum {
			return i
		}
	}
	if g.width == maxCells {
		return -1
	}
	g.names[g.width] = sum
	return g.width
}

// regular returns how many of the first columns have cells that are nearly all alike.
func (g *grid) regular() (n int) {
	for i := range min(g.width, maxCells/2) {
		if _, others, few := g.columns[2*i+1].usual(len(g.sums), oddShare); few || others == 0 {
			n++
		}
	}
	return n
}

// odd returns the rows that stand out, those first of which there are fewest. from is the first
// row that is compared: those before it are a head. If fewer columns than regular are regular,
// the rows are no table.
func (g *grid) odd(from, regular, share int) (rows []int) {
	sums := g.sums[min(from, len(g.sums)):]
	if len(sums) < fewestRows {
		return nil
	}
	for k := range sums {
		for i := range 2 * g.width {
			if s := sums[k][i]; s > 0 {
				g.columns[i].add(s)
			}
		}
	}
	if g.regular() < regular {
		return nil
	}
	score := make([]int, len(sums))
	for i := range 2 * g.width {
		usual, others, few := g.columns[i].usual(len(sums), share)
		if !few {
			continue
		}
		for k := range sums {
			if !slices.Contains(usual, sums[k][i]) {
				score[k] += 1 + len(sums)/others/4
			}
		}
	}
	for i := range g.width {
		if least := outsize(g.sizes[from:], i); least > 0 {
			for k := range score {
				if g.sizes[k+from][i] >= least {
					score[k] += 1 + len(sums)/4
				}
			}
		}
	}
	for k, s := range score {
		if s > 0 {
			rows = append(rows, k+from)
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(score[b-from], score[a-from]) })
	return rows
}

const (
	largeShare = 16 // one number in so many may be larger than the others
	largeBits  = 3  // so much larger
)

// outsize returns the size from which the numbers of a column are much larger than nearly all others, or 0 if there
// are none.
func outsize(sizes [][maxCells]uint8, column int) uint8 {
	var counts [256]int
	numbers := 0
	for k := range sizes {
		if s := sizes[k][column]; s > 0 {
			counts[s]++
			numbers++
		}
	}
	if numbers < 2*fewestRows || numbers*4 < len(sizes)*3 {
		return 0
	}
	above, s := 0, len(counts)-1
	for ; above+counts[s] <= max(1, numbers/largeShare); s-- {
		above += counts[s]
	}
	if above == 0 {
		return 0
	}
	return uint8(s + largeBits)
}

// What numbers are like.
var (
	likeZero, likeOne    = []byte("0"), []byte("1")
	likePart, likeWhole  = []byte("0/1"), []byte("1/1")
	likeFew, likeNearAll = []byte("1%"), []byte("90%")
)

// gist returns what a cell is like: its first word, or what kind of number it is.
func gist(cell []byte) []byte {
	n := digitsOf(cell)
	switch {
	case n == 0:
		for n < len(cell) && (isLetter(cell[n]) || cell[n] >= 0x80) {
			n++
		}
		return cell[:max(n, min(1, len(cell)))]
	case n+1 < len(cell) && cell[n] == '/' && isDigit(cell[n+1]):
		m := n + 1 + digitsOf(cell[n+1:])
		switch {
		case m < len(cell) && cell[m] != ' ':
			return likeOne
		case bytes.Equal(cell[:n], cell[n+1:m]):
			return likeWhole
		}
		return likePart
	case isPercent(cell, n):
		if n > 2 || n == 2 && cell[0] == '9' {
			return likeNearAll
		}
		return likeFew
	case isZero(cell):
		return likeZero
	}
	return likeOne
}

// isPercent reports whether a number with so many digits before its point is followed by a percent sign.
func isPercent(cell []byte, n int) bool {
	if n < len(cell) && cell[n] == '.' {
		n += 1 + digitsOf(cell[n+1:])
	}
	return n < len(cell) && cell[n] == '%'
}

// sizeOf returns about how many bits a number has, plus 1, or 0 if the cell is no number: 812, 4.1G, 190Mi, 20 ms.
func sizeOf(cell []byte) uint8 {
	n := digitsOf(cell)
	if n == 0 || n > 18 {
		return 0
	}
	whole := uint64(0)
	for _, c := range cell[:n] {
		whole = whole*10 + uint64(c-'0')
	}
	rest := cell[n:]
	if len(rest) > 1 && rest[0] == '.' {
		rest = rest[1+digitsOf(rest[1:]):]
	}
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if len(rest) > 3 {
		return 0
	}
	for _, c := range rest {
		if !isLetter(c) && c != '%' {
			return 0
		}
	}
	unit := 0
	if len(rest) > 0 {
		unit = bytes.IndexByte([]byte("kMGTP"), rest[0]) + 1
		if rest[0] == 'K' {
			unit = 1
		}
	}
	return uint8(bits.Len64(whole) + 10*unit + 1)
}

// A split says what stands between the cells of a line.
type split byte

const (
	atTab split = iota
	atBar
	atBox // │
	atGap // two blanks or more
	atComma
	atSemicolon
	atBlank
	noSplit
)

// stops are the bytes that may end a cell, by split.
var stops = func() (b [noSplit][256]bool) {
	for s, bytes := range [noSplit]string{atTab: "\t", atBar: "|", atBox: "│"[:1], atGap: "\t ", atComma: ",\"", atSemicolon: ";", atBlank: "\t "} {
		for i := range bytes {
			b[s][bytes[i]] = true
		}
	}
	return b
}()

// cells calls f with each cell of a line, up to most, and returns how many these are. Empty cells count if a single byte
// ends them.
func (s split) cells(line []byte, most int, f func(i int, cell []byte)) (count int) {
	begin, quoted, stop := 0, false, &stops[s]
	cell := func(end int) {
		if c := bytes.TrimSpace(line[begin:end]); len(c) > 0 || count > 0 && (s == atTab || s == atComma || s == atSemicolon) {
			f(count, c)
			count++
		}
	}
	for i := 0; i < len(line) && count < most; i++ {
		c := line[i]
		if !stop[c] {
			continue
		}
		width := 1
		switch {
		case c == '"':
			quoted = !quoted
			continue
		case quoted:
			continue
		case c == ' ':
			for i+width < len(line) && line[i+width] == ' ' {
				width++
			}
			if width == 1 && s == atGap {
				continue
			}
		case s == atBox:
			if !bytes.HasPrefix(line[i:], []byte("│")) {
				continue
			}
			width = len("│")
		}
		cell(i)
		begin = i + width
		i += width - 1
	}
	if count < most {
		cell(len(line))
	}
	return count
}

// splitOf returns what stands between the cells of these lines, or noSplit if they are no table.
func splitOf(lines [][]byte) split {
	for s := atTab; s < noSplit; s++ {
		var widths [maxCells + 1]int
		tables, least := 0, 3
		if s <= atBox {
			least = 2
		}
		for _, l := range lines {
			n := s.cells(l, maxCells, func(int, []byte) {})
			if widths[n]++; n >= least {
				tables++
			}
		}
		same := slices.Max(widths[least:])
		if some := lines[len(lines)/2]; s == atBar && some[0] != '|' && !bytes.Contains(some, []byte(" |")) {
			continue // 1.|-- host
		}
		if tables*4 >= len(lines)*3 && (s == atBlank || same*2 >= len(lines)) {
			return s
		}
	}
	return noSplit
}

// isBorder reports whether a line of a table only separates others.
func isBorder(line []byte) bool {
	for _, c := range line {
		if bytes.IndexByte([]byte("-=+|: \t"), c) < 0 && (c < 0x80 || c >= 0x80 && line[0] != 0xe2) {
			return false
		}
		if isLetter(c) || isDigit(c) {
			return false
		}
	}
	return true
}

// sampled is how many lines tell what stands between cells.
const sampled = 48

// oddLines returns the lines of a text that stand out in the tables of that text. If it is prose, or the
// output of a test run, only tabs make tables. line returns
// a line, or nil if it is not to be looked at, and whether a table begins there.
func oddLines(count int, prose bool, line func(i int) (text []byte, begins bool)) (all []int) {
	var at []int
	var block [][]byte
	g, head := new(grid), 1
	done := func() {
		if len(block) > fewestRows {
			if s := splitOf(block[:min(len(block), sampled)]); s != noSplit && (s == atTab || !prose) {
				g.reset()
				g.expect(len(block))
				for _, l := range block {
					g.row()
					s.cells(l, maxCells, func(i int, c []byte) { g.cell(i, c) })
				}
				regular := 0
				if s == atBlank {
					regular = 3
				}
				for _, k := range g.odd(head, regular, oddShare) {
					all = append(all, at[k])
				}
			}
		}
		at, block = at[:0], block[:0]
	}
	for i := range count {
		text, begins := line(i)
		if begins || len(block) == mostRows {
			done()
			head = 0
			if begins {
				head = 1
			}
		}
		if len(text) > 0 && !isBorder(text) {
			at, block = append(at, i), append(block, text)
		}
	}
	done()
	return all
}
