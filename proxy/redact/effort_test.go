//go:build !race

// The race detector takes most of the time, and more than its share for long texts.

package redact

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestTimeIsLinear redacts texts that are slow for a redaction that reads parts of them again and again, and compares the times
// for sizes that grow tenfold: quadratic time would grow a hundredfold.
func TestTimeIsLinear(t *testing.T) {
	r := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet(configured, strings.Repeat("a", 100)+"b")}, Paths: map[string][]string{"*": {"a.b", "*.x"}}})
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
		"token: {", "token: [", `"token":[`, `\"token\":{\"`, "token:\n", "token: |\n", "token: |\n ", "\n token:\n  a", "- token:\n", "<token>", "<token>a</", "a[token]=b", "token: is too ", "key=", "key=a", "key='", "&key=&", "sig: ",
	} {
		inputs[part] = text(part)
	}
	const small, steps, grow, limit = 4 << 10, 2, 10, 40
	measure := func(in []byte) time.Duration {
		start := time.Now()
		r.Payload("tools/call", "t", in)
		return time.Since(start)
	}
	for name, make := range inputs {
		for n, step := small, 0; step < steps; n, step = n*grow, step+1 {
			less, more := make(n), make(n*grow)
			short, long := time.Hour, time.Hour
			for try := range 20 { // other work on the machine makes some of them slow, quadratic time all of them
				short, long = min(short, measure(less)), min(long, measure(more))
				if try > 0 && long <= limit*short {
					break
				}
			}
			if long > limit*max(short, 20*time.Microsecond) {
				t.Errorf("%s: %v for %d bytes, and %v for %d bytes", name, short, n, long, n*grow)
			}
		}
	}
}
