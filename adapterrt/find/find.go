// Package find searches operations by what they do, in the words of a person or a model.
//
// An [Index] ranks with BM25 over weighted fields (Robertson, Zaragoza: The Probabilistic
// Relevance Framework, 2009, section 3.6) and then judges what a text alone does not say:
// whether the verb of the query fits the operation's category, whether the query names what
// the path ends with, and how much of the operation's summary the query covers. question.go
// reads the query, and meaning.go has the verbs, synonyms and phrases. There is no model of language here, so that a search
// takes a millisecond and the same query always has the same answer.
//
// testdata has questions with their answers; TestRanking and TestPlainQuestions count how many are found.
package find

import (
	"cmp"
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
	summaryWeight = 2
	aliasWeight   = 2.5
	groupWeight   = 1.5
	pathWeight    = 0.5
	restWeight    = 0.5
)

// The parameters of BM25, and how much less a part of a word of a description counts than the word.
const (
	saturation     = 1
	normalization  = 0.7
	compoundWeight = 0.3
	synonymRarity  = 1.5 // how much rarer a synonym may count than the word of the query
)

// The factors by which an operation fits better or worse than its words say.
const (
	rightVerb    = 1.3  // it has the verb of the query, and the verb fits what it does
	rightKind    = 1.2  // the verb fits what it does
	onlyVerb     = 1.05 // it has the verb of the query
	wrongKind    = 0.6  // the verb does not fit what it does
	noAnswer     = 0.4  // it does not read, and the query is a question
	noVerb       = 1.25 // it reads, and the query has no verb
	rightLast    = 1.1  // the query says what the path ends with
	wrongLast    = 0.75
	oneOfSeveral = 0.55 // it reads one thing, and the query is about several
	severalFit   = 1.1  // it reads several things that the query names in the plural
	createsOne   = 0.75 // it creates a thing whose name is in the path
	leastShare   = 0.4  // the query has no word of the summary
	moreShare    = 1.4  // by how much the factor grows until it has all of them
	groupNamed   = 1.6  // the query names its group
	otherGroup   = 0.5
)

// posting says that a word stands in an operation's description.
type posting struct {
	doc    int32
	weight float32 // the sum of the weights of the fields that have the word
}

// Index holds the operations that can be found. It does not change.
type Index struct {
	docs       []entry
	postings   map[string][]posting
	vocabulary []string   // the words, sorted
	average    float64    // length of a description
	groups     [][]string // the words of each group's name
}

// entry is what ranking needs of an operation in addition to its words.
type entry struct {
	category Category
	kinds    uint8 // the categories that its words and method say, as bits; 0 for none
	length   float64
	name     []string // the words of the name, each once
	summary  []string // the words of the summary, each once
	last     []string // the words of the last part of the path that is not a parameter
	group    int      // index of the group; -1 for none
	single   bool     // the path ends with a parameter: the operation is about one of many
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
			for _, word := range words {
				weights[word] += weight
				e.length += weight
			}
			return words
		}
		e.name = unique(add(d.Name, nameWeight))
		summary := cmp.Or(d.Summary, d.Name)
		e.summary = unique(add(summary, summaryWeight))
		for _, a := range d.Aliases {
			add(a, aliasWeight)
		}
		e.group = x.groupOf(add(d.Group, groupWeight))
		for part := range strings.SplitSeq(strings.TrimSuffix(d.Path, ".json"), "/") {
			if part == "" {
				continue
			}
			if strings.HasPrefix(part, "{") { // the rest is a verb, as in /files/{id}:copy
				_, part, _ = strings.Cut(part, "}:")
			}
			if e.single = part == ""; e.single {
				continue
			}
			e.last = add(part, pathWeight)
		}
		e.kinds = kinds(e, summary)
		for _, p := range d.Params {
			add(p, restWeight)
		}
		add(d.Text, restWeight)
		for word, weight := range weights {
			x.postings[word] = append(x.postings[word], posting{int32(i), float32(weight)})
		}
		x.average += e.length
	}
	x.average = max(x.average/float64(max(len(docs), 1)), 1)
	x.vocabulary = slices.Sorted(maps.Keys(x.postings))
	x.splitCompounds()
	return x
}

