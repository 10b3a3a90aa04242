package adapterrt

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// placements are requests whose parameters are sent in different places.
var placements = []struct{ name, ops, params, method, url, body string }{
	{"no parameters", `read: [{name: op, maps_to: GET /status}]`, `{}`, "GET", "/status", ""},
	{"path", `read: [{name: op, maps_to: "GET /repos/{owner}/{repo}", params: {owner: {type: string, required: true}, repo: {type: string, required: true}}}]`,
		`{"owner":"octocat","repo":"Hello-World"}`, "GET", "/repos/octocat/Hello-World", ""},
	{"part of a segment", `read: [{name: op, maps_to: "GET /f/{a}.json", params: {a: {type: string, required: true}}}]`, `{"a":"x y"}`, "GET", "/f/x%20y.json", ""},
	{"empty where the file allows it", `read: [{name: op, maps_to: "GET /{a}/x", params: {a: {type: string, required: true, minLength: 0}}}]`, `{"a":""}`, "GET", "//x", ""},
	{"array in the path", `read: [{name: op, maps_to: "GET /items/{ids}", params: {ids: {type: array, required: true}}}]`, `{"ids":[1,2,3]}`, "GET", "/items/1%2C2%2C3", ""},
	{"integers are plain digits", `read: [{name: op, maps_to: "GET /i/{n}", params: {n: {type: integer, required: true}, m: {type: integer}}}]`, `{"n":5e1,"m":50.0}`, "GET", "/i/50?m=50", ""},
	{"numbers stay as written", `read: [{name: op, maps_to: "GET /i", params: {n: {type: number}}}]`, `{"n":1.10000000000000000001}`, "GET", "/i?n=1.10000000000000000001", ""},
	{"query in order of declaration", `read: [{name: op, maps_to: GET /q, params: {b: {type: string}, a: {type: boolean}}}]`, `{"a":true,"b":"x y&z=1"}`, "GET", "/q?b=x+y%26z%3D1&a=true", ""},
	{"literal query first", `read: [{name: op, maps_to: "GET /q?force=true&v={v}", params: {v: {type: string, required: true}, a: {type: string}}}]`, `{"a":"1","v":"&"}`, "GET", "/q?force=true&v=%26&a=1", ""},
	{"delete has a query", `delete: [{name: op, maps_to: "DELETE /q", params: {a: {type: string}}}]`, `{"a":"1"}`, "DELETE", "/q?a=1", ""},
	{"null is left out of a query", `read: [{name: op, maps_to: GET /q, params: {a: {type: string, default: d}, b: {type: string, default: d}}}]`, `{"a":null}`, "GET", "/q?b=d", ""},
	{"csv", `read: [{name: op, maps_to: GET /q, params: {a: {type: array, items: {type: integer}}}}]`, `{"a":[1.0,2]}`, "GET", "/q?a=1%2C2", ""},
	{"csv that the file names", `read: [{name: op, maps_to: GET /q, params: {a: {type: array, style: csv, items: {type: integer}}}}]`, `{"a":[1.0,2]}`, "GET", "/q?a=1,2", ""},
	{"commas in values of csv", `read: [{name: op, maps_to: GET /q, params: {a: {type: array, style: csv}}}]`, `{"a":["","x,y&z",null,"b c"]}`, "GET", "/q?a=,x%2Cy%26z,b+c", ""},
	{"csv of an object", `read: [{name: op, maps_to: GET /q, params: {a: {type: object, style: csv}}}]`, `{"a":{"k,1":"v","n":null,"m":[1]}}`, "GET", "/q?a=k%2C1,v,m,%5B1%5D", ""},
	{"csv in the path", `read: [{name: op, maps_to: "GET /items/{ids}", params: {ids: {type: array, required: true, style: csv}}}]`, `{"ids":[1,"a,b","c/d"]}`, "GET", "/items/1,a%2Cb,c%2Fd", ""},
	{"pipes in the path", `read: [{name: op, maps_to: "GET /items/{ids}", params: {ids: {type: array, required: true, style: pipe}}}]`, `{"ids":[1,"a|b"]}`, "GET", "/items/1%7Ca%7Cb", ""},
	{"csv in a literal query", `read: [{name: op, maps_to: "GET /q?ids={ids}", params: {ids: {type: array, required: true, style: csv}}}]`, `{"ids":[1,"a,b"]}`, "GET", "/q?ids=1,a%2Cb", ""},
	{"pipes of an object", `read: [{name: op, maps_to: GET /q, params: {a: {type: object, style: pipe}}}]`, `{"a":{"k":"v","m":2}}`, "GET", "/q?a=k%7Cv%7Cm%7C2", ""},
	{"reserved characters of a query", `read: [{name: op, maps_to: GET /q, params: {a: {type: string, encode: reserved}, b: {type: array, style: csv, encode: reserved}}}]`,
		`{"a":":/?#[]@!$&'()*+,;=% é\"","b":["a,b","c/d"]}`, "GET", "/q?a=:/?%23%5B%5D@!$%26'()*%2B,;=%25+%C3%A9%22&b=a,b,c/d", ""},
	{"repeat", `read: [{name: op, maps_to: GET /q, params: {a: {type: array, style: repeat}}}]`, `{"a":["x","y"]}`, "GET", "/q?a=x&a=y", ""},
	{"array as JSON", `read: [{name: op, maps_to: GET /q, params: {a: {type: array, style: json}}}]`, `{"a":["x", 1]}`, "GET", "/q?a=%5B%22x%22%2C1%5D", ""},
	{"object as JSON", `read: [{name: op, maps_to: GET /q, params: {a: {type: object}}}]`, `{"a":{ "k" : "v w" }}`, "GET", "/q?a=%7B%22k%22%3A%22v+w%22%7D", ""},
	{"deep object", `read: [{name: op, maps_to: GET /q, params: {filter: {type: object, style: deep_object}}}]`, `{"filter":{"state":"open","age":{"gte":5}}}`, "GET", "/q?filter%5Bstate%5D=open&filter%5Bage%5D%5Bgte%5D=5", ""},
	{"wire name", `read: [{name: op, maps_to: GET /q, params: {per_page: {type: integer, wire_name: "page[size]"}}}]`, `{"per_page":5}`, "GET", "/q?page%5Bsize%5D=5", ""},
	{"body", `create: [{name: op, maps_to: "POST /q/{id}", params: {id: {type: string, required: true}, b: {type: object}, a: {type: string}}}]`,
		`{"a":"\u00e9","id":"1","b":{"x": [1, 2.50]}}`, "POST", "/q/1", `{"b":{"x": [1, 2.50]},"a":"\u00e9"}`},
	{"null in a body", `update: [{name: op, maps_to: "PATCH /q", params: {a: {type: string, default: d}}}]`, `{"a":null}`, "PATCH", "/q", `{"a":null}`},
	{"default in a body", `update: [{name: op, maps_to: "PUT /q", params: {a: {type: string, default: "d\"q"}}}]`, `{}`, "PUT", "/q", `{"a":"d\"q"}`},
	{"nothing left for a body", `create: [{name: op, maps_to: "POST /q/{a}", params: {a: {type: string, required: true}, b: {type: string}}}]`, `{"a":"1"}`, "POST", "/q/1", ""},
	{"query beside a body", `create: [{name: op, maps_to: POST /q, params: {a: {type: string, in: query}, b: {type: string}}}]`, `{"a":"1","b":"2"}`, "POST", "/q?a=1", `{"b":"2"}`},
	{"body of a delete", `delete: [{name: op, maps_to: DELETE /q, params: {a: {type: string, in: body}}}]`, `{"a":"1"}`, "DELETE", "/q", `{"a":"1"}`},
	{"update by input", `update: [{name: op, maps_to: "PATCH /q/{id}", params: {id: {type: string, required: true}, a: {type: string}}}]`, `{"id":"1","input":{"a":"2"}}`, "PATCH", "/q/1", `{"a":"2"}`},
	{"always encoded", `read: [{name: op, maps_to: "GET /q/{a}", params: {a: {type: string, required: true, encode: always}}}]`, `{"a":"a%2Fb"}`, "GET", "/q/a%252Fb", ""},
}

