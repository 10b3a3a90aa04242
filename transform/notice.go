package transform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// meta is this package's entry in a result's _meta: what was done to the
// result.
type meta struct {
	OriginalTokens int        `json:"original_tokens,omitempty"`
	Estimated      bool       `json:"estimated,omitempty"` // OriginalTokens is an estimate
	Tokens         int        `json:"tokens,omitempty"`
	Encoding       string     `json:"encoding,omitempty"`
	Steps          []string   `json:"steps"`
	Kept           []metaKept `json:"kept,omitempty"`
	StringsCut     int        `json:"strings_cut,omitempty"`
	Dropped        []string   `json:"dropped,omitempty"`
	Blocks         int        `json:"blocks_omitted,omitempty"`
	Links          int        `json:"links_omitted,omitempty"`
	Cursor         string     `json:"cursor,omitempty"`
	Mark           string     `json:"mark,omitempty"` // a handle, if there is no cursor
	OverBudget     bool       `json:"over_budget,omitempty"`
	SHA256         string     `json:"sha256_original"`
}

type metaKept struct {
	Path  string `json:"path"`
	Kept  int    `json:"kept"`
	Total int    `json:"total"`
}

// estimateOnce counts the original, if that was not done yet.
func (r *run) estimateOnce(l *layout) {
	if r.report.TokensBefore > 0 {
		return
	}
	if len(l.raw) != len(r.original) || &l.raw[0] != &r.original[0] {
		l = new(layout)
		l.lay(r.original, r.call.Method, r.most(len(l.blocks)))
	}
	r.estimate(l)
}

// noticeShare divides a budget: a notice that says more than how to read on may
// take one such part of it, and at most maxNotice tokens. A call names a place if it takes no more than a smaller part.
const (
	noticeShare  = 8
	callShare    = 10
	maxNotice    = 80
	maxCuts      = 3
	maxPath      = 60 // bytes of a path in a call
	maxOwnCursor = 200
)

// said returns the notice of a result that was made to fit and has spent tokens
// without it. The notice says how to read on, and as much of the rest as most
// tokens have room for.
func (c *capping) said(spent, most int) string {
	next := c.nextCall()
	if !c.shaped && !c.engine.encoding.Fits([]byte(next), most*noticeShare/callShare) {
		next = c.readOn(fit.Place{}) // it reads on at the first gap, too
	}
	c.cut.arrays = slices.Clone(c.before.arrays)
	for _, cut := range c.plan.Cuts(maxCuts) {
		c.cut.add(cuts{arrays: []ArrayCut{{pathOf(cut.Path), cut.Kept, cut.Total, cut.What}}})
	}
	total := spent + c.run.count([]byte(next), unlimited)
	var text string
	for range 3 { // the number in the notice includes the notice
		text = c.words(next, total, most)
		now := spent + c.run.count([]byte(text), unlimited)
		if now == total {
			break
		}
		total = now
	}
	return text
}

// words returns the text of a notice, in at most most tokens. The call is
// always in it.
func (r *run) words(next string, total, most int) string {
	p := r.report
	about := ""
	if p.Estimated {
		about = "~"
	}
	sizes := fmt.Sprintf("%s%s → %s tokens", about, thousands(p.TokensBefore), thousands(total))
	if p.TokensBefore == 0 || total == 0 {
		sizes = ""
	}
	kept := r.keptWords()
	if ask := r.call.askForLess(); ask != "" {
		text := joined([]string{sizes, strings.Join(kept, ", "), ask}, next)
		if r.engine.encoding.Fits([]byte(text), most) {
			return text
		}
	}
	for n := len(kept); n >= 0; n-- {
		text := joined([]string{sizes, strings.Join(kept[:n], ", ")}, next)
		if n == 0 && next != "" && !r.engine.encoding.Fits([]byte(text), most) {
			text = joined(nil, next)
		}
		if n == 0 || r.engine.encoding.Fits([]byte(text), most) {
			return text
		}
	}
	return ""
}

// joined puts the parts of a notice together.
func joined(parts []string, next string) string {
	said := ""
	for _, p := range parts {
		if p != "" && said != "" {
			said += "; "
		}
		said += p
	}
	if said != "" && next != "" {
		said += ". "
	}
	return "[" + said + next + "]"
}

// keptWords returns phrases that say how much is left of what.
func (r *run) keptWords() (all []string) {
	all = append(all, r.cut.notes...)
	for i, a := range r.cut.arrays[:min(maxCuts, len(r.cut.arrays))] {
		words := fmt.Sprintf("%s of %s", thousands(a.Kept), thousands(a.Total))
		if i == 0 {
			words = "kept " + words
		}
		switch at := a.Path[strings.LastIndexByte(a.Path, '.')+1:]; {
		case a.What == "items" && at != "" && at[0] > '9': // 42 of 300 issues
			words += " " + a.Path
		case a.Path == ".":
			words += " " + a.What
		default:
			words += " " + a.What + " of " + a.Path
		}
		all = append(all, words)
	}
	for _, k := range [...]struct {
		n    int
		what string
	}{{r.cut.strings, "%s text%s shortened"}, {r.cut.omitted, "%s block%s left out"}, {r.cut.links, "%s link%s left out"}} {
		if k.n > 0 {
			plural := "s"
			if k.n == 1 {
				plural = ""
			}
			all = append(all, fmt.Sprintf(k.what, thousands(k.n), plural))
		}
	}
	if r.preview {
		all = append(all, "the text is a preview of structuredContent")
	}
	return all
}

