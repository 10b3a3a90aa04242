package transform

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A pager writes a document with only the first page of each array, and
// shortens the texts that the rule names.
type pager struct {
	run     *run
	doc     tree.Document
	guarded bool
	out     []byte
	path    []string // names of the members around
	pages   []page   // of the object being written
	changed bool
	cuts    cuts
	lists   int    // how many are around the value being written
	met     []bool // by cut of the rule: whether it matched a text; nil if that is not needed
}

// A page describes the beginning of an array, which is its first page.
type page struct {
	Path     string `json:"path,omitempty"`
	Total    int    `json:"total"`
	Returned int    `json:"returned"`
	HasMore  bool   `json:"has_more"`
	Cursor   string `json:"cursor,omitempty"`
}

const pagesName = "_pagination"

func (p *pager) value(n uint32, g schema.Guards) {
	at := &p.doc.Nodes[n]
	switch c := p.doc.Text[at.Pos]; {
	case g.Frozen():
		p.out = wire.AppendCompact(p.out, p.doc.Raw(n))
	case c == '{':
		p.object(n, g)
	case c == '[':
		p.array(n, g)
	case c == '"':
		p.string(n, g)
	default:
		p.out = append(p.out, p.doc.Raw(n)...)
	}
}

func (p *pager) object(n uint32, g schema.Guards) {
	outer := p.pages
	p.pages = nil
	p.out = append(p.out, '{')
	own := false
	for m := n + 1; m < p.doc.Nodes[n].Next; m = p.doc.Nodes[m].Next {
		p.out = wire.AppendKey(p.out, p.doc.Name(m))
		name := p.doc.Label(m)
		own = own || name == pagesName
		p.path = append(p.path, name)
		p.value(m, g.Member(&p.doc, m))
		p.path = p.path[:len(p.path)-1]
	}
	if len(p.pages) > 0 && !own && g.MayAdd() {
		p.out = append(append(append(p.out, `,"`...), pagesName...), '"', ':')
		if len(p.pages) == 1 {
			p.out = p.pages[0].append(p.out)
		} else {
			for i, page := range p.pages {
				p.out = page.append(append(p.out, "[,"[min(i, 1)]))
			}
			p.out = append(p.out, ']')
		}
	}
	p.out = append(p.out, '}')
	p.pages = outer
}

func (g page) append(dst []byte) []byte {
	dst = append(dst, '{')
	if g.Path != "" {
		dst = append(wire.AppendQuoted(append(dst, `"path":`...), []byte(g.Path)), ',')
	}
	dst = fmt.Appendf(dst, `"total":%d,"returned":%d,"has_more":true`, g.Total, g.Returned)
	if g.Cursor != "" {
		dst = wire.AppendQuoted(append(dst, `,"cursor":`...), []byte(g.Cursor))
	}
	return append(dst, '}')
}

func (p *pager) array(n uint32, g schema.Guards) {
	at := &p.doc.Nodes[n]
	keep := int(at.Count)
	if size := p.run.rule.pageSize; size > 0 && !p.own() {
		keep = min(keep, max(size, g.MinItems()))
	}
	cut := keep < int(at.Count)
	wrap := cut && p.run.rule.wrap && !p.guarded
	if wrap {
		p.out = append(p.out, `{"items":`...)
	}
	outer := p.pages
	p.out = append(p.out, '[')
	i := 0
	for m := n + 1; m < at.Next && i < keep; m = p.doc.Nodes[m].Next {
		p.out = wire.Comma(p.out)
		p.lists++
		p.value(m, g.Element(&p.doc, m, i))
		p.lists--
		i++
	}
	p.out = append(p.out, ']')
	p.pages = outer
	if !cut {
		return
	}
	p.changed = true
	if p.lists == 0 && p.run.page.Path == nil && p.run.page.From == 0 {
		p.run.page = fit.Place{Path: slices.Clone(p.path), From: keep}
	}
	where := "."
	if len(p.path) > 0 {
		parts := p.path[max(0, len(p.path)-4):]
		where = clip(strings.Join(parts, "."), 100)
	}
	if len(p.cuts.arrays) < maxNoted {
		p.cuts.arrays = append(p.cuts.arrays, ArrayCut{where, keep, int(at.Count), "items"})
	}
	here := page{Path: where, Total: int(at.Count), Returned: keep, Cursor: p.cursor(keep)}
	if wrap {
		here.Path = ""
		p.out = append(here.append(append(append(p.out, `,"`...), pagesName+`":`...)), '}')
		return
	}
	p.pages = append(p.pages, here)
}

// cursor returns the cursor of the page after the first keep items of the array
// being written. It is the handle to the original and, if the names around the
// array say which one it is, the place.
func (p *pager) cursor(keep int) string {
	handle := p.run.handle()
	if path := fit.JoinPath(p.path); handle != "" && p.lists == 0 && len(path) <= maxPath {
		return pageCursor(handle, keep, max(1, p.run.rule.pageSize), path)
	}
	return handle
}

// own reports whether the array is the value of _pagination, which this package
// wrote.
func (p *pager) own() bool { return len(p.path) > 0 && p.path[len(p.path)-1] == pagesName }

func (p *pager) string(n uint32, g schema.Guards) {
	raw := p.doc.Raw(n)
	inner := raw[1 : len(raw)-1]
	c := p.cut()
	if c != nil && !g.Fixed() {
		most := max(c.max, g.MinLength())
		if len(inner) > most && !fit.Protected(p.path[len(p.path)-1], inner) {
			if total := tree.CodePoints(inner, len(inner)); total > most {
				s := shortening{max: most, strategy: c.strategy, marker: p.run.rule.marker}
				short := s.text(wire.AppendUnescaped(nil, inner), total)
				if utf8.RuneCount(short) >= g.MinLength() {
					p.out = wire.AppendQuoted(p.out, short)
					p.changed = true
					p.cuts.strings++
					return
				}
			}
		}
	}
	p.out = append(p.out, raw...)
}

// cut returns the first cut of the rule that matches the member being written,
// or nil if none does.
func (p *pager) cut() (first *cut) {
	for i := range p.run.rule.cuts {
		c := &p.run.rule.cuts[i]
		if n := len(p.path) - len(c.steps); n >= 0 && len(c.steps) > 0 && slices.EqualFunc(c.steps, p.path[n:], func(step, name string) bool {
			return step == name || step == "*"
		}) {
			if first == nil {
				first = c
			}
			if p.met == nil {
				break
			}
			p.met[i] = true
		}
	}
	return first
}
