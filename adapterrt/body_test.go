package adapterrt

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

const form = "application/x-www-form-urlencoded"

// bodies are requests with the request block of their operation.
var bodies = []struct{ name, op, params, url, kind, body string }{
	{"empty object", `request: {body_required: true}, params: {a: {type: string}}`, `{}`, "/q", "application/json", `{}`},
	{"no empty object beside members", `request: {body_required: true}, params: {a: {type: string}}`, `{"a":"x"}`, "/q", "application/json", `{"a":"x"}`},
	{"empty form", `request: {as: form, body_required: true}, params: {a: {type: string}}`, `{}`, "/q", form, ``},
	{"form", `request: {as: form}, params: {a: {type: string}, b: {type: array, style: repeat}, c: {type: integer}}`, `{"a":"x y&z","b":["1",2],"c":5e1}`, "/q", form, `a=x+y%26z&b=1&b=2&c=50`},
	{"nothing in a form", `request: {as: form}, params: {a: {type: string}}`, `{}`, "/q", "", ``},
	{"form in brackets", `request: {as: form, form_style: brackets}, params: {a: {type: array, items: {type: object, properties: {n: {type: integer}}}}, m: {type: object}}`,
		`{"a":[{"n":5e1,"t":[true,null,"ä"]},{}],"m":{"k[":{"l":"v"},"e":[],"f":null}}`, "/q", form, `a%5B0%5D%5Bn%5D=50&a%5B0%5D%5Bt%5D%5B0%5D=true&a%5B0%5D%5Bt%5D%5B2%5D=%C3%A4&m%5Bk%5B%5D%5Bl%5D=v`},
	{"form in brackets without numbers", `request: {as: form, form_style: brackets, index: none}, params: {a: {type: array}}`, `{"a":[1,{"b":2}]}`, "/q", form, `a%5B%5D=1&a%5B%5D%5Bb%5D=2`},
	{"a form with one deep object", `request: {as: form}, params: {a: {type: object, style: deep_object}, b: {type: array, style: repeat}, c: {type: array, style: csv}, d: {type: string, encode: reserved}}`, `{"a":{"k":1},"b":[1,2],"c":["x,",3],"d":"a/b&c"}`, "/q", form, `a%5Bk%5D=1&b=1&b=2&c=x%2C,3&d=a/b%26c`},
	{"a parameter's style counts more", `request: {as: form, form_style: brackets}, params: {a: {type: array, style: csv}, b: {type: array}}`, `{"a":[1,2],"b":[3]}`, "/q", form, `a=1,2&b%5B0%5D=3`},
	{"form of JSON", `request: {as: form, form_style: json}, params: {a: {type: array}}`, `{"a":[ 1, 2 ]}`, "/q", form, `a=%5B1%2C2%5D`},
	{"array body", `request: {body_from: items}, params: {items: {type: array, required: true}, x: {type: string, in: query}}`, `{"items":[{"a":1}],"x":"1"}`, "/q?x=1", "application/json", `[{"a":1}]`},
	{"string body", `request: {body_from: s}, params: {s: {type: string}}`, `{"s":"a\u00e9"}`, "/q", "application/json", `"a\u00e9"`},
	{"null body", `request: {body_from: s}, params: {s: {type: object}}`, `{"s":null}`, "/q", "application/json", `null`},
	{"no body", `request: {body_from: s}, params: {s: {type: object}}`, `{}`, "/q", "", ``},
	{"text body", `request: {as: text, body_from: s}, params: {s: {type: string}}`, `{"s":"a\n\u00e9\ud83d\ude00"}`, "/q", "text/plain; charset=utf-8", "a\né😀"},
	{"text body of a type", `request: {as: text, body_from: s, headers: {Content-Type: text/csv}}, params: {s: {type: string}}`, `{"s":"a,b"}`, "/q", "text/csv", "a,b"},
	{"bytes", `request: {as: bytes, body_from: s}, params: {s: {type: string}}`, `{"s":"AP8K\nYQ=="}`, "/q", "application/octet-stream", "\x00\xff\na"},
	{"base64 from text", `request: {encode: {content: base64}}, params: {content: {type: string}, n: {type: string}}`, `{"content":"h\u00e9\n","n":"x"}`, "/q", "application/json", `{"content":"aMOpCg==","n":"x"}`},
	{"base64 of nothing", `request: {encode: {content: base64}}, params: {content: {type: string}}`, `{"content":""}`, "/q", "application/json", `{"content":""}`},
	{"base64 in a form", `request: {as: form, encode: {content: base64}}, params: {content: {type: string}}`, `{"content":">>>?"}`, "/q", form, `content=Pj4%2BPw%3D%3D`},
	{"wire path", `params: {gte: {type: string, wire_path: filter.date.gte}, lt: {type: string, wire_path: filter.date.lt}, n: {type: integer}}`, `{"n":1,"gte":"a","lt":null}`, "/q", "application/json", `{"filter":{"date":{"gte":"a","lt":null}},"n":1}`},
	{"wire path without values", `params: {gte: {type: string, wire_path: filter.gte}, n: {type: integer}}`, `{"n":1}`, "/q", "application/json", `{"n":1}`},
	{"wire path without anything", `params: {gte: {type: string, wire_path: filter.gte}}`, `{}`, "/q", "", ``},
	{"wire path, body required", `request: {body_required: true}, params: {gte: {type: string, wire_path: filter.gte}}`, `{}`, "/q", "application/json", `{}`},
	{"wire path in a form", `request: {as: form}, params: {gte: {type: string, wire_path: filter.gte}}`, `{"gte":"x"}`, "/q", form, `filter%5Bgte%5D=x`},
	{"wire path in a query", `params: {gte: {type: string, wire_path: filter.gte, in: query}}`, `{"gte":"x"}`, "/q?filter%5Bgte%5D=x", "", ``},
	{"template", `request: {body: {query: {match: {title: "{q}"}, must: ["{tag}", {x: 1}]}, size: "{limit}", note: "for {q}, {n}", fixed: [true, null, "{ no }"]}}, params: {q: {type: string}, tag: {type: string}, limit: {type: integer, default: 10}, n: {type: integer}}`,
		`{"q":"a\"b","n":2.0}`, "/q", "application/json", `{"query":{"match":{"title":"a\"b"},"must":[{"x":1}]},"size":10,"note":"for a\"b, 2","fixed":[true,null,"{ no }"]}`},
	{"template of absent values", `request: {body: {a: {b: "{q}"}, c: ["{q}"], d: "x {q}"}}, params: {q: {type: string}}`, `{}`, "/q", "application/json", `{"a":{},"c":[]}`},
	{"template that is an array", `request: {body: ["{q}", "{r}"]}, params: {q: {type: string}, r: {type: object}}`, `{"r":{"a": 1}}`, "/q", "application/json", `[{"a": 1}]`},
	{"fixed headers", `request: {headers: {Prefer: respond-async}, body_required: true}`, `{}`, "/q", "application/json", `{}`},
	{"brackets in a query", `params: {expand: {type: array, style: brackets, in: query}, f: {type: object, style: brackets, in: query}}`, `{"expand":["a","b c",{"k":1}],"f":{"d":{"e":[1]}}}`, "/q?expand%5B%5D=a&expand%5B%5D=b+c&expand%5B2%5D%5Bk%5D=1&f%5Bd%5D%5Be%5D%5B%5D=1", "", ``},
	{"spaces in a query", `params: {a: {type: array, style: space, in: query}}`, `{"a":["x y","z",null,1]}`, "/q?a=x+y%20z%201", "", ``},
	{"pipes in a query", `params: {a: {type: array, style: pipe, in: query}}`, `{"a":["x|y","z"]}`, "/q?a=x%7Cy%7Cz", "", ``},
	{"several types", `params: {id: {type: string, types: [string, integer, "null"], required: true}}`, `{"id":5}`, "/q", "application/json", `{"id":5}`},
	{"null that is meant", `params: {id: {type: string, types: ["null"], required: true}}`, `{"id":null}`, "/q", "application/json", `{"id":null}`},
}

