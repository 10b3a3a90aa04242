package adapterrt

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// TestHiddenParametersAreSentAndNotShown: a hidden parameter is sent with its default, wherever it goes. No tool and no
// introspection shows it, and a request that sets it is refused.
func TestHiddenParametersAreSentAndNotShown(t *testing.T) {
	const ops = `read:
- {name: get_thing, maps_to: 'GET /accounts/{account}/things/{id}', description: Get a thing, params: {account: {type: string, required: true, hidden: true, default: a/1}, id: {type: integer, required: true},
   format_of_answers: {type: string, hidden: true, default: json}, version_of_api: {type: integer, in: header, wire_name: X-Version, hidden: true, default: 3}, states: {type: array, hidden: true, default: [open, new]}, unsent_one: {type: string, hidden: true}}}
create:
- {name: add_thing, maps_to: POST /things, description: Add a thing, params: {title: {type: string, required: true}, owner_of_it: {type: object, required: true, hidden: true, default: {id: 7}}, deep_one: {type: string, wire_path: a.b, hidden: true, default: x}}}
- {name: add_templated, maps_to: POST /t, description: Add a thing, params: {title: {type: string, required: true}, owner_of_it: {type: string, hidden: true, default: me}}, request: {body: {t: '{title}', by: {name: '{owner_of_it}'}}}}
`
	secrets := []string{"account", "format_of_answers", "version_of_api", "states", "unsent_one", "owner_of_it", "deep_one"}
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.Search, present.Discrete} {
		rt := one(t, Options{Shown: Shown{Mode: mode}}, "https://api.example.com", ops)
		all := capture(rt, "{}")
		shown := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations"}}`) + rt.Instructions("")
		for _, name := range []string{"get_thing", "add_thing", "add_templated"} {
			shown += ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"`+name+`"}}`)
			shown += ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"types","name":"`+name+`"}}`)
		}
		for _, tool := range rt.Tools("") {
			shown += string(tool.JSON)
		}
		if mode == present.Search {
			r, _ := rt.CallTool(context.Background(), "describe_operations", &Request{Body: []byte(`{"operations":["get_thing","add_thing"]}`)})
			shown += string(r.JSON())
		}
		for _, s := range secrets {
			if strings.Contains(strings.ReplaceAll(shown, "GET /accounts/{account}/things/{id}", ""), s) {
				t.Errorf("mode %v shows %s", mode, s)
			}
		}
		for _, call := range []string{
			`{"operation":"get_thing","params":{"id":5}}`, `{"operation":"add_thing","params":{"title":"T"}}`, `{"operation":"add_templated","params":{"title":"T"}}`,
		} {
			if got := ask(rt, Endpoint{}, call); !strings.Contains(got, `"success":true`) {
				t.Errorf("%s: %s", call, got)
			}
		}
		want := []string{"GET https://api.example.com/accounts/a%2F1/things/5?format_of_answers=json&states=open,new ", `POST https://api.example.com/things {"title":"T","owner_of_it":{"id":7},"a":{"b":"x"}}`, `POST https://api.example.com/t {"t":"T","by":{"name":"me"}}`}
		var got []string
		for _, s := range *all {
			got = append(got, s.method+" "+strings.ReplaceAll(s.url, "%2C", ",")+" "+s.body)
		}
		if !slices.Equal(got, want) {
			t.Errorf("\ngot  %q\nwant %q", got, want)
		}
		if h := (*all)[0].headers; !slices.ContainsFunc(h, func(h file.Header) bool { return h.Name == "X-Version" && h.Value == "3" }) {
			t.Error(h)
		}
		for _, s := range secrets {
			call := `{"operation":"get_thing","params":{"id":5,"` + s + `":"other"}}`
			if got := ask(rt, Endpoint{}, call); !strings.Contains(got, "VALIDATION_UNKNOWN_PARAM") {
				t.Errorf("%s: %s", call, got)
			}
			call = `{"operation":"get_thing","id":5,"` + s + `":"other"}`
			if got := ask(rt, Endpoint{}, call); !strings.Contains(got, "VALIDATION_UNKNOWN_PARAM") {
				t.Errorf("%s: %s", call, got)
			}
		}
	}
}

