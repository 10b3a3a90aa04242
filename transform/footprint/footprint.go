// Package footprint measures what a list of tools costs the model that reads
// it, and reduces the cost: prose that many tools repeat moves to the server's
// instructions, and members that tell the model nothing are left out.
//
// Input and output are bytes. Only descriptions are ever edited, and only what
// [Shrinker] names is left out: names, types, enums, defaults and what is
// required stay as they are.
//
//   - footprint.go measures and compares;
//   - describe.go finds the descriptions of a tool and writes the tool anew;
//   - prose.go finds what descriptions have in common;
//   - hoist.go moves that to the instructions.
package footprint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// DefaultBudget is how many bytes a list of tools and the instructions may have before it is too large.
const DefaultBudget = 45 << 10

// Report says what a list of tools costs.
type Report struct {
	// Bytes is the length of the compact JSON of the array of all tools, Tokens
	// the number of its tokens.
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"`
	// Tools holds the tools, the largest first.
	Tools []Tool `json:"tools"`
	// InstructionBytes and InstructionTokens are what the server's instructions cost,
	// which a model reads with the list.
	InstructionBytes  int `json:"instruction_bytes"`
	InstructionTokens int `json:"instruction_tokens"`
	// Repeats holds the texts that could be said once.
	Repeats []Repeat `json:"repeats,omitempty"`
}

// Tool says what one tool costs, and which parts of it.
type Tool struct {
	Name              string `json:"name"`
	Bytes             int    `json:"bytes"`
	Tokens            int    `json:"tokens"`
	DescriptionBytes  int    `json:"description_bytes"`
	InputSchemaBytes  int    `json:"input_schema_bytes"`
	OutputSchemaBytes int    `json:"output_schema_bytes"`

	OutputSchemaTokens int `json:"output_schema_tokens"`
	// Objects are the parameters that are objects.
	Objects []string `json:"objects,omitempty"`
}

// Measure measures tools, each the JSON of one entry of tools/list, and the
// server's instructions. count counts tokens. The error names the tool that is
// not JSON.
func Measure(tools [][]byte, instructions string, count func(text []byte) int) (Report, error) {
	r := Report{InstructionBytes: len(instructions), InstructionTokens: count([]byte(instructions))}
	all := []byte{'['}
	for i, raw := range tools {
		v, err := tree.Parse(raw)
		if err != nil {
			return Report{}, fmt.Errorf("tool %d: %w", i, err)
		}
		all = wire.Comma(all)
		from := len(all)
		all = wire.AppendCompact(all, raw)
		t := Tool{
			Name:             v.Get("name").Text(),
			Bytes:            len(all) - from,
			Tokens:           count(all[from:]),
			DescriptionBytes: len(v.Get("description").Text()),
			InputSchemaBytes: len(wire.AppendCompact(nil, v.Get("inputSchema").Raw())),
		}
		if schema := wire.AppendCompact(nil, v.Get("outputSchema").Raw()); len(schema) > 0 {
			t.OutputSchemaBytes, t.OutputSchemaTokens = len(schema), count(schema)
		}
		for p := range v.Get("inputSchema", "properties").All() {
			if p.Get("type").Text() == "object" {
				t.Objects = append(t.Objects, p.Key())
			}
		}
		r.Tools = append(r.Tools, t)
	}
	all = append(all, ']')
	r.Bytes, r.Tokens = len(all), count(all)
	slices.SortStableFunc(r.Tools, func(a, b Tool) int { return cmp.Compare(b.Bytes, a.Bytes) })
	repeats, err := Repeats(tools)
	r.Repeats = repeats
	return r, err
}

// InAll returns the size in bytes of the list and the instructions.
func (r *Report) InAll() int { return r.Bytes + r.InstructionBytes }

// Regressions returns what has become worse since an earlier report: more
// bytes, instructions or tools that are gone, parameters that are no longer
// objects, texts that descriptions now repeat.
func (r *Report) Regressions(since Report) (worse []string) {
	if r.InAll() > since.InAll() {
		worse = append(worse, fmt.Sprintf("%d bytes, %d more than before", r.InAll(), r.InAll()-since.InAll()))
	}
	if since.InstructionBytes > 0 && r.InstructionBytes == 0 {
		worse = append(worse, "the server has no instructions any more")
	}
	now := make(map[string]Tool, len(r.Tools))
	for _, t := range r.Tools {
		now[t.Name] = t
	}
	for _, before := range since.Tools {
		t, ok := now[before.Name]
		if !ok {
			worse = append(worse, fmt.Sprintf("tool %s is gone", before.Name))
			continue
		}
		for _, name := range before.Objects {
			if !slices.Contains(t.Objects, name) {
				worse = append(worse, fmt.Sprintf("tool %s: parameter %s is no longer an object", t.Name, name))
			}
		}
	}
	said := make(map[string]bool)
	for _, repeat := range since.Repeats {
		said[repeat.Text] = true
	}
	for _, repeat := range r.Repeats {
		if !said[repeat.Text] {
			worse = append(worse, fmt.Sprintf("%d descriptions now say %q", repeat.Count, clip(repeat.Text)))
		}
	}
	return worse
}

// clip returns the beginning of a text, enough to recognise it.
func clip(text string) string {
	const most = 60
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}
