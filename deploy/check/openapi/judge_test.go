// Package openapi compares what the command's adapter import says of an API with what
// kin-openapi reads in the same document: the operations, their parameters with their places,
// and which are required. What is not in the adapter file must be in the report.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

// load reads a document with kin-openapi, with what it refers to. old says that it is Swagger 2.0.
func load(t *testing.T, path string) (doc *openapi3.T, old bool) {
	t.Helper()
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true
	if filepath.Base(path) != "petstore2.json" {
		doc, err := loader.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return doc, false
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var swagger openapi2.T
	if err := json.Unmarshal(data, &swagger); err != nil {
		t.Fatal(err)
	}
	doc, err = openapi2conv.ToV3WithLoader(&swagger, loader, &url.URL{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return doc, true
}

// build builds the command.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "dragoman")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s", "-o", bin, "./cmd/dragoman")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

var (
	root     = filepath.Join("..", "..", "..")
	testdata = filepath.Join(root, "adapterrt", "openapi", "testdata")
)

func TestJudge(t *testing.T) {
	bin := build(t)
	for _, name := range []string{"petstore3.yaml", "petstore2.json", "schemas.yaml", "styles.yaml", "bodies.yaml", "fields.yaml"} {
		t.Run(name, func(t *testing.T) { compare(t, bin, filepath.Join(testdata, name), "none") })
	}
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(testdata, "files"))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "main.yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { // kin-openapi refuses references that lead nowhere
			return strings.HasPrefix(line, "  /outside:") || strings.HasPrefix(line, "  /missing:")
		})
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
		compare(t, bin, path, "none")
	})
	t.Run("faults", func(t *testing.T) { findsFaults(t, bin) })
	for variable, split := range map[string]string{"OPENAPI_GITHUB": "tag", "OPENAPI_STRIPE": "path"} {
		t.Run(variable, func(t *testing.T) {
			path := os.Getenv(variable)
			if path == "" {
				t.Skip(variable + " does not name the document")
			}
			compare(t, bin, path, split)
		})
	}
}

// findsFaults changes what was imported, and checks that the judge says so.
func findsFaults(t *testing.T, bin string) {
	doc, _ := load(t, filepath.Join(testdata, "petstore3.yaml"))
	for _, c := range []struct {
		want   string
		change func(in *imported)
	}{
		{"", func(*imported) {}},
		{"GET /pets is neither in a file nor in the report", func(in *imported) { delete(in.operations, "GET /pets") }},
		{"GET /cats is not in the document", func(in *imported) { in.operations["GET /cats"] = &operation{MapsTo: "GET /cats"} }},
		{"1 left out", func(in *imported) { in.Left = map[string]int{"HEAD operation": 1} }},
		{"query limit is not in the file", func(in *imported) { delete(in.operations["GET /pets"].Params, "limit") }},
		{"query limit has required true, and the document false", func(in *imported) { in.operations["GET /pets"].Params["limit"].Required = true }},
		{"query X-Request-Id is not in the document", func(in *imported) { in.operations["GET /pets"].Params["x_request_id"].In = "" }},
		{"query tag_names is not in the document", func(in *imported) { in.operations["GET /pets"].Params["tag_names"].WireName = "" }},
		{"path 1 has required false, and the document true", func(in *imported) { in.operations["GET /pets/{}"].Params["pet_id"].Required = false }},
		{"body name has required false, and the document true", func(in *imported) { in.operations["POST /pets"].Params["name"].Required = false }},
		{"body name is not in the file", func(in *imported) { delete(in.operations["POST /pets/{}"].Params, "name") }},
		{"body colour is not in the document", func(in *imported) { in.operations["POST /pets/{}"].Params["colour"] = &definition{} }},
	} {
		in := importDocument(t, bin, filepath.Join(testdata, "petstore3.yaml"), "none")
		c.change(in)
		j := &judge{doc: doc}
		j.compare(in)
		if text := strings.Join(j.faults, "\n"); c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("want %q, got\n%s", c.want, text)
		}
	}
}

