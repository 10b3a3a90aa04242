package footprint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func chars(text []byte) int { return len(text) / 4 }

// catalogue returns a list of tools as servers have them after they grew:
// guidance in every description, and again at every parameter.
func catalogue() (tools [][]byte) {
	const (
		connection = "When several connections are granted, pass connection_id as listed by the schema tool, else the call is refused."
		paging     = "Read in pages: pass the cursor of the answer before, and narrow the fields to what is needed."
	)
	for i, verb := range []string{"Reads", "Searches", "Counts", "Deletes"} {
		tools = append(tools, fmt.Appendf(nil, `{"name": "t%d", "description": "%s records of one stream. %s %s",`+
			`"inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","properties":{`+
			`"connection_id":{"type":"string","description":"The connection; %s"},`+
			`"description":{"type":"string","title":"Description","description":"description"},`+
			`"filter":{"type":"object","examples":[{"a":1.50}],"default":{"description":"%s"}},`+
			`"limit":{"type":"integer","default":1.0,"enum":[1.0,2]}},"required":["connection_id"]},`+
			`"outputSchema":{"type":"object"},"annotations":{"title":"t"}}`, i, verb, connection, paging, connection, connection))
	}
	return tools
}

func TestMeasured(t *testing.T) {
	tools := catalogue()
	tools = append(tools, []byte(`{"name":"small", "inputSchema": {"type":"object"} }`))
	r, err := Measure(tools, "Use it.", chars)
	if err != nil {
		t.Fatal(err)
	}
	var list []json.RawMessage
	for _, tool := range tools {
		list = append(list, tool)
	}
	all, err := json.Marshal(list) // which compacts
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes != len(all) || r.Tokens != len(all)/4 || r.InstructionBytes != 7 || r.InstructionTokens != 1 || r.InAll() != len(all)+7 {
		t.Errorf("%d bytes, %d tokens, want %d bytes", r.Bytes, r.Tokens, len(all))
	}
	sum := len("[]") + len(r.Tools) - 1
	for i, tool := range r.Tools {
		sum += tool.Bytes
		if i > 0 && tool.Bytes > r.Tools[i-1].Bytes {
			t.Errorf("%s is larger than the one before", tool.Name)
		}
	}
	if sum != r.Bytes {
		t.Errorf("the tools are %d bytes, all is %d", sum, r.Bytes)
	}
	last := r.Tools[len(r.Tools)-1]
	want := Tool{Name: "small", Bytes: 48, Tokens: 12, InputSchemaBytes: 17}
	if !reflect.DeepEqual(last, want) {
		t.Error(cmp.Diff(want, last))
	}
	if got := r.Tools[0].Objects; !reflect.DeepEqual(got, []string{"filter"}) {
		t.Errorf("objects %q", got)
	}
	if r, err := Measure(nil, "", chars); err != nil || r.Bytes != 2 {
		t.Errorf("no tools: %+v, %v", r, err)
	}
	if _, err := Measure([][]byte{[]byte(`{}`), []byte(`{`)}, "", chars); err == nil || !strings.Contains(err.Error(), "tool 1") {
		t.Errorf("broken: %v", err)
	}
}

