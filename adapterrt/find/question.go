package find

import (
	"slices"
	"strings"
)

// How much words count that a query does not have itself, or not by themselves.
const (
	phraseWeight  = 0.9  // what a phrase means
	relatedWeight = 0.8  // another form of the word, such as payment for pay
	synonymWeight = 0.6  // a word that means about the same
	asideWeight   = 0.6  // a word of a clause, as in "the file that I sent"
	selfWeight    = 0.5  // what "me" means
	insideWeight  = 0.35 // a word of a phrase by itself
)

// maxWords is the largest number of words of a query that count.
const maxWords = 40

// question is a query that is prepared for ranking.
type question struct {
	terms   []term
	verb    uint8           // the categories that the query's verb means, as bits; 0 for no verb
	acts    map[string]bool // the words of the verb
	several map[string]bool // words that stand in the plural
	asks    bool            // the query is a question
	lists   bool            // the query asks what there is
	has     map[string]bool // all words and what they mean
	means   meanings
}

// term is a word of a query, with the words that mean the same.
type term struct {
	variants []variant
}

type variant struct {
	word   string
	weight float64
}

// newQuestion prepares a query.
func newQuestion(query string) *question {
	q := &question{has: map[string]bool{}, acts: map[string]bool{}, several: map[string]bool{}, means: meant()}
	words := split(query)
	stems := make([]string, len(words))
	for i, w := range words {
		stems[i] = stem(w)
	}
	clause := 1 // where a clause may begin
	if len(words) > 1 && (asks[words[0]] || words[0] == "how" && quantities[words[1]]) {
		q.asks, q.lists, q.verb, clause = true, !states[words[0]], 1<<Read, len(words)
	}
	weight, inside := 1.0, make([]bool, len(words)) // which words are part of a phrase
	for i, s := range stems {
		if i > clause && pronouns[words[i]] {
			weight = asideWeight
		}
		if len(q.terms) == maxWords {
			break
		}
		acts := []string{s}
		if !inside[i] {
			if p, at := longest(q.means.phrases[s], stems[i:]); p != nil {
				acts = p.means
				q.addPhrase(p, at, words[i:], inside[i:])
			}
		}
		q.act(acts)
		switch {
		case words[i] == "me" || (words[i] == "my" || words[i] == "our") && own(words[i+1:]):
			q.add(term{[]variant{{"me", selfWeight}, {stem("authenticated"), selfWeight}, {"current", selfWeight}}})
		case inside[i] || stops[words[i]] || stops[s] || i > 0 && s == "new" || slices.Contains(stems[:i], s):
		default:
			q.addWord(words[i], s, weight)
		}
	}
	return q
}

// addWord adds a word with what it means.
func (q *question) addWord(word, s string, weight float64) {
	plural := isPlural(word)
	q.several[s] = plural
	t := term{[]variant{{s, weight}}}
	for _, other := range q.means.synonyms[s] {
		t.variants = append(t.variants, variant{other, synonymWeight * weight})
		if plural {
			q.several[other] = true
		}
	}
	q.add(t)
}

// addPhrase adds what p means. at are the places of its words in words, which inside then marks.
func (q *question) addPhrase(p *phrase, at []int, words []string, inside []bool) {
	var t term
	for _, k := range at {
		inside[k] = true
		if s := stem(words[k]); !stops[words[k]] && !stops[s] {
			t.variants = append(t.variants, variant{s, insideWeight})
		}
	}
	for _, m := range p.means {
		t.variants = append(t.variants, variant{m, phraseWeight})
	}
	q.add(t)
}

// act notes the verb of the query, if it has none yet and one of words is a verb.
func (q *question) act(words []string) {
	if q.verb != 0 {
		return
	}
	for _, w := range words {
		q.verb |= q.means.verbs[w]
	}
	if q.verb == 0 {
		return
	}
	for _, w := range words {
		q.acts[w] = true
		for _, o := range q.means.synonyms[w] {
			if q.means.verbs[o] != 0 {
				q.acts[o] = true
			}
		}
	}
}

// own reports whether the words begin with several things: "my repositories" are those of the user, but
// "my repository" is the one that other words name.
func own(words []string) bool {
	return slices.ContainsFunc(words[:min(len(words), 2)], isPlural)
}

// isPlural reports whether a word looks like the plural of a noun.
func isPlural(w string) bool { return strings.HasSuffix(w, "s") && !strings.HasSuffix(stem(w), "s") }

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
