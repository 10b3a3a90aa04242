package file

import (
	"strings"
	"testing"
)

// TestHiddenParameters checks what is a mistake of a hidden parameter, or of a tool_name, and what is none.
func TestHiddenParameters(t *testing.T) {
	for name, c := range map[string]struct{ operation, want string }{
		"with a default":       {"name: a, maps_to: GET /a, params: {p: {type: string, hidden: true, default: x}}", ""},
		"required":             {"name: a, maps_to: GET /a, params: {p: {type: string, required: true, hidden: true, default: x}}", ""},
		"in the path":          {"name: a, maps_to: 'GET /a/{p}', params: {p: {type: string, hidden: true, default: x}}", ""},
		"never sent":           {"name: a, maps_to: GET /a, params: {p: {type: string, hidden: true}}", ""},
		"required, no default": {"name: a, maps_to: GET /a, params: {p: {type: string, required: true, hidden: true}}", "operations.read[0].params.p.default: a hidden parameter needs a default where it is required"},
		"in the path, none":    {"name: a, maps_to: 'GET /a/{p}', params: {p: {type: string, hidden: true}}", "operations.read[0].params.p.default: a hidden parameter needs a default where it is required"},
		"a position of pages":  {"name: a, maps_to: GET /a, params: {p: {type: integer, hidden: true, default: 2}}, pagination: {style: page, param_name: p}", "operations.read[0].params.p.hidden: pagination sets this parameter"},
		"a size of pages":      {"name: a, maps_to: GET /a, params: {p: {type: integer, hidden: true, default: 2}}, pagination: {style: page, param_name: q, per_page_param: p}", "operations.read[0].params.p.hidden: pagination sets this parameter"},
		"a wrong default":      {"name: a, maps_to: GET /a, params: {p: {type: integer, hidden: true, default: x}}", "operations.read[0].params.p.default: default does not fit its parameter"},
		"dots in the path":     {"name: a, maps_to: 'GET /a/{p}', params: {p: {type: string, hidden: true, default: ../x}}", "operations.read[0].params.p.default: the value cannot be sent in the path"},
		"nothing in the path":  {"name: a, maps_to: 'GET /a/{p}', params: {p: {type: string, hidden: true, default: ''}}", "operations.read[0].params.p.default: the value cannot be sent in the path"},
		"lines in a header":    {"name: a, maps_to: GET /a, params: {p: {type: string, in: header, hidden: true, default: \"a\\nb\"}}", "operations.read[0].params.p.default: the value cannot be sent in a header"},
		"a name of a tool":     {"name: a_b, tool_name: aB-c_9, maps_to: GET /a", ""},
		"a number first":       {"name: a_b, tool_name: 1st, maps_to: GET /a", ""},
		"a hyphen first":       {"name: a_b, tool_name: -a, maps_to: GET /a", "operations.read[0].tool_name: tool_name is not valid"},
		"its own name":         {"name: a_b, tool_name: a_b, maps_to: GET /a", ""},
		"a bad name":           {"name: a_b, tool_name: a.b, maps_to: GET /a", "operations.read[0].tool_name: tool_name is not valid"},
		"a long name":          {"name: a_b, tool_name: " + strings.Repeat("x", 65) + ", maps_to: GET /a", "operations.read[0].tool_name: tool_name is not valid"},
		"a name twice":         {"name: a_b, tool_name: aB, maps_to: GET /a}\n  - {name: c, description: C, tool_name: aB, maps_to: GET /c", "operations.read[1].tool_name: another operation has this name"},
		"the name of another":  {"name: a_b, tool_name: c, maps_to: GET /a}\n  - {name: c, description: C, maps_to: GET /c", "operations.read[1].name: Duplicate operation name: c"},
		"the name of one":      {"name: c, maps_to: GET /a}\n  - {name: d, description: C, tool_name: c, maps_to: GET /c", "operations.read[1].tool_name: another operation has this name"},
		"a reserved one":       {"name: a_b, tool_name: introspect, maps_to: GET /a", "operations.read[0].tool_name: tool_name is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			a, problems := parsed(t, "rest", "  read:\n  - {description: A, "+c.operation+"}")
			if c.want == "" {
				if a == nil || len(problems) > 0 {
					t.Error(problems)
				}
				return
			}
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
