package redact

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestTimeIsLinear redacts texts that are slow for a redaction that reads parts of them again and again, and compares the times
// for sizes that grow tenfold: quadratic time would grow a hundredfold.
func TestTimeIsLinear(t *testing.T) {
	r := redactor(t, Options{Secrets: []string{configured, strings.Repeat("a", 100) + "b"}, Paths: map[string][]string{"*": {"a.b", "*.x"}}})
	text := func(part string) func(int) []byte {
		return func(n int) []byte { return wire.AppendQuoted(nil, strings.Repeat(part, n/len(part))) }
	}
	inputs := map[string]func(n int) []byte{
		"numbers": func(n int) []byte { return []byte("[" + strings.Repeat("1,", n/2) + "1]") },
		"members": func(n int) []byte { return []byte(`{"a":0` + strings.Repeat(`,"token":"v"`, n/12) + "}") },
		"nested": func(n int) []byte {
			deep := strings.Repeat(`{"a":[`, 200) + "1" + strings.Repeat("]}", 200)
			return []byte("[" + strings.Repeat(deep+",", n/len(deep)+1) + "1]")
		},
		"JSON in text": func(n int) []byte {
			return wire.AppendQuoted(nil, `[`+strings.Repeat(`"{\"a\":1}",`, n/12)+"1]")
		},
	}
	for _, part := range []string{
		"word ", "token", "token ", "token=", `token="`, `token=\"`, "token:'", "cursor=", "cursor:", `"cursor":"`, "a://", "a://b", "a:b@", "://@",
		"-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", "Bearer ", "bearer.", "bearer $A", "eyJ.", "eyJhbGciOiJIUzI1NiJ9.", "sk-1", "{", `\`, `\\"`, "a", "password: ", "cookie: a ",
		"Authorization:\n", "?sig=", "&key", "--token ", "%3D", "token%3D", "token \t ", "conf_0123456789abcdef", "[handle ", "token=$A",
	} {
		inputs[part] = text(part)
	}
	const small, steps, grow, limit = 4 << 10, 2, 10, 40
	for name, make := range inputs {
		var before time.Duration
		for n, step := small, 0; step <= steps; n, step = n*grow, step+1 {
			in, best := make(n), time.Hour
			for range 3 {
				start := time.Now()
				r.Payload("tools/call", "t", in)
				best = min(best, time.Since(start))
			}
			if step > 0 && best > limit*before {
				t.Errorf("%s: %v for %d bytes, and %v for %d bytes", name, before, n/grow, best, n)
			}
			before = max(best, 20*time.Microsecond)
		}
	}
}