func TestPlacement(t *testing.T) {
	for _, c := range placements {
		t.Run(c.name, func(t *testing.T) {
			rt := one(t, Options{}, "https://api.example.com/v1", c.ops)
			all := capture(rt, `{}`)
			if got := ask(rt, Endpoint{}, `{"operation":"op","params":`+c.params+`}`); got != `{"success":true,"data":{}}` {
				t.Fatal(got)
			}
			s := (*all)[0]
			if s.method != c.method || s.url != "https://api.example.com/v1"+c.url || s.body != c.body {
				t.Errorf("got %s %s %s", s.method, s.url, s.body)
			}
			if (s.contentType == "application/json") != (c.body != "") {
				t.Errorf("content type %q", s.contentType)
			}
		})
	}
}

func TestTheLastOfRepeatedMembersCounts(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", `read: [{name: op, maps_to: GET /q, params: {a: {type: string}, b: {type: string}}}]`)
	all := capture(rt, `{}`)
	for body, repeated := range map[string]bool{
		`{"operation":"op","params":{"a":"2","b":"1"}}`:                         false,
		`{"operation":"op","params":{"a":"2"},"a":"1"}`:                         false,
		`{"operation":"op","params":{"a":"1","b":"1","a":"2"}}`:                 true,
		`{"operation":"op","a":"1","a":"2"}`:                                    true,
		`{"operation":"x","operation":"op","params":{"a":"2"}}`:                 true,
		`{"operation":"op","params":{"a":"1"},"params":{"\u0061":"2","b":"3"}}`: true,
	} {
		*all = nil
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(body)})
		if r.Failure != nil || r.Call.Repeated != repeated || len(*all) != 1 || !strings.Contains((*all)[0].url, "a=2") {
			t.Errorf("%s: %v %+v", body, r.Call, *all)
		}
	}
}