// judge compares the operations of one document.
type judge struct {
	doc    *openapi3.T
	old    bool // of Swagger 2.0
	faults []string

	operations, params, inner int // that were compared; inner are members of objects
	absent                    int // parameters that are not in the file, with a reason
}

func (j *judge) errorf(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// compare imports a document, and compares both readings of it.
func compare(t *testing.T, bin, path, split string) {
	doc, old := load(t, path)
	j := &judge{doc: doc, old: old}
	j.compare(importDocument(t, bin, path, split))
	for _, fault := range j.faults {
		t.Error(fault)
	}
	t.Logf("%d operations; %d parameters, of which %d are left out with a reason; %d members of objects", j.operations, j.params, j.absent, j.inner)
	if j.params == 0 {
		t.Error("no parameter was compared")
	}
}

func (j *judge) compare(in *imported) {
	seen, dropped, left := map[string]bool{}, 0, 0
	for path, item := range j.doc.Paths.Map() {
		for method, op := range item.Operations() {
			switch method {
			case "HEAD", "OPTIONS", "TRACE":
				left++
				continue
			}
			key := method + " " + j.pathOf(path, item, op)
			got := in.operations[key]
			if got == nil {
				key, got = j.ofServer(in, method, path, item, op)
			}
			seen[key] = true
			if got == nil {
				dropped++
				if !slices.ContainsFunc(in.Findings, func(f finding) bool { return f.Class == "dropped" && f.Operation == method+" "+path }) {
					j.errorf("%s %s is neither in a file nor in the report", method, path)
				}
				continue
			}
			j.operations++
			j.operation(method+" "+path, path, got, item, op)
		}
	}
	for key, op := range in.operations {
		if !seen[key] {
			j.errorf("%s: %s is not in the document", op.file, op.MapsTo)
		}
	}
	reported := in.Left["HEAD operation"] + in.Left["OPTIONS operation"] + in.Left["TRACE operation"]
	if total := len(in.operations) + in.Dropped; dropped != in.Dropped || in.Selected != total || left != reported {
		j.errorf("the report has %d selected, %d dropped, %d left out; there are %d, %d, %d", in.Selected, in.Dropped, reported, total, dropped, left)
	}
}

// pathOf returns the path with what the styles label and matrix put in front of a value.
func (j *judge) pathOf(path string, item *openapi3.PathItem, op *openapi3.Operation) string {
	for _, p := range parameters(item, op) {
		if p.In == "path" {
			switch p.Style {
			case "label":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", ".{}")
			case "matrix":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", ";"+p.Name+"={}")
			}
		}
	}
	return place(path)
}

// ofServer looks for an operation whose own server has a path below that of the document.
func (j *judge) ofServer(in *imported, method, path string, item *openapi3.PathItem, op *openapi3.Operation) (string, *operation) {
	own := item.Servers
	if op.Servers != nil && len(*op.Servers) > 0 {
		own = *op.Servers
	}
	for _, s := range own {
		for _, base := range j.doc.Servers {
			if rest, below := strings.CutPrefix(s.URL, base.URL); below {
				key := method + " " + rest + j.pathOf(path, item, op)
				if got := in.operations[key]; got != nil {
					return key, got
				}
			}
		}
	}
	return "", nil
}

// parameters returns the parameters of an operation with those of its path.
func parameters(item *openapi3.PathItem, op *openapi3.Operation) (out []*openapi3.Parameter) {
	for _, list := range []openapi3.Parameters{op.Parameters, item.Parameters} {
		for _, ref := range list {
			p := ref.Value
			if p != nil && !slices.ContainsFunc(out, func(o *openapi3.Parameter) bool { return o.Name == p.Name && o.In == p.In }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// expected is a parameter as the document has it.
type expected struct {
	required bool
	schema   *openapi3.SchemaRef
	above    []*openapi3.Schema
	absent   string // why it need not be in the file
}

func (j *judge) operation(name, path string, got *operation, item *openapi3.PathItem, op *openapi3.Operation) {
	want := map[string]*expected{}
	for i, text := range distinct(placeholder.FindAllString(path, -1)) {
		e := &expected{required: true}
		declared := false
		for _, p := range parameters(item, op) {
			if p.In == "path" && "{"+p.Name+"}" == text {
				e.schema, declared = schemaOf(p), true
			}
		}
		if !declared && !got.told(strings.Trim(text, "{}"), "is not declared") {
			j.errorf("%s: the report does not say that %s is not declared", name, text)
		}
		want["path "+strconv.Itoa(i+1)] = e
	}
	for _, p := range parameters(item, op) {
		if p.In != "path" {
			j.parameter(want, got, p)
		}
	}
	if op.RequestBody != nil && op.RequestBody.Value != nil {
		j.body(want, got, strings.HasPrefix(name, "GET "), op.RequestBody.Value)
	}
	places := got.places()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		j.params++
		e, d := want[key], places[key]
		switch {
		case d == nil && e.absent == "":
			j.errorf("%s (%s in %s): %s is not in the file", name, got.Name, got.file, key)
		case d == nil:
			j.absent++
		case d.Required != e.required:
			j.errorf("%s (%s in %s): %s has required %t, and the document %t", name, got.Name, got.file, key, d.Required, e.required)
		default:
			j.members(name+": "+key, got, d, e.schema, e.above, 0)
		}
	}
	for key := range places {
		if want[key] == nil {
			j.errorf("%s (%s in %s): %s is not in the document", name, got.Name, got.file, key)
		}
	}
}

func distinct(list []string) (out []string) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func schemaOf(p *openapi3.Parameter) *openapi3.SchemaRef {
	for _, m := range p.Content {
		if p.Schema == nil && m.Schema != nil {
			return m.Schema
		}
	}
	return p.Schema
}

// parameter adds a parameter of a query, header or cookie.
func (j *judge) parameter(want map[string]*expected, got *operation, p *openapi3.Parameter) {
	e := &expected{required: p.Required, schema: schemaOf(p)}
	page := got.Pagination
	switch low := strings.ToLower(p.Name); {
	case p.In == "header" && (low == "accept" || low == "content-type" || low == "authorization"):
		e.absent = "OpenAPI says to ignore it"
	case got.authenticates(p.Name) && j.isCredential(p):
		e.absent = "credential"
	case p.In == "query" && !p.Required && (page.Param == p.Name || page.PerPage == p.Name || page.Style == "link_header" && slices.Contains([]string{"page", "cursor", "after"}, low)):
		e.absent = "the runtime asks for pages"
	case got.told(p.In+" parameter "+strconv.Quote(p.Name), "left out"):
		e.absent = "in the report"
	}
	exploded := p.In == "query" && p.Schema != nil && (p.Style == "" || p.Style == "form") && (p.Explode == nil || *p.Explode)
	if o := merge(p.Schema, nil); exploded && o.is("object") && len(o.members) > 0 {
		for name, m := range o.members {
			if !readOnly(m) {
				want["query "+name] = &expected{required: p.Required && o.required[name], schema: m, absent: e.absent}
			}
		}
		return
	}
	want[p.In+" "+p.Name] = e
}

func (j *judge) isCredential(p *openapi3.Parameter) bool {
	if j.doc.Components == nil {
		return false
	}
	for _, s := range j.doc.Components.SecuritySchemes {
		if s.Value != nil && s.Value.Type == "apiKey" && s.Value.In == p.In && strings.EqualFold(s.Value.Name, p.Name) {
			return true
		}
	}
	return false
}

// preference orders the media types of a body: JSON, forms, multipart, text, others.
func preference(kind string) int {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch {
	case kind == "application/json":
		return 0
	case kind == "text/json", strings.HasSuffix(kind, "+json"), kind == "*/*", kind == "application/*":
		return 1
	case kind == "application/x-www-form-urlencoded":
		return 2
	case kind == "multipart/form-data":
		return 3
	}
	return 4
}

// body adds the members of a body, or the body as a whole.
func (j *judge) body(want map[string]*expected, got *operation, get bool, b *openapi3.RequestBody) {
	if len(b.Content) == 0 {
		return
	}
	if get {
		o := merge(b.Content[slices.Min(slices.Collect(maps.Keys(b.Content)))].Schema, nil)
		if empty := o.is("object") && len(o.members) == 0; !empty && !got.told("the body of a GET request is left out") {
			j.errorf("%s in %s: the report does not have the body of a GET request", got.Name, got.file)
		}
		return
	}
	kinds := slices.Sorted(maps.Keys(b.Content))
	kind := slices.MinFunc(kinds, func(x, y string) int { return preference(x) - preference(y) })
	var schema *openapi3.SchemaRef
	if m := b.Content[kind]; m != nil {
		schema = m.Schema
	}
	o := merge(schema, nil)
	switch n := preference(kind); {
	case n == 4:
		want["body *"] = &expected{required: b.Required}
		return
	case n < 2 && (!o.is("object") || len(o.members) == 0 || got.Request.From != "" && isChoice(schema)):
		want["body *"] = &expected{required: b.Required, schema: schema}
		return
	}
	required := b.Required
	if j.old && preference(kind) >= 2 { // the conversion does not say that a form with required members is required
		required = required || len(o.required) > 0
	}
	for name := range o.required {
		if o.members[name] == nil {
			want["body "+name] = &expected{required: required}
		}
	}
	for name, m := range o.members {
		if readOnly(m) {
			continue
		}
		e := &expected{required: required && o.required[name], schema: m, above: o.visited}
		if got.told("parameters beyond 200 are left out") {
			e.absent = "in the report"
		}
		want["body "+name] = e
	}
}

// isChoice reports whether a body is one of several, which a file may take as a whole, to say which members go together.
func isChoice(schema *openapi3.SchemaRef) bool {
	return schema != nil && schema.Value != nil && len(schema.Value.OneOf)+len(schema.Value.AnyOf) > 1
}

// maxDepth is the number of objects within each other that adapter import describes.
const maxDepth = 4

// members compares the members of an object, and of the objects in it.
func (j *judge) members(where string, op *operation, d *definition, schema *openapi3.SchemaRef, above []*openapi3.Schema, depth int) {
	o := merge(schema, above)
	above = append(slices.Clone(above), o.visited...)
	if d.Items != nil {
		j.members(where+"[]", op, d.Items, o.items, above, depth)
	}
	cut := o.endless || depth >= maxDepth || op.told("described to") || op.told("its schemas are too large")
	if d.Properties == nil && (cut || len(o.members) == 0 || d.Type != "object") {
		return
	}
	for name, m := range o.members {
		e := d.Properties[name]
		j.inner++
		at := fmt.Sprintf("%s.%s", where, name)
		switch {
		case readOnly(m):
			if e != nil {
				j.errorf("%s (%s in %s) is only in answers", at, op.Name, op.file)
			}
		case e == nil && !op.told("members beyond 200"):
			j.errorf("%s (%s in %s) is not in the file", at, op.Name, op.file)
		case e == nil:
		case e.Required != o.required[name]:
			j.errorf("%s (%s in %s) has required %t, and the document %t", at, op.Name, op.file, e.Required, o.required[name])
		default:
			j.members(at, op, e, m, above, depth+1)
		}
	}
	for name := range d.Properties {
		if o.members[name] == nil {
			j.errorf("%s.%s (%s in %s) is not in the document", where, name, op.Name, op.file)
		}
	}
}
