package footprint

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

const (
	minRepeats  = 3       // descriptions that say the same
	minFragment = 80      // bytes of a repeated text that is not a sentence
	minSentence = 20      // bytes: a shorter sentence is not worth moving
	maxProse    = 1 << 20 // bytes that are looked at
)

// Repeat is a text that several descriptions have in common.
type Repeat struct {
	Text  string `json:"text"`
	Count int    `json:"count"` // descriptions that have it
	Saves int    `json:"saves"` // bytes, if it were said once, in the instructions
}

// Repeats finds texts that three or more descriptions of tools and parameters
// have in common: whole sentences, and parts of 80 bytes and more. The text
// that saves most comes first. The error names the tool that is not JSON.
func Repeats(tools [][]byte) ([]Repeat, error) {
	texts, err := prose(tools)
	if err != nil {
		return nil, err
	}
	found := sentences(texts)
	found = append(found, fragments(texts, found)...)
	slices.SortStableFunc(found, func(a, b Repeat) int { return cmp.Compare(b.Saves, a.Saves) })
	return found, nil
}

// prose returns all descriptions, up to maxProse bytes of them.
func prose(tools [][]byte) (texts []string, err error) {
	total := 0
	for i, raw := range tools {
		v, err := tree.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", i, err)
		}
		descriptions(v, aTool, func(text string, own bool) {
			if total += len(text); total <= maxProse {
				texts = append(texts, text)
			}
		})
	}
	return texts, nil
}

// saves returns how many bytes moving a text to the instructions saves.
func saves(text string, count int) int {
	return count*(len(text)-len(pointer(1))) - len(bullet(1, text))
}

// sentences returns the sentences that are repeated, in the order in which they
// reach minRepeats.
func sentences(texts []string) (found []Repeat) {
	count := make(map[string]int)
	var order []string
	for _, text := range texts {
		seen := make(map[string]bool)
		for from, end := range eachSentence(text) {
			s := text[from:end]
			if len(s) < minSentence || seen[s] {
				continue
			}
			seen[s] = true
			if count[s]++; count[s] == minRepeats {
				order = append(order, s)
			}
		}
	}
	for _, s := range order {
		found = append(found, Repeat{s, count[s], saves(s, count[s])})
	}
	return found
}

// eachSentence yields where the sentences of a text begin and end, without the
// blanks around them. A sentence also ends where its line ends.
func eachSentence(text string) iter.Seq2[int, int] {
	return func(yield func(from, end int) bool) {
		from := 0
		for i := range len(text) {
			if i+1 < len(text) && !endsSentence(text, i) {
				continue
			}
			s := strings.TrimSpace(text[from : i+1])
			at := from + strings.Index(text[from:i+1], s)
			if s != "" && !yield(at, at+len(s)) {
				return
			}
			from = i + 1
		}
	}
}

func endsSentence(text string, i int) bool {
	switch text[i] {
	case '\n':
		return true
	case '.', '!', '?':
	default:
		return false
	}
	rest := text[i+1:]
	trimmed := strings.TrimLeft(rest, " \t\n")
	if trimmed == "" {
		return true
	}
	if len(trimmed) == len(rest) {
		return false // within a word, as in a file's name
	}
	// the last point of e.g. and i.e. has a letter and a point before it
	if i >= 2 && text[i] == '.' && text[i-2] == '.' {
		return false
	}
	r, _ := utf8.DecodeRuneInString(trimmed)
	return !unicode.IsLower(r)
}

// fragments returns long runs of words that are repeated and hold no sentence
// of known. It removes the sentences of known from texts.
func fragments(texts []string, known []Repeat) (found []Repeat) {
	type spot struct{ text, from, to int }
	windows := make(map[string][]spot) // by their text, at most one of each description
	spoken := make(map[string]bool)
	for _, r := range known {
		spoken[r.Text] = true
	}
	for t, text := range texts {
		text = without(text, spoken)
		texts[t] = text
		starts := words(text)
		end := 0
		for i, from := range starts {
			for end < len(starts) && (end <= i || endOf(text, starts[end-1])-from < minFragment) {
				end++
			}
			to := endOf(text, starts[end-1])
			if to-from < minFragment {
				break
			}
			w := text[from:to]
			if all := windows[w]; !strings.Contains(w, "\n") && (len(all) == 0 || all[len(all)-1].text != t) {
				windows[w] = append(all, spot{t, from, to})
			}
		}
	}
	keys := make([]string, 0, len(windows))
	for w, all := range windows {
		if len(all) >= minRepeats {
			keys = append(keys, w)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := windows[a][0], windows[b][0]
		return cmp.Or(cmp.Compare(len(windows[b]), len(windows[a])), cmp.Compare(x.text, y.text), cmp.Compare(x.from, y.from))
	})
	taken := make(map[int][]spot) // by description
	for _, w := range keys {
		var free []spot
		for _, s := range windows[w] {
			if !slices.ContainsFunc(taken[s.text], func(o spot) bool { return s.from < o.to && o.from < s.to }) {
				free = append(free, s)
			}
		}
		if len(free) < minRepeats {
			continue
		}
		// The same words may follow all of them.
		grow := func() bool {
			next, ok := nextWord(texts[free[0].text], free[0].to)
			for _, s := range free[1:] {
				n, more := nextWord(texts[s.text], s.to)
				if !ok || !more || texts[s.text][s.to:n] != texts[free[0].text][free[0].to:next] {
					return false
				}
			}
			if !ok {
				return false
			}
			length := next - free[0].to
			for i := range free {
				free[i].to += length
			}
			return true
		}
		for grow() {
		}
		for _, s := range free {
			taken[s.text] = append(taken[s.text], s)
		}
		text := texts[free[0].text][free[0].from:free[0].to]
		found = append(found, Repeat{text, len(free), saves(text, len(free))})
	}
	return found
}

// without returns a text with a line break in place of each of the given
// sentences.
func without(text string, sentences map[string]bool) string {
	var b strings.Builder
	last := 0
	for from, end := range eachSentence(text) {
		if sentences[text[from:end]] {
			b.WriteString(text[last:from] + "\n")
			last = end
		}
	}
	return b.String() + text[last:]
}

// words returns the indexes where words begin.
func words(text string) (starts []int) {
	inWord := false
	for i := range len(text) {
		blank := isBlank(text[i])
		if !blank && !inWord {
			starts = append(starts, i)
		}
		inWord = !blank
	}
	return starts
}

// endOf returns the end of the word that begins at i.
func endOf(text string, i int) int {
	for i < len(text) && !isBlank(text[i]) {
		i++
	}
	return i
}

// nextWord returns the end of the word after i, if it is on the same line.
func nextWord(text string, i int) (end int, ok bool) {
	for i < len(text) && isBlank(text[i]) {
		if text[i] == '\n' {
			return 0, false
		}
		i++
	}
	end = endOf(text, i)
	return end, end > i
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// pointer returns the reference that replaces a text which moved to the
// instructions.
func pointer(number int) string { return fmt.Sprintf("See server instructions [%d].", number) }

func bullet(number int, text string) string { return fmt.Sprintf("\n- [%d] %s", number, text) }