func TestFormBody(t *testing.T) {
	text := strings.Replace(front("https://api.example.com", `create: [{name: op, maps_to: POST /q, params: {a: {type: string}, b: {type: array, style: repeat}}}]`), "serialization: json", "serialization: form", 1)
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text})
	all := capture(rt, `{}`)
	ask(rt, Endpoint{}, `{"operation":"op","params":{"a":"x y","b":[1,2]}}`)
	if s := (*all)[0]; s.body != "a=x+y&b=1&b=2" || s.contentType != "application/x-www-form-urlencoded" {
		t.Errorf("%+v", s)
	}
}

func TestParamsComeBeforeTopLevel(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", `read: [{name: op, maps_to: GET /q, params: {a: {type: string}, b: {type: string}}}]`)
	all := capture(rt, `{}`)
	ask(rt, Endpoint{}, `{"a":"top","b":"top","operation":"op","params":{"a":"inner"},"_meta":{},"adapter":"test-api"}`)
	ask(rt, Endpoint{}, `{"params":{"a":"first","a":"last","_request_id":1},"operation":"op"}`)
	if (*all)[0].url != "https://api.example.com/q?a=inner&b=top" || (*all)[1].url != "https://api.example.com/q?a=last" {
		t.Errorf("%+v", *all)
	}
}

func TestHeaderParameters(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", `read: [{name: op, maps_to: GET /q, params: {v: {type: string, in: header, wire_name: X-V}}}]`)
	all := capture(rt, `{}`)
	ask(rt, Endpoint{}, `{"operation":"op","params":{"v":"1"}}`)
	if h := (*all)[0].headers; len(h) != 1 || h[0] != (file.Header{Name: "X-V", Value: "1"}) {
		t.Error(h)
	}
	for _, bad := range []string{`a\r\nX-Evil: 1`, `a\nb`, `a\u007f`, `\u0001`} {
		if got := ask(rt, Endpoint{}, `{"operation":"op","params":{"v":"`+bad+`"}}`); !strings.Contains(got, "VALIDATION_INVALID_VALUE") || len(*all) != 1 {
			t.Error(bad, got)
		}
	}
}

