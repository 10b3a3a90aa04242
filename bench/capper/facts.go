package main

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// A fact is something that a reader of an answer would look for. It is kept where
// all its parts are in what is left.
type fact struct {
	parts  []string
	weight float64
}

// The rules below find the facts of an answer from the answer alone. They do not
// know what any cut keeps.

// factsOf finds the facts of a result by the rules of its corpus entry.
func factsOf(a *answer) []fact {
	f := &finder{seen: make(map[string]bool)}
	texts := a.texts()
	for _, text := range texts {
		if len(texts) > 1 {
			f.line(firstLine(text), 1)
		}
		if doc := gjson.Parse(text); gjson.Valid(text) && (doc.IsObject() || doc.IsArray()) {
			for inner := doc; inner.IsObject(); inner = only(inner) { // {"data":{"issue":{…
				f.members(inner)
				doc = inner
			}
			if jsonRules[a.Facts] != nil {
				jsonRules[a.Facts](f, doc)
				continue
			}
			text = longest(doc) // the text inside of the JSON
		}
		if textRules[a.Facts] != nil {
			textRules[a.Facts](f, strings.Split(text, "\n"))
		}
	}
	return f.all
}

var jsonRules = map[string]func(*finder, gjson.Result){
	"json":    (*finder).json,
	"openapi": (*finder).openapi,
	"tree":    (*finder).tree,
}

var textRules = map[string]func(*finder, []string){
	"log":      (*finder).log,
	"test":     (*finder).test,
	"trace":    (*finder).trace,
	"markdown": (*finder).markdown,
	"source":   (*finder).source,
	"csv":      (*finder).csv,
	"html":     (*finder).html,
	"search":   (*finder).search,
	"lines":    (*finder).lines,
}

type finder struct {
	all  []fact
	seen map[string]bool
}

// add takes a fact down once. Parts that say next to nothing are no fact.
func (f *finder) add(weight float64, parts ...string) {
	key := ""
	for i, p := range parts {
		if parts[i] = p; len(normal(p)) < 4 {
			return
		}
		key += normal(p) + "\x00"
	}
	if !f.seen[key] {
		f.seen[key] = true
		f.all = append(f.all, fact{parts, weight})
	}
}

// line is the fact that a line is there, by its first 100 bytes.
func (f *finder) line(line string, weight float64) {
	line = strings.TrimSpace(line)
	if letters(line) < 8 {
		return
	}
	f.add(weight, strings.ToValidUTF8(line[:min(len(line), 100)], ""))
}

func (f *finder) someLines(lines []string, n int, weight float64) {
	for _, l := range spread(lines, n) {
		f.line(l, weight)
	}
}

// members: the names of the root's members, and their values where they are short.
func (f *finder) members(doc gjson.Result) {
	n := 0
	if doc.IsObject() {
		doc.ForEach(func(k, v gjson.Result) bool {
			n++
			switch {
			case hollow(v):
			case scalar(v) && len(v.Raw) <= 200:
				f.add(2, pair(k, v))
			default:
				f.add(1, k.Raw+":")
			}
			return n < 30
		})
	}
}

// only is the one member of an object that has one.
func only(doc gjson.Result) (inner gjson.Result) {
	n := 0
	doc.ForEach(func(_, v gjson.Result) bool {
		inner = v
		n++
		return n < 2
	})
	if n != 1 || inner.Get("0").Exists() {
		return gjson.Result{}
	}
	return inner
}

var (
	idNames    = []string{"number", "identifier", "id", "key", "full_name", "path", "name", "filename", "symbol", "sha"}
	titleNames = []string{"title", "full_name", "name", "summary", "subject", "login", "message", "entityType", "type", "text"}
	stateNames = []string{"id", "name", "title", "login", "full_name", "key", "type", "state", "status", "total", "count"}
)

// json: ids with titles spread over the two largest lists, entries spread over
// maps, what identifies the objects below the root, what failed, and how long
// texts begin and end.
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

// failed: the items of lists that say they failed.
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

// openapi: what json finds, paths with their summaries, and schemas.
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

// tree: the entries at the top, folders one below, and some of all.
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

var (
	errorLine   = regexp.MustCompile(`(?i)\b(error|fatal|panic|exception|failed|failure|traceback|cannot|unable|undefined|denied)\b|\bE\d{3,4}\b|(Error|Exception)\b`)
	failLine    = regexp.MustCompile(`--- FAIL|^FAIL|FAILED|✕|●|^not ok|^ERROR `)
	detailLine  = regexp.MustCompile(`^E  |Expected|Received|_test\.go:\d+|AssertionError`)
	summaryLine = regexp.MustCompile(`^(Tests:|Test Suites:|Snapshots:|ok\s|FAIL|PASS|Ran )|^=+ .* =+$|\d+ (passed|failed|passing|failing)`)
	thrownLine  = regexp.MustCompile(`^\s*(Caused by: )?[\w.$]*(Error|Exception)\b`)
	frameLine   = regexp.MustCompile(`File ".*", line \d+|^\s+at .*\(|\.go:\d+`)
	underline   = regexp.MustCompile(`^(===+|---+)\s*$`)
	digits      = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)
)

