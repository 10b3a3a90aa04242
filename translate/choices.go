package translate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// bounds say how many options of a multi-select the user may choose.
type bounds struct {
	least int  // 0 for any number
	most  int  // -1 for any number
	none  bool // the user may also choose none
}

var noBounds = bounds{most: -1}

// boundsOf reads minItems and maxItems of a property. It ignores limits that every choice meets. If the property
// is not required, the user may choose none; the answer then has no such property.
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

// natural returns the last member of that name of an object if it is a whole number from 0 to 10^9. It compares
// the text of the name, because package wire has no [wire.Name] for such rare names.
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

// hold reports whether the user may choose n options.
func (b bounds) hold(n int) bool { return n >= b.least && (b.most < 0 || n <= b.most) }

// append appends the bounds to dst as `,[least,most]`. It appends nothing if there are no bounds.
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

// String returns the bounds as text for the user, such as " (choose 1 to 3)". The text follows the description
// of each option.
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

// Counts reports whether a form limits the number of choices in its answer. note is the [wire.Message.Note] that
// the translation of the form produced (C19).
func Counts(note []byte) bool {
	fields, _ := wire.AppendElements(nil, note, wire.MaxNote)
	for _, field := range fields {
		if parts, _ := wire.AppendElements(nil, field, wire.MaxNote); len(parts) > 2 && parts[2][0] == '[' {
			return true
		}
	}
	return false
}
