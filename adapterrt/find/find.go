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

// weights are the numbers of the ranking.
type weights struct {
	name, summary, alias, group, path, rest          float64 // of the fields
	saturation, normalization                        float64 // the parameters of BM25
	synonym, phrase, inside, related, compound, weak float64
	verbDoes, verb, does, wrong                      float64
	covered, uncovered                               float64
	single, several, createSingle                    float64
	shareLow, shareHigh, reads                       float64
}

var w = weights{
	3, 2.5, 2.5, 1.5, .7, .4,
	.8, .6,
	.6, .6, .4, .8, .8, .5,
	1.5, 1.4, 1.05, .65,
	1.3, .75,
	.55, 1.1, 1,
	.4, 1.1, 1.15,
}

// maxWords is the largest number of words of a query that count.
const maxWords = 40

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
	length   float64
	name     []string // the words of the name, each once
	summary  []string // the words of the summary, each once
	last     []string // the words of the last part of the path that is not a parameter
	path     []string // the words of the other parts
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
		e.name = unique(add(d.Name, w.name))
		summary := d.Summary
		if summary == "" {
			summary = d.Name
		}
		e.summary = unique(add(summary, w.summary))
		for _, a := range d.Aliases {
			add(a, w.alias)
		}
		e.group = x.groupOf(add(d.Group, w.group))
		for part := range strings.SplitSeq(d.Path, "/") {
			if part == "" {
				continue
			}
			if e.single = strings.HasPrefix(part, "{"); e.single {
				continue
			}
			e.path = append(e.path, e.last...)
			e.last = add(part, w.path)
		}
		for _, p := range d.Params {
			add(p, w.rest)
		}
		add(d.Text, w.rest)
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

