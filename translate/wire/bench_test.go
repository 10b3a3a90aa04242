package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// toolsList returns the result of a tools/list, about 45 KB for 50 tools.
func toolsList(tools int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`)
	for i := range tools {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"search_issues_%d","title":"Search issues %d","description":"%s","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"query":{"type":"string","description":"What to look for, in the query language of the tracker"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":20,"description":"How many to return"},"state":{"type":"string","enum":["open","closed","all"]}},"required":["query"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"items":{"type":"array"}}},"annotations":{"readOnlyHint":true,"openWorldHint":false},"execution":{"taskSupport":"forbidden"}}`, i, i, strings.Repeat("Finds issues that match. ", 7))
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	tools := new(Shape)
	for _, p := range []string{"result.tools[].annotations", "result.tools[].execution", "result.content[].resource", "result.content[].annotations"} {
		tools.At(ParsePath(p)...)
	}
	text := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`The quick brown fox jumps over the lazy dog, again and again and again.\n`, 14000) + `"}]}}`)
	for _, c := range []struct {
		name string
		raw  []byte
	}{{"tools50", toolsList(50)}, {"text1MB", text}} {
		for name, run := range map[string]func(){
			"gjson":    func() { gjson.ValidBytes(c.raw) },
			"envelope": func() { new(Message).Scan(c.raw, nil) },
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(c.raw)))
				for b.Loop() {
					run()
				}
			})
		}
		var m Message
		b.Run(c.name+"/shape", func(b *testing.B) {
			b.SetBytes(int64(len(c.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Scan(c.raw, tools); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
