package tests

import "testing"

// TestErrorsAboutNoMessageOnAPipe: such errors have the id null for clients whose revision requires
// one, and before the revision is known; later revisions have none.
func TestErrorsAboutNoMessageOnAPipe(t *testing.T) {
	why := func(revisions string) string {
		return `"error":{"code":-32700,"message":"Parse error: unexpected end of JSON at byte 1` + revisions + `"}}`
	}
	for version, want := range map[string]string{
		"":           `{"jsonrpc":"2.0","id":null,` + why(""),
		"2024-11-05": `{"jsonrpc":"2.0","id":null,` + why(" (2024-11-05 to 2025-06-18)"),
		"2025-06-18": `{"jsonrpc":"2.0","id":null,` + why(" (2025-06-18)"),
		"2025-11-25": `{"jsonrpc":"2.0",` + why(" (2025-11-25 to 2025-06-18)"),
	} {
		c := through(t, newlineServer(t).At()).client(t, true)
		if version != "" {
			c.Initialize(version, "{}")
		}
		if got := c.Say(`{`).Next(); got != want {
			t.Errorf("%q: %s", version, got)
		}
	}
}