func TestBodies(t *testing.T) {
	for _, c := range bodies {
		t.Run(c.name, func(t *testing.T) {
			rt := one(t, Options{}, "https://api.example.com/v1", `update: [{name: op, maps_to: POST /q, `+c.op+`}]`)
			all := capture(rt, `{}`)
			if got := ask(rt, Endpoint{}, `{"operation":"op","params":`+c.params+`}`); got != `{"success":true,"data":{}}` {
				t.Fatal(got)
			}
			s := (*all)[0]
			for _, h := range s.headers { // the last Content-Type counts, because these headers are set last
				if h.Name == "Content-Type" {
					s.contentType = h.Value
				}
			}
			if s.url != "https://api.example.com/v1"+c.url || s.body != c.body || s.contentType != c.kind {
				t.Errorf("\n got %s %q %s\nwant %s %q %s", s.url, s.contentType, s.body, c.url, c.kind, c.body)
			}
			if c.kind == "application/json" && !json.Valid([]byte(s.body)) {
				t.Error("not JSON")
			}
		})
	}
}

func TestReservedPathParametersKeepTheirSlashes(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com/v1", `read: [{name: op, maps_to: "GET /c/{path}", params: {path: {type: string, required: true, minLength: 0, encode: reserved}}}]`)
	all := capture(rt, `{}`)
	for path, want := range map[string]string{
		"docs/a b.md": "docs/a%20b.md", "a:b/c": "a:b/c", "a?b#c": "a%3Fb%23c", "%2e%2e/x": "%252e%252e/x", "": "", "/x": "/x", "a//b": "a//b", "..a/b..": "..a/b..",
		"..": "!", "a/../b": "!", "./a": "!", "a/.": "!", `a\..\b`: "!", "é@&": "%C3%A9%40%26",
	} {
		*all = nil
		got := ask(rt, Endpoint{}, `{"operation":"op","params":{"path":`+quoted(path)+`}}`)
		switch {
		case want == "!":
			if !strings.Contains(got, "VALIDATION_INVALID_VALUE") || len(*all) > 0 {
				t.Errorf("%q is sent: %s %+v", path, got, *all)
			}
		case len(*all) != 1 || (*all)[0].url != "https://api.example.com/v1/c/"+want:
			t.Errorf("%q: %s %+v", path, got, *all)
		}
	}
}

