package openapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestFormatsOfAnswers shows how an answer is read, by what the document describes.
func TestFormatsOfAnswers(t *testing.T) {
	const open = `openapi: 3.0.3
info: {title: T, version: "1"}
servers: [{url: "https://api.example.com"}]
paths: {/x: {post: {operationId: start, responses: {RESPONSES}}}}`
	const swagger = `swagger: "2.0"
info: {title: T, version: "1"}
host: api.example.com
schemes: [https]
paths: {/x: {post: {operationId: start, PRODUCES responses: {RESPONSES}}}}`
	const text = `response: {as: auto, accept: "application/json, text/*;q=0.5"}`
	json := func(schema string) string { return "content: {application/json: {schema: {type: " + schema + "}}}" }
	for _, c := range []struct{ name, document, responses, want string }{
		{"nothing is described", open, `"202": {description: Accepted}`, text},
		{"no answer is described", open, ``, text},
		{"no content", open, `"204": {description: Gone}`, text},
		{"an error alone is described", open, `"400": {description: E, ` + json("object") + `}`, text},
		{"only where to look", open, `"303": {description: See}`, text},
		{"a default without content", open, `default: {description: D}`, text},
		{"a default in JSON", open, `default: {description: D, ` + json("object") + `}`, ""},
		{"JSON", open, `"200": {description: D, ` + json("object") + `}`, ""},
		{"JSON, or no content", open, `"200": {description: D, ` + json("object") + `}, "204": {description: N}`, ""},
		{"JSON, or nothing that is described", open, `"200": {description: D, ` + json("object") + `}, "202": {description: N}`, text},
		{"JSON, or text of another status", open, `"200": {description: D, ` + json("object") + `}, "202": {description: N, content: {text/plain: {}}}`, text},
		{"JSON, or a page of another status", open, `"200": {description: D, ` + json("object") + `}, "202": {description: N, content: {text/html: {}}}`, ""},
		{"JSON or text of the same", open, `"200": {description: D, content: {application/json: {}, text/plain: {}}}`, ""},
		{"a text of any type", open, `"200": {description: D, content: {"*/*": {schema: {type: string}}}}`, `response: {as: auto, accept: "application/json, */*;q=0.5"}`},
		{"an object of any type", open, `"200": {description: D, content: {"*/*": {schema: {type: object}}}}`, `response: {accept: "application/json, */*;q=0.5"}`},
		{"an object of any type of application", open, `"200": {description: D, content: {"application/*": {schema: {type: object}}}}`, `response: {accept: "application/json, application/*;q=0.5"}`},
		{"JSON of another name", open, `"200": {description: D, content: {text/json: {schema: {type: object}}}}`, `response: {accept: "application/json, text/json;q=0.5"}`},
		{"JSON of a kind of its own", open, `"200": {description: D, content: {application/vnd.api+json: {schema: {type: object}}}}`, `response: {accept: "application/vnd.api+json"}`},
		{"JSON of a kind of its own, or text", open, `"200": {description: D, content: {application/vnd.api+json: {schema: {type: object}}}}, "202": {description: D}`, `response: {as: auto, accept: "application/vnd.api+json, text/*;q=0.5"}`},
		{"JSON or any type", open, `"200": {description: D, content: {"*/*": {}, application/json: {schema: {type: object}}}}`, ""},
		{"text", open, `"200": {description: D, content: {text/plain: {}}}`, "response: {as: text}"},
		{"a page", open, `"200": {description: D, content: {text/html: {}}}`, "response: {as: html}"},
		{"text or a picture", open, `"200": {description: D, content: {text/plain: {}, image/*: {}}}`, `response: {as: auto, accept: "text/plain, image/*"}`},
		{"a page or text", open, `"200": {description: D, content: {text/html: {}, text/plain: {}}}`, `response: {as: auto, accept: "text/html, text/plain"}`},
		{"Swagger: no schema", swagger, `"200": {description: D}`, text},
		{"Swagger: no schema, of JSON", strings.Replace(swagger, "PRODUCES", "produces: [application/json],", 1), `"200": {description: D}`, text},
		{"Swagger: no schema, of a file", strings.Replace(swagger, "PRODUCES", "produces: [text/csv],", 1), `"200": {description: D}`, "response: {as: csv}"},
		{"Swagger: a schema", swagger, `"200": {description: D, schema: {type: object}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(c.document, "RESPONSES", c.responses, 1), "PRODUCES", "", 1)
			d, err := openapi.Read("api.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			in, err := d.Import(openapi.Options{Name: "text-api", NoOutputSchema: true})
			if err != nil || len(in.Files) != 1 {
				t.Fatal(err, in)
			}
			got := ""
			for line := range strings.Lines(string(in.Files[0].Front())) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "response:") {
					got = line
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, f := range in.Findings {
				if strings.Contains(f.What, "redirect") && strings.Contains(c.responses, "303") {
					t.Error("a write that is answered with 303 is no finding", f)
				}
			}
		})
	}
}

// TestAnswersThatNothingDescribes imports a write whose answer is not described, and calls it.
func TestAnswersThatNothingDescribes(t *testing.T) {
	const done = `"message":"The request was accepted, to be carried out (HTTP 202): do not send it again. Its answer cannot be read: `
	for _, c := range []struct{ kind, body, want string }{
		{"text/plain; charset=utf-8", "Accepted", `{"success":true,"data":"Accepted"}`},
		{"", "Accepted", `{"success":true,"data":"Accepted"}`},
		{"text/csv", "a,b", `{"success":true,"data":"a,b"}`},
		{"application/json", `{"id":1}`, `{"success":true,"data":{"id":1}}`},
		{"", "", `{"success":true,"data":null}`},
		{"text/html", "", `{"success":true,"data":null}`},
		{"text/html", "<p>Sign in", done + "Server returned HTML instead of JSON (HTTP 202)"},
		{"application/json", "Accepted", done + "Failed to parse response as JSON: unexpected character"},
		{"application/pdf", "%PDF-", done + "Unexpected content type 'application/pdf'"},
	} {
		var accept string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			accept = r.Header.Get("Accept")
			if w.Header()["Content-Type"] = nil; c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			w.WriteHeader(202)
			io.WriteString(w, c.body)
		}))
		in, err := read(t, "text-success.yaml").Import(openapi.Options{Name: "text-api", Server: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "text-api-adapter.md")
		if err := os.WriteFile(path, in.Files[0].Front(), 0o600); err != nil {
			t.Fatal(err)
		}
		rt, err := adapterrt.New(adapterrt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := rt.Load([]string{path}); err != nil {
			t.Fatal(err, problems)
		}
		r := rt.Dispatch(context.Background(), adapterrt.Endpoint{}, &adapterrt.Request{Body: []byte(`{"operation":"start"}`)})
		if got := string(r.JSON()); !strings.Contains(got, c.want) || accept != "application/json, text/*;q=0.5" {
			t.Errorf("%q of %s: got %s, want %s; accepts %s", c.body, c.kind, got, c.want, accept)
		}
		rt.Close()
		s.Close()
	}
}
