package translate_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/internal/slow"
)

// TestGoldenByTwin holds the slow twin against the golden files, by value.
func TestGoldenByTwin(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	for _, g := range cases {
		if strings.HasPrefix(g.name, "ugly_duplicate") {
			continue // the path libraries see only the first of two members
		}
		t.Run(g.name, func(t *testing.T) {
			got := g.byTwin(t, all)
			switch {
			case got.verdict != g.verdict:
				t.Errorf("%s\n in      %s\n got     %s: %s\n want    %s: %s", g.title, g.in, got.verdict, got.text, g.verdict, g.want)
			case got.verdict == "error":
				if !strings.Contains(got.text, g.want) {
					t.Errorf("%s\n in      %s\n error   %s\n wants   %s", g.title, g.in, got.text, g.want)
				}
			case got.verdict != "drop" && !slow.Equal(got.text, g.want):
				t.Errorf("%s\n in      %s\n got     %s\n want    %s", g.title, g.in, got.text, g.want)
			}
			if (got.also != "" || g.also != "") && !slow.Equal(got.also, g.also) {
				t.Errorf("%s\n in      %s\n also    %s\n want    %s", g.title, g.in, got.also, g.also)
			}
		})
	}
}