func quoted(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}

func TestMultipart(t *testing.T) {
	const ops = `create: [{name: op, maps_to: POST /q, request: {as: multipart, form_style: brackets}, params: {
  title: {type: string}, meta: {type: object},
  image: {type: string, file: {name: "{filename}.png", type: image/png}}, filename: {type: string},
  notes: {type: string, file: {text: true}}, raw: {type: array, items: {type: string, format: binary}}}}]`
	rt := one(t, Options{}, "https://api.example.com", ops)
	all := capture(rt, `{}`)
	got := ask(rt, Endpoint{}, `{"operation":"op","params":{"title":"T & é","meta":{"a":["x"]},"image":"iVBO","filename":"a\"b\r\nc","notes":"line\n","raw":["AAE=","Ag=="]}}`)
	if got != `{"success":true,"data":{}}` {
		t.Fatal(got)
	}
	s := (*all)[0]
	kind, params, err := mime.ParseMediaType(s.contentType)
	if err != nil || kind != "multipart/form-data" {
		t.Fatal(s.contentType, err)
	}
	var parts []string
	for r := multipart.NewReader(strings.NewReader(s.body), params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(p)
		parts = append(parts, fmt.Sprintf("%s|%s|%s|%q", p.FormName(), p.FileName(), p.Header.Get("Content-Type"), body))
	}
	want := []string{
		`title|||"T & é"`, `meta[a][0]|||"x"`, `image|a"b%0D%0Ac.png|image/png|"\x89PN"`, `notes|notes|text/plain; charset=utf-8|"line\n"`,
		`raw|raw|application/octet-stream|"\x00\x01"`, `raw|raw|application/octet-stream|"\x02"`,
	}
	if strings.Join(parts, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(parts, "\n"), strings.Join(want, "\n"))
	}
	ask(rt, Endpoint{}, `{"operation":"op","params":{"title":"x"}}`)
	if second := (*all)[1].contentType; second == s.contentType {
		t.Error("boundaries are not random")
	}
	for _, bad := range []string{`"image":"not base64!"`, `"raw":["AAE=","?"]`} {
		if got := ask(rt, Endpoint{}, `{"operation":"op","params":{`+bad+`}}`); !strings.Contains(got, `must be base64`) || len(*all) != 2 {
			t.Error(bad, got)
		}
	}
	if p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"notes":"x"}}`)}); f != nil || !strings.Contains(p.Body, `name="notes"`) {
		t.Error(p, f)
	}
}

// TestTypesOfParts shows the Content-Type of each part of a multipart body.
func TestTypesOfParts(t *testing.T) {
	const ops = `create: [{name: op, maps_to: POST /q, request: {as: multipart}, params: {
  title: {type: string}, n: {type: integer}, meta: {type: object}, tags: {type: array, style: repeat}, list: {type: array, style: json}, keys: {type: array, style: csv},
  doc: {type: string, content_type: "application/xml; charset=utf-8"}, odd: {type: object, content_type: application/vnd.x+json}, "q": {type: string, wire_name: "a\"b"},
  any: {type: string, types: [object]}, each: {type: array, types: [object], style: repeat},
  one: {type: string, format: binary, file: {type: "image/png, image/jpeg"}}, two: {type: string, file: {type: "image/*"}}, three: {type: string, file: {type: "text/csv, image/png"}}, four: {type: string, file: {type: "audio/*"}}}}]`
	rt := one(t, Options{}, "https://api.example.com", ops)
	all := capture(rt, `{}`)
	got := ask(rt, Endpoint{}, `{"operation":"op","params":{"title":"T","n":1.0,"meta":{ "a": [1] },"tags":["x",{ "k":1 },null],"list":[1, "b"],"keys":["a,b","c"],"doc":"<a/>","odd":{},"q":"v","any":{"k":1},"each":{"k":2},
		"one":"/9j/4AAQ","two":"iVBORw0KGgoAAAAN","three":"YSxi","four":"AAE="}}`)
	if got != `{"success":true,"data":{}}` {
		t.Fatal(got)
	}
	s := (*all)[0]
	_, params, err := mime.ParseMediaType(s.contentType)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for r := multipart.NewReader(strings.NewReader(s.body), params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err != nil {
			break
		}
		body, _ := io.ReadAll(p)
		parts = append(parts, fmt.Sprintf("%s|%s|%s|%q", p.Header.Get("Content-Disposition"), p.FileName(), p.Header.Get("Content-Type"), body))
	}
	want := []string{
		`form-data; name="title"|||"T"`, `form-data; name="n"|||"1"`, `form-data; name="meta"||application/json|"{\"a\":[1]}"`,
		`form-data; name="tags"|||"x"`, `form-data; name="tags"||application/json|"{\"k\":1}"`, `form-data; name="list"||application/json|"[1,\"b\"]"`, `form-data; name="keys"|||"a,b,c"`,
		`form-data; name="doc"||application/xml; charset=utf-8|"<a/>"`, `form-data; name="odd"||application/vnd.x+json|"{}"`, `form-data; name="a\"b"|||"v"`,
		`form-data; name="any"||application/json|"{\"k\":1}"`, `form-data; name="each"||application/json|"{\"k\":2}"`,
		`form-data; name="one"; filename="one"|one|image/jpeg|"\xff\xd8\xff\xe0\x00\x10"`, `form-data; name="two"; filename="two"|two|image/png|"\x89PNG\r\n\x1a\n\x00\x00\x00\r"`,
		`form-data; name="three"; filename="three"|three|text/csv|"a,b"`, `form-data; name="four"; filename="four"|four|application/octet-stream|"\x00\x01"`,
	}
	if strings.Join(parts, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(parts, "\n"), strings.Join(want, "\n"))
	}
}

// TestLongMemberNamesDoNotMultiplyTheRequest shows that a request of one megabyte does not become gigabytes because an object's long
// name is repeated in each of its pairs.
func TestLongMemberNamesDoNotMultiplyTheRequest(t *testing.T) {
	long := strings.Repeat("k", 300<<10)
	for _, op := range []string{
		`create: [{name: op, maps_to: POST /q, request: {as: form, form_style: brackets}, params: {o: {type: object}}}]`,
		`create: [{name: op, maps_to: POST /q, request: {as: multipart, form_style: brackets}, params: {o: {type: object}}}]`,
		`read: [{name: op, maps_to: GET /q, params: {o: {type: object, style: deep_object}}}]`,
	} {
		rt := one(t, Options{}, "https://api.example.com", op)
		all := capture(rt, `{}`)
		for _, value := range []string{"1", "null", "{}"} {
			if value != "1" && strings.Contains(op, "deep_object") {
				continue // this case writes all pairs
			}
			var in strings.Builder
			for i := range 5_000 {
				if i > 0 {
					in.WriteByte(',')
				}
				fmt.Fprintf(&in, `"%d":%s`, i, value)
			}
			got := ask(rt, Endpoint{}, `{"operation":"op","params":{"o":{"`+long+`":{`+in.String()+`}}}}`)
			if value != "null" && !strings.Contains(got, "VALIDATION_PAYLOAD_TOO_LARGE") || value != "null" && len(*all) > 0 {
				t.Errorf("%s of %s: %.200s", op, value, got)
			}
			*all = nil
		}
	}
}

func TestMembersOfObjects(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", `
create: [{name: op, maps_to: POST /q, params: {
  comments: {type: array, items: {type: object, properties: {
    path: {type: string, required: true, minLength: 1}, line: {type: integer, minimum: 1}, side: {type: string, enum: [LEFT, RIGHT]},
    at: {type: object, properties: {x: {type: number, required: true}}}}}}}}]`)
	all := capture(rt, `{}`)
	for params, want := range map[string]string{
		`[{"path":"a","line":2.0,"side":"LEFT","more":[1],"at":{"x":1}}]`: "",
		`[{"path":"a","line":null}]`:                                      "",
		`[]`:                                                              "",
		`[5]`:                                                             `"VALIDATION_INVALID_TYPE","message":"Parameter 'comments[0]' expected 'object', got 'integer'"`,
		`[{"path":"a"},{"line":1}]`:                                       `"VALIDATION_INVALID_VALUE","message":"Parameter 'comments[1].path' is required. Expected: string.","details":{"param_name":"comments[1].path","expected_type":"string"}`,
		`[{"path":null}]`:                                                 `'comments[0].path' is required`,
		`[{"path":""}]`:                                                   `'comments[0].path' must have >= 1 characters`,
		`[{"path":"a","line":0}]`:                                         `'comments[0].line' must be >= 1`,
		`[{"path":"a","line":"1"}]`:                                       `'comments[0].line' expected 'integer', got 'string'`,
		`[{"path":"a","side":"left"}]`:                                    `'comments[0].side' must be one of: LEFT, RIGHT`,
		`[{"path":"a","at":{"y":1}}]`:                                     `'comments[0].at.x' is required`,
		`[{"path":"a","at":{"x":1,"x":""}}]`:                              `'comments[0].at.x' expected 'number'`,
	} {
		*all = nil
		got := ask(rt, Endpoint{}, `{"operation":"op","params":{"comments":`+params+`}}`)
		if want == "" && (len(*all) != 1 || (*all)[0].body != `{"comments":`+params+`}`) || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %s %+v", params, got, *all)
		}
	}
	shown := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"op"}}`)
	conforms(t, "detailExtended", shown)
	if !strings.Contains(shown, `"items":{"type":"object","properties":{"path":{"type":"string","required":true,"minLength":1}`) {
		t.Error(shown)
	}
}