func TestLongPathParameterIsSentWithAWarning(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", `read: [{name: op, maps_to: "GET /q/{a}", params: {a: {type: string, required: true}}}]`)
	capture(rt, `1`)
	got := ask(rt, Endpoint{}, `{"operation":"op","params":{"a":"`+strings.Repeat("x", 2049)+`"}}`)
	want := `{"success":true,"data":1,"warnings":[{"code":"VALIDATION_LONG_PATH_PARAM_WARNING","message":"Path parameter 'a' is very long","details":{"param_name":"a","encoded_length":2049,"threshold":2048}}]}`
	if got != want {
		t.Error(got)
	}
}

// TestValuesCannotChangeTheShapeOfAURL shows that values cannot change the scheme, host and shape of a
// URL.
func TestValuesCannotChangeTheShapeOfAURL(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com:8443/v1", `
read:
- {name: op, maps_to: "GET /a/{p}/b/{q}x?l={l}", params: {p: {type: string, required: true}, q: {type: string, required: true}, l: {type: string, required: true}, o: {type: string}, d: {type: object, style: deep_object}}}`)
	all := capture(rt, `{}`)
	ugly := []string{"..", ".", "/", "//", "%2e%2e", "%2E%2e%2f", "a%20b/../../admin", "x%20?q#f", "@evil.com", "\\", "%5c", ":80", "?", "#", "&a=b", ";", "%", "%00", "%2500", "\u0000", "é", "\x7f", " ", "http://evil.com", "{p}"}
	value := rapid.OneOf(rapid.SampledFrom(ugly), rapid.String(), rapid.Map(rapid.SliceOfN(rapid.SampledFrom(ugly), 1, 4), func(s []string) string { return strings.Join(s, "") }))
	rapid.Check(t, func(t *rapid.T) {
		p, q, l, o, k := value.Draw(t, "p"), value.Draw(t, "q"), value.Draw(t, "l"), value.Draw(t, "o"), value.Draw(t, "k")
		quote := func(s string) string { return string(wire.AppendQuoted(nil, s)) }
		*all = (*all)[:0]
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"p":` + quote(p) + `,"q":` + quote(q) + `,"l":` + quote(l) + `,"o":` + quote(o) + `,"d":{` + quote(k) + `:"v"}}}`)})
		if r.Failure != nil {
			if r.Failure.Code != failure.ValidationInvalidValue && r.Failure.Code != failure.ValidationInvalidEncoding {
				t.Fatal(r.Failure)
			}
			return
		}
		raw := (*all)[0].url
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.Host != "api.example.com:8443" || u.User != nil || u.Fragment != "" || strings.Contains(raw, "#") {
			t.Fatalf("%s %v", raw, err)
		}
		segments := strings.Split(u.EscapedPath(), "/")
		if len(segments) != 6 || segments[1] != "v1" || segments[2] != "a" || segments[4] != "b" || !strings.HasSuffix(segments[5], "x") {
			t.Fatalf("%q", segments)
		}
		for i, s := range segments {
			d, err := url.PathUnescape(s)
			if err != nil || strings.Contains(d, "\x00") || s == "" && i > 0 {
				t.Fatalf("%q", s)
			}
			for _, part := range strings.FieldsFunc(d, func(r rune) bool { return r == '/' || r == '\\' }) {
				if part == "." || part == ".." {
					t.Fatalf("%q", s)
				}
			}
		}
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil || len(query) != 3 || query.Get("l") != l || query.Get("o") != o || query.Get("d["+k+"]") != "v" {
			t.Fatalf("%q %v", u.RawQuery, err)
		}
		// A server that resolves dot segments of the path gets the same path.
		if c := (&url.URL{Scheme: "https", Host: u.Host}).ResolveReference(u); c.EscapedPath() != u.EscapedPath() {
			t.Fatalf("resolves to %s", c)
		}
	})
}
