package capper

import "strings"

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
