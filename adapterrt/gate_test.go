package adapterrt

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const gatedOps = `
read:
- {name: get_schema, maps_to: GET /schema, description: S, params: {view: {type: string}, stream: {type: string}, connection_id: {type: string}}}
- name: query_records
  maps_to: GET /records
  description: R
  params: {stream: {type: string, required: true}, connection_id: {type: string}, expand: {type: array}, expand_limit: {type: integer}}
  capability_gate:
  - params: [expand, expand_limit]
    source: get_schema
    source_params: {view: compact, stream: "{stream}", connection_id: "{connection_id}"}
    list: streams
    match: {name|stream_name: "{stream}"}
    capability: expand_capabilities
    subject: stream
    error_code: invalid_expand
    EXTRA`

func TestGate(t *testing.T) {
	schema, schemaStatus := "", 200
	var calls []string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.URL.RequestURI())
		if r.URL.Path == "/v1/schema" {
			w.WriteHeader(schemaStatus)
			fmt.Fprint(w, schema)
			return
		}
		fmt.Fprint(w, `{"rows": []}`)
	})
	refused := `{"success":false,"error":{"code":"INVALID_EXPAND","message":"expand not supported for stream 'users'. Requested: orders. Consult GET /v1/schema (expand_capabilities).","details":{"type":"invalid_expand","subject":"stream","value":"users","requested":["orders"],"source":"GET /v1/schema (expand_capabilities)"}}}`
	const passed = `{"success":true,"data":{"rows": []}}`
	with := `{"operation":"query_records","params":{"stream":"users","expand":["orders"]}}`
	can := func(v string) string {
		return `{"streams":[5,{"name":"other"},{"stream_name":"users","expand_capabilities":` + v + `}]}`
	}
	for _, c := range []struct {
		name, extra, schema string
		status              int
		body, want          string
		asked               bool
	}{
		{"no gated parameter", "", can("[]"), 200, `{"operation":"query_records","params":{"stream":"users"}}`, passed, false},
		{"empty", "", can("[]"), 200, `{"operation":"query_records","params":{"stream":"users","expand":[]}}`, passed, false},
		{"null", "", can("[]"), 200, `{"operation":"query_records","params":{"stream":"users","expand":null}}`, passed, false},
		{"supported", "", can(`[{"name":"x"}]`), 200, with, passed, true},
		{"supported by true", "", can(`true`), 200, with, passed, true},
		{"supported by an object", "", can(`{"a":1}`), 200, with, passed, true},
		{"empty list", "", can("[]"), 200, with, refused, true},
		{"false", "", can("false"), 200, with, refused, true},
		{"absent", "", `{"streams":[{"name":"users"}]}`, 200, with, refused, true},
		{"the other parameter", "", can("[]"), 200, `{"operation":"query_records","params":{"stream":"users","expand_limit":3}}`, strings.NewReplacer("expand not", "expand_limit not", "Requested: orders", "Requested: expand_limit", `["orders"]`, `["expand_limit"]`).Replace(refused), true},
		{"values that match", "match_values: true", can(`[{"name":"orders"}]`), 200, with, passed, true},
		{"values that do not", "match_values: true", can(`["x"]`), 200, with, refused, true},
		{"unknown row", "", `{"streams":[]}`, 200, with, passed, true},
		{"no list", "", `{}`, 200, with, passed, true},
		{"not JSON", "", `<html>`, 200, with, passed, true},
		{"source fails", "", `{}`, 500, with, passed, true},
		{"source fails, closed", "on_unavailable: deny", `{}`, 500, with, strings.Replace(refused, "expand not supported", "expand not known to be supported", 1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := one(t, Options{}, s.URL+"/v1", strings.Replace(gatedOps, "EXTRA", c.extra, 1))
			schema, schemaStatus, calls = c.schema, c.status, nil
			if got := ask(rt, Endpoint{}, c.body); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			var want []string
			if c.asked {
				want = append(want, "/v1/schema?view=compact&stream=users")
			}
			target := 0
			for _, call := range calls {
				if strings.HasPrefix(call, "/v1/records") {
					target++
				} else if len(want) == 0 || call != want[0] {
					t.Error("asked", call)
				}
			}
			if (target == 1) != (c.want == passed) || len(calls) != target+len(want) {
				t.Error(calls)
			}
		})
	}
	// A change of the API takes effect with the next call.
	rt := one(t, Options{}, s.URL+"/v1", strings.Replace(gatedOps, "EXTRA", "", 1))
	for _, c := range [][2]string{{can("[]"), refused}, {can("[1]"), passed}, {can("[]"), refused}} {
		schema, schemaStatus = c[0], 200
		if got := ask(rt, Endpoint{}, with); got != c[1] {
			t.Error(got)
		}
	}
	// With ttl_ms, the gate keeps the earlier answer.
	rt = one(t, Options{Now: someTime}, s.URL+"/v1", strings.Replace(gatedOps, "EXTRA", "ttl_ms: 1000", 1))
	schema, calls = can("[1]"), nil
	ask(rt, Endpoint{}, with)
	schema = can("[]")
	if got := ask(rt, Endpoint{}, with); got != passed || len(calls) != 3 {
		t.Error(got, calls)
	}
}

