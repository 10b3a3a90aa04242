package transform

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tokens"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// tokenMeter holds texts to a number of tokens.
type tokenMeter struct {
	encoding *tokens.Encoding
	limit    int
}

func (m tokenMeter) fits(text []byte) bool { return m.encoding.Fits(text, m.limit) }
func (m tokenMeter) most() int             { return maxTokenBytes * max(0, m.limit) }
func (m tokenMeter) guess() int            { return 4 * max(0, m.limit) }

// A unit is a part of a result that may be made smaller.
type unit struct {
	block int    // its block; structured for the structured content
	text  []byte // as it is
	size  int    // its tokens; more than there are to share when it is over
	out   []byte // what is left; nil when nothing is
	left  int    // tokens of that
	json  bool
	same  bool // it stays as it is
}

const structured = -1

// noticeShare is the part of a budget that a notice may take, and maxNotice the
// most.
const (
	noticeShare = 4
	maxNotice   = 120
	leastShare  = 8 // tokens below which a text is not worth its place
)

// capTo makes the result fit a budget and appends it to dst.
func (r *run) capTo(dst, raw []byte, budget int) []byte {
	room := budget - min(maxNotice, budget/noticeShare)
	for range 4 {
		out := r.capOnce(dst, raw, budget, room)
		t := tally{encoding: r.engine.encoding, left: unlimited}
		t.result(out[len(dst):], r.call.Method)
		r.report.TokensAfter = t.sum
		if t.sum > budget && r.guarded {
			r.report.OverBudget = true
			if r.rule.refuse {
				return r.refusal(dst, budget)
			}
			return out
		}
		if t.sum <= budget {
			return out
		}
		room = max(0, room-(t.sum-budget)-leastShare)
	}
	r.report.OverBudget = true
	return r.capOnce(dst, raw, budget, 0)
}

const unlimited = 1 << 40

// refusal is an error in the place of a result that its schema lets nobody cut.
func (r *run) refusal(dst []byte, budget int) []byte {
	l, w := &layout{raw: []byte(`{"content":[],"isError":true}`), list: "content"}, &rewrite{}
	l.lay(l.raw, "", 0)
	r.cut = loss{notes: []string{"the result does not fit, and its outputSchema allows no less: ask for less, by limit or fields"}}
	r.cut.step("refuse")
	r.finish(l, w, budget, 0)
	return l.append(dst, w)
}

// capOnce makes the parts of a result fit room tokens, and leaves the rest of
// the budget to the notice.
func (r *run) capOnce(dst, raw []byte, budget, room int) []byte {
	l, w := &r.layout, &rewrite{}
	l.lay(raw, r.call.Method, r.most(room))
	r.cut = r.before
	r.cut.steps = slices.Clone(r.before.steps)
	r.guarded = false

	g, fixed := r.guards(l)
	r.dedupe(l, w, room, fixed)
	units, counted := r.units(l, w, room)
	if l.structured.is() && !w.strip {
		u := unit{block: structured, text: compact(l.structured.of(raw)), json: true}
		u.size = r.count(u.text, room)
		if fixed {
			u.same, u.left = true, u.size
			if u.size > room {
				u.left, r.guarded = r.count(u.text, unlimited), true
			}
		}
		units = append(units, u)
	}
	r.share(l, units, room-counted, g)
	omitted := 0
	first := -1
	for i := range units {
		u := &units[i]
		switch {
		case u.same:
		case u.block == structured && u.out == nil:
			w.strip = true
		case u.block == structured:
			w.structured = u.out
		case u.out != nil:
			w.set(u.block, u.out)
		case l.list == "messages":
			w.set(u.block, []byte{})
		default:
			w.drop(l, u.block)
			if omitted++; first < 0 {
				first = u.block
			}
		}
	}
	omitted += r.passed + l.skipped.texts
	if first < 0 {
		first = r.firstPassed
	}
	r.cut.omitted = r.before.omitted + omitted
	if omitted > 0 {
		r.cut.step("omit_blocks")
		if b := &l.blocks[first]; b.plain {
			w.gone[first] = false
			w.set(first, fmt.Appendf(nil, "[%d blocks omitted]", omitted))
		}
	}

	spent := 0
	t := tally{encoding: r.engine.encoding, left: unlimited}
	t.result(l.append(nil, w), r.call.Method)
	spent = t.sum
	r.finish(l, w, budget, spent)
	return l.append(dst, w)
}

// most is how many texts, or links, are looked at that there may be room for, if
// each has a token, and one more of which to say that it went. The turns of a
// conversation are all looked at: they stay, if only as empty ones.
func (r *run) most(room int) int {
	if listName(r.call.Method) == "messages" {
		return unlimited
	}
	return room + 2
}

// count counts a text up to some more than limit.
func (r *run) count(text []byte, limit int) int {
	n, over := r.engine.encoding.CountUpTo(text, max(0, limit))
	if over {
		return max(n, limit+1)
	}
	return n
}

