package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestLostIsWhatTheReceiverMisses: a value that goes without a replacement is lost. What is added, moved or empty is changed. The
// places of one rule are counted one by one.
func TestLostIsWhatTheReceiverMisses(t *testing.T) {
	for _, c := range []struct {
		from, to string
		kind     wire.Kind
		method   wire.Method
		in       string
		want     string // rule, what, lost and changed of each loss
	}{
		{"2025-06-18", "2024-11-05", wire.Result, wire.ToolsList, `{"tools":[{"name":"a","title":"A"}]}`, "C01 title 1 0"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsList, `{"tools":[{"name":"a","title":"A"}]}`, "C01 title 0 1"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsList, `{"tools":[{"name":"a","title":""}]}`, "C01 title 0 1"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsList,
			`{"tools":[{"name":"a","title":"A"},{"name":"b","title":"B","annotations":{"title":"Other"}},{"name":"c","title":""},{"name":"d","title":"D"}]}`, "C01 title 1 3"},
		{"2025-11-25", "2025-06-18", wire.Result, wire.ToolsList,
			`{"tools":[{"name":"a","icons":[{"src":"x"}]},{"name":"b","icons":[]},{"name":"c","execution":{"taskSupport":"forbidden"}},{"name":"d","execution":{"taskSupport":"optional"}}]}`,
			"C05 icons 1 1, C07 execution 1 1"},
		{"2025-03-26", "2024-11-05", wire.Result, wire.Initialize, `{"protocolVersion":"2025-03-26","capabilities":{"completions":{},"prompts":{}}}`, "C15 completions 0 1"},
		{"2025-03-26", "2024-11-05", wire.Result, wire.Initialize, `{"protocolVersion":"2025-03-26","capabilities":{"completions":{"x":1},"prompts":{}}}`, "C15 completions 0 1"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsCall, `{"content":[],"structuredContent":{"a":1}}`, "C04 structuredContent 0 1"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsCall, `{"content":[],"structuredContent":null}`, "C04 structuredContent 0 1"},
		{"2025-03-26", "2024-11-05", wire.Result, wire.ToolsCall, `{"content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"}]}`, "C10 audio 1 0"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsCall, `{"content":[{"type":"resource_link","uri":"u:x","name":"x","mimeType":"text/plain","description":"d"}]}`, "C11 resource_link 0 1"},
		{"2025-11-25", "2025-03-26", wire.Result, wire.ToolsCall, `{"content":[{"type":"resource_link","uri":"u:x","name":"x","icons":[{"src":"s"}],"_meta":{"k":1}},{"type":"resource_link","uri":"u:y","name":"y","icons":[]}]}`, "C11 resource_link 0 2, C05 icons 1 1, C08 _meta 1 0"},
		{"2025-06-18", "2025-03-26", wire.Result, wire.ToolsCall, `{"content":[{"type":"resource_link","uri":"u:x","name":"x","annotations":{"lastModified":"2025-01-01"}}]}`, "C11 resource_link 0 1, C09 lastModified 1 0, C09 annotations 0 1"},
		{"2025-11-25", "2025-06-18", wire.Error, wire.ToolsCall, `{"code":-32042,"message":"sign in","data":{"elicitations":[{"mode":"url","url":"https://a.example","elicitationId":"1","message":"m"}]}}`, "C22 -32042 0 1"},
		{"2024-11-05", "2025-06-18", wire.Result, wire.ResourcesRead, `{"contents":[{"uri":"demo://greeting","text":"x"}]}`, "C41 name 0 1"},
		{"2024-11-05", "2025-06-18", wire.Result, wire.ResourcesRead, `{"contents":[{"uri":"","text":"x"}]}`, "C41 no name 0 1"},
		{"2025-06-18", "2024-11-05", wire.Result, wire.ResourcesRead, `{"contents":[{"uri":"u:x","name":"n","text":"x"}]}`, "C41 name 1 0"},
		{"2025-11-25", "2025-06-18", wire.Request, wire.Initialize, `{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{"form":{}}}}`, "C17 elicitation 0 1"},
		{"2025-11-25", "2025-06-18", wire.Request, wire.Initialize, `{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{"form":{},"url":{}}}}`, "C17 elicitation 1 0"},
		{"2025-11-25", "2025-06-18", wire.Result, wire.SamplingCreateMessage, `{"role":"user","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "C12 content 0 1"},
		{"2025-11-25", "2025-06-18", wire.Result, wire.SamplingCreateMessage, `{"role":"user","model":"m","content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}]}`, "C12 content 1 0"},
		{"2025-11-25", "2025-06-18", wire.Result, wire.SamplingCreateMessage, `{"role":"user","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b","annotations":{"priority":1}}]}`, "C12 content 1 0"},
	} {
		for _, trace := range []bool{false, true} {
			text := `{"jsonrpc":"2.0","id":1,"result":` + c.in + `}`
			switch c.kind {
			case wire.Error:
				text = `{"jsonrpc":"2.0","id":1,"error":` + c.in + `}`
			case wire.Request:
				text = `{"jsonrpc":"2.0","id":1,"method":"` + c.method.String() + `","params":` + c.in + `}`
			}
			tr := newTable(t, translate.Options{}).Between(translate.Lookup(c.from), translate.Lookup(c.to))
			m := wire.Message{Trace: trace}
			if err := m.Scan([]byte(text), tr.Shape()); err != nil {
				t.Fatal(err)
			}
			m.Method = c.method
			if _, _, err := tr.Rewrite(nil, &m); err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, l := range m.Losses {
				if l.Rule == "D.3" {
					continue
				}
				said = append(said, fmt.Sprint(l.Rule, " ", l.What, " ", l.Lost, " ", l.Changed()))
			}
			if got := strings.Join(said, ", "); got != c.want {
				t.Errorf("%s to %s, %s: %s, want %s", c.from, c.to, c.in, got, c.want)
			}
			lost := map[string]int{}
			for _, p := range m.Places {
				if p.Lost() {
					lost[p.Rule+p.What]++
				}
			}
			for _, l := range m.Losses {
				if trace && lost[l.Rule+l.What] != l.Lost {
					t.Errorf("%s: %d places of %s are lost, want %d", c.in, lost[l.Rule+l.What], l.What, l.Lost)
				}
			}
		}
	}
}
