package adapterrt

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

func TestBatch(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", richOps+"\n- {name: kill, maps_to: POST /kill, description: K, danger_level: forbidden}")
	all := capture(rt, "1")
	got := ask(rt, Endpoint{}, `{"operations":[{"operation":"get_issue","params":{"owner":"o","number":1}},{"operation":"nope"},5,{"operation":"edit_issue","params":{"number":2}}]}`)
	for _, want := range []string{
		`{"success":true,"data":null,"results":[{"index":0,"operation":"get_issue","result":{"success":true,"data":1}},{"index":1,"operation":"nope","result":{"success":false,"error":{"code":"NOT_FOUND_OPERATION"`,
		`{"index":2,"operation":"","result":{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'params' expected 'object', got 'integer'"`,
		`{"index":3,"operation":"edit_issue","result":{"success":true,"data":1}}],"summary":{"total":4,"succeeded":2,"failed":2}}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if len(*all) != 2 {
		t.Error(*all)
	}
	got = ask(rt, Endpoint{}, `{"operations":[{"operation":"lock_issue","params":{"number":1}},{"operation":"kill"},{"operation":"lock_issue","params":{"number":2}}]}`)
	if !strings.HasSuffix(got, `],"halted_at":1,"pending_operations":["lock_issue"],"summary":{"total":3,"succeeded":1,"failed":1,"halted":true,"pending":1}}`) || len(*all) != 3 {
		t.Error(got)
	}
	got = ask(rt, Endpoint{Category: file.Read}, `{"operations":[{"operation":"lock_issue","params":{"number":1}}]}`)
	if !strings.Contains(got, "VALIDATION_ENDPOINT_MISMATCH") || len(*all) != 3 {
		t.Error(got)
	}
	many := strings.TrimSuffix(strings.Repeat(`{"operation":"nope"},`, 51), ",")
	for _, body := range []string{`{"operations":[]}`, `{"operations":[` + many + `]}`, `{"operations":{}}`, `{"operations":[{"operation":"nope"}],"operation":"nope"}`, `{"operations":[{"operation":"nope"}],"adapter":5}`} {
		if got := ask(rt, Endpoint{}, body); !strings.HasPrefix(got, `{"success":false,"error":{"code":"VALIDATION_INVALID_`) {
			t.Error(body[:20], got)
		}
	}
	if got := ask(rt, Endpoint{}, `{"operations":[{"operations":[{"operation":"get_issue"}]}]}`); !strings.Contains(got, "Missing required parameter 'operation'") {
		t.Error("a batch inside a batch:", got)
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operations":[{"operation":"nope"}]}`)})
	if len(r.Parts) != 1 || r.Parts[0].Outcome != failure.NotFoundOperation || r.HTTPStatus() != 200 {
		t.Errorf("%+v", r)
	}
}
