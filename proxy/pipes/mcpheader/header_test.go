package mcpheader

import "testing"

// TestHeaderNames checks that text which is not plain ASCII is encoded as base64.
func TestHeaderNames(t *testing.T) {
	for text, header := range map[string]string{
		"t": "t", "größe": "=?base64?Z3LDtsOfZQ==?=", " t": "=?base64?IHQ=?=", "": "", "=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?=", "a\tb": "a\tb", "a\nb": "=?base64?YQpi?=",
	} {
		if got := Encode(text); got != header {
			t.Errorf("%q: %q", text, got)
		}
		if got, ok := Decode(header); !ok || got != text {
			t.Errorf("%q: %q %v", header, got, ok)
		}
	}
	if _, ok := Decode("=?base64?!?="); ok {
		t.Error("no base64")
	}
}
