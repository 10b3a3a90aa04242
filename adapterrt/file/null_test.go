package file

import (
	"strings"
	"testing"
)

// parsed reads a file with these operations.
func parsed(t *testing.T, protocol, operations string) (*Adapter, []Problem) {
	t.Helper()
	text := "---\nname: x-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: A file of a test\n" +
		"target: {base_url: \"https://api.example.com\", transport: http, protocol: " + protocol + ", serialization: json}\nauth: {type: none}\noperations:\n" + operations + "\n---\n"
	return Parse("x-api-adapter.md", []byte(text), &Options{})
}

// TestRefusedOperations checks that each of these is a mistake of the file, with a place.
func TestRefusedOperations(t *testing.T) {
	for name, c := range map[string]struct{ protocol, operations, want string }{
		"paging without a style": {"graphql",
			"  read:\n  - {name: a, maps_to: POST /a, description: A, query: \"{a}\", pagination: {style: null, param_name: after, items_path: a}}",
			"operations.read[0].pagination.style: pagination style is required"},
		"a limit of null": {"rest",
			"  read:\n  - {name: a, maps_to: GET /a, description: A, rate_limits: {api_limits: [{limit: null}]}}",
			"operations.read[0].rate_limits.api_limits[0].limit: limit is required"},
		"a parameter of pages within another one": {"rest",
			"  read:\n  - {name: a, maps_to: POST /a, description: A, params: {size: {type: string, wire_path: page.size}}, pagination: {style: cursor, param_name: page, items_path: a, next_path: b}}",
			"operations.read[0].params.page: another parameter is sent in the same place"},
	} {
		t.Run(name, func(t *testing.T) {
			a, problems := parsed(t, c.protocol, c.operations)
			if a != nil {
				t.Error("the file was accepted")
			}
			for _, p := range problems {
				if strings.Contains(p.String(), c.want) && p.Line > 0 {
					return
				}
			}
			t.Errorf("no %q in %v", c.want, problems)
		})
	}
}

// TestNullIsAbsent checks that a key without a value does not count as one.
func TestNullIsAbsent(t *testing.T) {
	a, problems := parsed(t, "rest", "  create:\n  - {name: a, maps_to: POST /a, description: A, non_idempotent: null, timeout_ms: null, params: {p: {type: string, in: null}}}\n"+
		"  read:\n  - {name: b, maps_to: GET /b, description: B, params: {p: {type: string, in: null}}}")
	if a == nil {
		t.Fatal(problems)
	}
	if op := a.Index["a"]; op.Repeatable || op.Timeout != a.Target.Timeout || op.Params[0].Place != InBody {
		t.Errorf("%+v", op)
	}
	if op := a.Index["b"]; op.Params[0].Place != InQuery {
		t.Errorf("%+v", op.Params[0])
	}
}
