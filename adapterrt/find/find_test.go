package find

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// table returns the lines of a file in testdata, split at tabs, without comments.
func table(t testing.TB, name string) (lines [][]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	return lines
}

// corpus is what a test searches. ids are the names that the tables have for docs.
type corpus struct {
	docs []Doc
	ids  []string
}

// github returns GitHub's operations. Their ids are their methods and paths.
func github(t testing.TB) (c corpus) {
	methods := map[string]Category{"GET": Read, "POST": Create, "PUT": Update, "PATCH": Update, "DELETE": Delete}
	for _, f := range table(t, "github-operations.tsv") {
		method, path, _ := strings.Cut(f[1], " ")
		d := Doc{Name: f[0], Category: methods[method], Summary: f[2], Path: path}
		for p := range strings.FieldsSeq(f[3]) {
			name, _, _ := strings.Cut(p, ":")
			d.Params = append(d.Params, name)
		}
		c.docs, c.ids = append(c.docs, d), append(c.ids, f[1])
	}
	return c
}

// shippedOperations returns the operations of the adapters in deploy.
func shippedOperations(t testing.TB) (all []*file.Operation) {
	t.Helper()
	paths, _ := filepath.Glob("../../deploy/adapters/*-adapter.md")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a, problems := file.Parse(path, data, &file.Options{})
		if a == nil {
			t.Fatal(problems)
		}
		all = append(all, a.Operations...)
	}
	if len(all) < 70 {
		t.Fatalf("%d operations", len(all))
	}
	return all
}

// shipped returns the operations of the adapters in deploy. Their ids are adapter.operation.
func shipped(t testing.TB) (c corpus) {
	for _, op := range shippedOperations(t) {
		d := Doc{Name: op.Name, Category: Category(op.Category), Group: op.Adapter.Name, Summary: op.Description, Params: op.Names()}
		if op.GraphQL == nil {
			d.Path = op.Mapping.Template
		}
		c.docs, c.ids = append(c.docs, d), append(c.ids, op.Adapter.Name+"."+op.Name)
	}
	return c
}

// score counts how many of the questions find what they want among the first five and ten.
type score struct{ of, five, ten int }

func (s *score) ask(t *testing.T, x *Index, c *corpus, query string, wanted []string) {
	t.Helper()
	hits := x.Search(query, nil)
	at := slices.IndexFunc(hits, func(h Hit) bool { return slices.Contains(wanted, c.ids[h.Doc]) })
	s.of++
	if at >= 0 && at < 10 {
		s.ten++
	}
	if at >= 0 && at < 5 {
		s.five++
		return
	}
	t.Logf("%q has place %d, behind:", query, at+1)
	for _, h := range hits[:min(3, len(hits))] {
		t.Logf("    %.2f %s", h.Score, c.ids[h.Doc])
	}
}

func (s *score) want(t *testing.T, what string, five, ten int) {
	t.Helper()
	t.Logf("%s: %d of %d within 5, %d within 10", what, s.five, s.of, s.ten)
	if s.five < five || s.ten < ten {
		t.Errorf("%s: want %d within 5 and %d within 10", what, five, ten)
	}
}

// TestRanking counts how many questions find their answer.
func TestRanking(t *testing.T) {
	all, ours := github(t), shipped(t)
	theirs, own := New(all.docs), New(ours.docs)

	var asked, askedShipped score
	for _, q := range table(t, "queries.tsv") {
		if q[0] == "github" {
			asked.ask(t, theirs, &all, q[1], q[2:])
		} else {
			askedShipped.ask(t, own, &ours, q[1], q[2:])
		}
	}
	asked.want(t, "questions to all of GitHub", 23, 24)
	askedShipped.want(t, "questions to the shipped adapters", 15, 15)

	var later score
	for _, q := range table(t, "later.tsv") {
		later.ask(t, theirs, &all, q[1], q[2:])
	}
	later.want(t, "questions that were not tuned with", 15, 16)

	// The shipped descriptions are in other words than GitHub's own.
	var described, named score
	seen := map[string]bool{}
	for _, op := range shippedOperations(t) {
		id := op.Mapping.Method + " " + op.Mapping.Template
		if op.Adapter.Name != "github" || seen[id] {
			continue
		}
		seen[id] = true
		id = strings.Replace(id, "/heads/{branch}", "/{ref}", 1)
		i := slices.IndexFunc(all.ids, func(known string) bool { return shape(known) == shape(id) })
		if i < 0 {
			t.Fatalf("GitHub's document does not have %s", id)
		}
		described.ask(t, theirs, &all, op.Description, all.ids[i:i+1])
		named.ask(t, theirs, &all, op.Name, all.ids[i:i+1])
	}
	described.want(t, "shipped descriptions", 34, 38)
	named.want(t, "shipped names", 40, 40)
}

