package observe

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Comparison is two messages beside each other, or one message.
type Comparison struct {
	Two         bool   `json:"two,omitempty"`
	Lines       []Line `json:"lines"`
	More        int    `json:"more,omitempty"` // further lines
	Differences int    `json:"differences"`
	Unexplained int    `json:"unexplained"` // differences that no change or note accounts for
}

// Line is one line of a comparison.
type Line struct {
	Depth int     `json:"depth"`
	Key   *string `json:"key,omitempty"`
	Kind  string  `json:"kind,omitempty"` // string; atom for other values without members; text for a line of a long string
	// Left and Right are in pieces, of which every second one is not in the other one. A side that does not have the line is
	// nil. Outside of a difference the right side is as the left one, and nil.
	Left  []string `json:"l,omitempty"`
	Right []string `json:"r,omitempty"`
	Edit  bool     `json:"edit,omitempty"` // it is of a difference
	// Why has the rules and notes that made the difference, on its first line. It is empty, and not nil, if there are none.
	Why []string `json:"why,omitzero"`
}

// Bounds of a comparison, and its looks.
const (
	maxLines  = 20_000
	width     = 64 // characters of a value on one line
	longText  = 80 // characters of a string that is compared line by line
	maxReason = 3  // rules beside a difference
)

// Compare lays out message seq of call n beside the one that it was made of, or that was made of it. There are no lines if one
// of them is no JSON, or was cut. It returns false if the ring does not have the message.
func (r *Ring) Compare(n, seq uint64) (Comparison, bool) {
	has, _ := r.owned(n)
	messages := has.messages
	i := slices.IndexFunc(messages, func(m *Message) bool { return m.Seq == seq })
	if i < 0 {
		return Comparison{}, false
	}
	in, out := messages[i], (*Message)(nil)
	if in.From != nil {
		in, out = in.From, in
	} else if i = slices.IndexFunc(messages, func(m *Message) bool { return m.From != nil && m.From.Seq == in.Seq }); i >= 0 {
		out = messages[i]
	}
	before, ok := r.shown(in, has.call.Tool)
	if !ok || out == nil || out.Unchanged() {
		return Beside(before, nil, nil), true
	}
	after, ok := r.shown(out, has.call.Tool)
	if !ok {
		return Beside(nil, nil, nil), true
	}
	why := changesOf(in, out, has.notes).list
	for _, note := range has.notes {
		why = append(why, translate.Change{Rule: note.By, Before: note.Path, After: note.Path})
	}
	return Beside(before, after, why), true
}

// Beside lays out a JSON text beside what it became, or alone if after is nil. why says what made the differences.
func Beside(before, after []byte, why []translate.Change) Comparison {
	l := &layout{Comparison: Comparison{Two: after != nil, Lines: []Line{}}, why: why}
	switch {
	case after != nil:
		l.compare(gjson.ParseBytes(before), gjson.ParseBytes(after), place{}, edit{})
	case before != nil:
		l.value(gjson.ParseBytes(before), place{}, left, nil)
	}
	return l.Comparison
}

// shown returns what is shown of a message, and false if that is no JSON.
func (r *Ring) shown(m *Message, tool string) ([]byte, bool) {
	if m.Cut || !wire.Valid(m.Raw) {
		return nil, false
	}
	return r.redact.Payload(m.Method, tool, m.Raw), true
}

// layout makes the lines.
type layout struct {
	Comparison
	why []translate.Change
}

// place is where a line stands.
type place struct {
	depth int
	key   *string
}

func (p place) in(key *string) place { return place{p.depth + 1, key} }

// edit is a difference: the paths of a value before and after, and whether it has a line yet.
type edit struct {
	before, after string
	seen          *bool
}

// side says which side has a line.
type side uint8

const (
	both side = iota
	left
	right
)

// put adds a line. e is nil if it is of no difference.
func (l *layout) put(at place, kind string, before, after []string, e *edit) {
	line := Line{Depth: at.depth, Key: at.key, Kind: kind, Left: before, Right: after, Edit: e != nil}
	if e != nil && !*e.seen {
		*e.seen = true
		line.Why = reasons(l.why, e)
		l.Differences++
		if len(line.Why) == 0 {
			l.Unexplained++
		}
	}
	if len(l.Lines) == maxLines {
		l.More++
		return
	}
	l.Lines = append(l.Lines, line)
}

// text adds a line that is the same on the sides that have it.
func (l *layout) text(text string, at place, kind string, s side, e *edit) {
	if s == right {
		l.put(at, kind, nil, []string{text}, e)
	} else {
		l.put(at, kind, []string{text}, nil, e)
	}
}