// TestToolNames: tool_name is the name of the tool for one operation, and a request may name the operation by it.
func TestToolNames(t *testing.T) {
	const ops = "read:\n- {name: list_pets, tool_name: listPets, maps_to: GET /pets, description: List pets}\n- {name: get_pet, maps_to: GET /pet, description: Get a pet}"
	names := func(rt *Runtime) (out []string) {
		for _, tool := range rt.Tools("") {
			out = append(out, tool.Name)
		}
		slices.Sort(out)
		return out
	}
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", ops)
	all := capture(rt, "1")
	if got := names(rt); !slices.Equal(got, []string{"get_pet", "listPets"}) {
		t.Error(got)
	}
	if r, ok := rt.CallTool(context.Background(), "listPets", &Request{Body: []byte(`{}`)}); !ok || r.Failure != nil || (*all)[0].url != "https://api.example.com/pets" {
		t.Error(ok, string(r.JSON()), *all)
	}
	two := func(second string) map[string]string {
		return map[string]string{
			"aa-adapter.md": strings.Replace(front("https://a.example.com", ops), "test-api", "aa", 1),
			"bb-adapter.md": strings.Replace(front("https://b.example.com", "read:\n- {name: list_pets, tool_name: "+second+", maps_to: GET /pets, description: List pets}"), "test-api", "bb", 1),
		}
	}
	rt = start(t, Options{Shown: Shown{Mode: present.Discrete}}, two("allPets"))
	if got := names(rt); !slices.Equal(got, []string{"aa_get_pet", "allPets", "listPets"}) {
		t.Error(got)
	}
	rt = start(t, Options{Shown: Shown{Mode: present.Discrete}}, two("listPets")) // which of the two it means would depend on the order of the files
	if got := names(rt); !slices.Equal(got, []string{"aa_get_pet", "aa_listPets", "bb_listPets"}) {
		t.Error(got)
	}
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.Search, present.Discrete} {
		rt := start(t, Options{Shown: Shown{Mode: mode}}, two("allPets"))
		capture(rt, "1")
		for _, call := range []string{"listPets", "aa.listPets", "allPets", "bb.list_pets", "aa.list_pets"} {
			if got := ask(rt, Endpoint{}, `{"operation":"`+call+`"}`); !strings.Contains(got, `"success":true`) {
				t.Errorf("mode %v, %s: %s", mode, call, got)
			}
			if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"`+call+`"}}`); !strings.Contains(got, `list_pets`) {
				t.Errorf("mode %v, %s: %s", mode, call, got)
			}
		}
		if got := ask(rt, Endpoint{}, `{"operation":"list_pets"}`); !strings.Contains(got, "aa") || strings.Contains(got, `"success":true`) {
			t.Errorf("mode %v: %s", mode, got)
		}
		if got := ask(rt, Endpoint{}, `{"operation":"listPet"}`); !strings.Contains(got, `NOT_FOUND_OPERATION`) || !strings.Contains(got, `listPets`) && !strings.Contains(got, `list_pets`) {
			t.Errorf("mode %v: %s", mode, got)
		}
	}
}

// TestHiddenVariables: a hidden parameter of an operation of GraphQL is a variable of each request.
func TestHiddenVariables(t *testing.T) {
	text := strings.Replace(front("https://api.example.com/graphql", `read:
- {name: get_thing, maps_to: POST /, description: Get a thing, query: 'query ($id: ID!, $lang: String!) { thing(id: $id, lang: $lang) { id } }',
   params: {id: {type: string, required: true}, lang: {type: string, required: true, hidden: true, default: en}}}`), "protocol: rest", "protocol: graphql", 1)
	rt := start(t, Options{Shown: Shown{Mode: present.Discrete}}, map[string]string{"test-api-adapter.md": text})
	all := capture(rt, `{"data":{"thing":{"id":"1"}}}`)
	if got := ask(rt, Endpoint{}, `{"operation":"get_thing","params":{"id":"1"}}`); !strings.Contains(got, `"success":true`) || !strings.Contains((*all)[0].body, `"variables":{"id":"1","lang":"en"}`) {
		t.Error(got, *all)
	}
	if shown := string(rt.Tools("")[0].JSON); strings.Contains(shown, "lang") {
		t.Error(shown)
	}
}
