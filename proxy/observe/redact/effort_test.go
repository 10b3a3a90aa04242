//go:build !race

// The race detector takes most of the time, and more than its share for long texts.

package redact

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestTimeIsLinear redacts texts that are slow for a redaction that reads parts of them again and again.
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
	secrettest.Linear(t, inputs, 40, func(in []byte) { r.Payload("tools/call", "t", in) })
}
