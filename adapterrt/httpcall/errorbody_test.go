package httpcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestErrorTextsInOtherMembers(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":{"email":["is taken","is short"],"name":"is missing"}}`:                              "email: is taken; is short; name: is missing",
		`{"errorMessages":["a","b"],"errors":{}}`:                                                       "a; b",
		`{"errorMessages":[],"errors":{"summary":"is required"}}`:                                       "summary: is required",
		`{"detail":[{"loc":["body","email"],"msg":"field required","type":"x"},{"loc":[],"msg":"no"}]}`: "body.email: field required; no",
		`{"detail":"d","validation":[{"location":["body"],"message":"m"}]}`:                             "d",
		`{"Message":"M"}`:                           "M",
		`{"code":"InvalidParameter","msg":"m"}`:     "m",
		`{"reason":"r"}`:                            "r",
		`{"fault":{"faultstring":"f","detail":{}}}`: "f",
		`{"error":{"code":3,"details":[{"field":"a.b","description":"too long"}]}}`:                  "a.b: too long",
		`{"validation":[{"location":["body","x",0],"severity":"Error","message":"must be string"}]}`: "body.x.0: must be string",
		`{"errors":{}}`:           "500 Internal Server Error",
		`{"errors":{"a":null}}`:   "500 Internal Server Error",
		`{"error":{"details":5}}`: "500 Internal Server Error",
	} {
		if got := errorMessage([]byte(body), 500); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestErrorBodies(t *testing.T) {
	long := strings.Repeat("x", 600)
	var many strings.Builder
	for i := range 300 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(`{"field":"f","code":"invalid"}`)
	}
	for _, c := range []struct{ body, said, want string }{
		{`{"message":"m"}`, "m", ""},
		{`{"error":{"message":"m"}}`, "m", ""},
		{`{}`, "404 Not Found", ""},
		{`null`, "404 Not Found", ""},
		{`{"message":"m","status":"404"}`, "m", `{"status":"404"}`},
		{` { "message" : "m", "errors" : [ { "field" : "title", "ok" : false, "n": 1.50 } ] } `, "m", `{"errors":[{"field":"title","ok":false,"n":1.50}]}`},
		{`{"a":"key s3cret-value of /home/u/x and SELECT a FROM b","s3cret-value":1}`, "m", `{"a":"key [redacted] of [path] and [sql]","[redacted]":1}`},
		{`"said"`, "m", `"said"`},
		{`{"a":"` + long + `"}`, "m", `{"a":"` + long[:500] + `"}`},
		{strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat(`}`, 20), "m", strings.Repeat(`{"a":`, 8) + `"…"` + strings.Repeat(`}`, 8)},
	} {
		if got := string(errorBody([]byte(c.body), c.said, clean.Sanitizer{}, []string{"s3cret-value"})); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.body, got, c.want)
		}
	}
	for _, body := range []string{
		`{"errors":[` + many.String() + `],"last":1}`, `[` + many.String() + `]`, `{"a":{"b":{"c":[` + many.String() + `]}}}`, `{"` + long + long + `":{"` + long + long + long + `":1}}`,
		`[` + strings.Repeat("1", 5000) + `]`, `{"a":"` + strings.Repeat("\U0001f600\\u0001", 3000) + `","b":"` + strings.Repeat(long, 20) + `"}`,
		strings.Repeat("1", 5000), strings.Repeat("[", 500) + strings.Repeat("]", 500), `[` + strings.Repeat(`"`+long+`",`, 20) + `1]`,
	} {
		got := errorBody([]byte(body), "m", clean.Sanitizer{}, nil)
		if len(got) > maxErrorBody || got != nil && !json.Valid(got) || got == nil && body[1] != '[' {
			t.Errorf("%.60s: %d bytes %.200s", body, len(got), got)
		}
	}
}

// FuzzErrorBody shows that the output for every body is JSON within its limits and without secrets.
func FuzzErrorBody(f *testing.F) {
	for _, s := range []string{`{"message":"m","errors":[{"a":"s3cret-value"}]}`, `{"s3cret-value":{"errors":{"a":[null,"b"]}}}`, `[[["s3cret-value"]],1e5]`, `{"detail":[{"loc":["a",{}],"msg":"x"}],"validation":5}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if wire.Check(body, wire.Limits{}) != nil {
			return
		}
		body = wire.Trim(body)
		words := errorMessage(body, 400)
		got := errorBody(body, words, clean.Sanitizer{}, []string{"s3cret-value"})
		if got != nil && (!json.Valid(got) || len(got) > maxErrorBody || strings.Contains(string(got), "s3cret-value")) {
			t.Errorf("%q became %q", body, got)
		}
	})
}
