package adapterrt

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/tidwall/gjson"
)

const textOps = `
create:
- name: make_thing
  maps_to: POST /things
  params:
    count: {type: integer, minimum: 1, maximum: 9}
    price: {type: number}
    big: {type: integer}
    draft: {type: boolean}
    tags: {type: array, items: {type: string}}
    sizes: {type: array, items: {type: integer}}
    any: {type: array}
    place:
      type: object
      properties:
        name: {type: string, required: true}
        floor: {type: integer}
        open: {type: boolean}
        inner: {type: object, properties: {n: {type: integer}}}
    loose: {type: object}
    note: {type: string}
    either: {type: integer, types: [string]}
    several: {type: integer, types: [array, boolean]}
    level: {type: integer, types: ["null"]}
    pick: {type: integer, enum: [10, 20]}
    password: {type: integer, sensitive: true}
read:
- name: get_thing
  maps_to: GET /things/{id}
  params: {id: {type: integer, required: true}}
`

// textCases are arguments, and the body that is then sent; "" for arguments that are refused. read are
// the places that warnings name.
var textCases = []struct{ args, body, read string }{
	{`{"count":"5"}`, `{"count":5}`, "count"},
	{`{"count":" 5\n"}`, `{"count":5}`, "count"},
	{`{"count":"5.0"}`, `{"count":5.0}`, "count"},
	{`{"price":"-1.50e2"}`, `{"price":-1.50e2}`, "price"},
	{`{"big":"12345678901234567890123"}`, `{"big":12345678901234567890123}`, "big"},
	{`{"draft":"true"}`, `{"draft":true}`, "draft"},
	{`{"draft":"False"}`, `{"draft":false}`, "draft"},
	{`{"tags":"[\"a\", \"5\"]"}`, `{"tags":["a", "5"]}`, "tags"},
	{`{"sizes":["1",2]}`, `{"sizes":[1,2]}`, "sizes[0]"},
	{`{"sizes":"[1,\"2\"]"}`, `{"sizes":[1,2]}`, "sizes sizes[1]"},
	{`{"place":"{\"name\":\"5\",\"floor\":\"3\"}"}`, `{"place":{"name":"5","floor":3}}`, "place place.floor"},
	{`{"place":{"name":"a","open":"true","x":"1","inner":"{\"n\":\"1\",\"m\":\"1\"}"}}`, `{"place":{"name":"a","open":true,"x":"1","inner":{"n":1,"m":"1"}}}`, "place.open place.inner place.inner.n"},
	{`{"loose":"{\"a\":\"1\"}"}`, `{"loose":{"a":"1"}}`, "loose"},
	{`{"any":["1"]}`, `{"any":["1"]}`, ""},
	{`{"several":"[1]"}`, `{"several":[1]}`, "several"},
	{`{"several":"true"}`, `{"several":true}`, "several"},
	{`{"pick":"20"}`, `{"pick":20}`, "pick"},
	// a string is allowed: it stays one
	{`{"note":"5"}`, `{"note":"5"}`, ""},
	{`{"note":"{\"a\":1}"}`, `{"note":"{\"a\":1}"}`, ""},
	{`{"either":"5"}`, `{"either":"5"}`, ""},
	// the right types stay as they are
	{`{"count":5,"tags":["a"],"place":{"name":"b"}}`, `{"count":5,"tags":["a"],"place":{"name":"b"}}`, ""},
	// no reading
	{`{"count":"five"}`, "", ""}, {`{"count":""}`, "", ""}, {`{"count":"5.5"}`, "", ""}, {`{"count":"05"}`, "", ""},
	{`{"count":"+5"}`, "", ""}, {`{"count":"5 6"}`, "", ""}, {`{"count":"\"5\""}`, "", ""}, {`{"count":"[5]"}`, "", ""}, {`{"count":"true"}`, "", ""},
	{`{"count":"null"}`, "", ""}, {`{"level":"null"}`, "", ""}, {`{"count":true}`, "", ""},
	{`{"draft":"1"}`, "", ""}, {`{"draft":"yes"}`, "", ""}, {`{"draft":1}`, "", ""},
	{`{"tags":"a"}`, "", ""}, {`{"tags":"a,b"}`, "", ""}, {`{"tags":"[1]"}`, "", ""}, {`{"tags":"['a']"}`, "", ""}, {`{"tags":"{}"}`, "", ""}, {`{"tags":5}`, "", ""},
	{`{"loose":"[]"}`, "", ""}, {`{"loose":"{\"a\":"}`, "", ""}, {`{"note":5}`, "", ""},
	{`{"any":"[\"\\ud800\"]"}`, "", ""}, {`{"any":"[\"\\u0000\"]"}`, "", ""},
	// what was read is checked
	{`{"count":"10"}`, "", ""}, {`{"pick":"15"}`, "", ""}, {`{"place":"{\"floor\":1}"}`, "", ""}, {`{"place":{"name":"a","floor":"x"}}`, "", ""},
}

