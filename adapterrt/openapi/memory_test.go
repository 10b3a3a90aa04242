//go:build !race

package openapi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestMemory checks that a document as large as GitHub's, and one that is refused, need a bounded amount of memory.
func TestMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","info":{"title":"Large","version":"1"},"servers":[{"url":"https://h.example.com"}],"paths":{`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/p%d":{"get":{"operationId":"get%d","description":%q,"responses":{"200":{"description":"x","content":{"application/json":{"example":[%s1]}}}}}}`, i, i, strings.Repeat("word ", 400), strings.Repeat("1,", 1000))
	}
	b.WriteString("}}")
	data := []byte(b.String())
	b.Reset()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d, err := openapi.Read("d", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Import(openapi.Options{Split: openapi.SplitNone}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 400<<20 {
		t.Errorf("%d MB for %d MB", used>>20, len(data)>>20)
	}
}
