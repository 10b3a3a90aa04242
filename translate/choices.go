package translate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// bounds are how many options of a multi-select may be chosen, where any are.
type bounds struct {
	least int // 0 for any number
	most  int // -1 for any number
	none  bool
}

var noBounds = bounds{most: -1}

// boundsOf reads minItems and maxItems of a property, as far as they say more than
// that the options are what there is. Of a property that is not required none may be
// chosen: it is then left out.
func boundsOf(p wire.Node, required bool, options int) bounds {
	b := noBounds
	b.none = !required
	if n, ok := natural(p, "minItems"); ok && (required && n > 0 || n > 1) {
		b.least = n
	}
	if n, ok := natural(p, "maxItems"); ok && n < options {
		b.most = n
	}
	return b
}

// natural is the member of an object that is a count of something, at most a thousand
// million. The name is none of package wire's: it is seldom looked for.
func natural(object wire.Node, name string) (n int, ok bool) {
	for c := object.First(); c.OK(); c = c.Next() {
		if !wire.IsText(c.Key(), name) {
			continue
		}
		f, err := strconv.ParseFloat(string(c.Raw()), 64)
		n, ok = 0, err == nil && f >= 0 && f <= 1e9 && f == math.Trunc(f)
		if ok {
			n = int(f)
		}
	}
	return n, ok
}

func (b bounds) free() bool { return b.least == 0 && b.most < 0 }

// hold reports whether so many may be chosen.
func (b bounds) hold(n int) bool { return n >= b.least && (b.most < 0 || n <= b.most) }

// append notes the bounds behind dst, as `,[least,most]`; nothing where there are none.
func (b bounds) append(dst []byte) []byte {
	if b.free() {
		return dst
	}
	return fmt.Appendf(dst, ",[%d,%d]", b.least, b.most)
}

func readBounds(noted []byte) bounds {
	b := noBounds
	if _, err := fmt.Sscanf(string(noted), "[%d,%d]", &b.least, &b.most); err != nil {
		return noBounds
	}
	return b
}

// String tells the bounds to the user, behind the description of each option:
// " (choose 1 to 3)".
func (b bounds) String() string {
	if b.free() {
		return ""
	}
	count := ""
	switch {
	case b.least == b.most:
		count = fmt.Sprintf("exactly %d", b.least)
	case b.least == 0:
		count = fmt.Sprintf("at most %d", b.most)
	case b.most < 0:
		count = fmt.Sprintf("at least %d", b.least)
	default:
		count = fmt.Sprintf("%d to %d", b.least, b.most)
	}
	if b.none && b.least > 0 {
		count = "none or " + count
	}
	return " (choose " + count + ")"
}

// Counts reports whether an answer is held against a number of choices that the
// question for it has asked for, by the note that the question left (C19).
func Counts(note []byte) bool {
	fields, _ := wire.AppendElements(nil, note, wire.MaxNote)
	for _, field := range fields {
		if parts, _ := wire.AppendElements(nil, field, wire.MaxNote); len(parts) > 2 && parts[2][0] == '[' {
			return true
		}
	}
	return false
}
