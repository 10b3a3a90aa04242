package observe

import (
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

// Pair is a position in one list and a position in another one; -1 stands for an element that only the other list has.
type Pair struct{ A, B int }

// maxPairs bounds the pairs of equal elements that [Align] looks at at one time. Lists with more of them are split at the
// elements that each has once, if there are any.
const maxPairs = 300_000

// Align returns the elements of two lists in order, those that both have in common as pairs: the longest common subsequence
// (Hunt and Szymanski 1977), or for large lists one that is close to it.
func Align[T comparable](a, b []T) []Pair {
	var all []Pair
	i, j := 0, 0
	for _, p := range append(common(nil, a, b, 0, 0), Pair{len(a), len(b)}) {
		for ; i < p.A; i++ {
			all = append(all, Pair{i, -1})
		}
		for ; j < p.B; j++ {
			all = append(all, Pair{-1, j})
		}
		if p.A < len(a) {
			all = append(all, p)
			i, j = i+1, j+1
		}
	}
	return all
}

// common appends the pairs of equal elements of a and b, which begin at the positions i and j.
func common[T comparable](to []Pair, a, b []T, i, j int) []Pair {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		to = append(to, Pair{i, j})
		a, b, i, j = a[1:], b[1:], i+1, j+1
	}
	tail := 0
	for tail < min(len(a), len(b)) && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	a, b = a[:len(a)-tail], b[:len(b)-tail]
	pairs, all := equal(a, b)
	x, y := 0, 0
	for _, p := range rising(pairs) {
		if !all { // the elements before a pair of unique ones
			to = common(to, a[x:p.A], b[y:p.B], i+x, j+y)
		}
		to = append(to, Pair{i + p.A, j + p.B})
		x, y = p.A+1, p.B+1
	}
	if !all && x > 0 {
		to = common(to, a[x:], b[y:], i+x, j+y)
	}
	for n := range tail {
		to = append(to, Pair{i + len(a) + n, j + len(b) + n})
	}
	return to
}

// equal returns all pairs of equal elements: by position in a, then from the last position in b to the first. If there are more
// than maxPairs, it returns only those of elements that each list has once.
func equal[T comparable](a, b []T) (pairs []Pair, all bool) {
	count, places := map[T]int{}, map[T][]int{}
	for j := len(b) - 1; j >= 0; j-- {
		places[b[j]] = append(places[b[j]], j)
	}
	n := 0
	for _, e := range a {
		count[e]++
		n += len(places[e])
	}
	for i, e := range a {
		if n <= maxPairs || count[e] == 1 && len(places[e]) == 1 {
			for _, j := range places[e] {
				pairs = append(pairs, Pair{i, j})
			}
		}
	}
	return pairs, n <= maxPairs
}

// rising returns the longest subsequence of pairs in which the positions in b rise.
func rising(pairs []Pair) (longest []Pair) {
	var tails []int // the pair with the least b that ends a sequence of each length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n := sort.Search(len(tails), func(n int) bool { return pairs[tails[n]].B >= p.B })
		if before[i] = -1; n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else if pairs[tails[n]].B > p.B { // of elements that are equal, the first in a
			tails[n] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	for i := tails[len(tails)-1]; i >= 0; i = before[i] {
		longest = append(longest, pairs[i])
	}
	slices.Reverse(longest)
	return longest
}

// words returns two lines in pieces, of which every second one is not in the other line.
func words(a, b string) (left, right []string) {
	x, y := split(a), split(b)
	left, right = []string{""}, []string{""}
	for _, p := range Align(x, y) {
		if p.A >= 0 {
			left = add(left, x[p.A], p.B < 0)
		}
		if p.B >= 0 {
			right = add(right, y[p.B], p.A < 0)
		}
	}
	return left, right
}

func add(to []string, text string, changed bool) []string {
	if last := len(to) - 1; (last%2 == 1) == changed {
		to[last] += text
		return to
	}
	return append(to, text)
}

// split returns the words and signs of a text, each with the spaces before it.
func split(text string) (list []string) {
	for from := 0; from < len(text); {
		to := from
		for to < len(text) {
			r, n := utf8.DecodeRuneInString(text[to:])
			if !unicode.IsSpace(r) {
				break
			}
			to += n
		}
		for begin := to; to < len(text); {
			r, n := utf8.DecodeRuneInString(text[to:])
			inWord := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
			if inWord || to == begin {
				to += n
			}
			if !inWord {
				break
			}
		}
		list = append(list, text[from:to])
		from = to
	}
	return list
}
