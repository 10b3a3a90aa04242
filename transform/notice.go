package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// meta is what a result's _meta says about what was done.
type meta struct {
	OriginalTokens int         `json:"original_tokens,omitempty"`
	Estimated      bool        `json:"estimated,omitempty"` // OriginalTokens is
	Tokens         int         `json:"tokens,omitempty"`
	Encoding       string      `json:"encoding,omitempty"`
	Steps          []string    `json:"steps"`
	Arrays         []metaArray `json:"arrays,omitempty"`
	StringsCut     int         `json:"strings_cut,omitempty"`
	Dropped        []string    `json:"dropped,omitempty"`
	Blocks         int         `json:"blocks_omitted,omitempty"`
	Links          int         `json:"links_omitted,omitempty"`
	Cursor         string      `json:"cursor,omitempty"`
	ExpiresAt      string      `json:"expires_at,omitempty"`
	Mark           string      `json:"mark,omitempty"` // where there is no cursor
	OverBudget     bool        `json:"over_budget,omitempty"`
	SHA256         string      `json:"sha256_original"`
}

type metaArray struct {
	Path  string `json:"path"`
	Kept  int    `json:"kept"`
	Total int    `json:"total"`
}

// finish adds the notice and our entry in _meta to a result that was made to fit
// and has that many tokens without them.
func (r *run) finish(l *layout, w *rewrite, budget, spent int) {
	r.estimateOnce(l)
	encoding := r.engine.encoding
	most := min(maxNotice, budget/noticeShare)
	total := spent
	var notice string
	for range 3 { // the number in the notice is of the notice, too
		notice = r.notice(most, total)
		now := spent
		if notice != "" {
			now += encoding.Count([]byte(notice))
		}
		if now == total {
			break
		}
		total = now
	}
	if notice != "" {
		w.last = r.noticeBlock(l, notice)
	}
	r.report.TokensAfter = total
	w.meta = r.meta(total, total > budget)
}

// estimateOnce counts the original.
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

// notice says what was cut, and how to get it, in at most so many tokens: the
// handle comes before all else, and what does not fit is dropped from the end.
func (r *run) notice(most, total int) string {
	reduced := ""
	if total > 0 {
		about := ""
		if r.report.Estimated {
			about = "~"
		}
		reduced = fmt.Sprintf("reduced %s%d -> %d tokens (%s)", about, r.report.TokensBefore, total, r.engine.encoding.Name())
	}
	more := ""
	if handle := r.handle(); handle != "" {
		name := r.call.MoreName
		if name == "" {
			name = r.engine.MoreName()
		}
		more = fmt.Sprintf(`more: %s {"cursor":"%s"}`, name, handle)
	} else if r.engine.config.MoreTool.Enabled != "off" && !r.call.NoMore {
		more = "too large to keep the rest"
	}
	rest := append([]string(nil), r.cut.notes...)
	for _, a := range r.cut.arrays {
		if a.Path == "." {
			rest = append(rest, fmt.Sprintf("kept %d/%d items", a.Kept, a.Total))
		} else {
			rest = append(rest, fmt.Sprintf("kept %d/%d items of %s", a.Kept, a.Total, a.Path))
		}
	}
	for _, c := range [...]struct {
		n    int
		what string
	}{{r.cut.strings, "text%s shortened"}, {r.cut.omitted, "block%s omitted"}, {r.cut.links, "link%s omitted"}} {
		if c.n > 0 {
			plural := "s"
			if c.n == 1 {
				plural = ""
			}
			rest = append(rest, fmt.Sprintf("%d "+c.what, c.n, plural))
		}
	}
	if r.preview >= 0 {
		rest = append(rest, "the text is a preview of structuredContent")
	}
	if total > 0 {
		rest = append(rest, "narrower: pass limit/fields")
	}

	write := func(reduced, more string, rest []string) string {
		var parts []string
		for _, s := range append([]string{reduced, more}, rest...) {
			if s != "" {
				parts = append(parts, s)
			}
		}
		return "[" + strings.Join(parts, "; ") + "]"
	}
	fits := func(text string) bool {
		return r.engine.encoding.Fits([]byte(text), most)
	}
	for n := len(rest); n >= 0; n-- {
		if text := write(reduced, more, rest[:n]); fits(text) {
			return text
		}
	}
	for _, text := range [...]string{write("", more, nil), write(reduced, "", nil), "[reduced]"} {
		if fits(text) {
			return text
		}
	}
	return ""
}

// noticeBlock is a block that holds a notice, and says that it is ours.
func (r *run) noticeBlock(l *layout, notice string) []byte {
	text := appendQuoted(nil, []byte(notice))
	const ours = `"_meta":{"` + ownMeta + `":{"notice":true}}`
	switch l.list {
	case "contents":
		uri := []byte(`"` + ownMeta + `"`)
		if len(l.blocks) > 0 {
			if u := member(l.blocks[0].of(l.raw), "uri"); u != nil && u[0] == '"' {
				uri = u
			}
		}
		return fmt.Appendf(nil, `{"uri":%s,"mimeType":"text/plain","text":%s,%s}`, uri, text, ours)
	case "messages":
		return fmt.Appendf(nil, `{"role":"user","content":{"type":"text","text":%s,%s}}`, text, ours)
	}
	return fmt.Appendf(nil, `{"type":"text","text":%s,%s}`, text, ours)
}

// meta is our entry in _meta.
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
		m.Arrays = append(m.Arrays, metaArray(a))
	}
	if r.ticket.handle != "" {
		m.Cursor, m.ExpiresAt = r.ticket.handle, r.ticket.expires.UTC().Format(time.RFC3339)
	} else if r.rule.works() {
		m.Mark = r.engine.store.reserve(r.call.Session, r.call.Caller).handle
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil // it is all numbers and text
	}
	return text
}

// shaped reports whether this engine, or one with the same key, has put a result
// through its rule for the same session and caller: what is left may look to a
// rule like something else. Nobody but us can say so.
func (r *run) shaped(l *layout) bool {
	if !l.meta.is() {
		return false
	}
	ours := member(l.meta.of(l.raw), ownMeta)
	for _, name := range [...]string{"cursor", "mark"} {
		if raw, ok := wire.Inner(member(ours, name)); ok {
			_, _, ok = r.engine.store.unseal(r.call.Session, r.call.Caller, string(raw))
			return ok
		}
	}
	return false
}

// ownCursor is where the server itself goes on, for the notice; "" for nowhere.
func ownCursor(doc []byte) string {
	for _, name := range [...]string{"next_cursor", "nextCursor"} {
		if raw, ok := wire.Inner(member(doc, name)); ok && len(raw) > 0 && len(raw) <= maxOutlined {
			return name + " of the server: " + clip(string(wire.AppendUnescaped(nil, raw)), maxOutlined)
		}
	}
	if info := member(doc, "pageInfo"); info != nil {
		if raw, ok := wire.Inner(member(info, "endCursor")); ok && len(raw) > 0 && len(raw) <= maxOutlined {
			return "endCursor of the server: " + clip(string(wire.AppendUnescaped(nil, raw)), maxOutlined)
		}
	}
	return ""
}
