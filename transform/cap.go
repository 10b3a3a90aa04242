package transform

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// tokensPerByte is about what a byte costs, on the high side: a try that fits returns its
// exact cost, and a try that does not fit tells little.
const tokensPerByte = 1 / 2.4

// A capping makes one result fit its budget.
type capping struct {
	*run
	l         *layout
	plan      *fit.Plan
	parts     []fit.Part
	places    []int  // of each part: its block, or structured
	lastLink  int    // the last link that is a part
	lateLinks int    // links after that one: there is no room for them
	twin      int    // the block that repeats the structured content, -1 for none
	rest      []byte // what is left of that block
	strip     bool   // the structured content is left out, because a text repeats it
	fixed     int    // tokens of what must not change
	slack     int    // those tokens of fixed that stay free, because a preview takes less than its share
	notice    string
}

// structured is the place of the structured content.
const structured = -1

// capTo makes the result fit a budget and appends it to dst.
func (r *run) capTo(dst, raw []byte, budget int) []byte {
	r.cut = r.before
	r.cut.steps = slices.Clone(r.before.steps)
	r.cut.step("cap")
	c := r.capping(raw, budget)
	r.estimateOnce(c.l)
	var fits struct { // the notice for the most that fits
		notice string
		arrays []ArrayCut
	}
	count := func(parts [][]byte) int {
		cost := c.count(parts, budget)
		if cost <= budget {
			fits.notice, fits.arrays = c.notice, c.cut.arrays
		}
		return cost
	}
	parts, cost := c.plan.Fit(budget, tokensPerByte, count)
	if cost > budget && c.slack > 0 { // there is not even room for the least
		c.fixed, c.slack = c.fixed-c.slack, 0
		parts, cost = c.plan.Fit(budget, tokensPerByte, count)
	}
	if !r.shaped {
		r.units = c.plan.Kept()
	}
	if cost > budget {
		r.report.OverBudget = true
		if r.rule.refuse {
			return r.refusal(dst, c.l, budget)
		}
	}
	if cost <= budget {
		c.notice, c.cut.arrays = fits.notice, fits.arrays
	}
	r.report.TokensAfter = cost - c.slack
	w := c.rewrite(parts)
	w.last = r.noticeBlock(c.l, c.notice)
	w.meta = r.meta(r.report.TokensAfter, r.report.OverBudget)
	return c.l.append(dst, w)
}

// capping lays out the parts of a result, and ranks what is in them.
func (r *run) capping(raw []byte, budget int) *capping {
	c := &capping{run: r, l: &r.layout, twin: -1}
	if a := r.call.Around; a != nil {
		c.fixed = min(a.Cut, budget/2)
	}
	l := c.l
	l.lay(raw, r.call.Method, r.most(budget))
	texts := 0
	for i := range l.blocks {
		if l.blocks[i].isText() {
			texts++
		}
	}
	c.places, c.parts = make([]int, 0, texts+1), make([]fit.Part, 0, texts+1)
	for i := range l.blocks {
		if b := &l.blocks[i]; b.isText() {
			c.part(i, fit.Part{Text: l.textOf(b), Markdown: l.markdown(b)})
		}
	}
	if l.structured.is() {
		g, fixed := r.guards(l)
		switch value := c.dedupe(compact(l.structured.of(raw)), budget); {
		case c.strip:
		case fixed:
			c.fixed += r.count(value, unlimited)
		default:
			c.part(structured, fit.Part{Text: value, Guards: g})
		}
	}
	capper := &r.engine.config.Adapters.Capper
	o := fit.Options{Keep: capper.Keep, Drop: capper.Drop, KeepEmpty: capper.KeepNulls, Columns: capper.Tables == "columns", Most: budget}
	if l.skipped.texts+len(c.parts) > 1 {
		o.Name = func(part int) []string {
			if i := c.places[part]; i != structured {
				return []string{"content", strconv.Itoa(i)}
			}
			return []string{"structuredContent"}
		}
	}
	c.addLinks(budget)
	c.plan = fit.New(c.parts, o)
	return c
}

