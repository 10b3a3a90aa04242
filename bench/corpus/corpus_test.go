package corpus

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func newCorpus(t *testing.T, maxSize int) *Corpus {
	t.Helper()
	c, err := New(maxSize)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSameMessagesEveryTime(t *testing.T) {
	one, two := newCorpus(t, Small), newCorpus(t, Small)
	for _, r := range translate.Handshake() {
		a, b := one.In(r), two.In(r)
		if len(a) != len(b) {
			t.Fatalf("%s: %d messages, then %d", r, len(a), len(b))
		}
		for i := range a {
			if a[i].Name != b[i].Name || !bytes.Equal(a[i].Raw, b[i].Raw) {
				t.Errorf("%s: %s differs from %s", r, a[i].Name, b[i].Name)
			}
		}
	}
}

func TestMessagesAreClassified(t *testing.T) {
	c := newCorpus(t, Largest)
	for _, r := range translate.Handshake() {
		seen := map[string]bool{}
		for _, m := range c.In(r) {
			if seen[m.Name] {
				t.Errorf("two messages are called %s", m.Name)
			}
			seen[m.Name] = true
			if m.Revision != r {
				t.Errorf("%s of %s says it is of %s", m.Name, r, m.Revision)
			}
			if !json.Valid(m.Raw) {
				t.Errorf("%s in %s is not JSON", m.Name, r)
			}
			var w wire.Message
			if err := w.Scan(m.Raw, nil); err != nil || w.Kind != m.Kind {
				t.Errorf("%s in %s: a %s, %v; says it is a %s", m.Name, r, w.Kind, err, m.Kind)
			}
		}
	}
}

// TestNoRevisionHasMembersOfALaterOne checks that no revision has members or messages of a later one.
func TestNoRevisionHasMembersOfALaterOne(t *testing.T) {
	c := newCorpus(t, Small)
	for _, x := range []struct{ revision, message, path string }{
		{"2025-06-18", "tools_list_50", "result.tools.#.icons"},
		{"2025-06-18", "tools_list_50", "result.tools.#.execution"},
		{"2025-06-18", "sample_arrays", "params.messages.#.content.#.type"},
		{"2025-06-18", "initialize", "params.capabilities.tasks"},
		{"2025-03-26", "tools_list_50", "result.tools.#.title"},
		{"2025-03-26", "tools_list_50", "result.tools.#.outputSchema"},
		{"2025-03-26", "call_structured_1KiB", "result.structuredContent"},
		{"2025-03-26", "complete", "params.context"},
		{"2024-11-05", "tools_list_50", "result.tools.#.annotations"},
		{"2024-11-05", "call_mixed_1KiB", `result.content.#(type=="audio")`},
		{"2024-11-05", "progress_with_message", "params.message"},
	} {
		has := func(r *translate.Revision) bool {
			v := gjson.GetBytes(Find(c.In(r), x.message).Raw, x.path)
			return v.Exists() && strings.Trim(v.Raw, "[],") != ""
		}
		if !has(translate.Latest()) {
			t.Errorf("%s has no %s at all", x.message, x.path)
		}
		if has(translate.Lookup(x.revision)) {
			t.Errorf("%s in %s still has %s", x.message, x.revision, x.path)
		}
	}
	for revision, message := range map[string]string{"2025-06-18": "elicit_url", "2025-03-26": "elicit_result", "2024-11-05": "elicit"} {
		if Find(c.In(translate.Lookup(revision)), message) != nil {
			t.Errorf("%s has %s", revision, message)
		}
		if Find(c.In(translate.Latest()), message) == nil {
			t.Errorf("there is no %s at all", message)
		}
	}
}

func TestListsAndResultsHaveTheirSize(t *testing.T) {
	messages := newCorpus(t, Largest).In(translate.Latest())
	within := func(name string, low, high int) {
		t.Helper()
		m := Find(messages, name)
		if m == nil {
			t.Fatalf("no message %s", name)
		}
		if len(m.Raw) < low || len(m.Raw) > high {
			t.Errorf("%s has %d bytes, want %d to %d", name, len(m.Raw), low, high)
		}
	}
	within("tools_list_50", 43_000, 47_000)
	for name, tools := range map[string]int64{"tools_list_1": 1, "tools_list_50": 50, "tools_list_500": 500, "tools_list_5000": 5000} {
		if n := gjson.GetBytes(Find(messages, name).Raw, "result.tools.#").Int(); n != tools {
			t.Errorf("%s has %d tools", name, n)
		}
	}
	for _, what := range []string{"text", "structured", "twin", "blob", "mixed"} {
		within("call_"+what+"_1KiB", 900, 1800)
		for _, size := range Sizes()[1:] {
			within("call_"+what+"_"+sizeName(size), size*95/100, size*105/100)
		}
	}
}

func TestEveryKindOfMessageIsThere(t *testing.T) {
	type key struct {
		kind   wire.Kind
		method wire.Method
	}
	seen := map[key]bool{}
	for _, m := range newCorpus(t, Small).In(translate.Latest()) {
		seen[key{m.Kind, m.Method}] = true
	}
	for m := wire.Initialize; m <= wire.ElicitationCreate; m++ {
		if !seen[key{wire.Request, m}] || !seen[key{wire.Result, m}] {
			t.Errorf("no request or no result of %s", m)
		}
	}
	for m := wire.Initialized; m <= wire.TasksStatus; m++ {
		if !seen[key{wire.Notification, m}] {
			t.Errorf("no %s", m)
		}
	}
}

// TestFactsAreThoseOfTheClient checks that the facts of a message are what the client of the two peers declared.
func TestFactsAreThoseOfTheClient(t *testing.T) {
	c := newCorpus(t, Small)
	latest, form, old := translate.Latest(), translate.Lookup("2025-06-18"), translate.Lookup("2024-11-05")
	ask := func(from, to *translate.Revision) wire.Facts { return Find(c.Between(from, to), "sample").Facts }
	if !ask(latest, latest).Has(wire.ClientElicitationURL | wire.ClientSamplingTools | wire.ClientRoots) {
		t.Error("the latest client cannot open URLs")
	}
	if f := ask(latest, form); !f.Has(wire.ClientElicitationForm) || f.Has(wire.ClientElicitationURL) || f.Has(wire.ClientSamplingTools) {
		t.Errorf("facts of a 2025-06-18 client: %b", f)
	}
	if f := ask(latest, old); f.Has(wire.ClientElicitation) || !f.Has(wire.ClientSampling) {
		t.Errorf("facts of a 2024-11-05 client: %b", f)
	}
	if f := Find(c.Between(old, latest), "sample_result").Facts; f.Has(wire.ClientElicitation) {
		t.Errorf("facts of a 2024-11-05 client that answers: %b", f)
	}
	if note := Find(c.Between(form, latest), flatAnswer).Note; len(note) == 0 {
		t.Error("the answer to a flattened form has no note")
	}
	if note := Find(c.Between(latest, form), flatAnswer).Note; len(note) != 0 {
		t.Errorf("the answer to a form that was not flattened has a note: %s", note)
	}
}
