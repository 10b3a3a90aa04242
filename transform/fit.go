package transform

import (
	"bytes"
	"unicode/utf8"
)

// A fitter makes documents and texts fit. It belongs to one result.
type fitter struct {
	marker   string
	headTail bool
	keepNull bool
	dropKeys map[string]bool
	tape     tape
	room     []byte
}

// fitted is what has become of a document or text.
type fitted struct {
	text  []byte
	steps []string
	cuts  cuts
	fits  bool
}

// textCaps are the lengths that strings are shortened to, one after the other.
func textCaps() [7]int { return [...]int{4000, 2000, 1000, 500, 250, 120, 60} }

// fitTree makes the document on f.tape fit, with the least loss that does. Under
// guards it may not come to fit: then it is the smallest that they allow, or nil
// when that is the document as it is.
func (f *fitter) fitTree(m meter, g guards) fitted {
	p := &pen{fitter: f, tape: &f.tape, limit: m.most()}
	var steps []string
	fits := func(l look) bool {
		p.look = l
		return p.write(g) && m.fits(p.out)
	}
	// done writes once more what fits, and says what it cost.
	done := func(l look) fitted {
		p.look, p.trace = l, true
		ok := p.write(g) && m.fits(p.out)
		return fitted{text: p.out, steps: steps, cuts: p.cuts, fits: ok}
	}
	// widen finds the largest arrays that fit.
	widen := func(l look) look {
		low, high := 0, min(m.most(), len(f.tape.doc))+1
		for n := min(m.guess(), high-1); low+low/128+8 < high && n > 0; n = (low + high) / 2 {
			if l.array = n; fits(l) {
				low = n
			} else {
				high = n
			}
		}
		l.array = low
		return l
	}

	var l look
	if fits(l) {
		steps = []string{"compact"}
		return done(l)
	}
	if !f.keepNull {
		l.hollow = true
	}
	if l.drop = len(f.dropKeys) > 0; l.hollow || l.drop {
		steps = append(steps, "drop_empty")
		if fits(l) {
			return done(l)
		}
	}
	steps = append(steps, "shorten_texts")
	for _, n := range textCaps() {
		if n <= utf8.RuneCountInString(f.marker) {
			break
		}
		if l.chars = n; fits(l) {
			return done(l)
		}
	}
	steps = append(steps, "shorten_arrays")
	l.arrays = true
	if fits(l) {
		return done(widen(l))
	}
	if g != nil {
		p.limit = 2*len(f.tape.doc) + 16
		d := done(l)
		if p.full {
			d.text = nil
		}
		return d
	}
	steps = append(steps, "collapse_depth")
	for l.depth = 4; l.depth >= 2; l.depth-- {
		if fits(l) {
			return done(widen(l))
		}
	}
	steps = append(steps, "outline")
	l = look{outline: true}
	low, high := 0, min(int(f.tape.nodes[0].count), m.most())+1
	for low+1 < high {
		if l.outlined = (low + high) / 2; fits(l) {
			low = l.outlined
		} else {
			high = l.outlined
		}
	}
	if l.outlined = low; low > 0 {
		return done(l)
	}
	steps = append(steps, "minimal")
	empty := []byte("{}")
	if f.tape.doc[f.tape.nodes[0].pos] == '[' {
		empty = []byte("[]")
	}
	return fitted{text: bytes.Clone(empty), steps: steps, fits: m.fits(empty), cuts: p.cuts}
}
