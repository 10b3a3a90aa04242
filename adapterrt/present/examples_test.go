package present

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// TestGoldenExamplesWithoutAnOperation have no params to show, and those after them do.
func TestGoldenExamplesWithoutAnOperation(t *testing.T) {
	const want = "\n-- want --\n{\"success\":true}\n```\n"
	a := &file.Adapter{}
	for _, request := range []string{`{"oepration":"a","params":{"n":1}}`, `{"operation":5,"params":{"n":2}}`, `{"operation":"a","params":{"n":3}}`} {
		a.Documentation += "```golden\n" + request + want
	}
	if got := goldenParams(a); len(got) != 1 || string(got["a"]) != `{"n":3}` {
		t.Errorf("%q", got)
	}
}