// requestMistakes are operations, each with one mistake in its request block or its parameters.
var requestMistakes = []struct{ op, path, code, says string }{
	{`request: {bodyrequired: true}`, "request.bodyrequired", file.SchemaUnknownField, "did you mean body_required?"},
	{`request: {as: xml}`, "request.as", file.SchemaInvalidValue, "json, form, multipart, text, bytes"},
	{`request: {body_required: "yes"}`, "request.body_required", file.SchemaInvalidType, ""},
	{`request: {form_style: brackets}`, "request.form_style", file.SchemaInvalidValue, "is for forms"},
	{`request: {as: form, index: zero}`, "request.index", file.SchemaInvalidValue, "numbers, none"},
	{`request: {body_from: itms}, params: {items: {type: array}}`, "request.body_from", file.SchemaUnresolvedRef, "did you mean items?"},
	{`request: {body_from: items}, params: {items: {type: array}, more: {type: string}}`, "params.more", file.SchemaUnresolvedRef, "no place in the body"},
	{`request: {as: text}`, "request.body_from", file.SchemaMissingField, ""},
	{`request: {as: bytes, body_from: n}, params: {n: {type: integer}}`, "request.body_from", file.SchemaInvalidValue, "comes from a string"},
	{`request: {as: form, body_from: n}, params: {n: {type: object}}`, "request.body_from", file.SchemaInvalidValue, ""},
	{`request: {body_from: n, body: {a: "{n}"}}, params: {n: {type: object}}`, "request.body_from", file.SchemaInvalidValue, "exclude each other"},
	{`request: {body_from: n}, params: {n: {type: object, in: query}}`, "params.n.in", file.SchemaInvalidValue, ""},
	{`request: {body: {a: "{qery}"}}, params: {query: {type: string}}`, "request.body.a", file.SchemaUnresolvedRef, "did you mean query?"},
	{`request: {body: {a: "{q}"}}, params: {q: {type: string}, r: {type: string}}`, "params.r", file.SchemaUnresolvedRef, ""},
	{`request: {body: {a: "{q}"}, as: form}, params: {q: {type: string}}`, "request.body", file.SchemaInvalidValue, "for JSON"},
	{`request: {body: {a: "{q}"}}, params: {q: {type: string, wire_path: b.c}}`, "request.body", file.SchemaInvalidValue, "exclude each other"},
	{`request: {encode: {content: gzip}}, params: {content: {type: string}}`, "request.encode.content", file.SchemaInvalidValue, "base64"},
	{`request: {encode: {content: base64}}, params: {content: {type: object}}`, "request.encode.content", file.SchemaInvalidValue, ""},
	{`request: {encode: {content: base64}}, params: {content: {type: string, in: query}}`, "request.encode.content", file.SchemaInvalidValue, ""},
	{`request: {headers: {Host: x}}`, "request.headers.Host", file.SchemaInvalidValue, ""},
	{`request: {headers: {Authorization: x}}`, "request.headers.Authorization", file.AuthConfigInvalid, ""},
	{`request: {as: multipart, headers: {content-type: x/y}}`, "request.headers.Content-Type", file.SchemaInvalidValue, ""},
	{`request: 5`, "request", file.SchemaInvalidType, ""},
	{`params: {a: {type: object}, b: {type: string, wire_path: a.b}}`, "params.b", file.SchemaDuplicateName, ""},
	{`params: {b: {type: string, wire_path: a.b}, a: {type: object}}`, "params.a", file.SchemaDuplicateName, ""},
	{`params: {b: {type: string, wire_path: a..b}}`, "params.b.wire_path", file.SchemaInvalidValue, ""},
	{`params: {b: {type: string, wire_path: a.b, in: header}}`, "params.b.wire_path", file.SchemaInvalidValue, ""},
	{`params: {b: {type: string, wire_pth: a.b}}`, "params.b.wire_pth", file.SchemaUnknownField, "did you mean wire_path?"},
	{`params: {b: {type: string, content_type: text/csv}}`, "params.b.content_type", file.SchemaInvalidValue, "multipart"},
	{`request: {as: form}, params: {b: {type: string, content_type: text/csv}}`, "params.b.content_type", file.SchemaInvalidValue, "multipart"},
	{`request: {as: multipart}, params: {b: {type: string, content_type: "image/*"}}`, "params.b.content_type", file.SchemaInvalidValue, "type/subtype"},
	{`request: {as: multipart}, params: {b: {type: string, content_type: "a/b\r\nX: y"}}`, "params.b.content_type", file.SchemaInvalidValue, ""},
	{`request: {as: multipart}, params: {b: {type: string, content_type: a/b, file: {text: true}}}`, "params.b.content_type", file.SchemaInvalidValue, "file.type"},
	{`params: {b: {type: string, style: pipe}}`, "params.b.style", file.SchemaInvalidValue, ""},
	{`params: {b: {type: string, style: brackets}}`, "params.b.style", file.SchemaInvalidValue, ""},
	{`params: {b: {type: string, encode: reservd}}`, "params.b.encode", file.SchemaInvalidValue, "reserved"},
	{`params: {b: {type: string, types: [string, date]}}`, "params.b.types[1]", file.SchemaInvalidValue, ""},
	{`params: {b: {type: string, properties: {a: {type: string}}}}`, "params.b.properties", file.SchemaInvalidValue, ""},
	{`params: {b: {type: object, properties: {a: 5}}}`, "params.b.properties.a", file.SchemaInvalidType, ""},
	{`params: {b: {type: object, properties: {a: {type: text}}}}`, "params.b.properties.a.type", file.SchemaInvalidValue, ""},
	{`params: {b: {type: object, properties: {a: {type: object, proprties: {}}}}}`, "params.b.properties.a.proprties", file.SchemaUnknownField, "did you mean properties?"},
	{`params: {b: {type: object, properties: {a: {type: object, properties: {a: {type: object, properties: {a: {type: object, properties: {a: {type: object, properties: {a: {type: object, properties: {a: {type: object, properties: {a: {type: string}}}}}}}}}}}}}}}}`, "params.b.properties.a.properties.a.properties.a.properties.a.properties.a.properties.a.properties", file.SchemaInvalidValue, "too deep"},
	{`params: {b: {type: string, file: {text: true}}}`, "params.b.file", file.SchemaInvalidValue, "multipart"},
	{`request: {as: multipart}, params: {b: {type: object, file: {text: true}}}`, "params.b.file", file.SchemaInvalidValue, "comes from a string"},
	{`request: {as: multipart}, params: {b: {type: string, file: {nam: x}}}`, "params.b.file.nam", file.SchemaUnknownField, "did you mean name?"},
	{`request: {as: multipart}, params: {b: {type: string, file: {name: "{c}"}}}`, "params.b.file.name", file.SchemaUnresolvedRef, ""},
}

