package footprint

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxInstructions is how long a server's instructions may become: some
	// clients cut what is longer.
	MaxInstructions = 2048
	maxCandidates   = 100
	heading         = "Notes that tools refer to:"
)

// pointer stands where a text was that is in the instructions now.
func pointer(number int) string { return fmt.Sprintf("See server instructions [%d].", number) }

func bullet(number int, text string) string { return fmt.Sprintf("\n- [%d] %s", number, text) }

// Notes are texts that were moved to the instructions, in their order. A note
// stays where it is when the tools change: its number is in descriptions that
// clients have.
type Notes []string

// Hoist chooses what to move from tools to the instructions, which are long so
// many bytes: what is repeated and saves something, the most first, as far as
// there is room. The error names the tool that is not JSON.
func Hoist(tools [][]byte, instructions int) (Notes, error) {
	repeats, err := Repeats(tools)
	if err != nil {
		return nil, err
	}
	var notes Notes
	room := MaxInstructions - instructions - len("\n\n"+heading)
	for _, r := range repeats[:min(len(repeats), maxCandidates)] {
		text := strings.Join(strings.Fields(r.Text), " ")
		size := len(bullet(len(notes)+1, text))
		if text != r.Text || r.Saves <= 0 || size > room {
			continue
		}
		if edits, err := count(Notes{text}, tools); err != nil || edits < minRepeats {
			continue // most of them are first sentences
		}
		notes = append(notes, text)
		room -= size
	}
	return notes, nil
}

// count is how many descriptions n would edit.
func count(n Notes, tools [][]byte) (total int, err error) {
	for _, raw := range tools {
		_, edits, err := n.edit(nil, raw)
		if err != nil {
			return 0, err
		}
		total += edits
	}
	return total, nil
}

// Instructions are a server's with the notes behind them.
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

// Apply appends a tool, the JSON of one entry of tools/list, to dst, in whose
// descriptions each note is a reference to the instructions. A tool's own
// description keeps its first sentence, so that it still says what the tool
// does. Where nothing is edited it returns tool itself. The error is one of
// package tree's.
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
	kept := ""
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
	for _, i := range order {
		text = strings.ReplaceAll(text, n[i], pointer(i+1))
	}
	return kept + text
}
