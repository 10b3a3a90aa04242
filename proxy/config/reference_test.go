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

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/transform"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// reference is the page that is generated from the comments on the settings' fields.
const reference = "../../docs/configuration.md"

const referenceHead = `# Configuration

Every setting, with its default. A file has them as YAML (` + "`--config FILE`, or `DRAGOMAN_CONFIG`" + `), the environment as
variables: ` + "`session.max` is `DRAGOMAN_SESSION_MAX`" + `, and a list may be ` + "`a,b`" + `. A path may begin with ` + "`~`" + `, for the home directory. Flags stand above variables, those above
the file, the file above the defaults. In headings, ` + "`[]`" + ` is a list, and NAME any name. A mistake is told with its place, and all of them at once.
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

// examples returns the examples of sections.
func examples(t *testing.T) map[string][]string {
	data, err := os.ReadFile("testdata/examples.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, part := range strings.Split(string(data), "\n-- ")[1:] {
		section, text, _ := strings.Cut(part, " --\n")
		all[section] = append(all[section], strings.TrimSpace(text)+"\n")
	}
	return all
}

// TestReferenceExamples reads every example of the page, and looks for the settings of each section that must have one.
func TestReferenceExamples(t *testing.T) {
	r := newReferenceWriter(t)
	r.section("", reflect.ValueOf(Default()))
	for section, texts := range r.examples {
		var values []any
		for _, text := range texts {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Sources{File: file, Environ: []string{"CI_TOKEN=a-token-that-an-example-names"}}.Read()
			if err == nil && cfg.Transform != nil {
				_, err = transform.New(*cfg.Transform, transform.Options{Keys: [][]byte{make([]byte, 32)}})
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", section, err, text)
			}
			var n yaml.Node
			if err := yaml.Unmarshal([]byte(text), &n); err != nil {
				t.Fatal(err)
			}
			values = append(values, generic(&n))
		}
		if r.settings[section] == nil {
			t.Errorf("there is no section %s", section)
		}
		for _, step := range strings.Split(section, ".") {
			values = inside(values, step)
		}
		for _, setting := range r.settings[section] {
			if inside(values, setting) == nil {
				t.Errorf("the examples of %s do not have %s", section, setting)
			}
		}
	}
	for section := range r.settings {
		if must := strings.HasPrefix(section, "transform") || strings.Contains(section, "[]") || strings.Contains(section, "NAME"); must && r.examples[section] == nil {
			t.Errorf("%s has no example", section)
		}
	}
}

// inside returns the members of values that a step of a section's path leads to: one in capitals is any, and [] the elements of a list.
func inside(values []any, step string) (found []any) {
	name, list := strings.CutSuffix(step, "[]")
	for _, v := range values {
		members, _ := v.(map[string]any)
		for key, member := range members {
			switch elements, _ := member.([]any); {
			case key != name && name != strings.ToUpper(name):
			case list:
				found = append(found, elements...)
			default:
				found = append(found, member)
			}
		}
	}
	return found
}

// A referenceWriter writes the sections of the page.
type referenceWriter struct {
	t     *testing.T
	types map[string]map[string]source // by the folder of their package, and their names
	out   strings.Builder

	settings, examples map[string][]string // by section
}

// A source is the source text of a struct, and its comment.
type source struct {
	*ast.StructType
	doc string
}

func newReferenceWriter(t *testing.T) *referenceWriter {
	r := &referenceWriter{t: t, types: map[string]map[string]source{}, settings: map[string][]string{}, examples: examples(t)}
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

// section writes the settings of a struct as a table, followed by those of the structs in it, alone, in lists and in maps.
func (r *referenceWriter) section(path string, v reflect.Value) {
	_, dir, _ := strings.Cut(v.Type().PkgPath(), "/dragoman/")
	source := r.types[dir][v.Type().Name()]
	if source.StructType == nil {
		r.t.Fatalf("%s: no source of %v", path, v.Type())
	}
	type section struct {
		path string
		v    reflect.Value
	}
	var nested []section
	keys := map[string]string{} // by the names of the fields
	for i := range v.NumField() {
		keys[v.Type().Field(i).Name], _, _ = strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
	}
	fmt.Fprintf(&r.out, "\n## %s\n\n%s\n", cmp.Or(path, "At the top"), r.words(source.doc, keys))
	row := func(setting string, written string, about string) {
		if r.settings[path] == nil {
			r.out.WriteString("\n| setting | default | |\n|---|---|---|\n")
		}
		r.row(path, setting, written, about)
	}
	said := "" // a comment is of all fields up to the next one
	for _, f := range source.Fields.List {
		field, _ := v.Type().FieldByName(f.Names[0].Name)
		if f.Doc != nil {
			said = f.Doc.Text()
		}
		key := keys[field.Name]
		value := v.FieldByName(field.Name)
		switch t := field.Type; {
		case key == "-" || !field.IsExported():
			continue
		case t == reflect.TypeFor[map[string]transform.SourceConfig]():
			continue // the sources have sections of their own
		case key == "": // inline
			row(strings.ToUpper(strings.TrimSuffix(field.Name, "s")), "", r.words(said, keys))
			continue
		case t.Kind() == reflect.Struct:
			nested = append(nested, section{setting.Join(path, key), value})
			continue
		case t == reflect.TypeFor[*transform.Config]():
			nested = append(nested, section{setting.Join(path, key), reflect.ValueOf(transform.DefaultConfig())})
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			nested = append(nested, section{setting.Join(path, key) + "[]", reflect.Zero(t.Elem())})
		case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
			nested = append(nested, section{setting.Join(path, key) + ".NAME", reflect.Zero(t.Elem())})
		}
		row(key, written(value), r.words(said, keys))
	}
	r.example(path)
	for _, s := range nested {
		r.section(s.path, s.v)
	}
	if v.Type() == reflect.TypeFor[transform.AdaptersConfig]() {
		r.sources(path)
	}
}

// sources writes the sections of the sources of results.
func (r *referenceWriter) sources(path string) {
	r.section(setting.Join(path, "NAME"), reflect.ValueOf(transform.SourceConfig{Enabled: true}))
	for _, s := range transform.Builtin() {
		if len(s.Options()) == 0 {
			continue
		}
		path := setting.Join(path, s.Name())
		fmt.Fprintf(&r.out, "\n## %s\n\nOptions of the source %s, here or in `options` of a rule.\n\n| setting | default | |\n|---|---|---|\n", path, s.Name())
		for _, o := range s.Options() {
			if o.About == "" {
				r.t.Errorf("option %s of %s says nothing about itself", o.Name, s.Name())
			}
			about := o.About
			if o.Allowed != nil {
				about = strings.Join(o.Allowed, " or ") + ". " + about
			}
			r.row(path, o.Name, fmt.Sprint(o.Default), about)
		}
		r.example(path)
	}
}

func (r *referenceWriter) row(section, name, written, about string) {
	r.settings[section] = append(r.settings[section], name)
	fmt.Fprintf(&r.out, "| `%s` | %s | %s |\n", setting.Join(section, name), written, about)
}

func (r *referenceWriter) example(section string) {
	for _, text := range r.examples[section] {
		fmt.Fprintf(&r.out, "\n```yaml\n%s```\n", text)
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
