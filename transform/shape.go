package transform

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fields"
	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shape applies the rule to a result, except for the budget. It returns result
// itself if nothing changes.
func (r *run) shape(result []byte) []byte {
	l, w := &r.layout, &rewrite{}
	l.lay(result, r.call.Method, unlimited)
	if l.isError || r.ours(l) {
		return result
	}
	defer r.seek()()
	g, fixed := r.guards(l)
	var value []byte // the structured content
	var shaped document
	text := false // a source has made a text of it
	if l.structured.is() {
		value = compact(l.structured.of(result))
		if !fixed {
			shaped = r.document(value, g, l)
			text = shaped.kind == Text && shaped.changed
			switch {
			case text && r.hasSchema():
				shaped.changed = false // the schema stays, and so does the structured content
			case text:
				w.strip = true
			case shaped.changed:
				w.structured = shaped.text
			}
		}
	}
	repeated := false
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.kind != textBlock || !b.plain {
			continue
		}
		in := l.textOf(b)
		if !tree.IsContainer(in) || !wire.Valid(in) {
			continue
		}
		d := document{}
		if g == nil && value != nil && !fixed && bytes.Equal(in, value) {
			d = shaped
			repeated = true
		} else {
			d = r.document(in, nil, l)
		}
		if d.changed {
			w.set(l, i, d.text)
			repeated = repeated || d.kind == Text
		}
	}
	if w.strip && !repeated {
		// No block has the text that replaces the structured content yet.
		w.last = wire.AppendQuoted([]byte(`{"type":"text","text":`), shaped.text)
		w.last = append(w.last, '}')
	}
	if r.rule.maxChars > 0 {
		r.maxChars(l, w)
	}
	r.before = r.cut
	if w.nothing() {
		return result
	}
	lossy := len(r.cut.arrays)+len(r.cut.notes)+r.cut.omitted+r.cut.strings > 0
	now := l.append(nil, w)
	if lossy {
		now = r.announce(now)
	}
	return now
}

// announce adds the notice and this package's entry in _meta.
func (r *run) announce(now []byte) []byte {
	var l layout
	l.lay(now, r.call.Method, unlimited)
	w := &rewrite{}
	w.last = r.noticeBlock(&l, r.words(r.readOn(r.page), 0, maxNotice))
	w.meta = r.meta(0, false)
	for i := range l.blocks {
		if l.blocks[i].kind == noticeBlock {
			w.drop(&l, i)
		}
	}
	return l.append(nil, w)
}

// A document is the outcome of a rule's steps for a JSON value.
type document struct {
	text    []byte
	kind    Kind
	changed bool
}

// document applies the rule's steps to one JSON value. A step that fails is
// left out, and reported.
func (r *run) document(value []byte, g schema.Guards, l *layout) document {
	d := document{text: value}
	if !r.keeps() {
		d = r.fromSource(d)
		if d.kind == Text {
			return d
		}
		d = r.selected(d)
	}
	if r.rule.pageSize == 0 && len(r.rule.cuts) == 0 || len(d.text) == 0 || d.text[0] != '{' && d.text[0] != '[' {
		return d // a scalar has no pages, and no members to name
	}
	p := &pager{run: r, guarded: g != nil}
	if err := p.doc.Read(d.text); err != nil || p.doc.Partial {
		r.fail(errTooMany)
		return d
	}
	if r.search != nil && len(r.rule.cuts) > 0 {
		p.met = make([]bool, len(r.rule.cuts))
	}
	p.value(0, g)
	if p.met != nil {
		r.search.shortens(r.rule, &p.doc, p.met)
	}
	if !p.changed {
		return d
	}
	if own := ownCursor(d.text); own != "" && len(p.cuts.arrays) > 0 && !slices.Contains(r.cut.notes, own) {
		r.cut.notes = append([]string{own}, r.cut.notes...)
	}
	r.cut.add(p.cuts)
	if len(p.cuts.arrays) > 0 {
		r.cut.step("paginate")
	}
	if p.cuts.strings > 0 {
		r.cut.step("truncate")
	}
	return document{p.out, JSON, true}
}

var errTooMany = errors.New("more values than pagination and truncation look at")

// fail reports a transformer that failed.
func (r *run) fail(err error) {
	if r.report.Err == nil {
		r.report.Outcome, r.report.Err = Failed, err
	}
}

// source returns the source for a result, or nil if there is none.
func (r *run) source(value []byte) (s Source, v Values) {
	if r.rule.settled {
		return r.rule.source, r.rule.options
	}
	e := r.engine
	for _, s := range e.served {
		if s.serves(r.call.Tool) {
			return s.source, s.options
		}
	}
	best := 0
	for _, d := range e.detect {
		if score := d.source.Match(r.call.Server, r.call.Tool, value); score > best {
			best, s, v = score, d.source, d.options
			r.report.Detected = true
		}
	}
	return s, v
}

// fromSource applies the result's source, which makes the document shorter.
func (r *run) fromSource(d document) (out document) {
	out = d
	s := Source(nil)
	defer func() {
		if cause := recover(); cause != nil {
			name := "a source"
			if s != nil {
				name = s.Name()
			}
			r.fail(&SourceError{name, fmt.Errorf("panic: %v", cause)})
			out = d
		}
	}()
	s, options := r.source(d.text)
	if s == nil {
		return d
	}
	text, kind, err := s.Apply(nil, d.text, options)
	switch {
	case errors.Is(err, ErrUnchanged):
		return d
	case err != nil:
		r.fail(&SourceError{s.Name(), err})
		return d
	case kind == JSON && !wire.Valid(text), kind == Text && !utf8.Valid(text):
		r.fail(&SourceError{s.Name(), errors.New("its output is not valid JSON or UTF-8")})
		return d
	case kind == JSON && bytes.Equal(text, d.text):
		return d
	}
	r.report.Source = s.Name()
	r.cut.step(s.Name())
	return document{text, kind, true}
}