func TestRepeatedProseIsFound(t *testing.T) {
	repeats, err := Repeats(catalogue())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range repeats {
		got = append(got, fmt.Sprintf("%d %.30s", r.Count, r.Text))
	}
	// The parameter says more in front: not the same sentence, but the same words.
	want := []string{"4 The connection; When several c", "4 When several connections are g", "4 Read in pages: pass the cursor"}
	if !reflect.DeepEqual(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	var different [][]byte
	for i := range 4 {
		different = append(different, fmt.Appendf(nil, `{"description":"Tool %d. It wants a shared secret key of at least sixteen letters and digits, which may not be in any dictionary of number %d."}`, i, i))
	}
	if repeats, err = Repeats(different); err != nil || len(repeats) != 1 || repeats[0].Count != 4 ||
		repeats[0].Text != "It wants a shared secret key of at least sixteen letters and digits, which may not be in any dictionary of number" {
		t.Errorf("%+v, %v", repeats, err)
	}
	if repeats, err = Repeats(different[:2]); err != nil || len(repeats) != 0 {
		t.Errorf("said twice: %+v, %v", repeats, err)
	}
}

// TestRepeatedTextIsHoisted checks that repeated text is said once, and that each tool still
// says what it does.
func TestRepeatedTextIsHoisted(t *testing.T) {
	tools := catalogue()
	const own = "Read the schema first."
	notes, _, err := Hoist(tools, len(own))
	if err != nil {
		t.Fatal(err)
	}
	instructions := notes.Instructions(own)
	if len(notes) == 0 || !strings.HasPrefix(instructions, own+"\n\n"+heading+"\n- [1] ") || len(instructions) > MaxInstructions {
		t.Fatalf("instructions %q", instructions)
	}
	before, after := 0, len(instructions)
	for i, tool := range tools {
		out, err := notes.Apply(nil, tool)
		if err != nil {
			t.Fatal(err)
		}
		before, after = before+len(tool), after+len(out)
		for _, note := range notes {
			var v struct{ Description string }
			if err := json.Unmarshal(out, &v); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(v.Description, note) {
				t.Errorf("tool %d still says %q", i, note)
			}
			if first, _, _ := strings.Cut(string(tool), " records of one stream."); !strings.HasPrefix(string(out), strings.Replace(first, `": "`, `":"`, 1)[:10]) {
				t.Errorf("tool %d: %s", i, out)
			}
			if !strings.Contains(v.Description, "records of one stream.") {
				t.Errorf("tool %d does not say what it does: %s", i, v.Description)
			}
		}
		if diff := cmp.Diff(bare(t, tool), bare(t, out)); diff != "" {
			t.Errorf("tool %d: more than descriptions has changed:\n%s", i, diff)
		}
		if again, err := notes.Apply(nil, out); err != nil || &again[0] != &out[0] {
			t.Errorf("tool %d: edited twice: %s, %v", i, again, err)
		}
	}
	if after > before*85/100 {
		t.Errorf("%d bytes became %d", before, after)
	}
}

// bare returns a tool without its descriptions, with its numbers as they are
// written.
func bare(t *testing.T, tool []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(tool)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["description"].(string); ok && v["type"] != nil || v["name"] != nil {
				delete(v, "description")
			}
			for _, m := range v {
				strip(m)
			}
		case []any:
			for _, e := range v {
				strip(e)
			}
		}
	}
	strip(v)
	return v
}

func TestFirstSentencesAreKept(t *testing.T) {
	const sentence = "Reads the records that the grant allows, newest first, and never writes anything at all."
	var tools [][]byte
	for i := range 5 {
		tools = append(tools, fmt.Appendf(nil, `{"name":"t%d","description":%q}`, i, sentence))
	}
	notes, _, err := Hoist(tools, 0)
	if err != nil || len(notes) != 0 {
		t.Errorf("%q, %v", notes, err)
	}
	if out, err := (Notes{sentence}).Apply(nil, tools[0]); err != nil || &out[0] != &tools[0][0] {
		t.Errorf("%s, %v", out, err)
	}
}

// TestParametersKeepADescription checks that the description of a parameter
// does not become only a reference.
func TestParametersKeepADescription(t *testing.T) {
	const said = "The account to use, as the accounts tool lists it; leave it out to use the only one."
	var tools [][]byte
	for i := range 6 {
		tools = append(tools, fmt.Appendf(nil, `{"name":"t%d","description":"Does thing %d. %s","inputSchema":{"properties":{"account":{"description":%q},"other":{"description":"Number two. %s"}}}}`, i, i, said, said, said))
	}
	notes, saving, err := Hoist(tools, 0)
	if err != nil || len(notes) != 1 {
		t.Fatalf("%q, %v", notes, err)
	}
	after := len(notes.Instructions(""))
	for i, tool := range tools {
		out, err := notes.Apply(nil, tool)
		if err != nil {
			t.Fatal(err)
		}
		after += len(out)
		var v struct {
			Description string
			InputSchema struct {
				Properties map[string]struct{ Description string }
			}
		}
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		p := v.InputSchema.Properties
		if p["account"].Description != said || p["other"].Description != "Number two. See server instructions [1]." || v.Description != fmt.Sprintf("Does thing %d. See server instructions [1].", i) {
			t.Errorf("%s", out)
		}
	}
	if saving.After != after {
		t.Errorf("%+v, but it is %d bytes", saving, after)
	}
}

// TestNothingIsHoistedForASmallSaving checks that nothing moves to save less than 5 %
// of tools and instructions.
func TestNothingIsHoistedForASmallSaving(t *testing.T) {
	const said = "Use the cursor of the page before to get the next page of them."
	var tools [][]byte
	for i := range 4 {
		tools = append(tools, fmt.Appendf(nil, `{"name":"t%d","description":"Does thing %d. %s %s"}`, i, i, said, strings.Repeat(fmt.Sprintf("Words of tool %d. ", i), 60)))
	}
	notes, saving, err := Hoist(tools, 0)
	if percent := (saving.Before - saving.After) * 100 / saving.Before; err != nil || len(notes) > 0 || percent >= 5 {
		t.Errorf("%q to save %d %%: %+v, %v", notes, percent, saving, err)
	}
}

