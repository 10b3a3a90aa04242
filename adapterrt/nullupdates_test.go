package adapterrt

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// TestNullInSchemasOfUpdates: the schema of an update allows null where the file does. What a request sends is as before.
func TestNullInSchemasOfUpdates(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", `update:
- {name: op, maps_to: PATCH /q, description: Change it, params: {a: {type: string}, b: {type: string, types: ["null"]}, c: {type: object, properties: {d: {type: string}, e: {type: string, types: ["null"]}}}}}`)
	all := string(rt.Tools("")[0].JSON)
	for _, want := range []string{`"a":{"type":"string"}`, `"b":{"type":["string","null"]}`, `"d":{"type":"string"}`, `"e":{"type":["string","null"]}`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	sent := capture(rt, `{}`)
	if got := ask(rt, Endpoint{}, `{"operation":"op","params":{"a":null,"b":null}}`); !strings.Contains(got, `"success":true`) || (*sent)[0].body != `{"a":null,"b":null}` {
		t.Errorf("%s %+v", got, *sent)
	}
}