// A SourceError says which source failed, and why.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %v", e.Source, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// selected keeps the fields that the rule includes and does not exclude.
func (r *run) selected(d document) document {
	if r.rule.selection == nil {
		return d
	}
	if r.search != nil {
		r.search.selects(r.rule, d.text)
	}
	out, matched, err := r.rule.selection.Apply(nil, d.text)
	if err != nil {
		r.fail(fmt.Errorf("select fields: %w", err))
		return d
	}
	trim := bytes.TrimSpace(d.text)
	if bytes.Equal(out, trim) || wire.Hollow(trim) || bytes.Equal(out, compact(trim)) {
		return d
	}
	if !matched {
		names := fields.Names(d.text, maxNoted)
		for i := range names {
			names[i] = clip(names[i], 40)
		}
		note := "no field of the rule is here"
		if len(names) > 0 {
			note += "; there are: " + strings.Join(names, ", ")
		}
		if !slices.Contains(r.cut.notes, note) {
			r.cut.notes = append(r.cut.notes, note)
		}
	}
	r.cut.step("select")
	return document{out, JSON, true}
}

// maxChars cuts all texts together to the rule's number of code points. The
// first texts are kept first.
func (r *run) maxChars(l *layout, w *rewrite) {
	left := r.rule.maxChars
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.kind != textBlock || !b.plain {
			continue
		}
		var text []byte
		if w.texts != nil {
			text = w.texts[i]
		}
		if text == nil {
			text = l.textOf(b)
		}
		if n := utf8.RuneCount(text); n <= left {
			left -= n
			continue
		}
		r.cut.step("max_chars")
		out := r.shortened(text, left)
		if out == nil {
			w.drop(l, i)
			r.cut.omitted++
			continue
		}
		left -= utf8.RuneCount(out)
		w.set(l, i, out)
	}
}

// shortened returns what is left of a text in at most most code points, or nil
// if nothing is left.
func (r *run) shortened(text []byte, most int) []byte {
	r.cut.strings++
	if !tree.IsContainer(text) || !wire.Valid(text) {
		if out := beginning(text, most, r.marker); out != nil {
			return out
		}
		if marker := []byte(strings.TrimSpace(strings.Replace(r.marker, "%d", strconv.Itoa(utf8.RuneCount(text)), 1))); utf8.RuneCount(marker) <= most {
			return marker
		}
		return nil
	}
	marker := strings.Replace(r.marker, "%d", strconv.Itoa(utf8.RuneCount(text)), 1)
	reserve := utf8.RuneCount(wire.AppendQuoted([]byte(`,{"…":}`), marker)) // for the longest form of the marker
	var plan *fit.Plan
	within := func(room int) []byte {
		plan = fit.New([]fit.Part{{Text: text}}, fit.Options{Most: most, Marker: r.marker})
		parts, n := plan.Fit(room, 1, func(parts [][]byte) int { return utf8.RuneCount(parts[0]) })
		if n > room {
			return nil
		}
		return parts[0]
	}
	out := within(most)
	if out == nil {
		return nil
	}
	if whole := plan; !isMarked(out, text, r.marker) {
		if less := within(most - reserve); less != nil && (hollow(out) || !hollow(less)) {
			out = marked(less, text, r.marker)
		} else {
			plan = whole // there is no room for the marker beside anything
		}
	}
	for _, c := range plan.Cuts(maxNoted) {
		r.cut.add(cuts{arrays: []ArrayCut{{pathOf(c.Path), c.Kept, c.Total, c.What}}})
	}
	return out
}

// hollow reports whether a document has no values.
func hollow(doc []byte) bool { return len(bytes.Trim(doc, "[]{} ")) == 0 }

// isMarked reports whether a document that was cut from was has a text that ends with the marker.
func isMarked(doc, was []byte, marker string) bool {
	begin, end, _ := strings.Cut(marker, "%d")
	for _, part := range []string{begin, end} {
		if quoted := wire.AppendQuotedInner(nil, part); part != "" && bytes.Count(doc, quoted) > bytes.Count(was, quoted) {
			return true
		}
	}
	return false
}

// marked returns a document that was cut from was with the marker in a last entry, which is of the kind of the entry before it.
func marked(doc, was []byte, marker string) []byte {
	if isMarked(doc, was, marker) {
		return doc
	}
	marker = strings.Replace(marker, "%d", strconv.Itoa(utf8.RuneCount(was)-utf8.RuneCount(doc)), 1)
	inner := wire.AppendQuotedInner(nil, marker)
	object, list := doc[0] == '{', doc[0] == '['
	var last, value []byte // the last entry, and its value
	if object {
		wire.EachMember(doc, func(member, v []byte) bool { last, value = member, v; return true })
	} else {
		wire.Each(doc, func(_, v []byte) bool { last, value = v, v; return true })
	}
	out := doc[: len(doc)-1 : len(doc)-1]
	switch {
	case object && bytes.HasPrefix(last, []byte(`"…"`)) && value[0] == '"': // it says how many members are missing
		return slices.Concat(out[:len(out)-1], []byte(", "), inner, []byte(`"}`))
	case last != nil:
		out = append(out, ',')
	}
	switch {
	case object:
		out = append(append(append(out, `"…":"`...), inner...), '"')
	case list && value != nil && value[0] == '{':
		out = append(append(append(out, `{"…":"`...), inner...), `"}`...)
	case list && value != nil && value[0] == '[':
		out = append(append(append(out, `["`...), inner...), `"]`...)
	default:
		out = append(append(append(out, '"'), inner...), '"')
	}
	return append(out, doc[len(doc)-1])
}
