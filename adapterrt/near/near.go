// Package near finds the names that were probably meant by one that does not exist.
package near

import (
	"slices"
	"strings"
)

// Names are those of among, at most so many, that name was probably meant for, the
// likeliest first: the same in another spelling (getIssue, get-issue), the same words
// in another order, one that name has a prefix before, or one a few letters away.
func Names(name string, among []string, most int) []string {
	type ranked struct {
		name string
		rank int
	}
	var list []ranked
	folded := Fold(name)
	words := sortedWords(folded)
	limit := max(2, len(folded)/4)
	for _, n := range among {
		f := Fold(n)
		rank := 0
		switch {
		case f == folded:
		case len(f) == len(folded) && sortedWords(f) == words:
			rank = 1
		case strings.HasSuffix(folded, "_"+f):
			rank = 2
		default:
			d := Distance(folded, f, limit)
			if d > limit {
				continue
			}
			rank = 2 + d
		}
		if !slices.Contains(list, ranked{n, rank}) { // several may have the name
			list = append(list, ranked{n, rank})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return a.rank - b.rank })
	var out []string
	for _, r := range list[:min(len(list), most)] {
		out = append(out, r.name)
	}
	return out
}

// Fold writes a name in snake_case: getIssue, get-issue and Get.Issue are get_issue.
func Fold(s string) string {
	var b strings.Builder
	lower := false // the letter before
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z':
			if lower {
				b.WriteByte('_')
			}
			b.WriteByte(c | 0x20)
			lower = false
			continue
		case c == '-' || c == '/' || c == '.' || c == ' ':
			b.WriteByte('_')
		default:
			b.WriteByte(c)
		}
		lower = s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9'
	}
	return b.String()
}

func sortedWords(s string) string {
	words := strings.Split(s, "_")
	slices.Sort(words)
	return strings.Join(words, "_")
}

// Distance is how many letters have to be added, left out, replaced or swapped with
// their neighbour to make b of a. Beyond limit it may be any number above that.
func Distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		least := next[0]
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
			least = min(least, next[j+1])
		}
		if least > limit+1 { // a swap may still take one back
			return limit + 1
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
