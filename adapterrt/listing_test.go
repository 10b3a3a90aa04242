package adapterrt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// large returns two adapters with more operations than a list has; both have list_things.
func large() map[string]string {
	var reads strings.Builder
	reads.WriteString("read:\n- {name: list_things, maps_to: GET /things, description: List things}\n")
	for i := range 230 {
		fmt.Fprintf(&reads, "- {name: get_thing_%03d, maps_to: GET /things/%d, description: Get a thing}\n", i, i)
	}
	big := front("https://api.example.com", reads.String()+"delete:\n- {name: remove_thing, maps_to: DELETE /things, description: Remove a Widget}", "tags: [stock, shop]")
	small := front("https://other.example.com", "read:\n- {name: list_things, maps_to: GET /t, description: List other things}", "tags: [chat]")
	return map[string]string{"test-api-adapter.md": big, "other-adapter.md": strings.Replace(small, "name: test-api", "name: other", 1)}
}

type listed struct {
	Success bool
	Data    struct {
		Operations []struct{ Name, Description string }
		More       string
	}
	Error struct{ Code, Message string }
}

func list(t *testing.T, rt *Runtime, params string) (l listed) {
	t.Helper()
	got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations"`+params+`}}`)
	if err := json.Unmarshal([]byte(got), &l); err != nil {
		t.Fatal(err, got)
	}
	if l.Success {
		conforms(t, "listExtended", got)
	} else {
		conforms(t, "failure", got)
	}
	return l
}

// TestLongListsComeInPages shows that a client finds all operations if it does what each list says about the next one.
func TestLongListsComeInPages(t *testing.T) {
	rt := start(t, Options{}, large())
	next := regexp.MustCompile(`^(\d+) more operations\. Go on with after ("[^"]+") and first, or narrow with adapter, category, tag, match\.$`)
	for _, first := range []int{0, 1, 7, 100, 232, 233, 2000} {
		params := ""
		if first > 0 {
			params = fmt.Sprintf(`,"first":%d`, first)
		}
		var names []string
		for after := ""; ; {
			l := list(t, rt, params+after)
			for _, op := range l.Data.Operations {
				names = append(names, op.Name)
			}
			if l.Data.More == "" {
				break
			}
			m := next.FindStringSubmatch(l.Data.More)
			if m == nil || m[1] != fmt.Sprint(234-len(names)) || len(names) > 234 {
				t.Fatalf("first %d: %q after %d", first, l.Data.More, len(names))
			}
			after = `,"after":` + m[2]
		}
		if len(names) != 234 || names[0] != "list_things" || names[1] != "list_things" || names[233] != "introspect" {
			t.Errorf("first %d: %d names: %v", first, len(names), names)
		}
	}
	if l := list(t, rt, ""); len(l.Data.Operations) != 100 {
		t.Error(len(l.Data.Operations))
	}
	strict := start(t, Options{Introspection: present.Strict}, large())
	if l := list(t, strict, ""); len(l.Data.Operations) != 234 || l.Data.More != "" {
		t.Errorf("the closed form cannot say that there is more: %d, %q", len(l.Data.Operations), l.Data.More)
	}
	if l := list(t, strict, `,"first":5`); !strings.Contains(l.Error.Message, "Unknown parameter(s) for operation 'introspect': first. Valid parameters: query, name.") {
		t.Error(l)
	}
	if body := strict.HTTP(t.Context(), &HTTPRequest{Method: "GET", Path: "/adapters/test-api/operations"}).Body; strings.Count(string(body), `"endpoint"`) != 233 {
		t.Errorf("%d by GET in the closed form", strings.Count(string(body), `"endpoint"`))
	}
	if body := rt.HTTP(t.Context(), &HTTPRequest{Method: "GET", Path: "/adapters/test-api/operations"}).Body; strings.Count(string(body), `"endpoint"`) != 233 {
		t.Errorf("%d by GET", strings.Count(string(body), `"endpoint"`))
	}
}

