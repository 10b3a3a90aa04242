package escape

import (
	"net/url"
	"testing"
)

func TestPathValues(t *testing.T) {
	for in, want := range map[string]string{
		"hello world":         "hello%20world",
		"user@example.com":    "user%40example.com",
		"path/to/file":        "path%2Fto%2Ffile",
		"名前":                  "%E5%90%8D%E5%89%8D",
		"":                    "",
		"a+b":                 "a%2Bb",
		"100%":                "100%25",
		"a%2Fb":               "a%2Fb",
		"a%20b/../../admin":   "a%2520b%2F..%2F..%2Fadmin",
		"x%20?q#f":            "x%2520%3Fq%23f",
		"../../../etc/passwd": "..%2F..%2F..%2Fetc%2Fpasswd",
		"-_.!~*'()":           "-_.!~*'()",
		"%e5%90%8d":           "%e5%90%8d",
		"%ff":                 "%25ff",
		"%00":                 "%2500",
		"a%":                  "a%25",
		"a%2":                 "a%252",
		"a%2g":                "a%252g",
	} {
		if got := string(AppendPath(nil, []byte(in), false)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := string(AppendPath(nil, []byte("a%2Fb"), true)); got != "a%252Fb" {
		t.Errorf("always: got %q", got)
	}
}

// FuzzPathValue shows that a value encoded for a path contains only unreserved characters and
// escapes, and decodes to the value, unless the value was encoded already.
func FuzzPathValue(f *testing.F) {
	for _, s := range []string{"", "..", "%2e", "a%20b/../..", "%", "%00", "\xff", "é", "a%2Fb"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := string(AppendPath(nil, in, false))
		back, err := url.PathUnescape(out)
		if err != nil {
			t.Fatalf("%q became %q", in, out)
		}
		if out != string(in) && back != string(in) {
			t.Errorf("%q became %q", in, out)
		}
		for i := range len(out) {
			if c := out[i]; c != '%' && !isUnreserved(c) {
				t.Errorf("%q holds %q", out, c)
			}
		}
	})
}

func TestPathsThatLeaveTheirFolderAreFound(t *testing.T) {
	for in, want := range map[string]bool{
		".": true, "..": true, "%2e": true, "%2E.": true, "a%2F..": true, "..%2Fa": true, "a%5c%2e%2e%5cb": true, "a%2F.": true, "a/../b": true, "..\\": true,
		"": false, "...": false, "a..": false, "..a": false, "a%2F..b": false, "%252e%252e": false, "a.b": false, "%2": false, "%2F%2F": false,
	} {
		if got := Climbs([]byte(in)); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}
