package observe

import (
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

// pair is a position in one list and a position in another one; -1 stands for an element that only the other list has.
type pair struct{ a, b int }

// maxPairs bounds the pairs of equal elements that align looks at. Lists with more of them have nothing in common but their
// beginnings and ends.
const maxPairs = 300_000

// align returns the elements of two lists in order, those of the longest common subsequence as pairs (Hunt and Szymanski 1977).
func align[T comparable](a, b []T) []pair {
	head, least := 0, min(len(a), len(b))
	for head < least && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < least-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	common := make([]pair, 0, head+tail)
	for i := range head {
		common = append(common, pair{i, i})
	}
	common = append(common, rising(equal(a, b, head, tail))...)
	for i := range tail {
		common = append(common, pair{len(a) - tail + i, len(b) - tail + i})
	}
	var all []pair
	i, j := 0, 0
	for _, p := range append(common, pair{len(a), len(b)}) {
		for ; i < p.a; i++ {
			all = append(all, pair{i, -1})
		}
		for ; j < p.b; j++ {
			all = append(all, pair{-1, j})
		}
		if p.a < len(a) {
			all = append(all, p)
			i, j = i+1, j+1
		}
	}
	return all
}

// equal returns all pairs of equal elements, without the first head and the last tail ones: by position in a, then from the
// last position in b to the first.
func equal[T comparable](a, b []T, head, tail int) (pairs []pair) {
	places := map[T][]int{}
	for j := len(b) - tail - 1; j >= head; j-- {
		places[b[j]] = append(places[b[j]], j)
	}
	for i := head; i < len(a)-tail; i++ {
		if len(pairs)+len(places[a[i]]) > maxPairs {
			return nil
		}
		for _, j := range places[a[i]] {
			pairs = append(pairs, pair{i, j})
		}
	}
	return pairs
}

// rising returns the longest subsequence of pairs in which the positions in b rise.
func rising(pairs []pair) (longest []pair) {
	var tails []int // the pair with the least b that ends a sequence of each length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n := sort.Search(len(tails), func(n int) bool { return pairs[tails[n]].b >= p.b })
		if before[i] = -1; n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
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
	for _, p := range align(x, y) {
		if p.a >= 0 {
			left = add(left, x[p.a], p.b < 0)
		}
		if p.b >= 0 {
			right = add(right, y[p.b], p.a < 0)
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