func TestListsAreFiltered(t *testing.T) {
	rt := start(t, Options{}, large())
	for params, want := range map[string]string{
		`,"adapter":"other"`:                             "list_things",
		`,"tag":"chat"`:                                  "list_things",
		`,"category":"delete"`:                           "remove_thing",
		`,"category":"DELETE"`:                           "remove_thing",
		`,"match":"widget"`:                              "remove_thing",
		`,"match":"WIDGET remove"`:                       "remove_thing",
		`,"match":"list things"`:                         "list_things list_things",
		`,"match":"list","adapter":"test-api"`:           "list_things",
		`,"match":"discover"`:                            "introspect",
		`,"match":"thing_00","first":2,"tag":"shop"`:     "get_thing_000 get_thing_001",
		`,"match":"thing_00","after":"get_thing_008"`:    "get_thing_009",
		`,"match":"list","after":"other.list_things"`:    "list_things",
		`,"after":"introspect"`:                          "",
		`,"category":"execute"`:                          "",
		`,"match":"nothing like it"`:                     "",
		`,"category":"delete","adapter":"other"`:         "",
		`,"first":null,"after":null,"category":"update"`: "",
	} {
		l := list(t, rt, params)
		var names []string
		for _, op := range l.Data.Operations {
			names = append(names, op.Name)
		}
		if got := strings.Join(names, " "); got != want || !l.Success {
			t.Errorf("%s: %q %+v", params, got, l.Error)
		}
	}
	for params, want := range map[string]string{
		`,"first":0`:             "must be >= 1",
		`,"first":2001`:          "must be <= 2000",
		`,"first":"5"`:           "expected 'integer'",
		`,"adapter":"nope"`:      "must be one of: other, test-api",
		`,"tag":"nope"`:          "must be one of: chat, shop, stock",
		`,"category":"nope"`:     "must be one of: create, read, update, delete, execute",
		`,"after":"list_things"`: "is not an operation of this list", // several adapters have it
		`,"category":"delete","after":"introspect"`: "is not an operation of this list",
		`,"name":"remove_thing","match":"x"`:        "is for a list of operations",
		`,"names":"x"`:                              "Unknown parameter",
	} {
		if l := list(t, rt, params); l.Success || !strings.Contains(l.Error.Message, want) {
			t.Errorf("%s: %+v", params, l)
		}
	}
	if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"types","first":5}}`); !strings.Contains(got, "is for a list of operations") {
		t.Error(got)
	}
}

// TestSuggestedNamesAreAccepted shows that a failure suggests an operation that several
// adapters have with the adapter's name.
func TestSuggestedNamesAreAccepted(t *testing.T) {
	rt := start(t, Options{}, large())
	for body, want := range map[string]string{
		`{"operation":"list_thing"}`:   `"did_you_mean":["other.list_things","test-api.list_things"]`,
		`{"operation":"list_thingss"}`: `"available":["other.list_things","test-api.list_things","`,
		`{"operation":"remove_thin"}`:  `"did_you_mean":["remove_thing"]`,
		`{"operation":"introspect","params":{"query":"operations","name":"listThings"}}`: `"did_you_mean":["other.list_things","test-api.list_things"]`,
		`{"operation":"list_thing","adapter":"other"}`:                                   `"did_you_mean":["list_things"]`,
	} {
		if got := ask(rt, Endpoint{}, body); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// TestCompactIntrospection shows that the compact form is the extended form with the parameters once.
func TestCompactIntrospection(t *testing.T) {
	files := map[string]string{"test-api-adapter.md": front("https://api.example.com/v1", everything, everythingElse...)}
	compact, extended := start(t, Options{Introspection: present.Compact}, files), start(t, Options{}, files)
	var names []string
	for _, op := range compact.Operations("test-api") {
		names = append(names, op.Name)
	}
	for _, name := range append(names, "introspect") {
		var a, b struct {
			Data struct{ Operation map[string]any }
		}
		short, long := query(compact, "operations", name), query(extended, "operations", name)
		if err := json.Unmarshal([]byte(short), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(long), &b); err != nil {
			t.Fatal(err)
		}
		delete(b.Data.Operation, "parameters")
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s:\n%s\n%s", name, short, long)
		}
	}
	if a, b := query(compact, "operations", "get_usr"), query(extended, "operations", "get_usr"); a != b {
		t.Error(a, b)
	}
	most, of, before := 0, "", 0
	for path, data := range shippedFiles(t) {
		shipped := map[string]string{path: string(data)}
		compact, extended := start(t, Options{Introspection: present.Compact}, shipped), start(t, Options{}, shipped)
		for i, op := range compact.Operations(strings.TrimSuffix(path, "-adapter.md")) {
			if len(op.Detail) > most {
				most, of, before = len(op.Detail), op.Name, len(extended.Operations(strings.TrimSuffix(path, "-adapter.md"))[i].Detail)
			}
		}
	}
	t.Logf("the largest is %s: %d bytes, %d in the extended form", of, most, before)
}