// shape returns a method and path without the names of the parameters.
func shape(id string) string {
	parts := strings.Split(id, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"listRepos_for-Org":              "list repo org",
		"Re-opened issues' STATUSES":     "re open issu status",
		"protections deleting stopped":   "protect delet stop",
		"who's the people":               "who person",
		"caching caches cached cache":    "cach cach cach cach",
		"Ünïcode ÉTÉ 数据":                 "ünïcod été 数据",
		"":                               "",
		"the of and":                     "",
		"HTTPServer v2 a1b2":             "httpserver v2 a1b2",
		"repositories categories policy": "repository category policy",
	} {
		if got := strings.Join(Words(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSynonymsAreReached shows that each verb and each synonym is reached by the word
// as people write it.
func TestSynonymsAreReached(t *testing.T) {
	n := 0
	for line := range strings.Lines(synonymText) {
		words, others, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		n++
		for word := range strings.FieldsSeq(words) {
			for other := range strings.FieldsSeq(others) {
				x := New([]Doc{{Name: "unrelated"}, {Name: other}})
				if stops[word] {
					t.Errorf("%q is left out of every query", word)
				}
				if hits := x.Search(word, nil); len(hits) != 1 || hits[0].Doc != 1 {
					t.Errorf("%q does not find %q", word, other)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d groups", n)
	}
}

func TestAliases(t *testing.T) {
	x := New([]Doc{{Name: "create_ref", Summary: "Create a reference"}, {Name: "create_widget", Aliases: []string{"gizmo", "thing of ours"}}})
	if hits := x.Search("gizmo", nil); len(hits) != 1 || hits[0].Doc != 1 {
		t.Error(hits)
	}
	if hits := x.Search("gizmo", func(doc int) bool { return doc == 0 }); len(hits) != 0 {
		t.Error(hits)
	}
}

// FuzzSearch shows that any query of any operations has an answer, always the same, in order.
func FuzzSearch(f *testing.F) {
	for _, s := range []string{"", " ", "the", "list my repos", "\xff\xfe", "a\x00b", strings.Repeat("open issue ", 500), "é́数据", "{}/{}", "_", "'s", "ing ed s es"} {
		f.Add(s, s, "/"+s+"/{x}")
		f.Add("get", s, "/{a}")
	}
	f.Fuzz(func(t *testing.T, query, text, path string) {
		docs := []Doc{{Name: "get_a", Category: Read, Summary: text, Path: path}, {Name: query}, {Text: text, Aliases: []string{query, text}}}
		hits := New(docs).Search(query, nil)
		again := New(docs).Search(query, nil)
		if !slices.Equal(hits, again) {
			t.Errorf("%v and %v", hits, again)
		}
		for i, h := range hits {
			if i > 0 && hits[i-1].Score < h.Score || h.Score <= 0 || h.Score != h.Score {
				t.Errorf("%v", hits)
			}
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	all := github(b)
	x := New(all.docs)
	for b.Loop() {
		x.Search("leave a comment on a pull request", nil)
	}
}

func BenchmarkIndex(b *testing.B) {
	all := github(b)
	for b.Loop() {
		New(all.docs)
	}
}
