package clean

import (
	"strings"
	"testing"
)

func TestUpstreamWordsAreSanitised(t *testing.T) {
	z := Sanitizer{Host: "10.1.1.1:80"}
	for in, want := range map[string]string{
		"bad token ghp_abcdefghijklmnop here":                  "bad token [redacted] here",
		"Authorization: Bearer abcdefghijkl":                   "Authorization: [redacted]",
		"api_key=abcdefgh&x=1":                                 "api_key=[redacted]&x=1",
		"see eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh ok": "see [redacted] ok",
		"my s3cret-value leaked":                               "my [redacted] leaked",
		"failed in /var/lib/app/main.py now":                   "failed in [path] now",
		"dial 192.168.4.5:5432 failed":                         "dial [host] failed",
		"dial 10.1.1.1 failed":                                 "dial 10.1.1.1 failed",
		"db.prod.internal is down":                             "[host] is down",
		"postgres://u:p@db/x is down":                          "[redacted] is down",
		"see https://u:p@api.example.com/docs":                 "see https://api.example.com/docs",
		"boom\n    at foo (bar.js:1)\nmain.go:12 +0x1\nend":    "boom end",
		"a\u202eb\x1b[31mc":                                    "ab[31mc",
		"near select a from b\nwhere c":                        "near select a from b",
		strings.Repeat("é", 600):                               strings.Repeat("é", 500),
	} {
		if got := z.Clean(in, 500, []string{"s3cret-value"}); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	dev := Sanitizer{Off: true}
	if got := dev.Clean("in /a/b/c with ghp_abcdefghijklmnop", 500, nil); got != "in /a/b/c with [redacted]" {
		t.Error(got)
	}
}
