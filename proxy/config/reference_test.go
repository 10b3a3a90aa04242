package config

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// reference is the page that is generated from the comments on the settings' fields.
const reference = "../../docs/configuration.md"

const referenceHead = `# Configuration

Every setting, with its default. A file has them as YAML (` + "`--config FILE`, or `DRAGOMAN_CONFIG`" + `), the environment as
variables: ` + "`session.max` is `DRAGOMAN_SESSION_MAX`" + `, and a list may be ` + "`a,b`" + `. Flags stand above variables, those above
the file, the file above the defaults. A mistake is told with its place, and all of them at once.
A change of the file, or of a file that a setting names, takes the new content into use; so does ` + "`SIGHUP`" + `
([when](operations.md#files-that-change-and-sighup)). [config.example.yaml](../deploy/config.example.yaml) has the same settings to copy from.
Editors with a YAML language server complete and check a file whose first line is ` + "`# yaml-language-server: $schema=config.schema.json`" + `, with
[config.schema.json](../deploy/config.schema.json) beside it; ` + "`dragoman config check FILE`" + ` reports every mistake.
`

// TestReference compares docs/configuration.md with the settings. With -update it writes the page.
func TestReference(t *testing.T) {
	r := newReferenceWriter(t)
	defaults := Default()
	r.section("", reflect.ValueOf(defaults))
	want := referenceHead + r.out.String()
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(reference); err != nil || string(got) != want {
		t.Errorf("docs/configuration.md is not what the settings say (%v): go test ./proxy/config -run TestReference -update", err)
	}
}

// A referenceWriter writes the sections of the page.
type referenceWriter struct {
	t     *testing.T
	types map[string]map[string]source // by the folder of their package, and their names
	out   strings.Builder
}

// A source is the source text of a struct, and its comment.
type source struct {
	*ast.StructType
	doc string
}

func newReferenceWriter(t *testing.T) *referenceWriter {
	r := &referenceWriter{t: t, types: map[string]map[string]source{}}
	for _, dir := range []string{"proxy/config", "translate", "transform"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		r.types[dir] = map[string]source{}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
					spec := decl.Specs[0].(*ast.TypeSpec)
					if s, ok := spec.Type.(*ast.StructType); ok {
						r.types[dir][spec.Name.Name] = source{s, decl.Doc.Text()}
					}
				}
				return true
			})
		}
	}
	return r
}

// section writes the settings of a struct as a table, followed by those of the structs in it.
func (r *referenceWriter) section(path string, v reflect.Value) {
	_, dir, _ := strings.Cut(v.Type().PkgPath(), "/dragoman/")
	source := r.types[dir][v.Type().Name()]
	if source.StructType == nil {
		r.t.Fatalf("%s: no source of %v", path, v.Type())
	}
	var nested []reflect.StructField
	keys := map[string]string{} // by the names of the fields
	for i := range v.NumField() {
		keys[v.Type().Field(i).Name] = v.Type().Field(i).Tag.Get("yaml")
	}
	fmt.Fprintf(&r.out, "\n## %s\n\n%s\n\n| setting | default | |\n|---|---|---|\n", cmp.Or(path, "At the top"), r.words(source.doc, keys))
	said := "" // a comment is of all fields up to the next one
	for _, f := range source.Fields.List {
		field, _ := v.Type().FieldByName(f.Names[0].Name)
		if f.Doc != nil {
			said = f.Doc.Text()
		}
		key := keys[field.Name]
		switch {
		case key == "-":
			continue
		case field.Type.Kind() == reflect.Struct:
			nested = append(nested, field)
			continue
		}
		value := v.FieldByName(field.Name)
		fmt.Fprintf(&r.out, "| `%s` | %s | %s |\n", join(path, key), written(value), r.words(said, keys))
	}
	for _, field := range nested {
		r.section(join(path, keys[field.Name]), v.FieldByName(field.Name))
	}
	if path == "" {
		r.section("gates[]", reflect.ValueOf(Gate{}))
	}
}

var identifier = regexp.MustCompile(`(^|[^-\w])[A-Z][A-Za-z]+\b`)

// words returns a comment on one line, with keys of settings in the place of field names.
func (r *referenceWriter) words(comment string, keys map[string]string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = identifier.ReplaceAllStringFunc(text, func(match string) string {
		name := strings.TrimLeftFunc(match, func(r rune) bool { return !unicode.IsUpper(r) })
		if key := keys[name]; key != "" && key != "-" && name != "OAuth" {
			return strings.TrimSuffix(match, name) + "`" + key + "`"
		}
		return match
	})
	return strings.ReplaceAll(text, "|", `\|`)
}

// written returns a default in the form of the file.
func written(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return shortDuration(value)
	case Size:
		return value.String()
	case []string:
		if len(value) > 8 {
			return "see the example"
		}
		return "[" + strings.Join(value, ", ") + "]"
	}
	switch {
	case v.Kind() == reflect.Pointer, v.Kind() == reflect.Map, v.Kind() == reflect.Slice:
		return ""
	case v.Kind() == reflect.String && v.String() == "":
		return `""`
	}
	return fmt.Sprint(v.Interface())
}