func TestGateMistakes(t *testing.T) {
	good := strings.Replace(gatedOps, "EXTRA", "", 1)
	for old, repl := range map[string]string{
		"[expand, expand_limit]": "[]", "params: [expand,": "params: [odd,", "source: get_schema": "source: query", `stream: "{stream}", c`: `odd: "{stream}", c`,
		`_name: "{stream}"`: `_name: "{odd}"`, "subject: stream": "subject: odd", "error_code: invalid_expand": "error_code: Invalid-Expand", "capability: expand": "capabilities: expand", `view: compact`: `view: "a{stream}"`,
	} {
		text := strings.Replace(good, old, repl, 1)
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", text)), &Options{}); a != nil || text == good {
			t.Error(repl, "passed")
		}
	}
	_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", strings.Replace(good, "source: get_schema", "source: query", 1))), &Options{})
	if p := problems[len(problems)-1]; p.Path != "operations.read[1].capability_gate[0].source" {
		t.Errorf("a source that is none: %v", problems)
	}
}

// TestTheRecordSaysWhereTheTimeWent: the clock advances a second each time it is read, so that the
// record shows where the time was spent.
func TestTheRecordSaysWhereTheTimeWent(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"streams":[{"name":"users","expand_capabilities":true}]}`)
	})
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
	rt := one(t, Options{Now: clock}, s.URL, strings.Replace(gatedOps, "EXTRA", "", 1))
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"query_records","params":{"stream":"users","expand":["orders"]}}`)})
	if c := r.Call; r.Failure != nil || c.Gates < time.Second || c.Upstream < time.Second || c.Duration <= c.Gates+c.Upstream {
		t.Errorf("%v %+v", r.Failure, c)
	}
}

// TestGatesKeepAnswersByHeaders: a source that takes a header parameter is asked again for
// another value of it, also within ttl_ms.
func TestGatesKeepAnswersByHeaders(t *testing.T) {
	asked := map[string]int{}
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/schema" {
			fmt.Fprint(w, `{"rows": []}`)
			return
		}
		connection := r.Header.Get("X-Connection")
		asked[connection]++
		fmt.Fprintf(w, `{"streams":[{"name":"users","expand_capabilities":%t}]}`, connection == "new")
	})
	ops := strings.Replace(strings.Replace(gatedOps, "connection_id: {type: string}}}", "connection_id: {type: string, in: header, wire_name: X-Connection}}}", 1), "EXTRA", "ttl_ms: 1000", 1)
	rt := one(t, Options{Now: func() time.Time { return time.Unix(1, 0) }}, s.URL+"/v1", ops)
	for _, c := range []struct {
		connection string
		passes     bool
	}{{"old", false}, {"new", true}, {"old", false}, {"new", true}} {
		got := ask(rt, Endpoint{}, `{"operation":"query_records","params":{"stream":"users","connection_id":"`+c.connection+`","expand":["orders"]}}`)
		if passed := strings.HasPrefix(got, `{"success":true`); passed != c.passes {
			t.Errorf("%s: %s", c.connection, got)
		}
	}
	if asked["old"] != 1 || asked["new"] != 1 {
		t.Error(asked)
	}
}
