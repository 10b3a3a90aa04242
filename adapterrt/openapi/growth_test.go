//go:build !race

package openapi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// cluster makes a document like that of Kubernetes: many resources, each with the same eight operations, the same parameters with
// long descriptions, and objects that refer to shared ones, several levels deep.
func cluster(resources int) []byte {
	var b strings.Builder
	about := func(what string) string {
		return what + " of the object. " + strings.Repeat("Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. ", 4)
	}
	b.WriteString(`{"openapi":"3.0.0","info":{"title":"Cluster","version":"1"},"servers":[{"url":"https://cluster.example.com"}],"paths":{`)
	query := func(names ...string) string {
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf(`{"name":%q,"in":"query","schema":{"type":"string"},"description":%q}`, name, about(name)))
		}
		return strings.Join(list, ",")
	}
	for i := range resources {
		if i > 0 {
			b.WriteByte(',')
		}
		const answer = `"responses":{"200":{"description":"OK","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Kind%d"}}}}}`
		body := fmt.Sprintf(`"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Kind%d"}}}},`, i)
		answers := fmt.Sprintf(answer, i)
		op := func(method, name, more string) string {
			return fmt.Sprintf(`"%s":{"operationId":"%sKind%d","tags":["group%d"],"description":"%s objects of kind %d","parameters":[%s],%s%s}`,
				method, name, i, i%20, name, i, query("pretty", "fieldManager", "dryRun", "continue", "labelSelector"), more, answers)
		}
		for k, at := range []string{"kind%d/{name}", "all/kind%d/{name}"} {
			if k > 0 {
				b.WriteByte(',')
			}
			at = fmt.Sprintf(at, i)
			fmt.Fprintf(&b, `"/apis/%s":{"parameters":[{"name":"name","in":"path","required":true,"schema":{"type":"string"},"description":%q}],%s,%s,%s,%s}`, at, about("name"),
				op("get", fmt.Sprintf("read%d", k), ""), op("put", fmt.Sprintf("replace%d", k), body), op("patch", fmt.Sprintf("change%d", k), body), op("delete", fmt.Sprintf("delete%d", k), ""))
		}
	}
	b.WriteString(`},"components":{"schemas":{`)
	for i := range resources {
		fmt.Fprintf(&b, `"Kind%d":{"type":"object","properties":{"kind":{"type":"string","description":%q},"metadata":{"$ref":"#/components/schemas/Metadata"},"spec":{"type":"object","description":%q,"properties":{"a%d":{"type":"string","description":%q},"owner":{"$ref":"#/components/schemas/Owner"}}}}},`,
			i, about("kind"), about("spec"), i, about("a"))
	}
	fmt.Fprintf(&b, `"Owner":{"type":"object","properties":{"uid":{"type":"string","description":%q},"of":{"$ref":"#/components/schemas/Owner"}}},"Metadata":{"type":"object","properties":{`, about("uid"))
	for k := range 15 {
		fmt.Fprintf(&b, `"member%d":{"type":"string","description":%q},`, k, about(fmt.Sprint("member ", k)))
	}
	b.WriteString(`"owners":{"type":"array","items":{"$ref":"#/components/schemas/Owner"}}}}}}}`)
	return []byte(b.String())
}

// TestImportGrowsLinearly: four times the document needs four times the memory, and what is read of it is not read again
// and again.
func TestImportGrowsLinearly(t *testing.T) {
	needs := func(resources int) (objects, bytes uint64, size int) {
		data := cluster(resources)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := openapi.Read("d", data, nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Import(openapi.Options{Split: openapi.SplitTag})
		if err != nil || in.Dropped > 0 || in.Selected != 8*resources {
			t.Fatal(err, in)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc, len(data)
	}
	needs(20) // patterns are compiled once
	few, less, _ := needs(40)
	many, more, size := needs(160)
	t.Logf("%d bytes: %d objects, %d bytes of memory", size, many, more)
	if size < 4<<20 {
		t.Fatalf("the document has only %d bytes", size)
	}
	if ratio := float64(many) / float64(few); ratio > 4.4 {
		t.Errorf("four times the document: %.1f times the objects", ratio)
	}
	if ratio := float64(more) / float64(less); ratio > 4.4 {
		t.Errorf("four times the document: %.1f times the bytes", ratio)
	}
	// It is 37 times without output schemas.
	if factor := more / uint64(size); factor > 56 {
		t.Errorf("%d times the size of the document was allocated: 53 times is enough", factor)
	}
}
