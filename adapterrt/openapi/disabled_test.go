package openapi_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestOperationThatXMCPLeavesOut: an update says which operations go because x-mcp leaves them out.
func TestOperationThatXMCPLeavesOut(t *testing.T) {
	data := imported(t, shop, openapi.Options{})
	now := strings.Replace(shop, "    delete:\n", "    delete:\n      x-mcp: false\n", 1)
	const want = "removed delete_item (DELETE /items/{id}), which x-mcp in the document leaves out"
	if u := updated(t, data, now, ""); strings.Join(u.Lines, "\n") != want {
		t.Error(u.Lines)
	}
	if got := differences(t, data, now); got != "! gone delete_item: x-mcp in the document leaves it out" {
		t.Error(got)
	}
}
