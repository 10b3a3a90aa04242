package transform

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fields"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	defaultWindow = 4096 // code points
	maxWindow     = 16384
	moreNotice    = 90 // tokens, about: where it goes on
)

// MoreName is what the tool is called that reads on in what was cut.
func (e *Engine) MoreName() string { return e.config.MoreTool.Name }

// MoreTool is that tool, as an element of the tools of tools/list: at most 400
// bytes. It is nil when there is none, since nothing is cut or the configuration
// says so.
func (e *Engine) MoreTool() []byte {
	if e == nil || !e.config.Enabled || e.config.MoreTool.Enabled == "off" {
		return nil
	}
	if e.config.MoreTool.Enabled == "auto" && !e.cuts() {
		return nil
	}
	return fmt.Appendf(nil, `{"name":"%s","description":"Read on in a result that was cut, by its cursor. path picks a part (items.4.body). Read-only.",`+
		`"inputSchema":{"type":"object","properties":{"cursor":{"type":"string"},"path":{"type":"string"},"offset_chars":{"type":"integer"},`+
		`"limit_chars":{"type":"integer"},"max_tokens":{"type":"integer"}},"required":["cursor"]},`+
		`"annotations":{"readOnlyHint":true}}`, e.MoreName())
}

// cuts reports whether any rule can cut.
func (e *Engine) cuts() bool {
	for _, rules := range [...]map[Match]*rule{e.special, e.given} {
		for _, r := range rules {
			if r.works() || e.budget(r) > 0 {
				return true
			}
		}
	}
	for _, r := range e.globs {
		if r.works() || e.budget(r) > 0 {
			return true
		}
	}
	return e.budget(e.rest) > 0
}

// More answers a call of the tool that reads on, with the arguments args, a JSON
// object or nil: it returns a CallToolResult. Its first text is a part of the
// original, exactly as it was; the second one says where it goes on. Put
// together, the first texts of all calls are the whole: the text of a result
// that has one text, else the result's JSON.
func (e *Engine) More(session, caller string, args []byte) []byte {
	ask, err := readAsk(args)
	if err != nil {
		return moreError("INVALID_ARGUMENTS", err)
	}
	original, err := e.store.Open(session, caller, ask.cursor)
	if err != nil {
		return moreError("CURSOR_EXPIRED", fmt.Errorf("%w. Repeat the call, narrower if it can be: fewer items or fields", err))
	}
	text, err := ask.find(original)
	if err != nil {
		return moreError("INVALID_ARGUMENTS", err)
	}
	return e.window(text, ask)
}

// ask is what a call asks for.
type ask struct {
	cursor, path          string
	offset, limit, tokens int
}

func readAsk(args []byte) (a ask, err error) {
	a.limit = defaultWindow
	if !wire.Valid(args) || !isContainer(args) {
		return a, errors.New("the arguments are no object with a cursor")
	}
	raw, ok := wire.Inner(member(args, "cursor"))
	if !ok {
		return a, errors.New("cursor is missing")
	}
	a.cursor = string(wire.AppendUnescaped(nil, raw))
	if value := member(args, "path"); value != nil && string(value) != "null" {
		raw, ok := wire.Inner(value)
		if !ok {
			return a, errors.New("path is no text")
		}
		a.path = string(wire.AppendUnescaped(nil, raw))
	}
	for _, n := range [...]struct {
		name        string
		at          *int
		least, most int
	}{{"offset_chars", &a.offset, 0, 1 << 30}, {"limit_chars", &a.limit, 1, maxWindow}, {"max_tokens", &a.tokens, 1, 1 << 30}} {
		value := member(args, n.name)
		if value == nil || string(value) == "null" {
			continue
		}
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || f != float64(int(f)) || int(f) < n.least {
			return a, fmt.Errorf("%s is no whole number of at least %d", n.name, n.least)
		}
		*n.at = min(int(f), n.most)
	}
	return a, nil
}

