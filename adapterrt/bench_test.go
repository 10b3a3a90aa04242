package adapterrt

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

const tenParams = `
create:
- {name: op, maps_to: "POST /repos/{owner}/{repo}/issues", description: Ten, params: {
  owner: {type: string, required: true}, repo: {type: string, required: true}, title: {type: string, required: true}, body: {type: string},
  number: {type: integer, minimum: 1}, state: {type: string, enum: [open, closed, all], default: open}, draft: {type: boolean},
  labels: {type: array}, per_page: {type: integer, in: query}, page: {type: integer, in: query, default: 1}}}`

const tenValues = `{"operation":"op","params":{"owner":"octo cat","repo":"Hello-World","title":"A title","body":"Some more text, and \"quotes\"","number":42,"state":"closed","draft":true,"labels":["a","b","c"],"per_page":50,"page":2}}`

// BenchmarkDispatch measures a call with ten parameters, without the network.
func BenchmarkDispatch(b *testing.B) {
	rt := one(b, Options{}, "https://api.example.com/v1", tenParams)
	quick(rt, []byte(`{"id":1}`))
	ctx, req := context.Background(), &Request{Body: []byte(tenValues)}
	b.ReportAllocs()
	for b.Loop() {
		if r := rt.Dispatch(ctx, Endpoint{Category: file.Create}, req); r.Failure != nil {
			b.Fatal(r.Failure)
		}
	}
}

func quick(rt *Runtime, body []byte) {
	answer := httpcall.Reply{Status: 200, ContentType: "application/json", Header: http.Header{}, Body: body}
	rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		return &answer, nil
	}
}

// BenchmarkResponse measures the runtime's part of a call with a response of 64 KiB.
func BenchmarkResponse(b *testing.B) {
	var body bytes.Buffer
	body.WriteByte('[')
	for i := 0; body.Len() < 64<<10; i++ {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"id":%d,"title":"The quick brown fox jumps over the lazy dog","state":"open","labels":["bug","help wanted"],"ratio":%d.5,"ok":true,"none":null}`, i, i)
	}
	body.WriteByte(']')
	rt := one(b, Options{}, "https://api.example.com/v1", tenParams)
	quick(rt, body.Bytes())
	ctx, req := context.Background(), &Request{Body: []byte(tenValues)}
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r := rt.Dispatch(ctx, Endpoint{Category: file.Create}, req)
		if out := r.JSON(); r.Failure != nil || len(out) < body.Len() {
			b.Fatal(r.Failure)
		}
	}
}

// thousand writes the files of 1,000 adapters with 20 operations each.
func thousand(t testing.TB) []string {
	text, err := os.ReadFile("testdata/github-api-adapter.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for i := range 1000 / effort {
		name := fmt.Sprintf("github-api-%03d", i)
		files[name+"-adapter.md"] = strings.Replace(string(text), "name: github-api", "name: "+name, 1)
	}
	_, paths := write(t, files)
	return paths
}

// BenchmarkLoad loads 1,000 adapters of 20 operations.
func BenchmarkLoad(b *testing.B) {
	paths := thousand(b)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		rt, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := rt.Load(paths); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB-kept")
		b.ReportMetric(float64(after.Sys)/(1<<20), "MB-of-the-system") // the peak
		rt.Close()
	}
}
