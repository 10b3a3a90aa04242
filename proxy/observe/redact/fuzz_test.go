package redact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// places are messages with one place for a secret, %s, as the inside of a JSON string.
var places = []string{
	`{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{}}`,
	`{"method":"tools/call","params":{"name":"%s","arguments":{}}}`,
	`{"params":{"arguments":{"a":"%s"}}}`,
	`{"params":{"arguments":{"a":["x",{"b":"before %s after"}]}}}`,
	`{"params":{"arguments":{"%s":1}}}`,
	`{"params":{"uri":"file:///a?q=%s&x=1"}}`,
	`{"params":{"_meta":{"progressToken":"%s"}}}`,
	`{"result":{"content":[{"type":"text","text":"%s"}],"structuredContent":{"a":{"b":"%s"}}}}`,
	`{"result":{"tools":[{"name":"t","description":"%s","inputSchema":{"properties":{"a":{"default":"%s"}}}}]}}`,
	`{"result":{"requestState":"%s","nextCursor":"%s"}}`,
	`{"error":{"code":-32603,"message":"upstream said %s","data":{"url":"https://h/p?x=%s"}}}`,
	`{"method":"notifications/message","params":{"data":"line one\nline %s"}}`,
}

// FuzzPlantedSecrets plants a secret of the configuration in every place of a message, as it is and as JSON in text, and looks
// for it in what is shown.
func FuzzPlantedSecrets(f *testing.F) {
	for _, secret := range []string{configured, "correct horse battery", "ünïcödé-secret", `back\slash"quote`, "123456789", "Bearer abcdefghijkl"} {
		f.Add(secret, "around", `{"a":1}`)
	}
	f.Add("0000000", "00", "[1]")
	f.Fuzz(func(t *testing.T, planted, around, raw string) {
		planted = strings.ToValidUTF8(planted, "")
		if len(strings.TrimSpace(planted)) < minSecret || strings.Contains(Struck, planted) || strings.Trim(planted, "0123456789abcdef") == "" && len(planted) < 10 {
			t.Skip("too short to be looked for, or part of what stands in its place")
		}
		r := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet(planted)}})
		inside := string(wire.AppendQuotedInner(nil, planted))
		embedded := string(wire.AppendQuotedInner(nil, `{"a":[{"b":"`+inside+`"}]}`))
		text := string(wire.AppendQuotedInner(nil, strings.ToValidUTF8(around, "")+planted+strings.ToValidUTF8(around, "")))
		for _, place := range places {
			for _, in := range []string{inside, embedded, text} {
				message := strings.ReplaceAll(place, "%s", in)
				got := r.Payload("tools/call", "t", []byte(message))
				if !wire.Valid(got) {
					t.Fatalf("%s became invalid: %s", message, got)
				}
				if found(got, planted) {
					t.Errorf("%q is in what is shown\n of %s\n as %s", planted, message, got)
				}
			}
		}
		if got := r.Text(around + planted); strings.Contains(got, planted) {
			t.Errorf("%q is in a text: %q", planted, got)
		}
		if got, _ := r.Header("Mcp-Name", planted); strings.Contains(got, planted) {
			t.Errorf("%q is in a header: %q", planted, got)
		}
		if got := r.Payload("", "", []byte(raw)); !wire.Valid(got) || strings.ContainsAny(string(got), "\r\n") {
			t.Errorf("%q became %q", raw, got)
		}
	})
}

// found reports whether a string or a name in a message holds a text.
func found(raw []byte, text string) (yes bool) {
	switch raw = wire.Trim(raw); wire.KindOf(raw) {
	case wire.String:
		s := string(wire.Unquoted(raw))
		return strings.Contains(s, text) || wire.Valid([]byte(s)) && found([]byte(s), text)
	case wire.Object, wire.Array:
		wire.Each(raw, func(name, value []byte) bool {
			yes = yes || strings.Contains(string(name), text) || found(value, text)
			return true
		})
	}
	return yes
}

// FuzzShapes plants well-known forms of credentials into text, and looks for them in what is shown.
func FuzzShapes(f *testing.F) {
	f.Add("before ", " after")
	f.Add(`{"a":"`, `"}`)
	f.Add("https://h/?x=", "&y=1")
	f.Fuzz(func(t *testing.T, before, after string) {
		r := redactor(t, Options{})
		before, after = strings.ToValidUTF8(before, ""), strings.ToValidUTF8(after, "")
		for _, c := range []struct{ text, secret string }{
			{" Bearer q1w2e3r4t5", "q1w2e3r4t5"},
			{" ghp_q1w2e3r4t5y6u7i8 ", "q1w2e3r4t5y6u7i8"},
			{" eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.q1w2e3r4 ", "q1w2e3r4"},
			{"\n-----BEGIN PRIVATE KEY-----\nq1w2e3r4\n-----END PRIVATE KEY-----\n", "q1w2e3r4"},
			{" https://user:q1w2e3r4@host/", "q1w2e3r4"},
			{" password=q1w2e3r4 ", "q1w2e3r4"},
			{`{"api_key": "q1w2e3r4 t5"}`, "q1w2e3r4"},
		} {
			if strings.Contains(before+after, "q1w") || strings.HasSuffix(before, "$") {
				t.Skip("planted by the fuzzer")
			}
			for _, around := range []string{before + c.text + after, before + "\n" + c.text + "\n" + after} {
				got := r.Payload("tools/call", "", fmt.Appendf(nil, `{"result":{"content":[{"type":"text","text":%s}]}}`, wire.AppendQuoted(nil, around)))
				if strings.Contains(string(got), c.secret) {
					t.Errorf("%q is in what is shown of %q: %s", c.secret, around, got)
				}
			}
		}
	})
}