// differs begins a difference.
func differs(before, after string) *edit { return &edit{before, after, new(bool)} }

// value adds a value: in one line if there is room.
func (l *layout) value(v gjson.Result, at place, s side, e *edit) {
	text, fits := oneLine(v, width-2*at.depth)
	switch {
	case fits || at.depth == maxDeep:
		l.text(text, at, kindOfValue(v), s, e)
	case isLeaf(v):
		l.text("", at, "", s, e)
		for line := range strings.SplitSeq(v.Str, "\n") {
			l.text(line, at.in(nil), "text", s, e)
		}
	default:
		first, last := brackets(v)
		l.text(first, at, "", s, e)
		v.ForEach(func(key, v gjson.Result) bool {
			l.value(v, at.in(name(key)), s, e)
			return true
		})
		l.text(last, place{at.depth, nil}, "", s, e)
	}
}

// name returns the name of a member; an element of a list has none.
func name(key gjson.Result) *string {
	if key.Type != gjson.String {
		return nil
	}
	return &key.Str
}

func brackets(v gjson.Result) (first, last string) {
	if v.IsArray() {
		return "[", "]"
	}
	return "{", "}"
}

func isLeaf(v gjson.Result) bool { return !v.IsObject() && !v.IsArray() }

func kindOfValue(v gjson.Result) string {
	switch {
	case v.Type == gjson.String:
		return "string"
	case isLeaf(v):
		return "atom"
	}
	return ""
}

// oneLine returns a value on one line. It returns false if that has more than room characters, unless the value is a leaf, or
// if a string in it has several lines.
func oneLine(v gjson.Result, room int) (string, bool) {
	switch {
	case v.Type == gjson.String:
		return quoted(v.Str), !strings.Contains(v.Str, "\n")
	case isLeaf(v):
		return v.Raw, true
	}
	var items []string
	fits := true
	v.ForEach(func(key, v gjson.Result) bool {
		item, ok := oneLine(v, room)
		if key.Type == gjson.String {
			item = quoted(key.Str) + ": " + item
		}
		items = append(items, item)
		room -= len(item) + 2
		fits = ok && room >= 0
		return fits
	})
	text := strings.Join(items, ", ")
	switch {
	case !fits:
		return v.Raw, false
	case v.IsArray():
		return "[" + text + "]", true
	case text == "":
		return "{}", true
	}
	return "{ " + text + " }", true
}

// quoted returns a string in JSON.
func quoted(s string) string { return string(wire.AppendQuoted(nil, s)) }

// compare adds two values beside each other. e has their paths.
func (l *layout) compare(a, b gjson.Result, at place, e edit) {
	switch {
	case a.Raw == b.Raw:
		l.value(a, at, both, nil)
	case a.IsObject() && b.IsObject() && at.depth < maxDeep:
		before, after := membersOf(a), membersOf(b)
		l.list(before, after, pairsOfMembers(before, after), at, "{", "}", e)
	case a.IsArray() && b.IsArray() && at.depth < maxDeep:
		before, after := elementsOf(a), elementsOf(b)
		l.list(before, after, pairsOfElements(before, after), at, "[", "]", e)
	case wire.Equal([]byte(a.Raw), []byte(b.Raw)):
		l.value(a, at, both, nil)
	default:
		l.replaced(a, b, at, differs(e.before, e.after))
	}
}

// child is a member or an element.
type child struct {
	key, value gjson.Result
	at         int
}

func (c *child) path(of string) string {
	if c.key.Type == gjson.String {
		return member(of, c.key)
	}
	return element(of, c.at)
}

func membersOf(v gjson.Result) (list []child) {
	v.ForEach(func(key, v gjson.Result) bool {
		list = append(list, child{key: key, value: v})
		return true
	})
	return list
}

func elementsOf(v gjson.Result) (list []child) {
	for i, v := range v.Array() {
		list = append(list, child{value: v, at: i})
	}
	return list
}

// pairsOfMembers pairs members by name, in the order of a; a new one stands behind the one that it follows in b.
func pairsOfMembers(a, b []child) (pairs []Pair) {
	inA := map[string]int{}
	for i := range a {
		inA[a[i].key.Str] = i
	}
	inB, added, last := map[int]int{}, map[int][]int{}, -1
	for j := range b {
		i, ok := inA[b[j].key.Str]
		if _, twice := inB[i]; ok && !twice {
			inB[i], last = j, i
		} else {
			added[last] = append(added[last], j)
		}
	}
	for i := -1; i < len(a); i++ {
		if j, ok := inB[i]; ok {
			pairs = append(pairs, Pair{i, j})
		} else if i >= 0 {
			pairs = append(pairs, Pair{i, -1})
		}
		for _, j := range added[i] {
			pairs = append(pairs, Pair{-1, j})
		}
	}
	return pairs
}

