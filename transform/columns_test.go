package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// uniform returns a list of n issues with the same members.
func uniform(n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"identifier":"ENG-%d","title":"Fix bug %d of many","status":"open","assignee":null,"priority":%d.0}`, i, i, i%5))
	}
	return `{"issues":[` + strings.Join(items, ",") + `],"total":` + fmt.Sprint(n) + `}`
}

// TestListsBecomeTablesIfConfigured checks that the option turns lists of like objects into columns and
// rows, that more of them fit, and that reading continues at the same places as in a list.
func TestListsBecomeTablesIfConfigured(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	const n, budget = 300, 1000
	kept := map[string]int{}
	for _, tables := range []string{"rows", "columns"} {
		e := engine(t, "transform: {adapters: {capper: {tables: "+tables+"}}}")
		call := &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: budget}
		out, r := e.Apply(nil, textResult(uniform(n)), call)
		texts, _ := seen(t, out)
		if p := parse(t, out); p.count(e.encoding) > budget || len(r.Arrays) != 1 || r.Arrays[0].Path != "issues" || r.Arrays[0].Total != n {
			t.Errorf("%s: %d tokens, %+v", tables, p.count(e.encoding), r.Arrays)
		}
		if kept[tables] = r.Arrays[0].Kept; tables == "columns" {
			var v struct {
				Issues struct {
					Columns []string
					Rows    [][]any
				}
				Total int
			}
			if err := json.Unmarshal([]byte(texts[0]), &v); err != nil || len(v.Issues.Rows) != kept[tables] || v.Total != n ||
				strings.Join(v.Issues.Columns, " ") != "identifier title status assignee priority" {
				t.Errorf("%v: %.300s", err, texts[0])
			}
		}
		all, spent := followed(t, e, out, budget)
		for i := range n {
			if !strings.Contains(all, fmt.Sprintf(`"ENG-%d"`, i)) {
				t.Errorf("%s: item %d is never read", tables, i)
			}
		}
		if tables == "columns" && spent > e.encoding.Count([]byte(uniform(n)))*85/100 {
			t.Errorf("reading all of it costs %d tokens", spent)
		}
	}
	if kept["columns"] < kept["rows"]*13/10 {
		t.Errorf("%d items as a table, %d as a list", kept["columns"], kept["rows"])
	}
}

// TestListsStayListsIfTheSchemaRequiresIt checks also that a result within its budget does
// not change.
func TestListsStayListsIfTheSchemaRequiresIt(t *testing.T) {
	e := engine(t, "transform: {adapters: {capper: {tables: columns}}}")
	in := []byte(`{"content":[],"structuredContent":` + uniform(300) + `}`)
	out, _ := e.Apply(nil, in, &Call{Tool: "x", Schemas: Seen, Schema: []byte(`{"type":"object","properties":{"issues":{"type":"array"}}}`), MaxTokens: 500})
	if strings.Contains(string(out), `"columns"`) {
		t.Errorf("%s", out)
	}
	in = textResult(uniform(10))
	if out, _ := e.Apply(nil, in, &Call{Tool: "x", Schemas: None}); &out[0] != &in[0] {
		t.Errorf("within its budget, but changed: %s", out)
	}
}
