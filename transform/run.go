package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// Apply appends a result to dst, transformed by the rule for its tool and made
// to fit the budget. result is valid JSON, as wire.Scan takes it: a CallToolResult, or a
// result of Call.Method. If there is nothing to do, Apply returns result itself and leaves
// dst alone. It never changes or keeps result.
//
// If a transformer fails, the result stays as it came, but is still cut to the budget; the
// report says so.
func (e *Engine) Apply(dst, result []byte, c *Call) ([]byte, Report) {
	if e == nil || !e.config.Enabled || len(result) == 0 {
		return result, Report{BytesBefore: len(result), BytesAfter: len(result)}
	}
	r := e.rule(c.Server, c.Tool)
	budget, tool, ok := e.terms(r, c)
	works := tool && e.working(r, c)
	if !ok || !works && (budget == 0 || e.short(result, budget)) {
		return result, Report{BytesBefore: len(result), BytesAfter: len(result), Budget: budget, Rule: r.where}
	}
	return e.apply(dst, result, c, r, budget, works)
}

// terms returns the budget of a call, and whether it is a call of a tool. ok is false for
// results that the engine does not change.
func (e *Engine) terms(r *rule, c *Call) (budget int, tool, ok bool) {
	budget = e.budget(r)
	if c.MaxTokens > 0 && e.config.Adapters.Capper.Enabled {
		if hint := max(c.MaxTokens, minTokens); budget == 0 || hint < budget {
			budget = hint
		}
	}
	switch c.Method {
	case "", "tools/call":
		return budget, true, true
	case "resources/read":
		return budget, false, e.config.CapResources
	case "prompts/get":
		return budget, false, e.config.CapPrompts
	}
	return budget, false, false
}

// apply does what Apply does, for a result that has to be read.
func (e *Engine) apply(dst, result []byte, c *Call, r *rule, budget int, works bool) (out []byte, report Report) {
	report.BytesBefore, report.BytesAfter = len(result), len(result)
	report.Budget, report.Rule = budget, r.where
	run := &run{engine: e, rule: r, call: c, original: result, report: &report, marker: r.marker}
	now := result
	if works {
		now = run.guardedly(result, func() []byte { return run.shape(result) })
	}
	fit := budget == 0 || e.short(now, budget)
	if !fit {
		run.guardedly(now, func() []byte {
			t := tally{encoding: e.encoding, left: budget}
			if t.result(now, c.Method); !t.over {
				fit = true
				report.TokensAfter = t.sum
			}
			return now
		})
	}
	run.shaped = len(now) != len(result) || &now[0] != &result[0]
	changed := run.shaped
	switch {
	case fit && !changed:
		report.TokensBefore = report.TokensAfter
		return result, report
	case fit:
		report.Outcome = worse(report.Outcome, Transformed)
		run.weigh(now)
		out = append(dst, now...)
	default:
		out = run.guardedly(nil, func() []byte { return run.capTo(dst, now, budget) })
		switch {
		case out != nil:
			report.Outcome = worse(report.Outcome, Capped)
		case !changed:
			return result, report
		default:
			out = append(dst, now...)
		}
	}
	run.close()
	report.BytesAfter = len(out) - len(dst)
	return out, report
}

func worse(a, b Outcome) Outcome { return max(a, b) }

// short reports whether a result fits the budget by its length alone: a token has at least
// one byte, and each text has more than a byte of JSON around it.
func (e *Engine) short(result []byte, budget int) bool {
	return float64(len(result))*max(1, e.encoding.Factor()) <= float64(budget)
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
