// Package find searches operations by what they do, in the words of a person or a model.
//
// An [Index] ranks with BM25 over weighted fields (Robertson, Zaragoza: The Probabilistic
// Relevance Framework, 2009, section 3.6) and then judges what a text alone does not say:
// whether the verb of the query fits the operation's category, whether the query names what
// the path ends with, and how much of the operation's summary the query covers. words.go
// has the verbs and the synonyms. There is no model of language here, so that a search
// takes a millisecond and the same query always has the same answer.
//
// testdata has questions with their answers; TestRanking counts how many are found.
package find

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Doc describes an operation. Only Name is required.
type Doc struct {
	Name     string
	Category Category
	Group    string   // what several operations have in common, such as the name of their API
	Summary  string   // what it does, in a sentence
	Path     string   // as in /repos/{owner}/{repo}; "" if the path does not say what the operation does
	Params   []string // the names of its parameters
	Text     string   // further text
	Aliases  []string // other words for it
}

// The weights of the fields.
const (
	nameWeight    = 3
	summaryWeight = 2.5
	aliasWeight   = 2.5
	groupWeight   = 1.5
	pathWeight    = 1
	restWeight    = 0.4
)

// The parameters of BM25, and how much less a synonym counts than the word of the query.
const (
	saturation    = 1.2
	normalization = 0.3
	synonymWeight = 0.6
)

// maxWords is the largest number of words of a query that count.
const maxWords = 40

// posting says that a word stands in an operation's description.
type posting struct {
	doc    int32
	weight float32 // the sum of the weights of the fields that have the word
}

// Index holds the operations that can be found. It does not change.
type Index struct {
	docs     []entry
	postings map[string][]posting
	average  float64    // length of a description
	groups   [][]string // the words of each group's name
}

// entry is what ranking needs of an operation in addition to its words.
type entry struct {
	category Category
	length   float64
	summary  []string // the words of the summary, each once
	last     []string // the words of the last part of the path that is not a parameter
	group    int      // index of the group; -1 for none
}

// New returns an Index of docs. A search names them by their indexes in docs.
func New(docs []Doc) *Index {
	x := &Index{docs: make([]entry, len(docs)), postings: map[string][]posting{}}
	for i := range docs {
		d, e := &docs[i], &x.docs[i]
		e.category = d.Category
		weights := map[string]float64{}
		add := func(text string, weight float64) []string {
			words := Words(text)
			for _, w := range words {
				weights[w] += weight
				e.length += weight
			}
			return words
		}
		add(d.Name, nameWeight)
		summary := d.Summary
		if summary == "" {
			summary = d.Name
		}
		e.summary = unique(add(summary, summaryWeight))
		for _, a := range d.Aliases {
			add(a, aliasWeight)
		}
		e.group = x.groupOf(add(d.Group, groupWeight))
		for part := range strings.SplitSeq(d.Path, "/") {
			if part == "" || strings.HasPrefix(part, "{") {
				continue
			}
			e.last = add(part, pathWeight)
		}
		for _, p := range d.Params {
			add(p, restWeight)
		}
		add(d.Text, restWeight)
		for w, weight := range weights {
			x.postings[w] = append(x.postings[w], posting{int32(i), float32(weight)})
		}
		x.average += e.length
	}
	x.average = max(x.average/float64(max(len(docs), 1)), 1)
	return x
}

// groupOf returns the index of the group whose name has these words.
func (x *Index) groupOf(words []string) int {
	if len(words) == 0 {
		return -1
	}
	i := slices.IndexFunc(x.groups, func(g []string) bool { return slices.Equal(g, words) })
	if i < 0 {
		i = len(x.groups)
		x.groups = append(x.groups, words)
	}
	return i
}

// unique returns the different words of list, in their order.
func unique(list []string) []string {
	var out []string
	for _, w := range list {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Hit is one operation that a search has found.
type Hit struct {
	Doc   int // index of the Doc
	Score float64
}

// Search returns the operations that fit query best, the best first. It returns only those
// that accept allows; a nil accept allows all.
func (x *Index) Search(query string, accept func(doc int) bool) []Hit {
	q := newQuestion(query)
	scores := make(map[int32]float64, 64)
	best := map[int32]float64{}
	for i := range q.terms {
		t := &q.terms[i]
		clear(best)
		for _, v := range t.variants {
			list := x.postings[v.word]
			rarity := math.Log(1 + (float64(len(x.docs)-len(list))+0.5)/(float64(len(list))+0.5))
			for _, p := range list {
				length := 1 - normalization + normalization*x.docs[p.doc].length/x.average
				tf := float64(p.weight) / length
				s := v.weight * rarity * tf * (saturation + 1) / (tf + saturation)
				if s > best[p.doc] { // a word and its synonym do not count twice
					best[p.doc] = s
				}
			}
		}
		for doc, s := range best {
			scores[doc] += s
		}
	}
	named := map[int]bool{} // groups that the query names
	for i, words := range x.groups {
		named[i] = len(x.groups) > 1 && q.says(words)
	}
	anyNamed := slices.Contains(slices.Collect(maps.Values(named)), true)
	hits := make([]Hit, 0, len(scores))
	for doc, s := range scores {
		if accept == nil || accept(int(doc)) {
			e := &x.docs[doc]
			if s *= x.fit(e, q); anyNamed && named[e.group] {
				s *= 1.6
			} else if anyNamed {
				s *= 0.5
			}
			hits = append(hits, Hit{int(doc), s})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return a.Doc - b.Doc
	})
	return hits
}

// fit returns the factor by which an operation fits q better or worse than its words say.
func (x *Index) fit(e *entry, q *question) float64 {
	f := 1.0
	if q.verb != 0 && e.category != Any {
		if q.verb&(1<<e.category) != 0 {
			f *= 1.35
		} else {
			f *= 0.7
		}
	}
	if len(e.last) > 0 {
		if q.covers(e.last) == len(e.last) {
			f *= 1.3
		} else {
			f *= 0.75
		}
	}
	if n := len(e.summary); n > 0 {
		f *= 0.6 + 0.6*float64(q.covers(e.summary))/float64(n)
	}
	return f
}

// question is a query that is prepared for ranking.
type question struct {
	terms []term
	verb  uint8 // the categories that the query's verb means, as bits; 0 for no verb
	has   map[string]bool
}

// term is a word of a query, with the words that mean the same.
type term struct {
	variants []variant
}

type variant struct {
	word   string
	weight float64
}

func newQuestion(query string) *question {
	q, means := &question{has: map[string]bool{}}, meant()
	for _, w := range unique(split(query)) {
		if len(q.terms) == maxWords {
			break
		}
		s := stem(w)
		if v, ok := means.verbs[s]; ok && q.verb == 0 {
			q.verb = v
		}
		if stops[w] || stops[s] {
			continue
		}
		t := term{[]variant{{s, 1}}}
		for _, other := range means.synonyms[s] {
			t.variants = append(t.variants, variant{other, synonymWeight})
		}
		for _, v := range t.variants {
			q.has[v.word] = true
		}
		q.terms = append(q.terms, t)
	}
	return q
}

// says reports whether the query has all of words itself.
func (q *question) says(words []string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(q.terms, func(t term) bool { return t.variants[0].word == w }) {
			return false
		}
	}
	return true
}

// covers returns how many of words the query has, itself or as a synonym.
func (q *question) covers(words []string) (n int) {
	for _, w := range words {
		if q.has[w] {
			n++
		}
	}
	return n
}
