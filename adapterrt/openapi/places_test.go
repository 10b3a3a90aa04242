package openapi_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestUpdateWithAnOperationThatDiffersByAPlaceholder: an operation stays known when the document adds one that differs from it only in the
// name of a placeholder.
func TestUpdateWithAnOperationThatDiffersByAPlaceholder(t *testing.T) {
	const head = "openapi: 3.0.0\ninfo: {title: Shop, version: \"1\"}\nservers: [{url: \"https://shop.example.com\"}]\npaths:\n"
	path := func(name, limits string) string {
		return "  /items/{" + name + "}: {get: {operationId: by_" + name + ", summary: Get items by " + name + ", parameters: [{name: " + name + ", in: path, required: true, schema: {type: string}}, " +
			"{name: lang, in: query, required: true, schema: {type: string" + limits + "}}]}}\n"
	}
	data := imported(t, head+path("filter", ""), openapi.Options{})
	u := updated(t, data, head+path("filter", "")+path("id", ""), "")
	if got := strings.Join(u.Lines, "\n"); got != "added by_id (GET /items/{id})" {
		t.Fatal(got, u.Conflicts)
	}
	if again := updated(t, u.Data, head+path("filter", "")+path("id", ""), ""); string(again.Data) != string(u.Data) {
		t.Errorf("the second update changes something:\n%s\n%s", u.Data, again.Data)
	}
	if u = updated(t, u.Data, head+path("filter", ", maxLength: 2")+path("id", ""), ""); strings.Join(u.Lines, "\n") != "changed by_filter (GET /items/{filter})" {
		t.Error(u.Lines, u.Conflicts)
	}
}