func (c *capping) part(place int, p fit.Part) {
	c.places, c.parts = append(c.places, place), append(c.parts, p)
}

// addLinks makes parts of the links, up to those that alone fill the budget. The last links
// are the first to be left out, so there is no room for any link after these.
func (c *capping) addLinks(budget int) {
	for i := range c.l.blocks {
		switch b := &c.l.blocks[i]; {
		case b.kind != wholeBlock:
		case budget >= 0 || c.l.list == "messages":
			link := compact(b.of(c.l.raw))
			budget -= c.run.count(link, budget)
			c.part(i, fit.Part{Text: link, Solid: true})
			c.lastLink = i
		default:
			c.lateLinks++
		}
	}
}

// markdown reports whether a block says that it is Markdown.
func (l *layout) markdown(b *block) bool {
	if b.plain {
		return false
	}
	raw := b.of(l.raw)
	for _, sign := range [...]string{`text/markdown`, `.md"`} {
		if bytes.Contains(raw[:min(len(raw), 1<<10)], []byte(sign)) || bytes.Contains(raw[max(0, len(raw)-1<<10):], []byte(sign)) {
			return true
		}
	}
	return false
}

// guards returns what a schema asks of the structured content, or nil if it may be
// anything. fixed is true if the structured content may not change, because it is not known
// which schema it has to fit.
func (r *run) guards(l *layout) (g schema.Guards, fixed bool) {
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
	return schema.New(r.schema).Root(l.structured.of(l.raw)), false
}

// previewShare divides a budget: a text that repeats the structured content may take one
// such part of it.
const previewShare = 10

// previewNotice is about how many tokens the notice of such a result has.
const previewNotice = 43

// Preview returns how many tokens of a budget a text takes that becomes a preview of the structured content, with the
// notice that says so.
func Preview(budget int) int { return budget/previewShare + previewNotice }

// dedupe finds a text that repeats the structured content, or its one long text.
// With a schema, or if the configuration says so, the structured content stays and the text
// becomes a preview, which is no part; otherwise the text stays. dedupe returns what is left
// of the structured content.
func (c *capping) dedupe(value []byte, budget int) []byte {
	var doc tree.Document
	for k, i := range c.places {
		b, text := &c.l.blocks[i], c.parts[k].Text
		if !b.plain || int(b.text.end-b.text.pos) < len(value)/2 {
			continue
		}
		whole := tree.IsContainer(text) && wire.Valid(text) && wire.Equal(value, text)
		at := uint32(0)
		if !whole {
			if doc.Text == nil && doc.Read(value) != nil {
				return value
			}
			if at = twin(&doc, text); at == 0 {
				continue
			}
		}
		c.cut.step("dedupe")
		if stays := c.engine.config.Adapters.Capper.Dedupe; c.hasSchema() || stays == "structured" {
			c.twin, c.run.preview = i, true
			c.rest = []byte("[see structuredContent]")
			if room := budget / previewShare; room >= 4*len(c.rest)/3 || tree.IsContainer(text) {
				p := fit.New([]fit.Part{{Text: text}}, fit.Options{Most: room})
				parts, _ := p.Fit(room, tokensPerByte, func(parts [][]byte) int { return c.run.count(parts[0], room) })
				if parts[0] == nil && tree.IsContainer(text) { // it stays JSON of its kind
					parts[0] = []byte{bytes.TrimLeft(text, " \t\r\n")[0], 0}
					parts[0][1] = parts[0][0] + 2
				}
				if parts[0] != nil {
					c.rest = parts[0]
				}
			}
			rest := c.run.count(c.rest, unlimited)
			if share := budget / previewShare; rest < share {
				c.slack = share - rest // otherwise a larger budget could leave less for the structured content
			}
			c.fixed += rest + c.slack
			c.places, c.parts = slices.Delete(c.places, k, k+1), slices.Delete(c.parts, k, k+1)
			return value
		}
		if whole {
			c.strip = true
			return value
		}
		n := doc.Nodes[at]
		return slices.Concat(value[:n.Pos], []byte(`"(see the text)"`), value[n.End:])
	}
	return value
}