// TestExamplesHaveRealValues shows that examples have the values of the golden examples in the
// documentation, if these values are valid for the parameter.
func TestExamplesHaveRealValues(t *testing.T) {
	const ops = `read:
- name: get_item
  maps_to: GET /items/{id}
  description: Get
  params:
    id: {type: string, required: true}
    count: {type: integer, required: true, minimum: 3}
    key: {type: string, required: true, sensitive: true}
    day: {type: string, required: true, format: date}
    kind: {type: string, required: true, enum: [a, b]}
    more: {type: string}`
	const golden = "```golden\n{\"operation\":\"get_item\",\"params\":{\"id\":\"no\"}}\n-- want --\n{\"success\":false,\"error\":{}}\n```\n" +
		"```golden\n{\"operation\":\"get_item\",\"params\":%s}\n-- want --\n{\"success\":true,\"data\":null}\n```\n" +
		"```golden\n{\"operation\":\"get_item\",\"params\":{\"id\":\"later\"}}\n-- want --\n{\"success\":true,\"data\":null}\n```\n"
	for params, want := range map[string]string{
		`{"id": "7", "count": 5, "key": "k", "day": "2020-02-02", "kind": "b", "more": "x"}`: `{"id":"7","count":5,"key":"…","day":"2020-02-02","kind":"b"}`,
		`{"id": 7, "count": 2, "kind": "c"}`:                                                 `{"id":"…","count":3,"key":"…","day":"2026-01-31","kind":"a"}`,
		`{"id": "` + strings.Repeat("x", 300) + `"}`:                                         `{"id":"…","count":3,"key":"…","day":"2026-01-31","kind":"a"}`,
		`{"id": "a\u202eb"}`: `{"id":"a\u202eb","count":3,"key":"…","day":"2026-01-31","kind":"a"}`,
	} {
		text := front("https://api.example.com", ops) + fmt.Sprintf(golden, params)
		rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text})
		if got := query(rt, "operations", "get_item"); !strings.Contains(got, `"examples":[{"request":{"operation":"get_item","params":`+want+`}}]`) {
			t.Errorf("%s: %s", params, got)
		}
	}
	for path, data := range shippedFiles(t) {
		rt := start(t, Options{}, map[string]string{path: string(data)})
		for _, op := range rt.Operations(strings.TrimSuffix(path, "-adapter.md")) {
			var d struct {
				Operation struct {
					Examples []struct{ Request json.RawMessage }
				}
			}
			if err := json.Unmarshal(op.Detail, &d); err != nil {
				t.Fatal(err)
			}
			if request := string(d.Operation.Examples[0].Request); strings.Contains(request, "…") {
				t.Errorf("%s: %s", path, request)
			}
		}
	}
}
