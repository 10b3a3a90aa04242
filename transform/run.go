package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/fit"
)

// A run transforms one result.
type run struct {
	engine   *Engine
	rule     *rule
	call     *Call
	original []byte
	report   *Report
	layout   layout
	marker   string
	handed   string // the handle to the original, if there is one
	reserved bool
	shaped   bool      // the rule changed the result: the original is more than what is capped
	page     fit.Place // if shaped is true, where the first list that was cut continues
	preview  bool      // a text is a preview of the structured content
	units    int       // of the original that are in the answer

	search *search // for paths of the rule that match nothing; nil if there is no search

	before loss // what the rule left out
	cut    loss // what was left out in all
	schema []byte
}

// cuts is what was left out of documents.
type cuts struct {
	arrays  []ArrayCut
	strings int
	dropped []string
}

// maxNoted is how many arrays, and names of members, a report has at most.
const maxNoted = 20

// loss is what was left out of a result.
type loss struct {
	cuts
	steps   []string
	links   int
	omitted int
	notes   []string // for the notice, in words
}

func (l *loss) step(name string) {
	if !slices.Contains(l.steps, name) {
		l.steps = append(l.steps, name)
	}
}

func (l *loss) add(c cuts) {
	l.arrays = slices.Clone(l.arrays)
next:
	for _, a := range c.arrays {
		for i := range l.arrays { // cut for a second time
			if have := &l.arrays[i]; have.Path == a.Path && have.Kept == a.Total {
				have.Kept = a.Kept
				continue next
			}
		}
		if len(l.arrays) < maxNoted {
			l.arrays = append(l.arrays, a)
		}
	}
	l.strings += c.strings
	for _, name := range c.dropped {
		if len(l.dropped) < maxNoted && !slices.Contains(l.dropped, name) {
			l.dropped = append(slices.Clip(l.dropped), name)
		}
	}
}

// handle returns the handle to the original, or "" if it is not kept.
func (r *run) handle() string {
	if r.reserved {
		return r.handed
	}
	r.reserved = true
	if r.engine.config.MoreTool.Enabled != "off" && !r.call.NoMore && r.engine.store.takes(len(r.original)) {
		r.handed = r.engine.store.handle(r.call.Session, r.call.Caller, r.sum())
	}
	return r.handed
}

// sum returns the digest of the original.
func (r *run) sum() string {
	if r.report.SHA256 == "" {
		sum := sha256.Sum256(r.original)
		r.report.SHA256 = hex.EncodeToString(sum[:])
	}
	return r.report.SHA256
}

// close keeps the original if a handle to it was made, and fills the report.
func (r *run) close() {
	if r.handed != "" {
		r.engine.store.keep(entry{handle: r.handed, original: r.original, call: *r.call, budget: r.report.Budget, shown: r.units})
	}
	p := r.report
	p.Cursor = r.handed
	p.Steps, p.Arrays, p.StringsCut, p.Dropped = r.cut.steps, r.cut.arrays, r.cut.strings, r.cut.dropped
	p.Omitted, p.Links = r.cut.omitted, r.cut.links
	p.SHA256 = r.sum()
}

// weigh counts a result that fits after its rule has shaped it, and the original, so that
// the report says what the rule saves. Without the capper nothing is counted.
func (r *run) weigh(now []byte) {
	if !r.engine.config.Adapters.Capper.Enabled {
		return
	}
	r.guardedly(now, func() []byte {
		var l layout
		if r.report.TokensAfter == 0 {
			l.lay(now, r.call.Method, unlimited)
			r.report.TokensAfter, _ = r.about(&l)
		}
		l.lay(r.original, r.call.Method, unlimited)
		r.estimate(&l)
		return now
	})
}

// estimate counts the original, of which l is the layout.
func (r *run) estimate(l *layout) {
	if p := r.report; p.TokensBefore == 0 {
		p.TokensBefore, p.Estimated = r.about(l)
	}
}

// about counts the result of a layout: exactly if it is small, else as an estimate from its
// beginning.
func (r *run) about(l *layout) (n int, estimated bool) {
	const some = 256 << 10
	t := tally{encoding: r.engine.encoding, left: unlimited}
	if len(l.raw) <= some {
		t.result(l.raw, r.call.Method)
		return t.sum, false
	}
	counted, all := 0, l.skipped.bytes
	part := func(s span) {
		all += int(s.end - s.pos)
		if n := min(int(s.end-s.pos), some-counted); n > 0 {
			counted += n
			t.add(t.unescape(s.of(l.raw)[:n]))
		}
	}
	for i := range l.blocks {
		switch b := &l.blocks[i]; b.kind {
		case textBlock, noticeBlock:
			part(b.text)
		case wholeBlock:
			part(b.span)
		}
	}
	if l.structured.is() {
		part(l.structured)
	}
	if counted == all {
		return t.sum, false
	}
	return int(float64(t.sum) * float64(all) / float64(counted)), true
}

// hasSchema reports whether clients may validate the structured content against
// an outputSchema.
func (r *run) hasSchema() bool {
	if r.call.Schemas == Unknown {
		return true
	}
	return r.call.Schemas == Seen && r.call.Schema != nil && (r.call.Settled || r.rule.schema != "strip")
}

// keeps reports whether the tool's schema forbids the rule to change shapes.
func (r *run) keeps() bool { return r.rule.schema == "keep" && r.hasSchema() }

// unlimited is more tokens, texts and bytes than any result has. A multiple of it may not fit an int.
const unlimited = min(1<<40, math.MaxInt/2)

// most returns how many texts, and how many links, are looked at: as many as there may be
// room for if each has one token, and some more, which are then reported as left out. All
// messages of a prompt are looked at, because each of them stays, even if it becomes empty.
func (r *run) most(room int) int {
	if listName(r.call.Method) == "messages" {
		return unlimited
	}
	return room + 2
}

// count returns the tokens of a text. If there are more than limit, it returns some number
// above limit.
func (r *run) count(text []byte, limit int) int {
	n, over := r.engine.encoding.CountUpTo(text, max(0, limit))
	if over {
		return max(n, limit+1)
	}
	return n
}

// guardedly calls f, and returns result if f panics.
func (r *run) guardedly(result []byte, f func() []byte) (out []byte) {
	defer func() {
		if cause := recover(); cause != nil {
			r.report.Outcome, r.report.Err = Failed, fmt.Errorf("transform: %v", cause)
			out = result
		}
	}()
	return f()
}

// valueOf returns the value that Data made a result of, and the notice.
func valueOf(result []byte) (value []byte, notice string) {
	var l layout
	l.lay(result, "", unlimited)
	value = []byte("null") // nothing more of it fits
	for i := range l.blocks {
		switch b := &l.blocks[i]; b.kind {
		case noticeBlock:
			notice = string(l.textOf(b))
		case textBlock:
			value = b.text.of(result)
		}
	}
	if l.structured.is() {
		value = l.structured.of(result)
	}
	return value, notice
}
