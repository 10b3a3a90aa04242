package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/deploy"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

func compiledSchema(t *testing.T) (*jsonschema.Schema, map[string]any) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(deploy.ConfigSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled, doc.(map[string]any)
}

// fences match the YAML in documents: blocks between fences, and indented lines that begin with a section.
var (
	fences   = regexp.MustCompile("(?s)```yaml\n(.*?)\n```")
	indented = regexp.MustCompile(`(?m)(?:^    (?:transform|upstream|limits|session|footprint|auth|gates):.*\n(?:^     .*\n)*)+`)
)

// TestDocumentedConfigurationsValidate checks that the schema admits every configuration in the README, docs and deploy.
func TestDocumentedConfigurationsValidate(t *testing.T) {
	compiled, root := compiledSchema(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	check := func(file, text string) {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil || n.Kind != yaml.DocumentNode || n.Content[0].Kind != yaml.MappingNode {
			return // not a file by itself
		}
		settings, ours := generic(&n).(map[string]any), false
		for key := range settings {
			_, is := root["properties"].(map[string]any)[key]
			ours = ours || is
		}
		auth, _ := settings["auth"].(map[string]any)
		if !ours || settings["target"] != nil || settings["maps_to"] != nil || auth["type"] != nil {
			return // a part of an adapter
		}
		found[filepath.Base(file)]++
		if err := compiled.Validate(settings); err != nil {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	for _, file := range append(pages, "../../README.md", "../../CONTRIBUTING.md", example, "../../deploy/sidecar.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".example.yaml") {
			check(file, string(text))
			continue
		}
		for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
			check(file, block[1])
		}
		for _, block := range indented.FindAllString(string(text), -1) {
			check(file, block)
		}
	}
	for file, n := range map[string]int{"config.example.yaml": 1, "README.md": 1, "authorization.md": 3, "protected-servers.md": 2, "transform.md": 1, "sidecar.yaml": 1} {
		if found[file] < n {
			t.Errorf("%s: %d configurations found, not %d", file, found[file], n)
		}
	}
}

func TestExampleNamesItsSchema(t *testing.T) {
	text, err := os.ReadFile(example)
	if first, _, _ := strings.Cut(string(text), "\n"); err != nil || first != "# yaml-language-server: $schema=config.schema.json" {
		t.Errorf("%v: the first line is %q", err, first)
	}
}

// somethings are values of all kinds, in YAML, for settings of any kind.
var somethings = []string{
	"null", "~", "true", "no", "5", "-1", "0", "70000", "1.5", "1e3", "text", `""`, `"7"`, "off", "10s", "1h30m", "-5s", "0s", "10", "10MiB", "5 KiB", "10Mib",
	"[]", "[a, b]", "[1, {a: b}]", "[null]", "{}", "{a: b}", "{a: [b]}", "2025-11-25", "http", "auto", "/mcp", "127.0.0.1:1", "http://127.0.0.1/",
	"{match: {tool: x}, max_tokens: 100}", "[{match: {tool: x}}]", "[{tool: a, params: [b], source: c, match: {d: e}, capability: f, error_code: g}]", "[{tool: a}]", "[titles]",
	"{enabled: true}", "{enabled: yes, tools: [a]}", "{ping: {silence: 5s}}", "{first_byte: 3}",
}

// TestSchemaRefusesOnlyMistakes checks that dragoman refuses each file that the schema refuses.
func TestSchemaRefusesOnlyMistakes(t *testing.T) {
	compiled, root := compiledSchema(t)
	file := filepath.Join(t.TempDir(), "c.yaml")
	refused, allowed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		write := func(format string, a ...any) { fmt.Fprintf(&text, format, a...) }
		drawSection(t, root, 0, write)
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text.String()), &n); err != nil {
			t.Fatalf("%v:\n%s", err, text.String())
		}
		said := compiled.Validate(generic(&n))
		_, err := Sources{File: file}.Read()
		switch {
		case said == nil && err == nil:
			allowed++
		case said != nil:
			refused++
			if err == nil {
				t.Fatalf("dragoman takes what the schema refuses: %v\n%s", said, text.String())
			}
		}
		if err != nil && !errors.As(err, new(setting.Mistakes)) {
			t.Fatalf("%v\n%s", err, text.String())
		}
	})
	if refused == 0 || allowed == 0 {
		t.Errorf("%d files refused and %d allowed: the test shows nothing", refused, allowed)
	}
}

// drawSection writes a few members of a section of the schema, and rarely one that is not in it.
func drawSection(t *rapid.T, section map[string]any, depth int, write func(string, ...any)) {
	indent := strings.Repeat("  ", depth)
	members, _ := section["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(members))
	if open, _ := section["additionalProperties"].(map[string]any); open != nil || rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
		names = append(names, "further")
	}
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, min(2, len(names)), rapid.ID[string]).Draw(t, "members")
	for _, name := range some {
		member, _ := members[name].(map[string]any)
		if member["properties"] != nil && rapid.IntRange(0, 9).Draw(t, "inside") > 0 {
			write("%s%s:\n", indent, name)
			drawSection(t, member, depth+1, write)
			continue
		}
		value := rapid.SampledFrom(somethings).Draw(t, "value")
		if d, ok := member["default"]; ok && rapid.Bool().Draw(t, "default") {
			value = fmt.Sprintf("%v", d)
			if list, is := d.([]any); is {
				value = strings.ReplaceAll(fmt.Sprintf("%q", list), " ", ", ")
			}
			if value == "" {
				value = `""`
			}
		}
		write("%s%s: %s\n", indent, name, value)
	}
}
