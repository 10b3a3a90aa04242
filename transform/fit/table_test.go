package fit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// keptAs returns what is kept of a text in room bytes, and how many units. If
// columns is true, lists may be tables.
func keptAs(text string, room int, columns bool) (out string, units int) {
	p := New([]Part{{Text: []byte(text)}}, Options{Most: room, Columns: columns})
	parts, _ := p.Fit(room, 1, func(parts [][]byte) int { return len(parts[0]) })
	return string(parts[0]), p.Kept()
}

func TestTables(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`[{"id":1,"name":"a"},{"id":2,"name":"b"},{"id":3,"name":"c"},{"id":4,"name":null},{"id":5,"name":"e"}]`,
			`{"columns":["id","name"],"rows":[[1,"a"],[2,"b"],[3,"c"],[4,null],[5,"e"]]}`},
		{`{"total":4,"issues":[{"number":1,"state":{"name":"open"}},{"number":2,"state":{"name":"done"}},{"number":3,"state":{"name":"open"}},{"number":4,"state":{"name":"open"}}]}`,
			`{"total":4,"issues":{"columns":["number","state"],"rows":[[1,{"name":"open"}],[2,{"name":"done"}],[3,{"name":"open"}],[4,{"name":"open"}]]}}`},
		{`[{"number":1,"label":[{"name":"a","colour":"x"},{"name":"b","colour":"y"},{"name":"c","colour":"z"},{"name":"d","colour":"w"}]}]`,
			`[{"number":1,"label":{"columns":["name","colour"],"rows":[["a","x"],["b","y"],["c","z"],["d","w"]]}}]`},
		{`[{"identifier":1},{"identifier":2}]`, `[{"identifier":1},{"identifier":2}]`},                                                     // too short
		{`[{"a":1,"b":2},{"a":1,"b":2},{"a":1}]`, `[{"a":1,"b":2},{"a":1,"b":2},{"a":1}]`},                                                 // a member is missing
		{`[{"aaaa":1,"bbbb":2},{"aaaa":1,"bbbb":2},{"bbbb":1,"aaaa":2}]`, `[{"aaaa":1,"bbbb":2},{"aaaa":1,"bbbb":2},{"bbbb":1,"aaaa":2}]`}, // in another order
		{`[{},{},{}]`, `[{},{},{}]`}, {`["a","b","c","d"]`, `["a","b","c","d"]`},
	} {
		if out, _ := keptAs(c.in, 4000, true); out != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.in, out, c.want)
		}
		if out, _ := keptAs(c.in, 4000, false); out != c.in {
			t.Errorf("no option, but %s", out)
		}
	}
}

// TestTablesHaveTheValuesOfTheirLists checks that each cell is the item's member or "…",
// that the table fits the room, and that it has no fewer rows than a list would
// have items.
func TestTablesHaveTheValuesOfTheirLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []string
		n := rapid.IntRange(4, 60).Draw(t, "items")
		for i := range n {
			body := strings.Repeat("words ", rapid.IntRange(0, 60).Draw(t, "body"))
			items = append(items, fmt.Sprintf(`{"identifier":%d,"title":"t%d","state":{"name":"s%d"},"description":%q,"closed":null}`, i, i, i, body))
		}
		text := `{"issues":[` + strings.Join(items, ",") + `]}`
		room := rapid.IntRange(100, 4000).Draw(t, "room")
		out, _ := keptAs(text, room, true)
		if len(out) > room || !json.Valid([]byte(out)) {
			t.Fatalf("%d bytes of %d: %s", len(out), room, out)
		}
		var v struct {
			Issues struct {
				Columns []string
				Rows    [][]json.RawMessage
			}
		}
		if !strings.Contains(out, `"columns"`) {
			return
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if list, _ := keptAs(text, room, false); strings.Count(list, `"title"`) > len(v.Issues.Rows) {
			t.Fatalf("fewer rows than items\n%s\n%s", out, list)
		}
		for _, row := range v.Issues.Rows {
			if len(row) != len(v.Issues.Columns) || v.Issues.Columns[0] != "identifier" {
				t.Fatalf("%d cells in %d columns: %s", len(row), len(v.Issues.Columns), out)
			}
			item := -1
			json.Unmarshal(row[0], &item)
			if item < 0 {
				continue
			}
			var whole map[string]json.RawMessage
			json.Unmarshal([]byte(items[item]), &whole)
			for k, cell := range row {
				name := v.Issues.Columns[k]
				if s := string(cell); s != missingCell && s != string(whole[name]) && name != "description" && s != "{}" {
					t.Fatalf("item %d: %s is %s, not %s", item, name, s, whole[name])
				}
			}
		}
	})
}
