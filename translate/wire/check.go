package wire

import (
	"bytes"
	"math"
	"unicode/utf16"
)

// Limits are what Check demands beyond valid JSON. A zero field sets no limit.
type Limits struct {
	Depth    int  // containers inside each other; never more than MaxDepth
	Text     int  // bytes between the quotes of a string
	Elements int  // elements of an array
	Unicode  bool // no U+0000 and no lone surrogates in strings
}

// Reason is the reason why Check refuses a text.
type Reason uint8

// The reasons. BadCharacter, EndsEarly, BadUTF8 and TrailingData mean that the text is not one JSON value, the others
// that it exceeds Limits or MaxDepth.
const (
	BadCharacter Reason = iota
	EndsEarly
	BadUTF8
	TooDeep
	TrailingData
	LongText
	ManyElements
	HoldsNUL
	LoneSurrogate
)

var reasons = [...]Reason{
	faultSyntax: BadCharacter, faultEnd: EndsEarly, faultUTF8: BadUTF8, faultDepth: TooDeep, faultTrail: TrailingData,
}

// Fault is the first thing in a text that Check refuses.
type Fault struct {
	Why  Reason
	At   int // offset in the text
	Size int // the depth, bytes or elements counted, if Why is a limit
}

// Check checks that b is one JSON value within lim. It returns nil, or the first fault in b.
func Check(b []byte, lim Limits) *Fault {
	var bad *Fault
	from := 0 // the depth to begin at, so that MaxDepth is reached lim.Depth levels further
	if lim.Depth > 0 && lim.Depth < MaxDepth {
		from = MaxDepth - lim.Depth
	}
	if end := whole(b, skipValue(b, skipSpace(b, 0), from)); end < 0 {
		at, why := unbroken(end)
		bad = &Fault{Why: reasons[why], At: at}
		if why == faultDepth {
			bad.Size = MaxDepth - from + 1
		}
		b = b[:at] // the text before the fault is well formed, but may be beyond a limit
	}
	var beyond *Fault
	switch {
	case lim.reached(b):
		beyond = lim.check(b)
	case lim.Unicode: // all backslashes are in strings
		beyond = badUnicode(b, 0)
	}
	if beyond != nil {
		return beyond
	}
	return bad
}

// reached reports whether b is large enough to exceed the limit of a text or of an array.
func (lim Limits) reached(b []byte) bool {
	return lim.Text > 0 && len(b) > lim.Text || lim.Elements > 0 && len(b) > 2*lim.Elements
}

// check returns the first fault of b that is beyond lim. b is the beginning of a valid text.
func (lim Limits) check(b []byte) *Fault {
	var room [64]int
	elements := room[:0] // the count in each open container; that of an object stays below 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end, f := lim.text(b, i+1)
			if f != nil || end >= len(b) {
				return f
			}
			i = end
		case '{', '[':
			count := math.MinInt
			if b[i] == '[' {
				count = 1
			}
			elements = append(elements, count)
		case '}', ']':
			elements = elements[:len(elements)-1]
		case ',':
			last := &elements[len(elements)-1]
			if *last++; lim.Elements > 0 && *last > lim.Elements {
				return &Fault{Why: ManyElements, At: skipSpace(b, i+1), Size: *last}
			}
		}
	}
	return nil
}

// text checks the string whose opening quote is before i. It returns the index of the closing quote, or len(b) if b
// ends inside the string.
func (lim Limits) text(b []byte, i int) (end int, f *Fault) {
	end = skipString(b, i) - 1
	whole := end >= i
	if !whole {
		end = len(b)
	}
	if lim.Unicode {
		if f = badUnicode(b[:end], i); f != nil {
			return end, f
		}
	}
	if whole && lim.Text > 0 && end-i > lim.Text {
		return end, &Fault{Why: LongText, At: end, Size: end - i}
	}
	return end, nil
}

// badUnicode finds the first escape from i on that is U+0000 or a lone surrogate. It ignores an escape that is cut
// off at the end of b.
func badUnicode(b []byte, i int) *Fault {
	for ; i < len(b); i++ {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			return nil
		}
		if i += next + 1; i >= len(b) || b[i] != 'u' || !unicodeEscape(b[i-1:]) {
			continue
		}
		u := hex4(b[i+1:])
		i += 4
		switch {
		case u == 0:
			return &Fault{Why: HoldsNUL, At: i - 5}
		case !utf16.IsSurrogate(u):
		case u < 0xDC00 && bytes.HasPrefix(b[i+1:], []byte(`\u`)) && !unicodeEscape(b[i+1:]):
			return nil // not well formed: Check reports it
		case unicodeEscape(b[i+1:]) && b[i+1] == '\\' && utf16.DecodeRune(u, hex4(b[i+3:])) != '\uFFFD':
			i += 6
		default:
			return &Fault{Why: LoneSurrogate, At: i - 5}
		}
	}
	return nil
}