// log: the last error, the first, others spread between, lines unlike all others,
// how it begins and ends, and some of all.
func (f *finder) log(lines []string) {
	shapes := make(map[string]int)
	for _, l := range lines {
		shapes[digits.ReplaceAllString(l, "0")]++
	}
	var bad, rare []string
	for _, l := range lines {
		if errorLine.MatchString(l) {
			bad = append(bad, l)
		} else if len(lines) > 100 && shapes[digits.ReplaceAllString(l, "0")] == 1 && letters(l) >= 8 {
			rare = append(rare, l)
		}
	}
	if len(bad) > 0 {
		f.line(bad[len(bad)-1], 4)
		f.line(bad[0], 3)
		f.someLines(bad, 8, 2)
	}
	f.someLines(rare, 4, 1.5)
	f.ends(lines, 1, 3)
	f.someLines(lines, 10, .5)
}

// ends: the first line, the last and the two before it.
func (f *finder) ends(lines []string, first, last float64) {
	f.line(firstLine(strings.Join(lines[:min(len(lines), 20)], "\n")), first)
	n := 0
	for i := len(lines) - 1; i >= 0 && n < 3; i-- {
		if letters(lines[i]) >= 8 {
			f.line(lines[i], last)
			last = 1
			n++
		}
	}
}

// test: what failed and why, and the summary.
func (f *finder) test(lines []string) {
	f.matching(lines, failLine, 14, 3)
	f.matching(lines, detailLine, 10, 2)
	sum := matching(lines, summaryLine)
	for _, l := range sum[max(0, len(sum)-4):] {
		f.line(l, 3)
	}
	f.ends(lines, 1, 2)
	f.someLines(lines, 6, .5)
}

// trace: what was thrown, and where.
func (f *finder) trace(lines []string) {
	thrown := matching(lines, thrownLine)
	if len(thrown) > 0 {
		f.line(thrown[len(thrown)-1], 4)
	}
	f.someLines(thrown, 8, 3)
	last := 0
	for i, l := range lines {
		if thrownLine.MatchString(l) || strings.HasPrefix(l, "Traceback") {
			last = i
		}
	}
	frames := matching(lines[max(0, last-12):], frameLine)
	for _, l := range frames[:min(3, len(frames))] {
		f.line(l, 1.5)
	}
	for _, l := range frames[max(0, len(frames)-3):] {
		f.line(l, 1.5)
	}
	f.ends(lines, 1, 2)
}

// markdown: headings, what stands first below some of them, and code.
func (f *finder) markdown(lines []string) {
	var heads, firsts, code []string
	open, want := "", false
	for i, l := range lines {
		t := strings.TrimSpace(l)
		if i+1 < len(lines) && t != "" && underline.MatchString(lines[i+1]) {
			t = "# " + t
		}
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			if open == "" {
				open = t[:3]
				code = append(code, "")
			} else if strings.HasPrefix(t, open) {
				open = ""
			}
			continue
		}
		level := len(t) - len(strings.TrimLeft(t, "#"))
		switch {
		case open != "":
			if n := len(code) - 1; code[n] == "" {
				code[n] = l
			}
		case level > 0 && level <= 6 && strings.HasPrefix(t[level:], " "):
			heads = append(heads, t)
			want = true
		case want && letters(t) >= 8:
			firsts, want = append(firsts, clip(t, 80)), false
		}
	}
	for _, h := range spread(heads, 40) {
		level := len(h) - len(strings.TrimLeft(h, "#"))
		f.add([]float64{2, 2, 1.5, 1, 1, 1}[level-1], h[level+1:])
	}
	f.someLines(firsts, 12, 1)
	f.someLines(code, 6, .5)
	f.someLines(lines, 6, .5)
	f.ends(lines, 1, 1)
}

var (
	signature = regexp.MustCompile(`^\s{0,4}(export |public |private |protected |static |async |abstract |pub |def |class |func |function |interface |struct |enum |type |module |impl |fn |- ?\(|\+ ?\(|@interface|@implementation|template|module\.exports|exports\.)|^\w[\w:<>*& ]+\(.*\)\s*\{$|^\w[\w.]+ = function`)
	importing = regexp.MustCompile(`^\s*(import |from |#include|#import|use |require|(const|var) .*require\()`)
	comment   = regexp.MustCompile(`^\s*(//|#|/\*|\*|""")`)
)