// find returns what is asked for of an original.
func (a *ask) find(original []byte) ([]byte, error) {
	whole := wholeText(original)
	if a.path == "" {
		return whole, nil
	}
	steps := fields.Split(a.path)
	if steps == nil {
		return nil, fmt.Errorf("path %q cannot be read", clip(a.path, 100))
	}
	for _, doc := range [...][]byte{member(original, "structuredContent"), whole, original} {
		if !isContainer(doc) || !wire.Valid(doc) {
			continue
		}
		if value := lookup(doc, steps); value != nil {
			if raw, ok := wire.Inner(value); ok {
				return wire.AppendUnescaped(nil, raw), nil
			}
			return value, nil
		}
	}
	names := ""
	for i, name := range fields.Names(whole, maxNoted) {
		names += [...]string{": there are ", ", "}[min(i, 1)] + clip(name, 40)
	}
	return nil, fmt.Errorf("there is no %q in the result%s", clip(a.path, 100), names)
}

// wholeText is what of an original is read without a path.
func wholeText(original []byte) []byte {
	var l layout
	l.lay(original, "", 2)
	if len(l.blocks) == 0 && l.structured.is() && l.skipped == (skipped{}) {
		return l.structured.of(original)
	}
	if len(l.blocks) == 1 && l.skipped == (skipped{}) && l.blocks[0].kind == textBlock {
		text := l.textOf(&l.blocks[0])
		if !l.structured.is() || wire.Valid(text) && wire.Equal(l.structured.of(original), text) {
			return text
		}
	}
	return original
}

// lookup follows names and indexes; nil when they lead nowhere.
func lookup(value []byte, steps []string) []byte {
	for _, step := range steps {
		i := skipSpace(value, 0)
		if i == len(value) || scalar(value[i:]) {
			return nil
		}
		var found []byte
		n := 0
		each(value, i, func(name []byte, at int) (int, bool) {
			end := skipValue(value, at)
			if name != nil && wire.IsText(name, step) || name == nil && strconv.Itoa(n) == step {
				found = value[at:end]
			}
			n++
			return end, true
		})
		if value = found; value == nil {
			return nil
		}
	}
	return value
}

// window is the result with the part of a text that is asked for.
func (e *Engine) window(text []byte, a ask) []byte {
	from := runeIndex(text, a.offset)
	rest := text[from:]
	end := runeIndex(rest, a.limit)
	if end < len(rest) {
		if nice := floorGrapheme(rest, end); nice > 0 {
			end = nice
		}
	}
	limit := a.tokens
	if budget := e.budget(e.rest); budget > 0 && (limit == 0 || limit > budget) {
		limit = budget
	}
	if limit > 0 {
		m := tokenMeter{e.encoding, max(leastShare, limit-moreNotice)}
		if !m.fits(rest[:end]) {
			n := 0
			widest(end, m.guess(), func(k int) []byte {
				if k = floorGrapheme(rest, k); k == 0 || !m.fits(rest[:k]) {
					return nil
				}
				n = max(n, k)
				return rest[:k]
			})
			if n == 0 { // a grapheme of more tokens than that
				n = ceilGrapheme(rest, 1)
			}
			end = n
		}
	}
	all := utf8.RuneCount(text)
	start := min(a.offset, all)
	next := start + utf8.RuneCount(rest[:end])
	where := fmt.Sprintf("characters %d to %d of %d, the end", start, next, all)
	if next < all {
		path := ""
		if a.path != "" {
			path = `,"path":` + string(appendQuoted(nil, []byte(a.path)))
		}
		where = fmt.Sprintf(`characters %d to %d of %d; more: %s {"cursor":"%s"%s,"offset_chars":%d}`, start, next, all, e.MoreName(), a.cursor, path, next)
	}
	out := appendQuoted([]byte(`{"content":[{"type":"text","text":`), rest[:end])
	out = appendQuoted(append(out, `},{"type":"text","text":`...), []byte("["+where+"]"))
	return fmt.Appendf(out, `,"_meta":{"%s":{"notice":true}}}],"_meta":{"%s":{"offset":%d,"next":%d,"total":%d}}}`, ownMeta, ownMeta, start, next, all)
}

// moreError is the result of a call that cannot be answered.
func moreError(code string, err error) []byte {
	out := appendQuoted([]byte(`{"content":[{"type":"text","text":`), []byte(code+": "+err.Error()))
	return append(out, `}],"isError":true}`...)
}
