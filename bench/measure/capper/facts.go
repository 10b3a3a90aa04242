package capper

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// A fact is something that a reader of an answer would look for. A cut keeps it if
// all its parts are in the cut answer.
type fact struct {
	parts  []string
	weight float64
}

// The rules below find the facts of an answer from the answer alone. They do not
// depend on what a cut keeps.

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

// add adds a fact, unless it has been added before or a part of it is very short.
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

// line adds the first 100 bytes of a line as a fact.
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

// members adds the names of the root's members, and their values if they are short.
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

// only returns the value of an object's only member.
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

// spread returns up to n items at even distances, the first and the last included.
func spread[T any](all []T, n int) (some []T) {
	if len(all) <= n {
		return all
	}
	for i := range n {
		some = append(some, all[i*(len(all)-1)/(n-1)])
	}
	return some
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

// letters counts letters, digits and characters beyond ASCII.
func letters(s string) (n int) {
	for _, r := range s {
		if r > 127 || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' {
			n++
		}
	}
	return n
}

// longest returns the longest string in a document.
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

// base64Text reports whether a string is base64 as a whole.
func base64Text(s string) bool {
	if strings.ContainsAny(s, " \n") {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(s[:len(s)/4*4])
	return err == nil
}

var escapes = regexp.MustCompile(`\\+[nrt]|\\+|\s+`)

// normal removes white space, escapes and backslashes from a text, so that it can be
// found in JSON, in JSON within JSON and in plain text alike.
func normal(text string) string { return escapes.ReplaceAllString(text, "") }
