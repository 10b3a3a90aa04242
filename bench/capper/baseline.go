package main

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The simple ways to cut. Each leaves room for a marker.
const (
	marker     = "\n... [truncated]\n"
	markerRoom = 10
)

var baselines = []struct {
	name string
	cut  func(a *answer, budget int) string
}{
	{"head", func(a *answer, budget int) string { return headOf(whole(a), budget-markerRoom) + marker }},
	{"head+tail", func(a *answer, budget int) string {
		half := (budget - markerRoom) / 2
		return headOf(whole(a), half) + marker + tailOf(whole(a), half)
	}},
	{"lines", wholeLines},
	{"items", firstItems},
}

func wholeLines(a *answer, budget int) string {
	text := headOf(whole(a), budget-markerRoom)
	return text[:strings.LastIndexByte(text, '\n')+1] + marker
}

func whole(a *answer) string { return strings.Join(a.texts(), "\n") }

// headOf returns the longest beginning of a text that has at most n tokens.
func headOf(text string, n int) string {
	return longestFit(len(text), n, func(k int) string { return text[:k] })
}

func tailOf(text string, n int) string {
	return longestFit(len(text), n, func(k int) string { return text[len(text)-k:] })
}

func longestFit(most, n int, of func(k int) string) string {
	low, high := 0, most+1
	for low+1 < high {
		if k := (low + high) / 2; encoding.Fits([]byte(of(k)), n) {
			low = k
		} else {
			high = k
		}
	}
	return strings.ToValidUTF8(of(low), "")
}

// firstItems keeps everything but the largest list, and as many of that list's first items as fit.
func firstItems(a *answer, budget int) string {
	text := whole(a)
	if !gjson.Valid(text) {
		return wholeLines(a, budget)
	}
	doc := gjson.Parse(text).Get("@ugly").Raw
	var list gjson.Result
	var walk func(v gjson.Result, at int)
	at := 0
	walk = func(v gjson.Result, from int) {
		if v.IsArray() && len(v.Raw) > len(list.Raw) && len(v.Array()) > 2 {
			list, at = v, from
		}
		v.ForEach(func(_, e gjson.Result) bool {
			if e.IsObject() || e.IsArray() {
				walk(e, from+e.Index)
			}
			return true
		})
	}
	root := gjson.Parse(doc)
	walk(root, 0)
	if list.Raw == "" || len(list.Raw)*2 < len(doc) {
		return headOf(doc, budget-markerRoom) + marker
	}
	items := list.Array()
	at = strings.Index(doc, list.Raw)
	best := ""
	low, high := 0, len(items)+1
	for low+1 < high {
		n := (low + high) / 2
		var b strings.Builder
		for i, item := range items[:n] {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item.Raw)
		}
		out := doc[:at] + "[" + b.String() + "]" + doc[at+len(list.Raw):] + marker
		if encoding.Fits([]byte(out), budget-markerRoom) {
			low, best = n, out
		} else {
			high = n
		}
	}
	if best == "" {
		return headOf(doc, budget-markerRoom) + marker
	}
	return best
}
