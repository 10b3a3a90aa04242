package openapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// styleTable is the table of https://spec.openapis.org/oas/v3.1.1#style-examples, in which color is "blue", ["blue", "black", "brown"],
// or {"R": 100, "G": 200, "B": 150}. "-" is what is not applicable there. "left out" is what adapters have no style for: the import
// says so, and a required parameter leaves its operation out.
var styleTable = []struct {
	in, style            string
	explode              bool
	empty, text          string
	list, object         string
	listLost, objectLost bool
}{
	{in: "path", style: "matrix", text: ";color=blue", list: ";color=blue,black,brown", objectLost: true},
	{in: "path", style: "matrix", explode: true, text: ";color=blue", listLost: true, objectLost: true},
	{in: "path", style: "label", text: ".blue", list: ".blue,black,brown", objectLost: true},
	{in: "path", style: "label", explode: true, text: ".blue", listLost: true, objectLost: true},
	{in: "path", style: "simple", text: "blue", list: "blue,black,brown", objectLost: true},
	{in: "path", style: "simple", explode: true, text: "blue", list: "blue,black,brown", objectLost: true},
	{in: "header", style: "simple", text: "blue", list: "blue,black,brown", object: "R,100,G,200,B,150"},
	{in: "header", style: "simple", explode: true, text: "blue", list: "blue,black,brown", objectLost: true},
	{in: "query", style: "form", empty: "color=", text: "color=blue", list: "color=blue,black,brown", object: "color=R,100,G,200,B,150"},
	{in: "query", style: "form", explode: true, empty: "color=", text: "color=blue", list: "color=blue&color=black&color=brown", object: "R=100&G=200&B=150"},
	{in: "query", style: "spaceDelimited", list: "color=blue%20black%20brown", object: "color=R%20100%20G%20200%20B%20150"},
	{in: "query", style: "pipeDelimited", list: "color=blue%7Cblack%7Cbrown", object: "color=R%7C100%7CG%7C200%7CB%7C150"},
	{in: "query", style: "deepObject", explode: true, object: "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
}

// TestEveryStyle sends each value of the table in each style, as a parameter and, where it is one of forms, as a member of one.
func TestEveryStyle(t *testing.T) {
	values := map[string][2]string{ // schema, value
		"empty":  {`{type: string}`, `""`},
		"text":   {`{type: string}`, `"blue"`},
		"list":   {`{type: array, items: {type: string}}`, `["blue","black","brown"]`},
		"object": {`{type: object, properties: {R: {type: integer}, G: {type: integer}, B: {type: integer}}}`, `{"R":100,"G":200,"B":150}`},
	}
	for _, row := range styleTable {
		for kind, want := range map[string]string{"empty": row.empty, "text": row.text, "list": row.list, "object": row.object} {
			lost := kind == "list" && row.listLost || kind == "object" && row.objectLost
			if want == "" && !lost {
				continue // not applicable
			}
			name := fmt.Sprintf("%s %s explode=%v %s", row.in, row.style, row.explode, kind)
			path := "/x"
			if row.in == "path" {
				path += "/{color}"
			}
			p := fmt.Sprintf("{name: color, in: %s, required: true, style: %s, explode: %v, schema: %s}", row.in, row.style, row.explode, values[kind][0])
			in, sent := sending(t, path, "get", "parameters: ["+p+"]", kind == "object" && want != "" && !strings.Contains(want, "color") && row.in == "query", values[kind][1])
			if lost {
				if len(in.Findings) == 0 || len(in.Files) > 0 && strings.Contains(string(in.Files[0].Front()), "maps_to") {
					t.Errorf("%s: imported, and nothing said: %v", name, in.Findings)
				}
				continue
			}
			got, _, _ := strings.Cut(sent, "\n")
			switch row.in {
			case "path":
				got = strings.TrimPrefix(got, "GET https://api.example.com/x/")
			case "query":
				got = strings.TrimPrefix(got, "GET https://api.example.com/x?")
			case "header":
				_, got, _ = strings.Cut(sent, "color: ")
				got, _, _ = strings.Cut(got, "\n")
			}
			if got != want {
				t.Errorf("%s: got %q, want %q\n%s", name, got, want, sent)
			}
			if row.in != "query" {
				continue
			}
			body := fmt.Sprintf("requestBody: {required: true, content: {application/x-www-form-urlencoded: {schema: {type: object, required: [color], properties: {color: %s}}, encoding: {color: {style: %s, explode: %v}}}}}", values[kind][0], row.style, row.explode)
			_, sent = sending(t, "/x", "post", body, !strings.Contains(want, "color"), values[kind][1])
			if _, got, _ = strings.Cut(sent, "\n\n"); got != want {
				t.Errorf("%s in a form: got %q, want %q", name, got, want)
			}
		}
	}
}

// sending imports a document with one operation and returns the request that it sends with a value of the parameter color. spread
// says that the members of the value are the parameters.
func sending(t *testing.T, path, method, operation string, spread bool, value string) (*openapi.Import, string) {
	t.Helper()
	text := fmt.Sprintf("openapi: 3.1.0\ninfo: {title: T, version: \"1\"}\nservers: [{url: \"https://api.example.com\"}]\npaths: {\"%s\": {%s: {operationId: do_it, %s, responses: {\"200\": {description: D}}}}}", path, method, operation)
	d, err := openapi.Read("api.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{Name: "some-api"})
	if err != nil || len(in.Files) == 0 || !strings.Contains(string(in.Files[0].Front()), "maps_to") {
		if in == nil {
			in = &openapi.Import{Findings: []openapi.Finding{{What: fmt.Sprint(err)}}}
		}
		return in, ""
	}
	params := `{"color":` + value + `}`
	if spread {
		params = strings.NewReplacer(`"R"`, `"r"`, `"G"`, `"g"`, `"B"`, `"b"`).Replace(value)
	}
	file := filepath.Join(t.TempDir(), "some-api-adapter.md")
	if err := os.WriteFile(file, in.Files[0].Front(), 0o600); err != nil {
		t.Fatal(err)
	}
	rt, err := adapterrt.New(adapterrt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if problems, err := rt.Load([]string{file}); err != nil {
		t.Fatal(err, problems)
	}
	out, f := rt.Preview(adapterrt.Endpoint{}, &adapterrt.Request{Body: []byte(`{"operation":"do_it","params":` + params + `}`)})
	if f != nil {
		t.Fatalf("%v\n%s", f, in.Files[0].Front())
	}
	sent := out.Method + " " + out.URL + "\n"
	for _, h := range out.Header {
		sent += h.Name + ": " + h.Value + "\n"
	}
	return in, sent + "\n" + out.Body
}

// TestEncodingsOfForms shows how a member of a form is written in the file, by its schema and its encoding.
func TestEncodingsOfForms(t *testing.T) {
	const form, multipart = "application/x-www-form-urlencoded", "multipart/form-data"
	const text, binary, list, object, files = "{type: string}", "{type: string, format: binary}", "{type: array, items: {type: string}}", "{type: object, properties: {k: {type: string}}}", "{type: array, items: {type: string, format: binary}}"
	for _, c := range []struct{ kind, schema, encoding, want string }{
		{multipart, text, "", "{type: string}"},
		{multipart, text, "{contentType: text/plain}", "{type: string}"},
		{multipart, text, "{contentType: application/xml; charset=utf-8}", `{type: string, content_type: "application/xml; charset=utf-8"}`},
		{multipart, text, "{contentType: application/json}", `{type: string, content_type: application/json}`},
		{multipart, text, "{contentType: image/png}", `{type: string, format: binary, file: {type: "image/png"}}`},
		{multipart, text, `{contentType: "text/csv, text/xml"}`, "{type: string}"},
		{multipart, binary, "", "{type: string, format: binary}"},
		{multipart, binary, "{contentType: image/png}", `{type: string, format: binary, file: {type: "image/png"}}`},
		{multipart, binary, `{contentType: "image/png, image/jpeg"}`, `{type: string, format: binary, file: {type: "image/png, image/jpeg"}}`},
		{multipart, binary, "{contentType: image/*}", `{type: string, format: binary, file: {type: "image/*"}}`},
		{multipart, files, "{contentType: image/png}", `{type: array, file: {type: "image/png"}, items: {type: string, format: binary}}`},
		{multipart, object, "", "{type: object, properties: {k: {type: string}}}"},
		{multipart, object, "{contentType: application/json}", "{type: object, style: json, properties: {k: {type: string}}}"},
		{multipart, object, "{contentType: application/vnd.x+json}", `{type: object, style: json, content_type: "application/vnd.x+json", properties: {k: {type: string}}}`},
		{multipart, list, "", "{type: array, style: repeat, items: {type: string}}"},
		{multipart, list, "{contentType: application/json}", "{type: array, style: json, items: {type: string}}"},
		{multipart, list, "{style: form, explode: false}", "{type: array, style: csv, items: {type: string}}"},
		{form, text, "{allowReserved: true}", "{type: string, encode: reserved}"},
		{form, list, "", "{type: array, style: repeat, items: {type: string}}"},
		{form, list, "{explode: false}", "{type: array, style: csv, items: {type: string}}"},
		{form, list, "{style: spaceDelimited}", "{type: array, style: space, items: {type: string}}"},
		{form, list, "{style: pipeDelimited, explode: false}", "{type: array, style: pipe, items: {type: string}}"},
		{form, list, "{contentType: application/json}", "{type: array, style: json, items: {type: string}}"},
		{form, list, "{contentType: application/json, explode: true}", "{type: array, style: repeat, items: {type: string}}"},
		{form, object, "", "{type: object, properties: {k: {type: string}}}"},
		{form, object, "{contentType: application/json}", "{type: object, style: json, properties: {k: {type: string}}}"},
		{form, object, "{style: form, explode: false}", "{type: object, style: csv, properties: {k: {type: string}}}"},
		{form, "{type: object, additionalProperties: true}", "{style: form}", "{type: object}"},
		{form, object, "{style: deepObject, explode: true}", "{type: object, style: deep_object, properties: {k: {type: string}}}"},
		{form, "{type: object, additionalProperties: true}", "{style: deepObject, explode: true}", "{type: object, style: brackets}"},
		{form, list, "{style: deepObject, explode: true}", "{type: array, style: brackets, items: {type: string}}"},
	} {
		encoding := ""
		if c.encoding != "" {
			encoding = ", encoding: {a: " + strings.Replace(c.encoding, "application/xml; charset=utf-8", `"application/xml; charset=utf-8"`, 1) + "}"
		}
		// Another list stays as it is.
		doc := fmt.Sprintf("openapi: 3.0.3\ninfo: {title: T, version: \"1\"}\nservers: [{url: \"https://api.example.com\"}]\npaths: {/x: {post: {operationId: do_it, requestBody: {content: {%s: {schema: {type: object, properties: {a: %s, other: {type: array, items: {type: integer}}}}%s}}}, responses: {\"200\": {description: D}}}}}", c.kind, c.schema, encoding)
		d, err := openapi.Read("api.yaml", []byte(doc), nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Import(openapi.Options{Name: "some-api"})
		if err != nil {
			t.Errorf("%s %s: %v", c.schema, c.encoding, err)
			continue
		}
		front := string(in.Files[0].Front())
		if !strings.Contains(front, "        a: "+c.want+"\n") {
			_, got, _ := strings.Cut(front, "      params:\n")
			got, _, _ = strings.Cut(got, "      request:")
			t.Errorf("%s %s in %s:\n got %s\nwant         a: %s", c.schema, c.encoding, c.kind, got, c.want)
		}
		if !strings.Contains(front, "        other: {type: array, style: repeat, items: {type: integer}}\n") {
			t.Errorf("%s %s: the other list changes:\n%s", c.schema, c.encoding, front)
		}
	}
}
