//go:build !race

// The race detector takes most of the time, and more than its share for long texts.

package secret

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTimeIsLinear strikes secrets out of texts that are slow for a search that reads parts of them again and again, and compares the
// times for sizes that grow tenfold, twice: quadratic time would grow a hundredfold each time.
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
	const small, grow, limit = 4 << 10, 10, 60
	measure := func(in string) time.Duration {
		start := time.Now()
		Strike(in, sets...)
		return time.Since(start)
	}
	for name, make := range inputs {
		for n, step := small, 0; step < 2; n, step = n*grow, step+1 {
			less, more := make(n), make(n*grow)
			short, long := time.Hour, time.Hour
			for try := range 20 { // other work on the machine makes some of them slow, quadratic time all of them
				short, long = min(short, measure(less)), min(long, measure(more))
				if try > 0 && long <= limit*short {
					break
				}
			}
			if long > limit*max(short, 20*time.Microsecond) {
				t.Errorf("%.20q: %v for %d bytes, and %v for %d bytes", name, short, n, long, n*grow)
			}
			if testing.Verbose() && step == 1 {
				t.Logf("%.20q: %v for %d bytes, and %v for %d bytes", name, short, n, long, n*grow)
			}
		}
	}
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
