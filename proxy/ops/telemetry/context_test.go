package telemetry

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestParseContext: what the specification of trace contexts refuses names no span.
func TestParseContext(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]string{
		good:                                   good,
		strings.Replace(good, "-01", "-ff", 1): strings.Replace(good, "-01", "-03", 1), // flags that are not known are not sent on
		"01" + good[2:] + "-more":              good,
		"01" + good[2:] + "more":               "",
		good + "-more":                         "",
		"ff" + good[2:]:                        "",
		good[:len(good)-1]:                     "",
		strings.ToUpper(good):                  "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01": "",
		"": "",
	} {
		c := parseContext(text, "a=b")
		if got := string(c.appendTo(nil)); c.valid() != (want != "") || c.valid() && (got != want || c.state != "a=b" || !c.remote) {
			t.Errorf("%q: %q, %+v", text, got, c)
		}
	}
	for _, state := range []string{"a=\x00", "a=é", strings.Repeat("a=b,", maxMembers), "a=" + strings.Repeat("b", maxState)} {
		if c := parseContext(good, state); !c.valid() || c.state != "" {
			t.Errorf("%q: %+v", state, c)
		}
	}
}

// FuzzContext: a context that is read can be written and read again, and a message stays one with it in _meta.
func FuzzContext(f *testing.F) {
	f.Add(parent, `a=b"\`, `{"method":"x","params":{"_meta":{"progressToken":4},"name":"n"}}`)
	f.Add(declined, "", `{"method":"x","params":{"_meta": { } }}`)
	f.Add("", "", `{"method":"x"}`)
	f.Add(parent, "", `{"params":{"arguments":{"traceparent":1}},"method":"x"}`)
	f.Add(parent, "", `{"params":{ },"params":[],"_meta":7}`)
	f.Add(parent, "k=v", `{"params":{"_meta":{"traceparent":"x","tracestate":"y"}}}`)
	f.Fuzz(func(t *testing.T, text, state, message string) {
		c := parseContext(text, state)
		again := parseContext(string(c.appendTo(nil)), c.state)
		if c.valid() && again != c {
			t.Errorf("%+v became %+v", c, again)
		}
		if !gjson.Valid(message) || !gjson.Parse(message).IsObject() {
			return
		}
		at := below(&c)
		out, header := marked([]byte(message), nil, &at)
		if !gjson.ValidBytes(out) {
			t.Fatalf("%s became %s", message, out)
		}
		params := gjson.Get(message, "params")
		if meta := params.Get("_meta"); params.Exists() && !params.IsObject() || meta.Exists() && !meta.IsObject() || strings.Count(message, "params") > 1 || strings.Contains(message, `\`) {
			return // no place for it, or not a place that is known for sure
		}
		if got := gjson.GetBytes(out, "params._meta.traceparent").String(); got != string(at.appendTo(nil)) || got != header[0].Value {
			t.Errorf("%s has no context in %s", message, out)
		}
		if got := gjson.GetBytes(out, "params._meta.tracestate").String(); at.state != "" && got != at.state {
			t.Errorf("%s has no state in %s", message, out)
		}
	})
}

// FuzzRejected: no answer of a collector is more than a number and a text.
func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x07\x08\x05\x12\x03bad"))
	f.Add([]byte("\x0a\x7f"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if n, why := rejected(answer); len(why) > len(answer) || string(answer) == "\x0a\x07\x08\x05\x12\x03bad" && (n != 5 || why != "bad") {
			t.Errorf("%d, %q", n, why)
		}
	})
}
