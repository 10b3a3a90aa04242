package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate"
)

// schemaFile is the JSON Schema that is generated from the settings, their comments and their defaults.
const schemaFile = "../../deploy/config.schema.json"

// TestSchemaIsUpToDate compares the schema with the settings. With -update it writes the schema.
func TestSchemaIsUpToDate(t *testing.T) {
	want := newSchemaWriter(t).write()
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("deploy/config.schema.json is not what the settings say (%v): go test ./proxy/config -run TestSchemaIsUpToDate -update", err)
	}
}

// A schema is a JSON Schema, or a part of one.
type schema map[string]any

// forms are the schemas of values that have several spellings in YAML. All of them admit null, which sets nothing. A text
// may look like a number or a truth value.
func forms() schema {
	return schema{
		"text": schema{"type": []string{"string", "number", "boolean", "null"}},
		"truth": schema{"anyOf": []schema{
			{"type": []string{"boolean", "null"}},
			{"enum": []string{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}},
		}},
		"duration": schema{"anyOf": []schema{
			{"type": "string", "pattern": `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`},
			{"enum": []any{0, nil}},
		}},
		"size": schema{"anyOf": []schema{
			{"type": "string", "pattern": `^([-+]?[0-9]+|\s*[-+]?[0-9]+\s*(KiB|MiB|GiB))$`},
			{"type": "integer", "minimum": 0},
			{"type": "null"},
		}},
		"texts": schema{"type": []string{"array", "null"}, "items": ref("text")},
	}
}

func ref(form string) schema { return schema{"$ref": "#/$defs/" + form} }

// limits are what Validate requires of single settings, as far as a schema says it well.
func limits() map[string]schema {
	oneOf := func(values ...string) schema {
		all := []any{nil}
		for _, v := range values {
			all = append(all, v)
		}
		return schema{"enum": all}
	}
	atLeast := func(n int) schema { return schema{"minimum": n} }
	return map[string]schema{
		"path":                             {"pattern": "^/"},
		"credential_store":                 oneOf("auto", "keyring", "memory", "store"),
		"oauth.relay":                      oneOf("metadata", "oauth", "none"),
		"upstream.transport":               {"examples": []string{"auto", "http", "sse"}},
		"upstream.cookies":                 oneOf(CookiesOfBalancers, AllCookies, NoCookies),
		"upstream.version":                 oneOf(append(translate.Names(), "")...),
		"upstream.auth.type":               oneOf("", AuthNone, AuthTokenFile, AuthClientCredentials, AuthJWTBearer, AuthLogin),
		"upstream.auth.key_audience":       oneOf(KeyForIssuer, KeyForTokenEndpoint),
		"upstream.restart.max":             atLeast(0),
		"adapters.mode":                    oneOf("semantic", "single", "all", "discrete", "search", "auto"),
		"adapters.tools":                   oneOf("shared", "per_adapter"),
		"adapters.on_clash":                oneOf(ClashShadow, ClashFail),
		"adapters.instructions":            oneOf("append", "prepend", "replace", "off"),
		"adapters.introspection":           oneOf("extended", "compact", "strict"),
		"adapters.errors.addresses":        oneOf("mask", "keep"),
		"adapters.confirm.via":             oneOf("auto", "token", "elicitation"),
		"adapters.trust.enforce":           oneOf("declared", "strict", "off"),
		"contract.resource_contents_name":  oneOf("", "on", "off", "strict"),
		"contract.elicitation_fallback":    oneOf("", "error", "cancel", "decline"),
		"session.without":                  oneOf(WithoutRefuse, WithoutOpen),
		"contract.tasks":                   oneOf("", "bridge", "strip"),
		"contract.schema_dialect":          oneOf("", "auto", "off"),
		"footprint.hoist":                  oneOf("off", "report", "apply"),
		"footprint.drop[]":                 oneOf(droppable()...),
		"session.max":                      atLeast(1),
		"session.max_processes":            atLeast(1),
		"bridge.max_sessions":              atLeast(1),
		"bridge.default_log_level":         oneOf(append(mcp.LogLevels(), "off")...),
		"limits.replay":                    atLeast(0),
		"log.level":                        {"examples": []string{"debug", "info", "warn", "error"}},
		"log.format":                       oneOf(LogAuto, LogText, LogJSON),
		"gates[].on_unavailable":           oneOf("", "allow", "deny"),
		"gates[].timeout_ms":               {"minimum": 0, "maximum": longestGateTime},
		"gates[]":                          {"required": []string{"tool", "params", "source", "match", "capability", "error_code"}},
		"transform.adapters.capper.dedupe": oneOf("auto", "structured", "content"),
		"transform.adapters.capper.tables": oneOf("rows", "columns"),
		"transform.more_tool.enabled":      oneOf("auto", "on", "off"),
	}
}

// A schemaWriter makes the schema of the settings.
type schemaWriter struct {
	t      *testing.T
	r      *referenceWriter
	limits map[string]schema
}

func newSchemaWriter(t *testing.T) *schemaWriter {
	return &schemaWriter{t: t, r: newReferenceWriter(t), limits: limits()}
}