func TestMistakesInRequestsAreReported(t *testing.T) {
	for _, m := range requestMistakes {
		text := front("https://api.example.com", "update:\n- {name: op, description: Op, maps_to: POST /q, "+m.op+"}")
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		found := false
		for _, p := range problems {
			found = found || p.Path == "operations.update[0]."+m.path && p.Code == m.code && strings.Contains(p.Message+p.Expected, m.says) && p.Line > 0
		}
		if a != nil || !found {
			t.Errorf("%s: %v", m.op, problems)
		}
	}
	for _, m := range []string{`as: form`, `body_required: true`, `body: {a: 1}`} {
		text := front("https://api.example.com", "read:\n- {name: op, description: Op, maps_to: GET /q, request: {"+m+"}}")
		if a, problems := Parse("test-api-adapter.md", []byte(text), &Options{}); a != nil {
			t.Error(m, problems)
		}
	}
}

// FuzzBody shows that the body matches its content type, whatever values a request has.
func FuzzBody(f *testing.F) {
	for _, v := range []string{`"a"`, `null`, `[1,{"a":[]}]`, `{"a":{"b":[true,"\ud83d\ude00\u0001&=[]"]}}`, `""`, `{"":{"":null}}`, `5e400`, `"AAE="`, `"\b0"`, `{"\n":{"\u0085":"\u007f"}}`} {
		f.Add([]byte(v))
	}
	const any = `types: [string, integer, number, boolean, array, object, "null"]`
	rt := one(f, Options{}, "https://api.example.com", `create:
- {name: as_json, maps_to: POST /q, request: {body: {a: ["{v}", {b: "{v}"}], c: "x {v}"}}, params: {v: {type: string, `+any+`}}}
- {name: as_form, maps_to: POST /q, request: {as: form, form_style: brackets, body_required: true}, params: {v: {type: object, `+any+`}}}
- {name: as_parts, maps_to: POST /q, request: {as: multipart, form_style: brackets, body_required: true}, params: {v: {type: object, `+any+`}, f: {type: string, file: {name: "{n}"}}, n: {type: string}}}
read:
- {name: in_query, maps_to: GET /q, params: {v: {type: array, style: brackets, `+any+`}, w: {type: array, style: pipe, `+any+`}}}`)
	all := capture(rt, `{}`)
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, op := range []string{"as_json", "as_form", "as_parts", "in_query"} {
			*all = (*all)[:0]
			params := `{"v":` + string(v) + `}`
			switch op {
			case "as_parts":
				params = `{"v":` + string(v) + `,"f":"AA==","n":` + string(v) + `}`
			case "in_query":
				params = `{"v":` + string(v) + `,"w":` + string(v) + `}`
			}
			ask(rt, Endpoint{}, `{"operation":"`+op+`","params":`+params+`}`)
			if len(*all) == 0 {
				continue // refused
			}
			s := (*all)[0]
			switch u, err := url.Parse(s.url); op {
			case "as_json":
				if !json.Valid([]byte(s.body)) {
					t.Errorf("%q became %q", v, s.body)
				}
			case "as_form":
				if _, err := url.ParseQuery(s.body); err != nil {
					t.Errorf("%q became %q", v, s.body)
				}
			case "in_query":
				if err != nil || u.Host != "api.example.com" || u.Path != "/q" {
					t.Errorf("%q became %q", v, s.url)
				} else if _, err := url.ParseQuery(u.RawQuery); err != nil {
					t.Errorf("%q became %q", v, s.url)
				}
			case "as_parts":
				req, _ := http.NewRequest("POST", "https://h", strings.NewReader(s.body))
				req.Header.Set("Content-Type", s.contentType)
				if err := req.ParseMultipartForm(32 << 20); err != nil || len(req.MultipartForm.File["f"]) != 1 {
					t.Errorf("%q became %q: %v", v, s.body, err)
				}
			}
		}
	})
}
