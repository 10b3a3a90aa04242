// Package near finds existing names that are similar to a name that does not exist.
package near

import (
	"slices"
	"strings"
)

// Names returns the names in among that are similar to name, the most similar first. The
// parameter most limits their number. A similar name is the same name in another spelling
// (getIssue, get-issue), the same words in another order, name without a prefix, or a name
// that differs in a few letters.
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
		if !slices.Contains(list, ranked{n, rank}) { // among may contain a name several times
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
	lower := false // the previous character is a lower-case letter or a digit
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

// Distance returns how many letters have to be added, removed, replaced or swapped with
// their neighbour to turn a into b. If that is more than limit, it may return any number
// above limit.
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
		if least > limit+1 { // a swap may still reduce it by one
			return limit + 1
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
