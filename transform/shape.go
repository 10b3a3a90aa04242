package transform

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fields"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// guards is what a schema asks of the structured content; nil when it may be
// anything. fixed says that it has to stay, since nobody knows what it must be.
func (r *run) guards(l *layout) (g guards, fixed bool) {
	switch {
	case !l.structured.is():
		return nil, false
	case r.call.Schemas == Unknown:
		return nil, true
	case !r.hasSchema():
		return nil, false
	}
	if r.schema == nil {
		if r.schema = r.call.Schema; r.rule.schema == "derive" {
			r.schema = derive(nil, r.call.Schema)
		}
	}
	return newSchema(r.schema).root(l.structured.of(l.raw)), false
}

// hasSchema reports whether clients may hold the structured content against an
// outputSchema.
func (r *run) hasSchema() bool {
	if r.call.Schemas == Unknown {
		return true
	}
	return r.call.Schemas == Seen && r.call.Schema != nil && r.rule.schema != "strip"
}

// keeps reports whether the tool's schema forbids the rule to change shapes.
func (r *run) keeps() bool { return r.rule.schema == "keep" && r.hasSchema() }

// shape does to a result what the rule says, but for the budget. It returns
// result itself when that comes to nothing.
func (r *run) shape(result []byte) []byte {
	l, w := &r.layout, &rewrite{}
	l.lay(result, r.call.Method, unlimited)
	if l.isError || r.shaped(l) {
		return result
	}
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
				shaped.changed = false // the schema stays, and so what it is about
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
		if !isContainer(in) || !wire.Valid(in) {
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
			w.set(i, d.text)
			repeated = repeated || d.kind == Text
		}
	}
	if w.strip && !repeated {
		// The text has taken the place of the structured content alone.
		w.last = appendQuoted([]byte(`{"type":"text","text":`), shaped.text)
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

// announce adds the notice and our entry in _meta.
func (r *run) announce(now []byte) []byte {
	var l layout
	l.lay(now, r.call.Method, unlimited)
	w := &rewrite{}
	r.handle()
	if len(r.cut.arrays)+len(r.cut.notes)+r.cut.omitted > 0 { // a shortened text says so itself
		if notice := r.notice(maxNotice, 0); notice != "" {
			w.last = r.noticeBlock(&l, notice)
		}
	}
	w.meta = r.meta(0, false)
	for i := range l.blocks {
		if l.blocks[i].kind == noticeBlock {
			w.drop(&l, i)
		}
	}
	return l.append(nil, w)
}

// A document is what has become of a JSON value.
type document struct {
	text    []byte
	kind    Kind
	changed bool
}

// document puts one JSON value through the rule's steps. A step that fails is
// left out, and reported.
func (r *run) document(value []byte, g guards, l *layout) document {
	d := document{text: value}
	if !r.keeps() {
		d = r.fromSource(d)
		if d.kind == Text {
			return d
		}
		d = r.selected(d)
	}
	if r.rule.pageSize == 0 && len(r.rule.cuts) == 0 || len(d.text) == 0 || d.text[0] != '{' && d.text[0] != '[' {
		return d // a value by itself has no pages, and no member to name
	}
	p := &pager{run: r, guarded: g != nil}
	if err := p.tape.parse(d.text); err != nil || p.tape.partial {
		r.fail(errTooMany)
		return d
	}
	p.value(0, g)
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

// source is the one for a result, nil for none.
func (r *run) source(value []byte) (s Source, v Values) {
	if r.rule.source != nil {
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

// fromSource has the result's source put it in fewer words.
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
		r.fail(&SourceError{s.Name(), errors.New("what it has made is broken")})
		return d
	case kind == JSON && bytes.Equal(text, d.text):
		return d
	}
	r.report.Source = s.Name()
	r.cut.step(s.Name())
	return document{text, kind, true}
}

// A SourceError says which source failed, and how.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %v", e.Source, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// selected leaves the fields that the rule includes and does not exclude.
func (r *run) selected(d document) document {
	if r.rule.selection == nil {
		return d
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

// runeMeter holds texts to a number of code points.
type runeMeter struct{ limit int }

func (m runeMeter) fits(text []byte) bool {
	return len(text) <= m.limit || len(text) <= m.most() && utf8.RuneCount(text) <= m.limit
}
func (m runeMeter) most() int  { return utf8.UTFMax * max(0, m.limit) }
func (m runeMeter) guess() int { return max(0, m.limit) }

// maxChars holds all texts together to so many code points, the first ones first.
func (r *run) maxChars(l *layout, w *rewrite) {
	left := r.rule.maxChars
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.kind != textBlock || !b.plain {
			continue
		}
		text, changed := w.texts[i]
		if !changed {
			text = l.textOf(b)
		}
		m := runeMeter{left}
		if m.fits(text) {
			left -= utf8.RuneCount(text)
			continue
		}
		r.cut.step("max_chars")
		var out []byte
		if isContainer(text) && r.fit.tape.parse(text) == nil {
			if done := r.fit.fitTree(m, nil); done.fits {
				out = done.text
				r.cut.add(done.cuts)
			}
		} else if out = r.fit.head(text, false, m); out != nil {
			r.cut.strings++
		} else if marker := []byte(r.fit.plainMarker()); m.fits(marker) {
			out = marker
			r.cut.strings++
		}
		if out == nil {
			w.drop(l, i)
			r.cut.omitted++
			continue
		}
		out = slices.Clone(out)
		left -= utf8.RuneCount(out)
		w.set(i, out)
	}
}
