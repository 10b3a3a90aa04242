package openapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// TestScopesOfOperations: where operations need different scopes, each names its own, so that a login for fewer can be widened.
func TestScopesOfOperations(t *testing.T) {
	const o = `{type: oauth2, flows: {clientCredentials: {tokenUrl: 'https://h.example.com/t', scopes: {r: x, w: x, 'https://x.example/a.b': x}}}}`
	for name, c := range map[string]struct {
		scheme, a, b, c string
		want            []string
	}{
		"different":      {o, "[{o: [r]}]", "[{o: [r, w, r]}]", "[{o: ['https://x.example/a.b']}]", []string{"r", "r w", "https://x.example/a.b"}},
		"the same":       {o, "[{o: [r]}]", "[{o: [r]}]", "[{o: [r]}]", []string{"", "", ""}},
		"none":           {o, "[{o: [r]}]", "[{o: []}]", "[]", []string{"r", "", ""}},
		"one of two":     {o, "[{o: [r]}]", "[{o: [w, r]}, {o: [r]}]", "[{o: [w]}]", []string{"r", "r", "w"}},
		"no OAuth":       {"{type: http, scheme: bearer}", "[{o: [r]}]", "[{o: [w]}]", "[{o: [w]}]", []string{"", "", ""}},
		"another scheme": {o, "[{o: [r]}]", "[{o: [w]}]", "[{k: []}]", []string{"r", "w", ""}},
	} {
		op := func(id, security string) string {
			return id + ": {get: {operationId: get" + id[1:] + ", security: " + security + "}}"
		}
		text := strings.Replace(document(op("/a", c.a)+", "+op("/b", c.b)+", "+op("/c", c.c), ""), "components: {", "components: {securitySchemes: {o: "+c.scheme+", k: {type: apiKey, in: header, name: X-Key}}, ", 1)
		a, problems := file.Parse("", importOf(t, text).Files[0].Front(), &file.Options{})
		if a == nil {
			t.Fatal(problems)
		}
		var got []string
		for _, op := range a.Operations {
			got = append(got, strings.Join(op.Scopes, " "))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
