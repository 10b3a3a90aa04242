package adapterrt

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// FuzzFrontMatter shows that a file becomes an adapter exactly if it has no error, and that
// its problems and its operations can be written as JSON.
func FuzzFrontMatter(f *testing.F) {
	text, _ := os.ReadFile("testdata/github-api-adapter.md")
	f.Add(text)
	f.Add([]byte(front("https://api.example.com", richOps)))
	f.Add([]byte(front("https://api.example.com", richOps) + "\n```golden\n{\"oepration\":\"a\"}\n-- want --\n{\"success\":true}\n```\n"))
	for _, s := range []string{"---\n---\n", "---\na: &a [*a]\n---\n", "---\n? [a]\n: b\n---\n", "---\n<<: [{a: 1}, 5]\n---\n", "---\n%YAML 1.2\n---\na: 1\n---\n", "---\na: !!int x\n---\n", "---\noperations: {read: [{params: {a: {type: array, items: {type: array, items: 5}}}}]}\n---\n"} {
		f.Add([]byte(s))
	}
	for _, more := range []string{
		"aliases: [branch, '', \"\\0\"]", "aliases: 5", "response: {schema: {type: object, properties: {a: {type: array, items: {type: string}}, '': {type: string}}}}",
		"response: {schema: {type: nothing}}", "supports_fields: true, default_fields: {a: integer, a.b: string, '.': string, a..b: x, '': 5}", "supports_fields: true, default_fields: {}",
	} {
		f.Add([]byte(front("https://api.example.com", "read:\n- {name: a, maps_to: GET /a, description: A, "+more+"}")))
	}
	rt, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a, problems := Parse("x-adapter.md", in, &Options{})
		if (a == nil) != file.HasError(problems) {
			t.Errorf("adapter %v with %v", a != nil, problems)
		}
		for _, p := range problems {
			if _, err := json.Marshal(p); err != nil {
				t.Error(err)
			}
		}
		if a != nil {
			for _, mode := range []present.Mode{present.Semantic, present.Discrete, present.Search} {
				s, err := rt.snapshot([]*adapter{rt.prepare(a)}, &snapshot{shown: Shown{Mode: mode}})
				if err != nil {
					continue // the file is fine, and a tool's name too long
				}
				for _, tool := range s.full.tools {
					if !json.Valid(tool.JSON) {
						t.Errorf("%s", tool.JSON)
					}
				}
				for _, op := range a.Operations {
					if d := s.full.all.shown.Adapters[0].Detail(op); !json.Valid(d.Answer()) {
						t.Errorf("%s", d.Answer())
					}
				}
			}
		}
	})
}

// FuzzResult shows that every answer of an API becomes a valid result, that data is a part
// of the answer, and that a 200 succeeds exactly if its body is JSON.
func FuzzResult(f *testing.F) {
	for _, c := range []string{"", " ", "\ufeff", "{}", "[", `{"a":1e5}`, `"\ud800"`, "nul", "01", "-", "1.", `{"a":1,}`, "\xff", `{"message":{"a":[1]}}`, `{"errors":[null,{"message":null}]}`, "<html>", strings.Repeat("[", 600), strings.Repeat("[", 512) + strings.Repeat("]", 512), strings.Repeat("[", 513) + strings.Repeat("]", 513), `{"a":"\u00e9\/\x"}`, "\"\u0000\"", `"\u000"`, "1e", "-0.0E+1"} {
		f.Add(200, "application/json", []byte(c))
		f.Add(404, "text/html", []byte(c))
		f.Add(302, "", []byte(c))
	}
	rt, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	op := &file.Operation{Name: "op", Adapter: &file.Adapter{}, Target: &file.Target{Base: &url.URL{Scheme: "https", Host: "h"}}}
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		data, fail := (&httpcall.Call{Op: op}).Read(&httpcall.Reply{Status: status, ContentType: kind, Header: http.Header{}, Body: bytes.Clone(body)}, rt.reading)
		r := Result{Data: data, Failure: fail}
		out := r.JSON()
		if !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("%q", out)
		}
		if fail == nil && len(data) > 0 && string(data) != "null" && !bytes.Contains(body, data) {
			t.Errorf("%q is not what came: %q", data, body)
		}
		if utf8.Valid(body) && status == 200 {
			text := bytes.TrimPrefix(body, []byte("\ufeff"))
			if want := json.Valid(text); want != (fail == nil) && len(wire.Trim(text)) > 0 && !deep(text) {
				t.Errorf("valid %v, but %v", want, fail)
			}
		}
	})
}

// deep reports whether b may be nested deeper than allowed. It counts all opening brackets.
func deep(b []byte) bool {
	return bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > wire.MaxDepth
}

// FuzzRequest shows that every request gets a result, and that only valid JSON succeeds.
func FuzzRequest(f *testing.F) {
	for _, c := range refusals {
		if len(c.body) < 1000 {
			f.Add([]byte(c.body))
		}
	}
	f.Add([]byte(`{"operation":"list_issues","params":{"state":"open","per_page":5}}`))
	f.Add([]byte(`{"\u006fperation":"get_issue","params":{"owner":"\ud83d\ude00","number":1e0}}`))
	rt := one(f, Options{}, "https://api.example.com", richOps)
	capture(rt, `{"ok":true}`)
	f.Fuzz(func(t *testing.T, in []byte) {
		var v struct{ Success bool }
		if out := ask(rt, Endpoint{}, string(in)); json.Unmarshal([]byte(out), &v) != nil || v.Success && !json.Valid(in) {
			t.Errorf("%q: %s", in, out)
		}
	})
}
