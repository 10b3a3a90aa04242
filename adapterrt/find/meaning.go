package find

import (
	_ "embed" // for synonyms.txt
	"slices"
	"strings"
	"sync"
)

// meanings are what the words of a query mean.
type meanings struct {
	verbs    map[string]uint8    // the categories that a verb means, as bits, by its stem
	primary  map[string]Category // the first of these categories
	synonyms map[string][]string // further words for a word, by its stem
	phrases  map[string][]phrase // by the stem of their first word
	known    map[string]bool     // all words of the list, by their stems
}

// phrase is several words that mean something together.
type phrase struct {
	words []string // stems
	means []string
}

// maxGap is the largest number of other words between two words of a phrase, as in "give the customer
// their money back".
const maxGap = 3

// meant is what words mean. It is made for the first search.
var meant = sync.OnceValue(func() (m meanings) {
	m.primary = map[string]Category{}
	m.verbs, m.synonyms, m.phrases, m.known = map[string]uint8{}, map[string][]string{}, map[string][]phrase{}, map[string]bool{}
	for _, v := range verbs {
		var bits uint8
		for _, c := range v.categories {
			bits |= 1 << c
		}
		for w := range strings.FieldsSeq(v.words) {
			if m.verbs[stem(w)] |= bits; m.primary[stem(w)] == Any {
				m.primary[stem(w)] = v.categories[0]
			}
		}
	}
	for line := range strings.Lines(synonymText) {
		words, others, _ := strings.Cut(line, ":")
		var means []string
		for o := range strings.FieldsSeq(others) {
			means = append(means, stem(o))
			m.known[stem(o)] = true
		}
		for w := range strings.FieldsSeq(words) {
			if parts := strings.Split(w, "+"); len(parts) > 1 {
				for i := range parts {
					parts[i] = stem(parts[i])
				}
				list := m.phrases[parts[0]]
				if i := slices.IndexFunc(list, func(p phrase) bool { return slices.Equal(p.words, parts) }); i >= 0 {
					list[i].means = append(slices.Clip(list[i].means), means...)
				} else {
					m.phrases[parts[0]] = append(list, phrase{parts, means})
				}
				continue
			}
			s := stem(w)
			m.known[s] = true
			for _, o := range means {
				if o != s && !slices.Contains(m.synonyms[s], o) {
					m.synonyms[s] = append(m.synonyms[s], o)
				}
			}
		}
	}
	return m
})

// synonymText has words before the colon, and after it words that mean about the same. Words joined by + are
// a phrase, which also has the meaning if there are a few words in between. They are general English
// and words of the trade; an operation's own words belong into its aliases.
//
//go:embed synonyms.txt
var synonymText string
