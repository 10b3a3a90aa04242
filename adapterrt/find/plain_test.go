package find

import (
	"slices"
	"strings"
	"testing"
	"time"
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
// first five. testdata/plain/README.md says how they were written, and when. half says which of them the
// ranking was tuned with.
func TestPlainQuestions(t *testing.T) {
	type count struct{ of, first, five int }
	got := map[string]*count{"tune": {}, "held": {}}
	want := map[string]count{"tune": {37, 31, 35}, "held": {38, 26, 33}}
	corpora, indexes := map[string]*corpus{}, map[string]*Index{}
	for _, q := range table(t, "plain/questions.tsv") {
		api, half, query, wanted := q[0], q[1], q[2], q[3:]
		if api == "discord" { // its document is not here
			continue
		}
		if indexes[api] == nil {
			c := plain(t, api)
			corpora[api], indexes[api] = &c, New(c.docs)
		}
		c, n := corpora[api], got[half]
		for _, id := range wanted {
			if !slices.Contains(c.ids, id) {
				t.Errorf("%s has no %s", api, id)
			}
		}
		hits := indexes[api].Search(query, nil)
		at := slices.IndexFunc(hits, func(h Hit) bool { return slices.Contains(wanted, c.ids[h.Doc]) })
		if n.of++; at == 0 {
			n.first++
		}
		if at >= 0 && at < 5 {
			n.five++
		}
		if at != 0 && half == "tune" {
			t.Logf("%s: %q has place %d, behind:", api, query, at+1)
			for _, h := range hits[:min(3, len(hits))] {
				t.Logf("    %.2f %s %q", h.Score, c.ids[h.Doc], c.docs[h.Doc].Summary)
			}
		}
	}
	for half, n := range got {
		t.Logf("%s: %d of %d first, %d within 5", half, n.first, n.of, n.five)
		if w := want[half]; n.of != w.of || n.first < w.first || n.five < w.five {
			t.Errorf("%s: want %d of %d first, and %d within 5", half, w.first, w.of, w.five)
		}
	}
}

// TestReading tests what a search reads in a query beside its words.
func TestReading(t *testing.T) {
	docs := []Doc{
		{Name: "list_payments", Category: Read, Summary: "List payments", Path: "/payments"},
		{Name: "get_payment", Category: Read, Summary: "Get a payment", Path: "/payments/{id}"},
		{Name: "create_payment", Category: Create, Summary: "Create a payment", Path: "/payments"},
		{Name: "create_refund", Category: Create, Summary: "Create a refund", Path: "/refunds"},
		{Name: "restore_file", Category: Execute, Summary: "Restore a file", Path: "/files/{id}:restore"},
		{Name: "get_file", Category: Read, Summary: "Get a file", Path: "/files/{id}"},
		{Name: "delete_file", Category: Delete, Summary: "Delete a file", Path: "/files/{id}"},
		{Name: "add_worklog", Category: Create, Summary: "Add worklog", Path: "/tasks/{id}/worklog"},
		{Name: "chat_delete", Category: Create, Summary: "Deletes a message", Path: "/chat.delete"},
		{Name: "chat_post", Category: Create, Summary: "Sends a message", Path: "/chat.post"},
		{Name: "list_calls", Category: Read, Summary: "List calls", Path: "/Calls.json"},
		{Name: "update_call", Category: Create, Summary: "Update or end a call", Path: "/Calls/{id}.json"},
		{Name: "list_my_repos", Category: Read, Summary: "List repositories of the authenticated user", Path: "/user/repos"},
		{Name: "list_repos", Category: Read, Summary: "List repositories", Path: "/repos"},
	}
	x := New(docs)
	for query, want := range map[string]string{
		"give the customer their money back": "create_refund",  // a phrase with a gap
		"bring back a file I deleted":        "restore_file",   // the verb of a clause is not that of the query
		"which payments are there":           "list_payments",  // a question for several things
		"list the payments":                  "list_payments",  // a plural
		"pay":                                "create_payment", // another form of the word
		"log work":                           "add_worklog",    // parts of a word
		"remove a message":                   "chat_delete",    // POST for everything
		"send a message to the new channel":  "chat_post",
		"how many calls were there":          "list_calls",
		"hang up":                            "update_call",
		"my repositories":                    "list_my_repos",
		"repositories":                       "list_repos",
		"get rid of this file":               "delete_file",
	} {
		hits := x.Search(query, nil)
		if len(hits) == 0 || docs[hits[0].Doc].Name != want {
			t.Errorf("%q does not find %s first:", query, want)
			for _, h := range hits[:min(3, len(hits))] {
				t.Errorf("    %.2f %s", h.Score, docs[h.Doc].Name)
			}
		}
	}
}

// TestLongQueriesAreQuick tests that a query of the greatest length takes no longer than many words can.
func TestLongQueriesAreQuick(t *testing.T) {
	x := New(github(t).docs)
	var words []string
	for w := range meant().synonyms {
		words = append(words, w)
	}
	slices.Sort(words)
	start := time.Now()
	for i := 0; i+90 < len(words); i += 90 {
		x.Search(strings.Join(words[i:i+90], " "), nil)
	}
	if took := time.Since(start) / time.Duration(len(words)/90); took > time.Second {
		t.Errorf("a query takes %v", took)
	} else {
		t.Log(took)
	}
}