func TestNothingIsHoistedIfInstructionsHaveNoRoom(t *testing.T) {
	if notes, _, err := Hoist(catalogue(), MaxInstructions-100); err != nil || len(notes) != 0 {
		t.Errorf("%q, %v", notes, err)
	}
	if got := (Notes)(nil).Instructions("own"); got != "own" {
		t.Errorf("%q", got)
	}
}

func TestToolsAreShrunk(t *testing.T) {
	const tool = `{"name":"get_user","title":"Get user","description":"Get user","inputSchema":{"$schema":"x","title":"GetUser","type":"object",` +
		`"properties":{"user_id":{"title":"User Id","type":"string","description":"User ID.","examples":["1"]},"title":{"type":"string","title":"The title"},"examples":{"type":"array","items":{"type":"string","examples":[]}}},` +
		`"$defs":{"$schema":{"type":"string"}},"default":{"title":"x","examples":1}},"outputSchema":{"type":"object"}}`
	for want, s := range map[string]Shrinker{
		strings.NewReplacer(`"title":"Get user",`, ``, `"title":"User Id",`, ``).Replace(tool): {Titles: true},
		strings.NewReplacer(`,"examples":["1"]`, ``, `,"examples":[]`, ``).Replace(tool):       {Examples: true},
		strings.Replace(tool, `"$schema":"x",`, ``, 1):                                         {SchemaNames: true},
		strings.Replace(tool, `,"description":"User ID."`, ``, 1):                              {Echoes: true},
		strings.Replace(tool, `,"outputSchema":{"type":"object"}`, ``, 1):                      {OutputSchema: true},
		tool: {},
	} {
		out, err := s.Apply(nil, []byte(tool))
		if err != nil || string(out) != want {
			t.Errorf("%+v: %v\n got  %s\n want %s", s, err, out, want)
		}
	}
	plain := []byte(`{ "name" : "x" }`)
	if out, err := (Shrinker{Titles: true, Examples: true}).Apply(nil, plain); err != nil || &out[0] != &plain[0] {
		t.Errorf("nothing to leave out: %s, %v", out, err)
	}
}

func TestRegressions(t *testing.T) {
	before, err := Measure(catalogue(), "Use it.", chars)
	if err != nil {
		t.Fatal(err)
	}
	if worse := before.Regressions(before); len(worse) != 0 {
		t.Errorf("against itself: %q", worse)
	}
	tools := catalogue()
	tools[0] = []byte(`{"name":"renamed"}`)
	tools[1] = []byte(strings.Replace(string(tools[1]), `"filter":{"type":"object"`, `"filter":{"type":"string"`, 1))
	const news = "This is something that was not said before in so many words."
	for i := 1; i < 4; i++ {
		tools[i] = []byte(strings.Replace(string(tools[i]), `stream. `, `stream. `+news+" "+strings.Repeat("X", 400)+" ", 1))
	}
	after, err := Measure(tools, "", chars)
	if err != nil {
		t.Fatal(err)
	}
	worse := strings.Join(after.Regressions(before), "\n")
	for _, want := range []string{" more than before", "no instructions", "tool t0 is gone", "tool t1: parameter filter is no longer an object", fmt.Sprintf("3 descriptions now say %q", clip(news))} {
		if !strings.Contains(worse, want) {
			t.Errorf("%q is not in\n%s", want, worse)
		}
	}
}

// FuzzApply checks that an edited tool is valid JSON, and that editing it again
// changes nothing.
func FuzzApply(f *testing.F) {
	for _, tool := range catalogue() {
		f.Add(tool, "connection_id as listed by the schema tool")
	}
	f.Add([]byte(`{"description":"a. b","inputSchema":{"properties":[{"description":"\ud800 x"}]}}`), "b")
	f.Add([]byte(`{"name":"\u0000","title":" ","title":{},"inputSchema":{"items":[[{"examples":1}]]}}`), " ")
	f.Fuzz(func(t *testing.T, tool []byte, note string) {
		if _, err := Measure([][]byte{tool, tool, tool}, "", chars); err != nil {
			return
		}
		if _, _, err := Hoist([][]byte{tool, tool, tool}, 0); err != nil {
			t.Fatal(err)
		}
		note = strings.ToValidUTF8(note, "?")
		if note != "" {
			if out, err := (Notes{note}).Apply(nil, tool); err != nil || !json.Valid(out) {
				t.Errorf("%q without %q became %q, %v", tool, note, out, err)
			}
		}
		s := Shrinker{true, true, true, true, true}
		out, err := s.Apply(nil, tool)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%q became %q, %v", tool, out, err)
		}
		if again, err := s.Apply(nil, out); err != nil || string(again) != string(out) {
			t.Errorf("%q became %q and then %q, %v", tool, out, again, err)
		}
	})
}
