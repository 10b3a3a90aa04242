package transform

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// hostile returns results that take much time or memory to read.
func hostile(n int) map[string][]byte {
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	blocks := func(block string, n int) []byte { return []byte(`{"content":[` + many(block, n) + `]}`) }
	var members strings.Builder
	for i := range n / 20 {
		members.WriteString(`,"m` + string(rune('a'+i%26)) + strings.Repeat("x", i%7) + `":[` + `1]`)
	}
	return map[string][]byte{
		"one string":                 textResult(`{"log":"` + strings.Repeat("0123456789", n/10) + `"}`),
		"one string of base64":       textResult(`{"data":"` + strings.Repeat("QUJD", n/4) + `"}`),
		"one id":                     textResult(`{"id":"` + strings.Repeat("QUJD", n/4) + `"}`),
		"one number":                 textResult(`[` + strings.Repeat("1", n) + `]`),
		"one name":                   textResult(`{"` + strings.Repeat("n", n) + `":1}`),
		"one letter":                 textResult(strings.Repeat("=", n)),
		"blanks":                     textResult("x" + strings.Repeat(" \n", n/2) + "x"),
		"marks":                      textResult("e" + strings.Repeat("\u0301", n/2)),
		"marks in a member":          textResult(`{"a":"e` + strings.Repeat("\u0301", n/2) + `"}`),
		"flags":                      textResult(strings.Repeat("🇩", n/4)),
		"headings":                   textResult(strings.Repeat("# a\n", n/4)),
		"ticks":                      textResult(strings.Repeat("` ", n/2)),
		"fences":                     textResult(strings.Repeat("```\n", n/4)),
		"brackets":                   textResult(strings.Repeat("[a](", n/4)),
		"rows":                       textResult(strings.Repeat("|", n)),
		"escapes":                    textResult(strings.Repeat("\u0001\"", n/2)),
		"200,000 arrays":             textResult(strings.Repeat("[", 200_000/effort) + strings.Repeat("]", 200_000/effort)),
		"arrays as deep as goes":     textResult(many(strings.Repeat("[", wire.MaxDepth-1)+strings.Repeat("]", wire.MaxDepth-1), 1)),
		"deep objects":               textResult("[" + many(strings.Repeat(`{"a":`, 500)+"1"+strings.Repeat("}", 500), n/5000) + "]"),
		"empty arrays":               textResult("[" + many("[]", n/3) + "]"),
		"members":                    textResult(`{"first":1` + members.String() + `}`),
		"tiny blocks":                blocks(`{"type":"text","text":"x"}`, n/10),
		"empty blocks":               blocks(`{"type":"text","text":""}`, n/10),
		"tiny documents":             blocks(`{"type":"text","text":"[1]"}`, n/10),
		"links":                      blocks(`{"type":"resource_link","uri":"file:///a/b/c","name":"c"}`, 5000),
		"unknown blocks":             blocks(`{"type":"novel","what":"is this"}`, n/40),
		"texts and images":           blocks(`{"type":"text","text":"x"},{"type":"image","data":"","mimeType":"image/png"}`, n/100),
		"a block that says it twice": blocks(`{"type":"text","text":"`+strings.Repeat("x ", n/2)+`","type":"text","text":"y"}`, 1),
		"content twice":              []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x ", n/2) + `"}],"content":[{"type":"text","text":"y"}]}`),
		"structured content":         []byte(`{"content":[],"structuredContent":[` + many(`{"a":"bcd"}`, n/12) + `]}`),
		"no content":                 []byte(`{"structuredContent":{"a":[` + many(`1`, n/2) + `]}}`),
	}
}
