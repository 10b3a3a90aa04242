package capper

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// The rules for answers that are JSON.

var (
	idNames    = []string{"number", "identifier", "id", "key", "full_name", "path", "name", "filename", "symbol", "sha"}
	titleNames = []string{"title", "full_name", "name", "summary", "subject", "login", "message", "entityType", "type", "text"}
	stateNames = []string{"id", "name", "title", "login", "full_name", "key", "type", "state", "status", "total", "count"}
)

// json adds ids with titles, spread over the two largest lists; entries, spread over
// maps; what identifies the objects below the root; items that failed; and the beginnings and
// ends of long texts.
func (f *finder) json(doc gjson.Result) {
	var lists, maps, texts []gjson.Result
	var walk func(v gjson.Result, depth int)
	walk = func(v gjson.Result, depth int) {
		n := 0
		v.ForEach(func(_, e gjson.Result) bool {
			n++
			switch {
			case e.Type == gjson.String && len(e.Raw) > 200 && !base64Text(e.Str):
				texts = append(texts, e)
			case depth < 6:
				walk(e, depth+1)
			}
			return true
		})
		switch {
		case v.IsArray() && n >= 3 && depth <= 3 && v.Get("0").IsObject():
			lists = append(lists, v)
		case v.IsObject() && n >= 30 && depth <= 2:
			maps = append(maps, v)
		}
	}
	walk(doc, 0)
	bySize := func(a, b gjson.Result) int { return len(b.Raw) - len(a.Raw) }
	slices.SortStableFunc(lists, bySize)
	slices.SortStableFunc(texts, bySize)
	for _, list := range lists[:min(2, len(lists))] {
		items := spread(list.Array(), 12)
		for i, item := range items {
			id, title := identity(item)
			if id == "" {
				continue
			}
			if title == "" {
				f.add(2, id)
			} else {
				f.add(2, id, title)
			}
			if i > 0 && i < len(items)-1 {
				continue
			}
			n := 0
			item.ForEach(func(k, v gjson.Result) bool {
				if scalar(v) && !hollow(v) && len(v.Raw) < 100 {
					f.add(.5, id, pair(k, v))
					n++
				}
				return n < 6
			})
		}
	}
	for _, m := range maps[:min(1, len(maps))] {
		var entries []string
		m.ForEach(func(k, v gjson.Result) bool {
			switch {
			case scalar(v) && len(v.Raw) <= 200:
				entries = append(entries, pair(k, v))
			default:
				entries = append(entries, k.Raw+":")
			}
			return true
		})
		for _, e := range spread(entries, 12) {
			f.add(1.5, e)
		}
	}
	if doc.IsObject() {
		n := 0
		doc.ForEach(func(_, v gjson.Result) bool {
			if n++; v.IsObject() {
				for _, name := range stateNames {
					if e := v.Get(name); e.Exists() && scalar(e) && !hollow(e) && len(e.Raw) <= 200 {
						f.add(1, `"`+name+`":`+e.Raw)
					}
				}
			}
			return n < 20
		})
	}
	f.failed(doc, 0)
	for _, t := range texts[:min(4, len(texts))] {
		lines := strings.Split(t.Str, "\n")
		f.line(clip(firstLine(t.Str), 60), 1)
		f.line(clip(lastLine(lines), 60), .5)
	}
}

// failed adds the items of lists that report a failure.
func (f *finder) failed(v gjson.Result, depth int) {
	if depth > 8 || len(f.all) > 120 {
		return
	}
	v.ForEach(func(_, e gjson.Result) bool {
		if v.IsArray() && e.IsObject() {
			for _, name := range []string{"status", "conclusion", "state", "severity", "level"} {
				switch s := e.Get(name).Str; s {
				case "failed", "failure", "error", "timed_out", "critical", "fatal":
					for _, n := range append([]string{"fullName"}, idNames...) {
						if id := e.Get(n); id.Exists() && scalar(id) {
							f.add(3, `"`+n+`":`+id.Raw)
							break
						}
					}
				}
			}
		}
		if e.IsObject() || e.IsArray() {
			f.failed(e, depth+1)
		}
		return true
	})
}

// openapi adds what json adds, paths with their summaries, and schemas.
func (f *finder) openapi(doc gjson.Result) {
	f.json(doc)
	var paths, below []string
	doc.Get("paths").ForEach(func(k, v gjson.Result) bool {
		about := ""
		v.ForEach(func(_, op gjson.Result) bool {
			if s := op.Get("summary"); s.Exists() {
				about = `"summary":` + s.Raw
			}
			return false
		})
		paths, below = append(paths, k.Raw+":"), append(below, about)
		return true
	})
	for _, p := range spread(paths, 20) {
		f.add(2, p)
	}
	for _, s := range spread(below, 12) {
		f.add(1, s)
	}
	var schemas []string
	doc.Get("components.schemas").ForEach(func(k, _ gjson.Result) bool {
		schemas = append(schemas, k.Raw+":")
		return true
	})
	for _, s := range spread(schemas, 12) {
		f.add(1, s)
	}
}

// tree adds the entries at the top, folders one level below, and some of all entries.
func (f *finder) tree(doc gjson.Result) {
	var all, folders []string
	var walk func(v gjson.Result, depth int)
	walk = func(v gjson.Result, depth int) {
		if name := v.Get("name"); name.Exists() {
			entry := `"name":` + name.Raw
			all = append(all, entry)
			if depth == 1 && len(all) <= 200 {
				f.add(2, entry)
			}
			if v.Get("children").Exists() && depth == 2 {
				folders = append(folders, entry)
			}
		}
		if v.IsArray() {
			v.ForEach(func(_, e gjson.Result) bool { walk(e, depth+1); return true })
			return
		}
		v.Get("children").ForEach(func(_, e gjson.Result) bool { walk(e, depth+1); return true })
	}
	if doc.IsObject() && doc.Get("content").Type == gjson.String { // a tree in a text
		doc = gjson.Parse(doc.Get("content").Str)
	}
	walk(doc, 0)
	for _, e := range spread(folders, 15) {
		f.add(1, e)
	}
	for _, e := range spread(all, 20) {
		f.add(1, e)
	}
}

func identity(item gjson.Result) (id, title string) {
	for _, n := range idNames {
		if v := item.Get(n); v.Exists() && scalar(v) && !hollow(v) && len(v.Raw) <= 200 {
			id = `"` + n + `":` + v.Raw
			break
		}
	}
	for _, n := range titleNames {
		if v := item.Get(n); v.Exists() && scalar(v) && !hollow(v) && len(v.Raw) <= 200 && `"`+n+`":`+v.Raw != id {
			title = `"` + n + `":` + v.Raw
			break
		}
	}
	if id != "" && title != "" {
		return id, title
	}
	item.ForEach(func(k, v gjson.Result) bool { // otherwise the first members
		if scalar(v) && !hollow(v) && len(v.Raw) <= 200 {
			if p := pair(k, v); id == "" {
				id = p
			} else if p != id {
				title = p
			}
		}
		return title == ""
	})
	return id, title
}

func pair(k, v gjson.Result) string { return k.Raw + ":" + v.Raw }
func scalar(v gjson.Result) bool    { return !v.IsObject() && !v.IsArray() }
func hollow(v gjson.Result) bool {
	return v.Type == gjson.Null || v.Raw == `""` || v.Raw == "[]" || v.Raw == "{}"
}