func (w *schemaWriter) write() []byte {
	defaults := Default()
	root := w.section("", reflect.ValueOf(defaults))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of dragoman"
	root["description"] = "Every setting of dragoman. docs/configuration.md lists them, and deploy/config.example.yaml has all with their defaults."
	root["type"] = "object"
	root["$defs"] = forms()
	for path := range w.limits {
		w.t.Errorf("%s has limits and is no setting", path)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(root); err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

// section returns the schema of a struct with these defaults.
func (w *schemaWriter) section(path string, v reflect.Value) schema {
	t := v.Type()
	_, dir, _ := strings.Cut(t.PkgPath(), "/dragoman/")
	source := w.r.types[dir][t.Name()]
	if source.StructType == nil {
		w.t.Fatalf("%s: no source of %v", path, t)
	}
	keys := map[string]string{}
	for i := range t.NumField() {
		keys[t.Field(i).Name], _, _ = strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
	}
	s := schema{"type": []string{"object", "null"}, "additionalProperties": false, "description": w.r.words(source.doc, keys)}
	members := schema{}
	said := "" // a comment is of all fields up to the next one
	for _, f := range source.Fields.List {
		field, _ := t.FieldByName(f.Names[0].Name)
		if f.Doc != nil {
			said = f.Doc.Text()
		}
		key, rest, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case rest == "inline":
			s["additionalProperties"] = w.value(path+".*", field.Type.Elem(), reflect.Zero(field.Type.Elem()))
			continue
		case key == "-" || key == "":
			continue
		}
		member := w.value(setting.Join(path, key), field.Type, v.FieldByName(field.Name))
		if section := field.Type.Kind() == reflect.Struct; !section || f.Doc != nil {
			member["description"] = strings.ReplaceAll(w.r.words(said, keys), `\|`, "|")
		}
		members[key] = member
	}
	s["properties"] = members
	w.limit(path, s)
	return s
}

// limit adds what Validate requires of the setting at path.
func (w *schemaWriter) limit(path string, s schema) {
	for keyword, value := range w.limits[path] {
		s[keyword] = value
		if keyword == "enum" {
			delete(s, "$ref")
		}
	}
	delete(w.limits, path)
}

// value returns the schema of a setting with this default.
func (w *schemaWriter) value(path string, t reflect.Type, v reflect.Value) schema {
	var s schema
	switch {
	case t == reflect.TypeFor[time.Duration]():
		s = ref("duration")
	case t == reflect.TypeFor[Size]():
		s = ref("size")
	case t == reflect.TypeFor[*transform.Config]():
		return w.section(path, reflect.ValueOf(transform.DefaultConfig()))
	case t.Kind() == reflect.Pointer:
		return w.value(path, t.Elem(), reflect.Zero(t.Elem()))
	case t.Kind() == reflect.Struct:
		return w.section(path, v)
	case t.Kind() == reflect.String:
		s = ref("text")
	case t.Kind() == reflect.Bool:
		s = ref("truth")
	case t.Kind() == reflect.Int && !strings.HasPrefix(path, "transform.rules"):
		s = schema{"type": []string{"integer", "null"}}
	case t.Kind() == reflect.Int || t.Kind() == reflect.Float64: // the decoder of a rule rounds
		s = schema{"type": []string{"number", "null"}}
	case t == reflect.TypeFor[[]string]():
		s = ref("texts")
		if _, limited := w.limits[path+"[]"]; limited {
			s = schema{"type": []string{"array", "null"}, "items": w.value(path+"[]", t.Elem(), reflect.Zero(t.Elem()))}
		}
	case t.Kind() == reflect.Slice:
		s = schema{"type": []string{"array", "null"}, "items": w.value(path+"[]", t.Elem(), reflect.Zero(t.Elem()))}
	case t.Kind() == reflect.Map:
		s = schema{"type": []string{"object", "null"}, "additionalProperties": w.value(path+".*", t.Elem(), reflect.Zero(t.Elem()))}
	case t.Kind() == reflect.Interface:
		s = schema{}
	default:
		w.t.Fatalf("%s: no schema for %v", path, t)
	}
	w.limit(path, s)
	if d := defaultOf(v); d != nil {
		s["default"] = d
	}
	return s
}

// defaultOf returns a default as a file has it, or nil for an empty one.
func defaultOf(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration, Size:
		if v.IsZero() {
			return 0
		}
		return written(v)
	case []string:
		if len(value) > 0 {
			return value
		}
		return nil
	case string, bool, int:
		return value
	}
	return nil
}

// generic returns a YAML value as JSON has it.
func generic(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return generic(n.Content[0])
	case yaml.AliasNode:
		return generic(n.Alias)
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			all[n.Content[i].Value] = generic(n.Content[i+1])
		}
		return all
	case yaml.SequenceNode:
		all := []any{}
		for _, e := range n.Content {
			all = append(all, generic(e))
		}
		return all
	}
	var value any
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!null":
		if n.Decode(&value) == nil {
			return value
		}
	}
	return n.Value
}