// kinds returns the categories of an operation. Some APIs use POST for everything; then its first verb
// says what it does.
func kinds(e *entry, summary string) uint8 {
	if e.category == Any {
		return 0
	}
	own := uint8(1) << e.category
	if e.category != Create && e.category != Execute {
		return own
	}
	means := meant()
	words := split(summary)
	for _, word := range words[:min(len(words), 2)] {
		if c := means.primary[stem(word)]; c != Any {
			return 1<<c | own&(1<<Execute)
		}
	}
	for i := range e.name {
		if c := means.primary[e.name[len(e.name)-1-i]]; c != Any && c != Create {
			return 1<<c | own
		}
	}
	return own
}

// splitCompounds adds the parts of words such as worklog, if both are words themselves.
func (x *Index) splitCompounds() {
	const least, part = 7, 3
	known := meant().known
	is := func(w string) bool { return len(w) >= part && (known[w] || x.postings[w] != nil) }
	for _, v := range x.vocabulary {
		for i := part; len(v) >= least && i <= len(v)-part; i++ {
			if a, b := stem(v[:i]), stem(v[i:]); is(a) && is(b) {
				x.share(v, a)
				x.share(v, b)
				break
			}
		}
	}
}

// share finds the operations that have the word whole by its part, too, if they do not have the part by itself.
func (x *Index) share(whole, part string) {
	own := x.postings[part]
	list := slices.Clip(own)
	for _, p := range x.postings[whole] {
		if _, has := slices.BinarySearchFunc(own, p.doc, func(o posting, doc int32) int { return int(o.doc - doc) }); !has {
			list = append(list, posting{p.doc, p.weight * compoundWeight})
		}
	}
	slices.SortFunc(list, func(a, b posting) int { return int(a.doc - b.doc) })
	x.postings[part] = list
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
	x.relate(q)
	scores := make(map[int32]float64, 64)
	best := map[int32]float64{}
	for i := range q.terms {
		t := &q.terms[i]
		clear(best)
		most := math.Inf(1) // a rare word that stands for a frequent one says little more
		for _, v := range t.variants {
			list := x.postings[v.word]
			rarity := min(most, math.Log(1+(float64(len(x.docs)-len(list))+0.5)/(float64(len(list))+0.5)))
			if len(list) > 0 && v.weight == 1 {
				most = rarity * synonymRarity
			}
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
				s *= groupNamed
			} else if anyNamed {
				s *= otherGroup
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
	if q.verb != 0 && e.kinds != 0 {
		does := q.does(e.summary) || q.does(e.name)
		switch {
		case q.verb&e.kinds != 0 && does:
			f *= rightVerb
		case q.verb&e.kinds != 0:
			f *= rightKind
		case does && !q.asks:
			f *= onlyVerb
		case q.asks:
			f *= noAnswer
		default:
			f *= wrongKind
		}
	}
	if q.verb == 0 && e.kinds&(1<<Read) != 0 {
		f *= noVerb
	}
	if len(e.last) > 0 {
		if q.covers(e.last) == len(e.last) {
			f *= rightLast
		} else {
			f *= wrongLast
		}
	}
	switch {
	case e.category == Read && e.single && (q.lists || q.names(e.last)):
		f *= oneOfSeveral
	case e.category == Read && !e.single && q.names(e.last):
		f *= severalFit
	case q.verb&(1<<Create) != 0 && e.category == Create && e.single:
		f *= createsOne
	}
	summary, name := q.share(e.summary), q.share(e.name)
	f *= leastShare + moreShare*max(summary, (summary+name)/2)
	return f
}

// relate adds to each term of q the other forms of its word that x has.
func (x *Index) relate(q *question) {
	for i := range q.terms {
		t := &q.terms[i]
		if len(t.variants) == 0 || t.variants[0].weight < asideWeight {
			continue
		}
		for _, r := range x.related(t.variants[0].word) {
			t.variants = append(t.variants, variant{r, relatedWeight * t.variants[0].weight})
			q.has[r] = true
		}
	}
}

// related returns the words of the index that are another form of word: payment of pay.
func (x *Index) related(word string) (out []string) {
	const least = 3
	if len(word) < least {
		return nil
	}
	for n := len(word); n >= max(least, len(word)-maxEnding); n-- {
		if n < len(word) && !endings[word[n:]] {
			continue
		}
		from, _ := slices.BinarySearch(x.vocabulary, word[:n])
		for _, w := range x.vocabulary[from:] {
			if !strings.HasPrefix(w, word[:n]) {
				break
			}
			if w != word && (len(w) == n || endings[w[n:]]) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}