// twin returns the node of the string that a text repeats, or 0 if there is none.
func twin(doc *tree.Document, text []byte) uint32 {
	for n := uint32(1); n < uint32(len(doc.Nodes)); n++ {
		if raw := doc.Raw(n); raw[0] == '"' && len(raw) >= len(text)+2 && len(raw) > len(doc.Text)/2 &&
			bytes.Equal(wire.AppendUnescaped(nil, raw[1:len(raw)-1]), text) {
			return n
		}
	}
	return 0
}

// countLeftOut counts the texts and links of which nothing is left in parts.
func (c *capping) countLeftOut(parts [][]byte) {
	c.cut.omitted, c.cut.links = c.before.omitted+c.l.skipped.texts, c.l.skipped.links+c.lateLinks
	for k, place := range c.places {
		switch {
		case parts[k] != nil || place == structured || c.l.list == "messages":
		case c.l.blocks[place].kind == wholeBlock:
			c.cut.links++
		default:
			c.cut.omitted++
		}
	}
}

// rewrite returns the changes that make a result of these parts.
func (c *capping) rewrite(parts [][]byte) *rewrite {
	w := &rewrite{strip: c.strip}
	c.countLeftOut(parts)
	for i := range c.l.blocks {
		if k := c.l.blocks[i].kind; k == noticeBlock || k == wholeBlock && i > c.lastLink && c.lateLinks > 0 {
			w.drop(c.l, i)
		}
	}
	if c.twin >= 0 {
		w.set(c.l, c.twin, c.rest)
	}
	for k, place := range c.places {
		out := parts[k]
		switch {
		case place == structured && out == nil:
			w.strip = true
		case place == structured:
			w.structured = out
		case c.l.blocks[place].kind == wholeBlock:
			if out == nil && c.l.list != "messages" {
				w.drop(c.l, place)
			}
		case bytes.Equal(out, c.parts[k].Text):
		case out != nil:
			w.set(c.l, place, out)
		case c.l.list == "messages":
			w.set(c.l, place, []byte{})
		default:
			w.drop(c.l, place)
		}
	}
	return w
}

// count returns what the parts cost in tokens, with everything beside them and the notice.
// Above budget it stops early.
func (c *capping) count(parts [][]byte, budget int) int {
	sum := c.fixed
	for k, out := range parts {
		if c.places[k] >= 0 && c.l.blocks[c.places[k]].kind == wholeBlock && out == nil && c.l.list == "messages" {
			out = compact(c.l.blocks[c.places[k]].of(c.l.raw))
		}
		if c.call.Around != nil && c.places[k] != structured {
			out = wire.AppendQuoted(make([]byte, 0, len(out)+len(out)/8), out)
		}
		if sum += c.run.count(out, budget-sum); sum > budget {
			return sum
		}
	}
	c.countLeftOut(parts)
	c.notice = c.said(sum, min(maxNotice, budget/noticeShare))
	notice := []byte(c.notice)
	if c.call.Around != nil {
		notice = wire.AppendQuoted(nil, notice)
	}
	return sum + c.run.count(notice, unlimited)
}

// refusal appends an error in the place of a result that its schema does not allow to be
// cut. It keeps the server's _meta.
func (r *run) refusal(dst []byte, was *layout, budget int) []byte {
	raw := []byte(`{"content":[],"isError":true}`)
	if was.meta.is() {
		raw = slices.Concat([]byte(`{"content":[],"isError":true,"_meta":`), was.meta.of(was.raw), []byte("}"))
	}
	l, w := &layout{}, &rewrite{}
	l.lay(raw, "", 0)
	r.cut = loss{}
	r.cut.step("refuse")
	text := "The result does not fit the budget, and its outputSchema allows no less"
	if ask := r.call.askForLess(); ask != "" {
		text += ". A" + ask[1:]
	}
	if next := r.readOn(fit.Place{}); next != "" {
		text += ". " + next
	}
	r.report.TokensAfter = r.count([]byte(text), unlimited)
	r.estimateOnce(was)
	w.last = r.noticeBlock(l, text)
	w.meta = r.meta(r.report.TokensAfter, true)
	return l.append(dst, w)
}
