package transform

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fields"
	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	defaultWindow = 4096 // code points of a raw part
	maxWindow     = 16384
	moreNotice    = 90 // about how many tokens the notice of a raw part has
	maxFind       = 200
)

// MoreTool returns the tool that reads more of a cut result, as an element of
// the tools of tools/list: at most 700 bytes. It returns nil if there is no such
// tool, because nothing is cut or the configuration turns it off.
func (e *Engine) MoreTool() []byte {
	if e == nil || !e.config.Enabled || e.config.MoreTool.Enabled == "off" {
		return nil
	}
	if e.config.MoreTool.Enabled == "auto" && !e.cuts() {
		return nil
	}
	return fmt.Appendf(nil, `{"name":"%s","description":"Read on in a result that was cut. Its last line names the call. path picks a part (items.4.body); `+
		`from and count are items of a list, entries of an object, lines of a text; find gives the lines or values with a text in them; raw gives characters as they were.",`+
		`"inputSchema":{"type":"object","properties":{"cursor":{"type":"string"},"path":{"type":"string"},"from":{"type":"integer"},`+
		`"count":{"type":"integer"},"find":{"type":"string"},"raw":{"type":"boolean"},"max_tokens":{"type":"integer"}},"required":["cursor"]},`+
		`"annotations":{"readOnlyHint":true,"idempotentHint":true}}`, e.MoreName())
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

// More answers a call of the tool that reads more of a cut result. args are the
// arguments of the call, a JSON object or nil. More returns a CallToolResult that
// fits the budget of the cut result. The last text of it names the next call, or
// says that there is none. If the call fails, isError is true. ctx bounds how long
// it looks for what another replica has cut.
func (e *Engine) More(ctx context.Context, session, caller string, args []byte) (out []byte) {
	defer func() {
		if cause := recover(); cause != nil {
			out = moreError("INTERNAL", fmt.Errorf("reading on failed: %v", cause))
		}
	}()
	a, err := readAsk(args)
	if err != nil {
		return moreError("INVALID_ARGUMENTS", err)
	}
	kept, err := e.store.open(ctx, session, caller, a.cursor)
	if errors.Is(err, ErrUnavailable) {
		return moreError("CURSOR_UNAVAILABLE", fmt.Errorf("%w. Try again in a moment, or repeat the call with narrower arguments: fewer items, fewer fields, a filter", ErrUnavailable))
	}
	if err != nil {
		return moreError("CURSOR_EXPIRED", fmt.Errorf("%w. Repeat the call, with narrower arguments if possible", err))
	}
	if a.raw {
		text, err := a.part(kept.original)
		if err != nil {
			return moreError("INVALID_ARGUMENTS", err)
		}
		return e.window(text, a)
	}
	budget := kept.budget
	if budget == 0 {
		budget = e.budget(e.rest)
	}
	if budget == 0 || a.tokens > 0 && a.tokens < budget {
		budget = a.tokens
	}
	if budget == 0 {
		budget = DefaultConfig().DefaultMaxTokens
	}
	r := &reading{engine: e, ask: &a, budget: max(budget, minTokens)}
	r.open(kept)
	if a.find != "" {
		return r.found()
	}
	return r.on(kept)
}

// ask holds the arguments of a call.
type ask struct {
	cursor, path, find  string
	from, count, tokens int // from and count are -1 if the call does not name them
	raw                 bool
	within              *fit.Place // where reading continues in what is asked for; nil for its beginning
}

func readAsk(args []byte) (a ask, err error) {
	a.from, a.count = -1, -1
	if !wire.Valid(args) || !tree.IsContainer(args) {
		return a, errors.New("the arguments must be a JSON object with a cursor")
	}
	for _, s := range [...]struct {
		name string
		at   *string
	}{{"cursor", &a.cursor}, {"path", &a.path}, {"find", &a.find}} {
		value := tree.Member(args, s.name)
		if value == nil || string(value) == "null" {
			continue
		}
		raw, ok := wire.Inner(value)
		if !ok {
			return a, fmt.Errorf("%s must be a string", s.name)
		}
		*s.at = string(wire.AppendUnescaped(nil, raw))
	}
	if a.cursor == "" {
		return a, errors.New("cursor is missing")
	}
	if len(a.find) > maxFind {
		return a, fmt.Errorf("find is longer than %d bytes", maxFind)
	}
	a.raw = string(tree.Member(args, "raw")) == "true"
	for _, n := range [...]struct {
		name  string
		at    *int
		least int
	}{{"from", &a.from, 0}, {"count", &a.count, 1}, {"max_tokens", &a.tokens, 1}} {
		value := tree.Member(args, n.name)
		if value == nil || string(value) == "null" {
			continue
		}
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil || f != float64(int(f)) || int(f) < n.least {
			return a, fmt.Errorf("%s must be a whole number of at least %d", n.name, n.least)
		}
		*n.at = min(int(f), 1<<30)
	}
	if parts := strings.SplitN(a.cursor, ":", 4); len(parts) == 4 { // of a page, or of entries that are read in parts
		if a.path != "" {
			a.within = &fit.Place{Path: fit.SplitPath(a.path), From: max(0, a.from)}
		}
		a.cursor, a.path = parts[0], parts[3]
		a.from, _ = strconv.Atoi(parts[1])
		a.count, _ = strconv.Atoi(parts[2])
		if a.from < 0 || a.count < 1 {
			return a, errors.New("cursor is not the cursor of a page")
		}
	}
	return a, nil
}

// pageCursor returns a cursor that says which entries are asked for.
func pageCursor(handle string, from, count int, path string) string {
	return fmt.Sprintf("%s:%d:%d:%s", handle, from, count, path)
}

// A reading continues reading an original.
type reading struct {
	*ask
	engine *Engine
	budget int
	plan   *fit.Plan
	begins string // where it begins in a long line
}

// open ranks the original as it was ranked when it was cut, so that it is known
// which units were shown.
func (r *reading) open(kept *entry) {
	call := kept.call
	one := &run{engine: r.engine, rule: r.engine.rest, call: &call, original: kept.original, report: &Report{}}
	budget := cmp.Or(kept.budget, r.budget)
	r.plan = one.capping(kept.original, budget).plan
}

// on continues reading from a place.
func (r *reading) on(kept *entry) []byte {
	at := fit.Place{From: max(0, r.from)}
	at.Path = fit.SplitPath(r.path)
	// A part that a call asks for by its path alone is returned whole. A call
	// that a notice named leaves out what was shown.
	count, shown := r.count, kept.shown
	if r.path != "" && r.from < 0 && count < 0 {
		count = 1 << 30
	}
	if count >= 0 {
		shown = 0
		value, err := r.plan.Part(at.Path), error(nil) // a text block is read as its text, not as its JSON
		if value == nil {
			value, err = r.part(kept.original)
		}
		if err == nil {
			r.plan = fit.New([]fit.Part{{Text: value}}, fit.Options{
				Columns: r.engine.config.Adapters.Capper.Tables == "columns", Most: r.budget,
				Name: func(int) []string { return slices.Clone(at.Path) },
			})
		}
	}
	if !r.plan.Read(shown, at, count, r.within) {
		return moreError("INVALID_ARGUMENTS", r.nowhere(kept.original))
	}
	if at, all, ok := r.plan.InLine(); ok {
		r.begins = fmt.Sprintf("From character %s of %s of the line. ", thousands(at), thousands(all))
	}
	notice := ""
	count1 := func(parts [][]byte) (sum int) {
		notice = r.where(count, shown)
		for _, p := range append([][]byte{[]byte(notice)}, parts...) {
			n, over := r.engine.encoding.CountUpTo(p, max(0, r.budget-sum))
			if sum += n; over {
				return max(sum, r.budget+1)
			}
		}
		return sum
	}
	parts, _ := r.plan.Fit(r.budget, tokensPerByte, count1)
	skipped := ""
	if r.plan.Kept() == 0 && r.plan.Left() > 0 {
		path := fit.JoinPath(r.plan.Skip().Path)
		skipped = fmt.Sprintf("%q has a value that is larger than the budget: raw reads it. ", clip(path, 60))
	}
	notice = skipped + r.where(count, shown)
	return moreResult(parts, notice)
}

// where returns the notice that says where reading continues.
func (r *reading) where(count, shown int) string {
	if r.plan.Left() == 0 {
		return "[" + r.begins + "the end]"
	}
	without := r.begins
	if shown > 0 {
		without += "Without what was shown before. "
	}
	cursor := r.cursor
	at, left := r.plan.Next()
	if count >= 0 && left < 0 { // within an entry that is larger than the budget
		cursor = pageCursor(r.cursor, max(0, r.from), count, r.path)
	}
	return "[" + without + "Next: " + callOf(r.engine.MoreName(), cursor, at, left) + "]"
}

// nowhere returns the error for a path that leads nowhere.
func (r *reading) nowhere(original []byte) error {
	doc := original
	for _, text := range [...][]byte{tree.Member(original, "structuredContent"), wholeText(original)} {
		if tree.IsContainer(text) && wire.Valid(text) {
			doc = text
			break
		}
	}
	return fmt.Errorf("the result has no part %q that can be read on%s", clip(r.path, 100), thereAre(doc))
}

// thereAre returns words that say which fields a document has.
func thereAre(doc []byte) (words string) {
	for i, name := range fields.Names(doc, maxNoted) {
		words += [...]string{": there are ", ", "}[min(i, 1)] + clip(name, 40)
	}
	return words
}

// found returns a result with the lines and values that contain the text to
// find, with their places.
func (r *reading) found() []byte {
	var out []byte
	room, n, from := r.budget-moreNotice/2, 0, max(0, r.from)
	next := ""
	r.plan.Find(r.find, func(at fit.Place, line bool, text []byte) bool {
		if n++; n <= from {
			return true
		}
		place := fit.JoinPath(at.Path)
		if line {
			if place != "" {
				place += ":"
			}
			place += strconv.Itoa(at.From)
		}
		one := fmt.Appendf(nil, "%s: %s\n", place, text)
		cost := r.engine.encoding.Count(one)
		if cost > room && len(out) > 0 || r.count > 0 && n-from > r.count {
			ask := wire.AppendQuoted([]byte(`,"find":`), []byte(r.find))
			next = fmt.Sprintf(`Next: %s {"cursor":"%s"%s,"from":%d}`, r.engine.MoreName(), r.cursor, ask, n-1)
			return false
		}
		if cost <= room {
			out = append(out, one...)
			room -= cost
		}
		return true
	})
	switch {
	case next != "":
	case n == 0:
		next = "nothing found"
	default:
		next = fmt.Sprintf("%s found, the end", thousands(n))
	}
	return moreResult([][]byte{bytes.TrimRight(out, "\n")}, "["+next+"]")
}

// moreResult returns a result with these texts, and a notice.
func moreResult(parts [][]byte, notice string) []byte {
	out := []byte(`{"content":[`)
	for _, p := range parts {
		if len(p) > 0 {
			out = append(wire.AppendQuoted(append(out, `{"type":"text","text":`...), p), '}', ',')
		}
	}
	out = wire.AppendQuoted(append(out, `{"type":"text","text":`...), []byte(notice))
	return fmt.Appendf(out, `,"_meta":{"%s":{"notice":true}}}]}`, ownMeta)
}

// part returns the part of an original that the call asks for, as it was.
func (a *ask) part(original []byte) ([]byte, error) {
	whole := wholeText(original)
	if a.path == "" {
		return whole, nil
	}
	steps := fit.SplitPath(a.path)
	for _, doc := range [...][]byte{tree.Member(original, "structuredContent"), whole, original} {
		if !tree.IsContainer(doc) || !wire.Valid(doc) {
			continue
		}
		if value := lookup(doc, steps); value != nil {
			if raw, ok := wire.Inner(value); ok {
				return wire.AppendUnescaped(nil, raw), nil
			}
			return value, nil
		}
	}
	return nil, fmt.Errorf("there is no %q in the result%s", clip(a.path, 100), thereAre(whole))
}

// wholeText returns the part of an original that is read without a path.
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

// lookup returns the value that names and indexes lead to, or nil if they lead
// nowhere.
func lookup(value []byte, steps []string) []byte {
	for _, step := range steps {
		i := tree.SkipSpace(value, 0)
		if i == len(value) || tree.Scalar(value[i:]) {
			return nil
		}
		var found []byte
		n := 0
		tree.Each(value, i, func(name []byte, at int) (int, bool) {
			end := tree.SkipValue(value, at)
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

// window returns a result with the characters of a text that the call asks for.
func (e *Engine) window(text []byte, a ask) []byte {
	a.from = max(0, a.from)
	if a.count < 0 {
		a.count = defaultWindow
	}
	from := runeIndex(text, a.from)
	rest := text[from:]
	end := runeIndex(rest, min(a.count, maxWindow))
	if end < len(rest) {
		if nice := grapheme.Floor(rest, end); nice > 0 {
			end = nice
		}
	}
	limit := a.tokens
	if budget := e.budget(e.rest); budget > 0 && (limit == 0 || limit > budget) {
		limit = budget
	}
	if limit > 0 {
		room := max(10, limit-moreNotice)
		low, high := 0, end+1 // low fits
		for low+1 < high {
			k := grapheme.Floor(rest, (low+high)/2)
			if k <= low {
				k = grapheme.Ceil(rest, low+1)
			}
			if k >= high {
				break
			}
			if e.encoding.Fits(rest[:k], room) {
				low = k
			} else {
				high = k
			}
		}
		if low < end {
			if low == 0 { // a grapheme of more tokens than that
				low = grapheme.Ceil(rest, 1)
			}
			end = low
		}
	}
	all := utf8.RuneCount(text)
	start := min(a.from, all)
	next := start + utf8.RuneCount(rest[:end])
	where := fmt.Sprintf("characters %d to %d of %d, the end", start, next, all)
	if next < all {
		path := ""
		if a.path != "" {
			path = `,"path":` + string(wire.AppendQuoted(nil, []byte(a.path)))
		}
		where = fmt.Sprintf(`characters %d to %d of %d. Next: %s {"cursor":"%s"%s,"from":%d,"raw":true}`, start, next, all, e.MoreName(), a.cursor, path, next)
	}
	out := wire.AppendQuoted([]byte(`{"content":[{"type":"text","text":`), rest[:end])
	out = wire.AppendQuoted(append(out, `},{"type":"text","text":`...), []byte("["+where+"]"))
	return fmt.Appendf(out, `,"_meta":{"%s":{"notice":true}}}],"_meta":{"%s":{"offset":%d,"next":%d,"total":%d}}}`, ownMeta, ownMeta, start, next, all)
}

// moreError returns the result of a call that cannot be answered.
func moreError(code string, err error) []byte {
	out := wire.AppendQuoted([]byte(`{"content":[{"type":"text","text":`), []byte(code+": "+err.Error()))
	return append(out, `}],"isError":true}`...)
}