// pathOf returns a path for people to read: with dots, and not long.
func pathOf(path []string) string {
	if len(path) == 0 {
		return "."
	}
	for i := range path {
		path[i] = clip(path[i], 40)
	}
	return clip(strings.Join(path, "."), 100)
}

// nextCall returns the sentence of readOn for the first gap.
func (c *capping) nextCall() string {
	at, _ := c.plan.Gap()
	if c.shaped {
		at = c.page
	}
	return c.readOn(at)
}

// readOn returns the sentence that names the call which reads on at a place. If
// the original is not kept because it is too large, it says so; if the tool
// that reads on is off, it is "".
func (r *run) readOn(at fit.Place) string {
	handle := r.handle()
	switch {
	case handle != "" && len(fit.JoinPath(at.Path)) > maxPath: // a call without a place reads on at the first gap
		return "Next: " + callOf(r.moreName(), handle, fit.Place{}, -1)
	case handle != "":
		return "Next: " + callOf(r.moreName(), handle, at, -1)
	case r.engine.config.MoreTool.Enabled != "off" && !r.call.NoMore:
		return "The result is too large to keep the rest"
	}
	return ""
}

func (r *run) moreName() string {
	if r.call.MoreName != "" {
		return r.call.MoreName
	}
	return r.engine.MoreName()
}

// callOf writes a call of the tool that reads on.
func callOf(name, handle string, at fit.Place, count int) string {
	out := fmt.Appendf(nil, `%s {"cursor":"%s"`, name, handle)
	path := fit.JoinPath(at.Path)
	if path != "" {
		out = wire.AppendQuoted(append(out, `,"path":`...), []byte(path))
	}
	if path != "" || at.From > 0 {
		out = fmt.Appendf(out, `,"from":%d`, at.From)
	}
	if count >= 0 {
		out = fmt.Appendf(out, `,"count":%d`, count)
	}
	return string(out) + "}"
}

// thousands returns a number with commas between thousands.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// noticeBlock returns a block that holds a notice, and a mark that this package
// made it.
func (r *run) noticeBlock(l *layout, notice string) []byte {
	text := wire.AppendQuoted(nil, []byte(notice))
	const ours = `"_meta":{"` + ownMeta + `":{"notice":true}}`
	switch l.list {
	case "contents":
		uri := []byte(`"` + ownMeta + `"`)
		if len(l.blocks) > 0 {
			if u := tree.Member(l.blocks[0].of(l.raw), "uri"); u != nil && u[0] == '"' {
				uri = u
			}
		}
		return fmt.Appendf(nil, `{"uri":%s,"mimeType":"text/plain","text":%s,%s}`, uri, text, ours)
	case "messages":
		return fmt.Appendf(nil, `{"role":"user","content":{"type":"text","text":%s,%s}}`, text, ours)
	}
	return fmt.Appendf(nil, `{"type":"text","text":%s,%s}`, text, ours)
}

// meta returns this package's entry in _meta.
func (r *run) meta(total int, over bool) []byte {
	p := r.report
	m := meta{
		OriginalTokens: p.TokensBefore, Estimated: p.Estimated, Tokens: total,
		Steps: r.cut.steps, StringsCut: r.cut.strings, Dropped: r.cut.dropped,
		Blocks: r.cut.omitted, Links: r.cut.links, OverBudget: over, SHA256: r.sum(),
	}
	if total > 0 {
		m.Encoding = r.engine.encoding.Name()
	}
	if m.Steps == nil {
		m.Steps = []string{}
	}
	for _, a := range r.cut.arrays {
		m.Kept = append(m.Kept, metaKept{a.Path, a.Kept, a.Total})
	}
	if m.Cursor = r.handed; m.Cursor == "" && r.rule.works() {
		m.Mark = r.engine.store.handle(r.call.Session, r.call.Caller, r.sum())
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil // cannot happen: m holds only numbers and texts
	}
	return text
}

// ours reports whether this engine, or one with the same key, has applied its
// rule to a result for the same session and caller before. The rule is not
// applied again, because to it the rest of the result may look like something
// else. Only an engine with the key can make the handle that proves it.
func (r *run) ours(l *layout) bool {
	if !l.meta.is() {
		return false
	}
	ours := tree.Member(l.meta.of(l.raw), ownMeta)
	sum, _ := wire.Inner(tree.Member(ours, "sha256_original"))
	for _, name := range [...]string{"cursor", "mark"} {
		if raw, ok := wire.Inner(tree.Member(ours, name)); ok {
			return r.engine.store.made(r.call.Session, r.call.Caller, string(sum), string(raw))
		}
	}
	return false
}

// ownCursor returns the server's own cursor of the next page, for the notice,
// or "" if there is none.
func ownCursor(doc []byte) string {
	for _, name := range [...]string{"next_cursor", "nextCursor"} {
		if raw, ok := wire.Inner(tree.Member(doc, name)); ok && len(raw) > 0 && len(raw) <= maxOwnCursor {
			return name + " of the server: " + clip(string(wire.AppendUnescaped(nil, raw)), maxOwnCursor)
		}
	}
	if info := tree.Member(doc, "pageInfo"); info != nil {
		if raw, ok := wire.Inner(tree.Member(info, "endCursor")); ok && len(raw) > 0 && len(raw) <= maxOwnCursor {
			return "endCursor of the server: " + clip(string(wire.AppendUnescaped(nil, raw)), maxOwnCursor)
		}
	}
	return ""
}

// clip shortens a name for a notice.
func clip(name string, n int) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == 0x7F {
			return -1
		}
		return r
	}, name)
	if len(name) > n {
		name = name[:grapheme.Floor([]byte(name), n)] + "…"
	}
	return name
}