// source: signatures, how it begins, and some of all.
func (f *finder) source(lines []string) {
	f.matching(lines, signature, 30, 2)
	for i, l := range matching(lines, comment) {
		if i == 3 {
			break
		}
		f.line(l, 1)
	}
	for i, l := range matching(lines, importing) {
		if i == 3 {
			break
		}
		f.line(l, .5)
	}
	f.line(firstLine(strings.Join(lines[:min(len(lines), 20)], "\n")), .5)
	f.someLines(lines, 8, .5)
}

// csv: the header, and rows spread over the table, the last among them.
func (f *finder) csv(lines []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) < 2 {
		return
	}
	f.line(lines[0], 3)
	f.line(lines[len(lines)-1], 1.5)
	f.someLines(lines[1:], 12, 1)
}

var (
	titleTag   = regexp.MustCompile(`(?is)<title[^>]*>([^<]+)`)
	headingTag = regexp.MustCompile(`(?is)<h[1-4][^>]*>(.*?)</h[1-4]>`)
	paragraph  = regexp.MustCompile(`(?is)<(?:p|li|dd|td)[^>]*>\s*([^<]{24,})`)
	tag        = regexp.MustCompile(`(?s)<[^>]*>`)
)

// html: the title, headings, and how some paragraphs begin.
func (f *finder) html(lines []string) {
	text := strings.Join(lines, "\n")
	for _, m := range titleTag.FindAllStringSubmatch(text, 1) {
		f.add(3, m[1])
	}
	var heads, paras []string
	for _, m := range headingTag.FindAllStringSubmatch(text, -1) {
		run := "" // the longest text without a tag in it
		for _, part := range tag.Split(m[1], -1) {
			if len(part) > len(run) {
				run = part
			}
		}
		heads = append(heads, run)
	}
	for _, m := range paragraph.FindAllStringSubmatch(text, -1) {
		paras = append(paras, clip(strings.TrimSpace(m[1]), 60))
	}
	for _, h := range spread(heads, 25) {
		f.add(2, h)
	}
	for _, p := range spread(paras, 10) {
		f.add(1, p)
	}
}

// search: the files that were found, and some of the lines.
func (f *finder) search(lines []string) {
	var files []string
	for _, l := range lines {
		if path, _, ok := strings.Cut(l, ":"); ok && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	for _, p := range spread(files, 20) {
		f.add(2, p)
	}
	f.someLines(lines, 10, 1)
	f.ends(lines, 1, 1)
}

// lines: the ends, parts of a diff, and some of all.
func (f *finder) lines(lines []string) {
	f.matching(lines, regexp.MustCompile(`^(diff --git|commit )`), 20, 2)
	f.someLines(lines, 25, 1)
	f.ends(lines, 1.5, 1.5)
}

func (f *finder) matching(lines []string, re *regexp.Regexp, n int, weight float64) {
	f.someLines(matching(lines, re), n, weight)
}

// matching are the lines that match, each once.
func matching(lines []string, re *regexp.Regexp) (all []string) {
	seen := make(map[string]bool)
	for _, l := range lines {
		if re.MatchString(l) && !seen[l] {
			seen[l] = true
			all = append(all, l)
		}
	}
	return all
}

// spread picks up to n, evenly, the first and the last among them.
func spread[T any](all []T, n int) (some []T) {
	if len(all) <= n {
		return all
	}
	for i := range n {
		some = append(some, all[i*(len(all)-1)/(n-1)])
	}
	return some
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
	item.ForEach(func(k, v gjson.Result) bool { // else the first members that are there
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
func clip(s string, n int) string    { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
func lastLine(lines []string) string { return firstOf(slices.Backward(lines)) }

func firstOf(lines func(func(int, string) bool)) string {
	for _, l := range lines {
		if letters(l) >= 8 {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

func firstLine(text string) string { return firstOf(slices.All(strings.Split(text, "\n"))) }

// letters counts what is not blank or a sign.
func letters(s string) (n int) {
	for _, r := range s {
		if r > 127 || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' {
			n++
		}
	}
	return n
}

// longest is the longest string in a document.
func longest(doc gjson.Result) (text string) {
	doc.ForEach(func(_, v gjson.Result) bool {
		s := v.Str
		if v.IsObject() || v.IsArray() {
			s = longest(v)
		}
		if len(s) > len(text) {
			text = s
		}
		return true
	})
	return text
}

// base64Text reports whether a string is one run of base64.
func base64Text(s string) bool {
	if strings.ContainsAny(s, " \n") {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(s[:len(s)/4*4])
	return err == nil
}

var escapes = regexp.MustCompile(`\\+[nrt]|\\+|\s+`)

// normal is a text without white space, escapes and backslashes, so that it is
// found in JSON, in JSON within JSON and in plain text alike.
func normal(text string) string { return escapes.ReplaceAllString(text, "") }