// splitCompounds adds the parts of words such as worklog, if both are words themselves.
func (x *Index) splitCompounds() {
	const least, part = 7, 3
	known := meant().known
	is := func(w string) bool { return len(w) >= part && (known[w] || x.postings[w] != nil) }
	for _, v := range x.vocabulary {
		for i := part; len(v) >= least && i <= len(v)-part; i++ {
			if a, b := stem(v[:i]), stem(v[i:]); is(a) && is(b) {
				for _, p := range x.postings[v] {
					p.weight *= float32(w.compound)
					x.postings[a] = append(x.postings[a], p)
					x.postings[b] = append(x.postings[b], p)
				}
				break
			}
		}
	}
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
	q.relate(x)
	scores := make(map[int32]float64, 64)
	best := map[int32]float64{}
	for i := range q.terms {
		t := &q.terms[i]
		clear(best)
		for _, v := range t.variants {
			list := x.postings[v.word]
			rarity := math.Log(1 + (float64(len(x.docs)-len(list))+0.5)/(float64(len(list))+0.5))
			for _, p := range list {
				length := 1 - w.normalization + w.normalization*x.docs[p.doc].length/x.average
				tf := float64(p.weight) / length
				s := v.weight * rarity * tf * (w.saturation + 1) / (tf + w.saturation)
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
		does := q.does(e.summary) || q.does(e.name)
		switch {
		case q.verb&(1<<e.category) != 0 && does:
			f *= w.verbDoes
		case q.verb&(1<<e.category) != 0:
			f *= w.verb
		case does:
			f *= w.does
		default:
			f *= w.wrong
		}
	}
	if q.verb == 0 && e.category == Read {
		f *= w.reads
	}
	if len(e.last) > 0 {
		if q.covers(e.last) == len(e.last) {
			f *= w.covered
		} else {
			f *= w.uncovered
		}
	}
	switch {
	case e.category == Read && e.single && (q.lists || q.names(e.last)):
		f *= w.single
	case e.category == Read && !e.single && q.names(e.last):
		f *= w.several
	case q.verb&(1<<Create) != 0 && e.category == Create && e.single:
		f *= w.createSingle
	}
	summary, name := q.share(e.summary), q.share(e.name)
	f *= w.shareLow + w.shareHigh*max(summary, (summary+name)/2)
	return f
}

// question is a query that is prepared for ranking.
type question struct {
	terms   []term
	verb    uint8           // the categories that the query's verb means, as bits; 0 for no verb
	acts    map[string]bool // the words of the verb
	several map[string]bool // words that stand in the plural
	lists   bool            // the query is about several things, or does not name one
	has     map[string]bool
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
	q, means := &question{has: map[string]bool{}, acts: map[string]bool{}, several: map[string]bool{}}, meant()
	raw := split(query)
	stems := make([]string, len(raw))
	for i, w := range raw {
		stems[i] = stem(w)
	}
	inside := make([]bool, len(raw)) // words that are part of a phrase
	seen := map[string]bool{}
	if len(raw) > 1 && (asks[raw[0]] || raw[0] == "how" && quantities[raw[1]]) {
		q.lists, q.verb = true, 1<<Read
	}
	for i, s := range stems {
		if len(q.terms) == maxWords {
			break
		}
		var act []string
		if !inside[i] {
			if p, at := longest(means.phrases[s], stems[i:]); p != nil {
				t := term{}
				for _, k := range at {
					inside[i+k] = true
					if s := stems[i+k]; !stops[raw[i+k]] && !stops[s] {
						t.variants = append(t.variants, variant{s, w.inside})
					}
				}
				for _, m := range p.means {
					t.variants = append(t.variants, variant{m, w.phrase})
				}
				q.add(t)
				act = p.means
			}
		}
		if act == nil {
			act = []string{s}
		}
		if q.verb == 0 {
			for _, a := range act {
				q.verb |= means.verbs[a]
			}
			if q.verb != 0 {
				for _, a := range act {
					q.acts[a] = true
					for _, o := range means.synonyms[a] {
						if means.verbs[o] != 0 {
							q.acts[o] = true
						}
					}
				}
			}
		}
		if raw[i] == "me" || (raw[i] == "my" || raw[i] == "our") && q.own(raw[i+1:]) {
			q.add(term{[]variant{{"me", w.weak}, {"authenticat", w.weak}, {"current", w.weak}}})
			continue
		}
		if inside[i] || seen[s] || stops[raw[i]] || stops[s] {
			continue
		}
		seen[s] = true
		plural := isPlural(raw[i])
		q.several[s] = plural
		t := term{[]variant{{s, 1}}}
		for _, other := range means.synonyms[s] {
			t.variants = append(t.variants, variant{other, w.synonym})
			if plural {
				q.several[other] = true
			}
		}
		q.add(t)
	}
	return q
}

// own reports whether the words begin with several things: "my repositories" are those of the user, but
// "my repository" is the one that other words name.
func (q *question) own(words []string) bool {
	for _, w := range words[:min(len(words), 2)] {
		if isPlural(w) {
			return true
		}
	}
	return false
}

// isPlural reports whether a word looks like the plural of a noun.
func isPlural(w string) bool { return strings.HasSuffix(w, "s") && !strings.HasSuffix(stem(w), "s") }

// asks are first words of questions about what there is, and quantities what may follow how in them.
var asks, quantities = setOf("who what whats which whose where when"), setOf("many much long often far old big")

// longest returns the longest of the phrases that the words begin with, and where its words are.
func longest(among []phrase, words []string) (found *phrase, at []int) {
	for i := range among {
		p := &among[i]
		if found != nil && len(found.words) >= len(p.words) {
			continue
		}
		places, from := []int{0}, 1
		for _, w := range p.words[1:] {
			k := slices.Index(words[from:min(len(words), from+maxGap+1)], w)
			if k < 0 {
				break
			}
			places = append(places, from+k)
			from += k + 1
		}
		if len(places) == len(p.words) {
			found, at = p, places
		}
	}
	return found, at
}

func (q *question) add(t term) {
	q.terms = append(q.terms, t)
	for _, v := range t.variants {
		q.has[v.word] = true
	}
}

// relate adds to each term the other forms of its word that x has.
func (q *question) relate(x *Index) {
	for i := range q.terms {
		t := &q.terms[i]
		if len(t.variants) == 0 || t.variants[0].weight < 1 {
			continue
		}
		for _, r := range x.related(t.variants[0].word) {
			t.variants = append(t.variants, variant{r, w.related})
			q.has[r] = true
		}
	}
}

// names reports whether the query has the last of words in the plural.
func (q *question) names(words []string) bool {
	return len(words) > 0 && q.several[words[len(words)-1]]
}

// does reports whether words have the verb of the query.
func (q *question) does(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return q.acts[w] })
}

// says reports whether the query has all of words itself.
func (q *question) says(words []string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(q.terms, func(t term) bool { return len(t.variants) > 0 && t.variants[0].word == w }) {
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

// share returns the share of words that the query has; 0 of no words.
func (q *question) share(words []string) float64 {
	return float64(q.covers(words)) / float64(max(len(words), 1))
}

// related returns the words of the index that are another form of word: payment of pay.
func (x *Index) related(word string) (out []string) {
	const least = 4
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