// pairsOfElements pairs elements by name, if all have one, and otherwise by position. One that was moved is removed and added.
func pairsOfElements(a, b []child) []Pair {
	x, named := names(a)
	y, ok := names(b)
	if named && ok {
		return Align(x, y)
	}
	pairs := make([]Pair, max(len(a), len(b)))
	for i := range pairs {
		pairs[i] = Pair{i, i}
		if i >= len(a) {
			pairs[i].A = -1
		} else if i >= len(b) {
			pairs[i].B = -1
		}
	}
	return pairs
}

func names(list []child) (all []string, ok bool) {
	values := make([]gjson.Result, len(list))
	for i := range list {
		values[i] = list[i].value
		all = append(all, nameOf(list[i].value))
	}
	_, ok = namesOf(values)
	return all, ok
}

func (l *layout) list(before, after []child, pairs []Pair, at place, first, last string, e edit) {
	l.text(first, at, "", both, nil)
	for _, p := range pairs {
		switch {
		case p.B < 0:
			c := &before[p.A]
			l.value(c.value, at.in(name(c.key)), left, differs(c.path(e.before), ""))
		case p.A < 0:
			c := &after[p.B]
			l.value(c.value, at.in(name(c.key)), right, differs("", c.path(e.after)))
		default:
			a, b := &before[p.A], &after[p.B]
			l.compare(a.value, b.value, at.in(name(a.key)), edit{before: a.path(e.before), after: b.path(e.after)})
		}
	}
	l.text(last, place{at.depth, nil}, "", both, nil)
}

// replaced adds two values that differ.
func (l *layout) replaced(a, b gjson.Result, at place, e *edit) {
	x, fitsX := oneLine(a, width)
	y, fitsY := oneLine(b, width)
	text := a.Type == gjson.String && b.Type == gjson.String
	switch {
	case text && (len(a.Str) > longText || len(b.Str) > longText || !fitsX || !fitsY):
		l.text("", at, "", both, nil)
		l.texts(a.Str, b.Str, at.in(nil), e)
	case text:
		before, after := words(x, y)
		l.put(at, "string", before, after, e)
	case fitsX && fitsY:
		l.put(at, "atom", []string{"", x}, []string{"", y}, e)
	default:
		l.value(a, at, left, e)
		l.value(b, at, right, e)
	}
}

// texts adds two texts line by line. Lines that were replaced stand beside each other.
func (l *layout) texts(a, b string, at place, e *edit) {
	before, after := strings.Split(a, "\n"), strings.Split(b, "\n")
	var gone, come []string
	flush := func() {
		for i := range max(len(gone), len(come)) {
			switch {
			case i >= len(come):
				l.text(gone[i], at, "text", left, e)
			case i >= len(gone):
				l.text(come[i], at, "text", right, e)
			default:
				x, y := words(gone[i], come[i])
				l.put(at, "text", x, y, e)
			}
		}
		gone, come = nil, nil
	}
	for _, p := range Align(before, after) {
		switch {
		case p.B < 0:
			gone = append(gone, before[p.A])
		case p.A < 0:
			come = append(come, after[p.B])
		default:
			flush()
			l.text(before[p.A], at, "text", both, nil)
		}
	}
	flush()
}

// reasons returns the rules of the changes that are about a difference: those at its path or next around it, otherwise those
// within it.
func reasons(why []translate.Change, e *edit) []string {
	nearest, rules, within := 0, []string{}, []string{}
	for i := range why {
		c := &why[i]
		for _, p := range [][2]string{{c.Before, e.before}, {c.After, e.after}} {
			switch n := len(p[0]); {
			case n == 0 || p[1] == "":
			case covers(p[0], p[1]):
				if n > nearest {
					nearest, rules = n, rules[:0]
				}
				if n == nearest {
					rules = with(rules, c.Rule)
				}
			case covers(p[1], p[0]):
				within = with(within, c.Rule)
			}
		}
	}
	if len(rules) == 0 {
		rules = within
	}
	return rules[:min(len(rules), maxReason)]
}

// covers reports whether the path inner is at or within outer.
func covers(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