// TestValuesSentAsText tests that a tool for one operation in mode discrete reads an argument that a
// model sent as text, where its schema leaves one reading.
func TestValuesSentAsText(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", textOps)
	all := capture(rt, `{"ok":1}`)
	for _, c := range textCases {
		*all = nil
		r, _ := rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(c.args)})
		if c.body == "" {
			if r.Failure == nil || len(*all) > 0 {
				t.Errorf("%s is not refused: %s", c.args, r.JSON())
			}
			continue
		}
		if r.Failure != nil || len(*all) != 1 || (*all)[0].body != c.body {
			t.Errorf("%s: %s\n%v", c.args, r.JSON(), *all)
			continue
		}
		var read []string
		for _, w := range gjson.GetBytes(r.JSON(), "warnings").Array() {
			if w.Get("code").Str != "VALIDATION_SENT_AS_TEXT_WARNING" {
				t.Errorf("%s: %s", c.args, w.Raw)
			}
			read = append(read, w.Get("details.param_name").Str)
		}
		if got := strings.Join(read, " "); got != c.read {
			t.Errorf("%s: warnings name %q, not %q", c.args, got, c.read)
		}
	}
	r, _ := rt.CallTool(context.Background(), "get_thing", &Request{Body: []byte(`{"id":"7"}`)})
	if want := `"warnings":[{"code":"VALIDATION_SENT_AS_TEXT_WARNING","message":"Parameter 'id' was sent as text and read as integer. Send it as integer.","details":{"param_name":"id","expected_type":"integer"},"severity":"low"}]`; !strings.Contains(string(r.JSON()), want) {
		t.Error(string(r.JSON()))
	}
	if got := (*all)[len(*all)-1].url; got != "https://api.example.com/things/7" {
		t.Error(got)
	}
	if r, _ := rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(`{"password":"4711"}`)}); strings.Contains(string(r.JSON()), "4711") {
		t.Error(string(r.JSON()))
	}
}

// TestTextIsNoValueElsewhere tests that an endpoint of MCP-AQL refuses a value of the wrong type
// (001 §11.4), in every mode and with every kind of tool, also beside pinned tools.
func TestTextIsNoValueElsewhere(t *testing.T) {
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.All, present.Search, present.Discrete} {
		rt := one(t, Options{Shown: Shown{Mode: mode, Pin: []string{"make_thing"}}}, "https://api.example.com", textOps)
		all := capture(rt, `{"ok":1}`)
		for _, c := range textCases {
			if c.read == "" {
				continue
			}
			body := `{"operation":"make_thing","params":` + c.args + `}`
			if got := ask(rt, Endpoint{}, body); !strings.Contains(got, `"code":"VALIDATION_INVALID_TYPE"`) && !strings.Contains(got, `"code":"VALIDATION_INVALID_VALUE"`) {
				t.Errorf("%s: %s: %s", mode, body, got)
			}
			for _, tool := range []string{"mcp_aql", "mcp_aql_create", "call_write"} {
				if r, ok := rt.CallTool(context.Background(), tool, &Request{Body: []byte(body)}); ok && r.Failure == nil {
					t.Errorf("%s, %s: %s: %s", mode, tool, body, r.JSON())
				}
			}
			if r, _ := rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(c.args)}); mode != present.Discrete && r.Failure == nil {
				t.Errorf("%s, pinned: %s: %s", mode, c.args, r.JSON())
			}
		}
		if sent := len(*all); mode != present.Discrete && sent > 0 {
			t.Errorf("%s: %d requests were sent", mode, sent)
		}
	}
}

// TestTextInTextIsBounded tests that text which holds text is read no deeper than a request may be, and
// in time that grows with its length.
func TestTextInTextIsBounded(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", textOps)
	all := capture(rt, `{"ok":1}`)
	for depth, fits := range map[int]bool{29: true, 30: true, 31: false, 33: false, 5000: false} {
		*all = nil
		value := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		r, _ := rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(`{"any":"` + value + `"}`)})
		if (r.Failure == nil) != fits || len(*all) > 0 != fits {
			t.Errorf("%d levels: %s", depth, r.JSON())
		}
		r, _ = rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(`{"any":` + value + `}`)})
		if (r.Failure == nil) != fits {
			t.Errorf("%d levels without text: %s", depth, r.JSON())
		}
	}
	long := `{"any":"[` + strings.Repeat("1,", maxElements) + `1]"}`
	if r, _ := rt.CallTool(context.Background(), "make_thing", &Request{Body: []byte(long)}); r.Failure == nil {
		t.Error("more elements than a request may have are accepted as text")
	}
}
