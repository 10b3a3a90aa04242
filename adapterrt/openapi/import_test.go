package openapi_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

var update = flag.Bool("update", false, "rewrite the adapter files of the golden cases; then read the diff")

// read reads a document of testdata, and the files below its folder that it refers to.
func read(t testing.TB, path string) *openapi.Document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, filepath.Base(path), data, filepath.Dir(filepath.Join("testdata", path)))
}

func parse(t testing.TB, name string, data []byte, folder string) *openapi.Document {
	t.Helper()
	d, err := openapi.Read(name, data, func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, path)) })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGolden compares the adapter files of the documents in testdata. -update rewrites them.
func TestGolden(t *testing.T) {
	for _, c := range []struct{ document, want string }{
		{"petstore3.yaml", "petstore3"}, {"petstore2.json", "petstore2"}, {"schemas.yaml", "schemas"}, {"styles.yaml", "styles"},
		{"bodies.yaml", "bodies"}, {"files/main.yaml", "files"}, {"fields.yaml", "fields"},
	} {
		t.Run(c.want, func(t *testing.T) {
			in, files := written(t, read(t, c.document), openapi.Options{Name: c.want, Fields: c.want == "fields"})
			if len(files) != 1 {
				t.Fatal(len(files), "files")
			}
			name := in.Files[0].FileName()
			data := files[name]
			if n := played(t, name, data); n == 0 {
				t.Error("no examples")
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(data)); d != "" {
				t.Errorf("%s (-update rewrites it)\n%s", path, d)
			}
			// Deterministic, also with another document that was read in between.
			if _, again := written(t, read(t, c.document), openapi.Options{Name: c.want, Fields: c.want == "fields"}); !bytes.Equal(data, again[name]) {
				t.Error("the second import differs")
			}
		})
	}
}

// TestSwaggerIsLikeOpenAPI checks that a document in both formats becomes the same file.
func TestSwaggerIsLikeOpenAPI(t *testing.T) {
	operations := func(path string) string {
		_, files := written(t, read(t, path), openapi.Options{Name: "pets"})
		text := string(files["pets-adapter.md"])
		text = text[:strings.Index(text, "# Of which document")] + text[strings.Index(text, "## Examples"):]
		return text
	}
	if d := cmp.Diff(operations("petstore3.yaml"), operations("petstore2.json")); d != "" {
		t.Error(d)
	}
}

// TestOperationsThatAuthenticateOtherwise checks that a file says so where no scheme can be used.
func TestOperationsThatAuthenticateOtherwise(t *testing.T) {
	const text = `{"openapi":"3.0.0","info":{"title":"Two ways","version":"1"},"servers":[{"url":"https://h.example.com"}],
		"components":{"securitySchemes":{"odd":{"type":"http","scheme":"digest"},"key":{"type":"apiKey","in":"header","name":"X-Key"}}},
		"paths":{"/a":{"get":{"security":[{"odd":[]}]},"put":{"security":[{"odd":[]}]}},"/b":{"get":{"security":[{"key":[]}]}}}}`
	in := importOf(t, text)
	for _, want := range []string{`its authentication is not supported: HTTP scheme "digest"`, "some operations authenticate in another way"} {
		if !slices.ContainsFunc(in.Findings, func(f openapi.Finding) bool { return f.What == want }) {
			t.Errorf("no finding %s in %v", want, in.Findings)
		}
	}
}

// importOf returns the import of a document without options.
func importOf(t *testing.T, text string) *openapi.Import {
	t.Helper()
	in, err := parse(t, "d", []byte(text), "").Import(openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestWhatIsLostIsReportedFirst: a report begins with the paths that cannot be read, and ends with what is odd in the document as a whole.
func TestWhatIsLostIsReportedFirst(t *testing.T) {
	in := importOf(t, `{"openapi": "3.0.0", "info": {"title": "T", "title": "T"}, "servers": [{"url": "https://x.example"}], "paths": {
		"/a": {"get": {"operationId": "a", "responses": {}}}, "/b": {"$ref": "#/nowhere"}}}`)
	var got []string
	for _, f := range in.Findings {
		got = append(got, f.Operation+" "+string(f.Class))
		if f.File != in.Files[0].FileName() {
			t.Errorf("%+v is of no file", f)
		}
	}
	if len(got) < 3 || got[0] != "/b dropped" || !strings.Contains(in.Findings[len(got)-1].What, "given twice") {
		t.Errorf("%q", got)
	}
	if own := in.Files[0].Findings; len(own) != len(got) {
		t.Errorf("the file reports %d findings, want all %d", len(own), len(got))
	}
}

// TestWhatNoAdapterCanSendIsCounted: operations of OpenAPI 3.2 with other methods are counted as left out, with the reason,
// and a required parameter that is the whole query leaves its operation out.
func TestWhatNoAdapterCanSendIsCounted(t *testing.T) {
	const whole = `[{in: querystring, name: q, required: REQUIRED, content: {application/x-www-form-urlencoded: {schema: {type: object}}}}]`
	for _, version := range []string{"3.2.0", "3.2", "3.1.0"} {
		in := importOf(t, strings.Replace(document(`/a: {query: {operationId: queryA}, head: {}, get: {operationId: getA},
			additionalOperations: {COPY: {operationId: copyA}, "LINK": {operationId: linkA}, "b d": {}, POST: {}}},
			/b: {query: {}, get: {operationId: getB, parameters: `+strings.Replace(whole, "REQUIRED", "true", 1)+`}},
			/c: {get: {operationId: getC, parameters: `+strings.Replace(whole, "REQUIRED", "false", 1)+`}},
			/d: {get: {operationId: getD, parameters: [{in: body, name: b, required: true, schema: {}}]}}`, ""), "3.0.0", version, 1))
		const why = ", which adapters have no method for"
		want := map[string]int{"QUERY operation" + why: 2, "HEAD operation": 1, "COPY operation" + why: 1, "LINK operation" + why: 1, "other operation" + why: 1, "POST operation" + why: 1}
		if d := cmp.Diff(want, in.Left); d != "" {
			t.Errorf("%s: %s", version, d)
		}
		var all string
		for _, f := range in.Findings {
			all += fmt.Sprintf("%s %s: %s\n", f.Class, f.Operation, f.What)
		}
		for _, want := range []string{`dropped GET /b: required querystring parameter "q": `, `weaker get_c: querystring parameter "q" is left out: `, `dropped GET /d: required body parameter "b": `} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: no %s in\n%s", version, want, all)
			}
		}
		if in.Dropped != 2 || in.Files[0].Operations != 2 {
			t.Errorf("%s: %d dropped, %d imported", version, in.Dropped, in.Files[0].Operations)
		}
	}
}
