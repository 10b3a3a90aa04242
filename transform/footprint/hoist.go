package footprint

import (
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// MaxInstructions is how many bytes a server's instructions may become:
	// some clients cut longer ones.
	MaxInstructions = 2048
	maxCandidates   = 100
	// minSaving is the least part of tools and instructions, in per cent, that moving
	// prose has to save: less is not worth a reference that the model has to
	// look up.
	minSaving = 5
	heading   = "Notes that tools refer to:"
)

// Notes are texts that were moved to the instructions, in their order. A note
// keeps its number when the tools change, because clients have descriptions
// with that number.
type Notes []string

// Saving is the size of tools and instructions together, in bytes, before prose is
// moved and after.
type Saving struct{ Before, After int }

// Hoist chooses the texts to move from tools to the instructions; instructions
// is the length of these in bytes. It chooses repeated texts that save
// something, the one that saves most first, as long as there is room. It
// returns no notes if they save less than 5 % in all. The error names the tool
// that is not JSON.
func Hoist(tools [][]byte, instructions int) (Notes, Saving, error) {
	repeats, err := Repeats(tools)
	if err != nil {
		return nil, Saving{}, err
	}
	var notes Notes
	room := MaxInstructions - instructions - len("\n\n"+heading)
	for _, r := range repeats[:min(len(repeats), maxCandidates)] {
		text := strings.Join(strings.Fields(r.Text), " ")
		size := len(bullet(len(notes)+1, text))
		if text != r.Text || r.Saves <= 0 || size > room {
			continue
		}
		if w, err := weigh(Notes{text}, tools); err != nil || w.edits < minRepeats || w.Before-w.After <= size {
			continue // most of them are first sentences, or all that a parameter says
		}
		notes = append(notes, text)
		room -= size
	}
	w, err := weigh(notes, tools)
	if err != nil {
		return nil, Saving{}, err
	}
	w.Before += instructions
	w.After += instructions
	if len(notes) > 0 {
		w.After += len(notes.Instructions(""))
		if instructions > 0 {
			w.After += len("\n\n")
		}
	}
	if (w.Before-w.After)*100 < w.Before*minSaving {
		notes = nil
	}
	return notes, w.Saving, nil
}

// weighed says what notes change in tools.
type weighed struct {
	Saving
	edits int // edited descriptions
}

func weigh(n Notes, tools [][]byte) (w weighed, err error) {
	for _, raw := range tools {
		compact := wire.AppendCompact(nil, raw)
		out, edits, err := n.edit(nil, compact)
		if err != nil {
			return w, err
		}
		w.Before += len(compact)
		w.After += len(out)
		w.edits += edits
	}
	return w, nil
}

// Instructions returns a server's own instructions with the notes after them.
func (n Notes) Instructions(own string) string {
	if len(n) == 0 {
		return own
	}
	var b strings.Builder
	if own != "" {
		b.WriteString(own + "\n\n")
	}
	b.WriteString(heading)
	for i, text := range n {
		b.WriteString(bullet(i+1, text))
	}
	return b.String()
}

// Apply appends a tool, the JSON of one entry of tools/list, to dst, and
// replaces each note in its descriptions by a reference to the instructions. A
// tool's own description keeps its first sentence, so that it still says what
// the tool does. The description of a parameter stays as it is if it says
// nothing but notes. If nothing is edited, Apply returns tool itself. The error
// is one of package tree's.
func (n Notes) Apply(dst, tool []byte) ([]byte, error) {
	out, _, err := n.edit(dst, tool)
	return out, err
}

func (n Notes) edit(dst, tool []byte) (out []byte, edits int, err error) {
	if len(n) == 0 {
		return tool, 0, nil
	}
	v, err := parse(tool)
	if err != nil {
		return dst, 0, err
	}
	w := writer{out: dst, edit: func(text string, own bool) string {
		edited := n.replace(text, own)
		if edited != text {
			edits++
		}
		return edited
	}}
	w.value(v, aTool, "")
	if !w.changed {
		return tool, 0, nil
	}
	return w.out, edits, nil
}

// replace edits one description.
func (n Notes) replace(text string, own bool) string {
	was, kept := text, ""
	if own {
		for _, end := range eachSentence(text) {
			kept, text = text[:end], text[end:]
			break
		}
	}
	// Longer ones first: one may be part of another.
	order := make([]int, len(n))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(n[b]) - len(n[a]) })
	words := text // the text without the notes
	for _, i := range order {
		words = strings.ReplaceAll(words, n[i], "")
		text = strings.ReplaceAll(text, n[i], pointer(i+1))
	}
	if !own && !strings.ContainsFunc(words, unicode.IsLetter) {
		return was
	}
	return kept + text
}
