package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// textResult returns a result with these texts.
func textResult(texts ...string) []byte {
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%s}`, quoted(text)))
	}
	return []byte(`{"content":[` + strings.Join(blocks, ",") + `]}`)
}

func quoted(text string) []byte { return wire.AppendQuoted(nil, []byte(text)) }

// issues returns a JSON list of n issues.
func issues(n int) string {
	var b strings.Builder
	b.WriteString(`{"issues":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"ENG-%d","title":"Fix the %dth bug","state":{"name":"Todo","color":null},"priority":%d.0,"url":"https://linear.app/acme/issue/ENG-%d","description":"%s"}`,
			i, i, i%5, i, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1+i%7))
	}
	b.WriteString(`],"next_cursor":"abc"}`)
	return b.String()
}

func seen(t *testing.T, out []byte) (texts []string, parsed map[string]any) {
	t.Helper()
	if err := json.Unmarshal(out, &parsed); err != nil {
		t.Fatalf("%v in %.300s", err, out)
	}
	list, _ := parsed["content"].([]any)
	for _, b := range list {
		if text, ok := b.(map[string]any)["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return texts, parsed
}
