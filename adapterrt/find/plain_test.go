package find

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// plain returns the operations of an API of testdata/plain. Their ids are their methods and paths.
func plain(t testing.TB, api string) (c corpus) {
	if api == "github" {
		return github(t)
	}
	categories := map[string]Category{"create": Create, "read": Read, "update": Update, "delete": Delete, "execute": Execute}
	for _, f := range table(t, "plain/"+api+".tsv") {
		_, path, _ := strings.Cut(f[2], " ")
		d := Doc{Name: f[0], Category: categories[f[1]], Summary: f[3], Path: path, Group: api}
		if len(f) > 4 {
			d.Group = f[4]
		}
		c.docs, c.ids = append(c.docs, d), append(c.ids, f[2])
	}
	return c
}

// TestPlainQuestions counts how many questions in plain words find their answer first, and among the
// first five. The questions were written by somebody who had not read the documents; half of them
// were held back while the ranking was tuned.
func TestPlainQuestions(t *testing.T) {
	type count struct{ of, first, five int }
	counts, indexes, corpora := map[string]*count{"tune": {}, "held": {}}, map[string]*Index{}, map[string]*corpus{}
	for _, q := range table(t, "plain/questions.tsv") {
		api, half, query, wanted := q[0], q[1], q[2], q[3:]
		if indexes[api] == nil {
			if _, err := os.Stat("testdata/plain/" + api + ".tsv"); err != nil && api != "github" {
				continue
			}
			c := plain(t, api)
			corpora[api], indexes[api] = &c, New(c.docs)
		}
		c, n := corpora[api], counts[half]
		hits := indexes[api].Search(query, nil)
		at := slices.IndexFunc(hits, func(h Hit) bool { return slices.Contains(wanted, c.ids[h.Doc]) })
		if n.of++; at == 0 {
			n.first++
		}
		if at >= 0 && at < 5 {
			n.five++
		}
		if at != 0 && (half == "tune" || os.Getenv("SHOW_HELD") != "") {
			t.Logf("%s: %q has place %d, behind:", api, query, at+1)
			for _, h := range hits[:min(3, len(hits))] {
				t.Logf("    %.2f %s %q", h.Score, c.ids[h.Doc], c.docs[h.Doc].Summary)
			}
		}
	}
	t.Logf("tuned with %+v, held back %+v", *counts["tune"], *counts["held"])
}
