package failures

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
)

// TestNoQuoteShowsTheBeginningOfASecret plants secrets of several lengths at every place around each cut, behind words and behind blanks,
// which a quote leaves out.
func TestNoQuoteShowsTheBeginningOfASecret(t *testing.T) {
	for _, length := range []int{6, 40, 300} {
		planted := strings.Repeat("zq9", length/3+1)[:length]
		set := secret.NewSet(planted)
		for _, name := range []string{"as it is", "every byte as %", `every character as \u`, "base64, one byte before"} {
			spelled := secrettest.Spell[name](planted)
			for _, cut := range []int{MaxQuote, 2 * MaxQuote, 4 * MaxQuote, maxRead} {
				for at := max(0, cut-len(spelled)); at <= cut+1; at += 1 + len(spelled)/20 {
					for _, pad := range []string{strings.Repeat("word ", at/5+1)[:at], strings.Repeat(" ", at)} {
						text := pad + spelled + " and more"
						for how, got := range map[string]string{
							"Quote": Quote(text, set), "Redacted": Redacted(text, set), "a Line": secret.Strike(Line(text), set), "a Beginning": secret.Strike(Beginning(text, cut), set), "twice": Quote("it says: "+Line(text)+")", set),
						} {
							if n := len("zq9z"); strings.Contains(got, "zq9z") || strings.Contains(got, spelled[:min(len(spelled), n*6)]) {
								t.Fatalf("%d bytes %s at %d of %d, %s: %.400q", length, name, at, cut, how, got)
							}
						}
					}
				}
			}
		}
	}
}
