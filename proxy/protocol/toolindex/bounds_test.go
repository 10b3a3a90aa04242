package toolindex

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
)

// TestNamesAreBounded: those of unknown tools, which clients choose, and those of the list.
func TestNamesAreBounded(t *testing.T) {
	var x Index
	ask := Ask{translate.Latest(), func(string) ([]byte, error) { return []byte(`{"tools":[{"name":"a"}]}`), nil }}
	for n := range 100 {
		if _, err := x.Look(context.Background(), fmt.Sprint(n, strings.Repeat("x", 12<<10)), ask); err != nil {
			t.Fatal(err)
		}
	}
	if len(x.known) != 1 || x.names != 1 {
		t.Errorf("%d tools are known, with %d bytes of names", len(x.known), x.names)
	}
	for n := range 300 {
		x.Learn(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"%d%s"}]}}`, n, strings.Repeat("x", 12<<10)), nil)
	}
	if x.names > maxNameBytes || x.names < maxNameBytes-13<<10 {
		t.Errorf("%d bytes of names", x.names)
	}
	if x.Forget(); x.names != 0 {
		t.Errorf("%d bytes of names after Forget", x.names)
	}
}
