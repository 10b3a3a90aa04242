//go:build !race

// The race detector takes most of the time, and more than its share for long texts.

package secret

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
)

// TestTimeIsLinear strikes secrets out of texts that are slow for a search that reads parts of them again and again.
func TestTimeIsLinear(t *testing.T) {
	long := strings.Repeat("a", 8<<10)
	sets := []*Set{NewSet(long+"b", long+"c", "planted-secret/1", strings.Repeat("planted-", 1000)+"end", strings.Repeat("%25", 1000)+"2F", `\u005c\u005c\u005c`), NewSet(secrets...)}
	inputs := map[string]func(n int) string{}
	for _, part := range []string{
		"a", "planted-", "planted-secret/1 ", "%", "%2", "%25", "%25%32%35", "%%32", "%%%2535", `\`, `\u`, `\u005c`, `\\u005c`, `\u0025`, `\%75`, `%5C`, `%5Cu005`, "&", "&#", "&amp;", "&#38;", "&amp%3b", "&#x26;#", "%26", "…", "planted…", "a…", "eyJh", " ", "\xff", "é", "-_+", `"\`, "&%\\",
	} {
		inputs[part] = func(n int) string { return strings.Repeat(part, n/len(part)) }
	}
	inputs["a chain behind each"] = func(n int) string { return strings.Repeat("%"+strings.Repeat("%25", 100), n/301) }
	inputs["backslashes behind each"] = func(n int) string { return strings.Repeat("%"+strings.Repeat(`\`, 100), n/101) }
	inputs["secrets that nearly are"] = func(n int) string { return strings.Repeat(long[:4<<10]+"x", n/(4<<10)) }
	inputs["different secrets"] = func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "%s%d ", secrets[i%len(secrets)], i)
		}
		return b.String()
	}
	secrettest.Linear(t, inputs, 60, func(in string) { Strike(in, sets...) })
}

// TestTimeForKeysIsLinear looks for private keys in lines that begin or end many.
func TestTimeForKeysIsLinear(t *testing.T) {
	inputs := map[string]func(n int) string{}
	for _, part := range []string{keyBegins, keyEnds, keyBegins + keyLabel + dashes, keyBegins + "X" + dashes, keyBegins + keyLabel + dashes + keyEnds + keyLabel + dashes, keyEnds + keyBegins, "-", "A", "A ", strings.Repeat("A", keyRun) + " "} {
		inputs[part] = func(n int) string { return strings.Repeat(part, n/len(part)) }
	}
	secrettest.Linear(t, inputs, 60, func(in string) {
		var l Lines
		l.Line(in)
		l.Line(in)
	})
}

// BenchmarkNewSet makes the set of as many tokens as are kept.
func BenchmarkNewSet(b *testing.B) {
	var all []string
	for n := range mostKept {
		all = append(all, fmt.Sprintf("eyJhbGciOiJIUzI1NiJ9.%s%d", strings.Repeat("eyJzdWIiOiIxMjM0", 40), n))
	}
	for b.Loop() {
		NewSet(all...)
	}
}
