package adapterrt

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// tagged has operations with tags of their own, and a tag of all.
const tagged = `read:
- {name: list_pets, maps_to: GET /pets, description: List pets, tags: [pets]}
- {name: get_pet, maps_to: 'GET /pets/{id}', description: Get one, tags: [pets], params: {id: {type: string, required: true}}}
- {name: list_orders, maps_to: GET /orders, description: List orders, tags: [orders, money]}
- {name: get_status, maps_to: GET /status, description: Get the status}`

// TestTagsOfOperations: a tag narrows a list and a search to the operations that have it, and its number is the number of those.
func TestTagsOfOperations(t *testing.T) {
	files := map[string]string{"test-api-adapter.md": front("https://api.example.com", tagged, "tags: [pets, orders, shop]")}
	rt := start(t, Options{}, files)
	for tag, want := range map[string]string{"pets": "list_pets get_pet", "orders": "list_orders", "money": "list_orders", "shop": "list_pets get_pet list_orders get_status"} {
		var names []string
		for _, op := range list(t, rt, `,"tag":"`+tag+`"`).Data.Operations {
			names = append(names, op.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", tag, got, want)
		}
	}
	if l := list(t, rt, `,"tag":"cats"`); !strings.Contains(l.Error.Message, "must be one of: money, orders, pets, shop") {
		t.Error(l.Error)
	}
	if l := list(t, rt, `,"tag":"pets","category":"delete"`); !l.Success || len(l.Data.Operations) > 0 {
		t.Error(l)
	}
	rt = start(t, Options{Shown: Shown{Mode: present.Search}}, files)
	find := func(args string) string {
		r, _ := rt.CallTool(context.Background(), "search_operations", &Request{Body: []byte(args)})
		return string(rt.AppendToolResult(nil, &r))
	}
	if got := find(`{"query":"list","tag":"orders"}`); !strings.Contains(got, "list_orders") || strings.Contains(got, "list_pets") {
		t.Error(got)
	}
	for args, want := range map[string]string{
		`{"query":"zzz"}`:              "Tags, with the number of operations: shop (4), pets (2), orders (1), money (1).",
		`{"query":"zzz","tag":"pets"}`: "Tags, with the number of operations: pets (2), shop (2).",
		`{"query":"a","tag":"cats"}`:   "must be one of: money, orders, pets, shop",
	} {
		if got := find(args); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