// dedupe makes a text that repeats the structured content a preview of it, or
// drops the structured content.
func (r *run) dedupe(l *layout, w *rewrite, room int, fixed bool) {
	if !l.structured.is() {
		return
	}
	value := l.structured.of(l.raw)
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.kind != textBlock || !b.plain || int(b.text.end-b.text.pos) < len(value)/2 {
			continue
		}
		text := l.textOf(b)
		if !isContainer(text) || !wire.Valid(text) || !wire.Equal(value, text) {
			continue
		}
		if r.engine.config.Adapters.Capper.Dedupe == "content" && !r.hasSchema() {
			w.strip = true
			r.cut.step("drop_structured")
			return
		}
		m := tokenMeter{r.engine.encoding, room / 10}
		if m.fits(text) || r.fit.tape.parse(text) != nil {
			return
		}
		done := r.fit.fitTree(m, nil)
		w.set(i, done.text)
		r.preview = i
		r.cut.step("dedupe")
		return
	}
}

// units lists the texts that may be made smaller. What is behind the first ones
// that could have a token each, and links behind those that there is room for,
// is dropped. counted is how many tokens what stays as it is has.
func (r *run) units(l *layout, w *rewrite, room int) (units []unit, counted int) {
	r.passed, r.firstPassed = 0, -1
	var whole []int
	for i := range l.blocks {
		b := &l.blocks[i]
		switch {
		case b.kind == noticeBlock:
			w.drop(l, i)
		case b.kind == wholeBlock:
			whole = append(whole, i)
		case b.kind != textBlock || b.text.end-b.text.pos == 2:
		case w.texts[i] != nil:
			counted += r.count(w.texts[i], room)
		case len(units) > room:
			w.drop(l, i)
			if r.passed++; r.firstPassed < 0 {
				r.firstPassed = i
			}
		default:
			text := l.textOf(b)
			units = append(units, unit{block: i, text: text, size: r.count(text, room), json: isContainer(text)})
		}
	}
	// Links survive from the first until their share is spent.
	share := room - counted
	if len(units) > 0 || l.structured.is() {
		share /= 2
	}
	spent := 0
	for k, i := range whole {
		n := r.count(compact(l.blocks[i].of(l.raw)), room)
		if spent+n <= share && (r.cut.links == 0) {
			spent += n
			continue
		}
		if l.list == "messages" {
			continue // a conversation keeps its turns
		}
		w.drop(l, i)
		r.cut.links = len(whole) - k + l.skipped.links
		for _, i := range whole[k:] {
			w.drop(l, i)
		}
		r.cut.step("omit_links")
		break
	}
	return units, counted + spent
}

// share gives each unit its part of room: small ones keep everything, the others
// the same.
func (r *run) share(l *layout, units []unit, room int, g guards) {
	var fixed int
	var order []*unit
	for i := range units {
		u := &units[i]
		switch {
		case u.same:
			fixed += u.left
		case u.block == structured && g != nil:
			// What the schema does not allow to go is at the cost of the texts.
			r.reduce(u, max(0, room-r.little(units)), g)
			fixed += u.left
		default:
			order = append(order, u)
		}
	}
	room = max(0, room-fixed)
	sorted := slices.Clone(order)
	slices.SortStableFunc(sorted, func(a, b *unit) int { return a.size - b.size })
	rest := room
	for i, u := range sorted {
		level := rest / (len(sorted) - i)
		if u.size > level {
			if level < leastShare && len(sorted)-i > 1 {
				r.shareFirst(order, room)
				return
			}
			break
		}
		u.same = true
		rest -= u.size
	}
	big := 0
	for _, u := range order {
		if !u.same {
			big++
		}
	}
	for _, u := range order {
		if !u.same {
			r.reduce(u, rest/big, nil)
			rest -= u.left
			big--
		}
	}
}

// little is what the texts keep beside a structured content that could take all.
func (r *run) little(units []unit) (n int) {
	for i := range units {
		if units[i].block != structured {
			n += min(units[i].size, leastShare*2)
		}
	}
	return n
}

// shareFirst gives units, of which there are too many to share, their room in
// their order until it is spent.
func (r *run) shareFirst(order []*unit, room int) {
	room -= leastShare // for the words that stand for the rest
	spent := false
	for _, u := range order {
		u.same = !spent && u.size <= room
		if u.same {
			room -= u.size
			continue
		}
		if !spent && room >= leastShare {
			r.reduce(u, room, nil)
		}
		spent = true
	}
}

// reduce makes a unit fit.
func (r *run) reduce(u *unit, limit int, g guards) {
	if u.size <= limit {
		u.same, u.left = true, u.size
		return
	}
	m := tokenMeter{r.engine.encoding, limit}
	if u.json && r.fit.tape.parse(u.text) == nil {
		done := r.fit.fitTree(m, g)
		if done.text == nil {
			u.same, u.left, r.guarded = true, r.count(u.text, unlimited), true
			return
		}
		r.cut.add(done.cuts)
		for _, s := range done.steps {
			r.cut.step(s)
		}
		if done.fits || g != nil {
			u.out = done.text
			u.left = r.count(u.out, unlimited)
			r.guarded = r.guarded || !done.fits
			return
		}
		if limit > 0 { // {} is one token
			return
		}
		return
	}
	out, step := r.fit.fitProse(u.text, m)
	if len(out) > 0 {
		u.out = slices.Clone(out)
		u.left = r.count(u.out, unlimited)
		r.cut.strings++
		r.cut.step(step)
	}
}
