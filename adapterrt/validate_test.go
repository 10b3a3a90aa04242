package adapterrt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// mistakes has one mistake in each row: the text of the good file that is replaced, and the
// problem that must be reported.
var mistakes = []struct {
	old, new   string
	path, code string
	warning    bool
}{
	{"name: test-api\n", "", "name", file.SchemaMissingField, false},
	{"name: test-api\n", "name: ''\n", "name", file.SchemaMissingField, false},
	{"name: test-api\n", "name: 7\n", "name", file.SchemaInvalidType, false},
	{"name: test-api\n", "name: Test\n", "name", file.SchemaInvalidName, false},
	{"name: test-api\n", "name: x\n", "name", file.SchemaInvalidName, false},
	{"name: test-api\n", "name: test-\n", "name", file.SchemaInvalidName, false},
	{"name: test-api\n", "name: other\n", "name", file.SchemaInvalidName, true},
	{"type: adapter\n", "", "type", file.SchemaMissingField, false},
	{"type: adapter\n", "type: tool\n", "type", file.SchemaInvalidValue, false},
	{`version: "1.0.0"`, `version: 1.0`, "version", file.SchemaInvalidType, false},
	{`version: "1.0.0"`, `version: "1.0"`, "version", file.SchemaInvalidValue, false},
	{`version: "1.0.0"`, `version: "01.0.0"`, "version", file.SchemaInvalidValue, false},
	{`version: "1.0.0"`, ``, "version", file.SchemaMissingField, false},
	{"description: An API for tests", "description: '  '", "description", file.SchemaMissingField, false},
	{"description: An API for tests", "description: short", "description", file.SchemaInvalidValue, true},
	{"https://api.example.com/v1", "", "target.base_url", file.SchemaMissingField, false},
	{"https://api.example.com/v1", "http://api.example.com", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "ftp://api.example.com", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://api.example.com/", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://api.example.com?a=b", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://api.example.com#a", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://u:p@api.example.com", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", `https://api.example.com\r\n`, "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "/v1", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://api.example.com/../x", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://api.example.com:99999", "target.base_url", file.SchemaInvalidValue, false},
	{"https://api.example.com/v1", "https://exämple.com", "target.base_url", file.SchemaInvalidValue, false},
	{"transport: http", "transport: websocket", "target.transport", file.PluginNotFound, false},
	{"transport: http", "transport: carrier-pigeon", "target.transport", file.PluginNotFound, false},
	{"protocol: rest", "protocol: grpc", "target.protocol", file.PluginNotFound, false},
	{"serialization: json", "serialization: xml", "target.serialization", file.PluginNotFound, false},
	{"serialization: json", "serialization: json, timeout_ms: 0", "target.timeout_ms", file.SchemaInvalidValue, false},
	{"serialization: json", "serialization: json, headers: {Host: x}", "target.headers.Host", file.SchemaInvalidValue, false},
	{"serialization: json", "serialization: json, headers: {Authorization: x}", "target.headers.Authorization", file.AuthConfigInvalid, false},
	{"serialization: json", `serialization: json, headers: {X-A: "a\r\nb: c"}`, "target.headers.X-A", file.SchemaInvalidValue, false},
	{"serialization: json", `serialization: json, headers: {"X A": a}`, "target.headers.X A", file.SchemaInvalidValue, false},
	{"serialization: json", "serialization: json, odd: 1", "target.odd", file.SchemaUnknownField, true},
	{"# extra", "created: yesterday", "created", file.SchemaInvalidValue, true},
	{"# extra", "tags: [a, 5]", "tags[1]", file.SchemaInvalidType, false},
	{"# extra", "colour: red", "colour", file.SchemaUnknownField, true},
	{"# extra", "auth: {type: bearer, token_env: T, hedaer: X}", "auth.hedaer", file.SchemaUnknownField, false},
	{"# extra", "trust: {level: certified, verifed_by: me}", "trust.verifed_by", file.SchemaUnknownField, false},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    requires_confirmaton: true\n", "operations.update[0].requires_confirmaton", file.SchemaUnknownField, false},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    dangerLevel: destructive\n", "operations.update[0].dangerLevel", file.SchemaUnknownField, false},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    danger: {levl: destructive}\n", "operations.update[0].danger.levl", file.SchemaUnknownField, false},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    response: {fileds: [a]}\n", "operations.update[0].response.fileds", file.SchemaUnknownField, false},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    timeout: 5\n", "operations.update[0].timeout", file.SchemaUnknownField, true},
	{"maps_to: PUT /items/{id}\n", "maps_to: PUT /items/{id}\n    approval: {by: boss}\n", "operations.update[0].approval", file.SchemaUnknownField, true},
	{"# extra", "escalation: {to: boss}", "escalation", file.SchemaUnknownField, true},
	{"n: {type: integer}", "n: {type: integer, required: null}", "operations.read[0].params.n.required", file.SchemaInvalidType, false},
	{"n: {type: integer}", "n: {type: integer, default: null}", "operations.read[0].params.n.default", file.SchemaInvalidType, false},
	{"n: {type: integer}", "n: {type: integer, enum: ~}", "operations.read[0].params.n.enum", file.SchemaInvalidType, false},
	{"# extra", "rate_limits: {quotas: {limits: [{metric: cost, hard_stop: 5}]}}", "rate_limits.quotas.limits[0].metric", file.SchemaInvalidValue, true},
	{"# extra", "turst: {level: untested}", "turst", file.SchemaUnknownField, false},
	{"# extra", "error_mapping: {}", "error_mapping", file.SchemaUnknownField, true},
	{"# extra", "author: ghp_abcdefghijklmnopqrstuvwx12", "author", file.SchemaEmbeddedCredential, true},
	{"# extra", "auth: {type: none, token: abc}", "auth.token", file.SchemaEmbeddedCredential, true},
	{"serialization: json", "serialization: json, headers: {X-API-Key: abc}", "target.headers.X-API-Key", file.SchemaEmbeddedCredential, true},
	{"# extra", "auth: {}", "auth.type", file.SchemaMissingField, false},
	{"# extra", "auth: {type: bearer}", "auth.token_env", file.AuthConfigInvalid, false},
	{"# extra", "auth: {type: bearer, token_env: MY-TOKEN}", "auth.token_env", file.AuthConfigInvalid, false},
	{"# extra", "auth: {type: bearer, token_env: UNSET}", "auth.token_env", file.AuthConfigInvalid, true},
	{"# extra", "auth: {type: api_key, key_env: SET}", "auth.header_name", file.AuthConfigInvalid, false},
	{"# extra", `auth: {type: api_key, key_env: SET, header_name: "a b"}`, "auth.header_name", file.AuthConfigInvalid, false},
	{"# extra", "auth: {type: api_key, key_env: SET, header_name: Host}", "auth.header_name", file.AuthConfigInvalid, false},
	{"# extra", "auth: {type: basic, username_env: SET}", "auth.password_env", file.AuthConfigInvalid, false},
	{"# extra", "auth: {type: aws-sig5}", "auth.type", file.PluginNotFound, false},
	{"# extra", "auth: {type: magic}", "auth.type", file.PluginNotFound, false},
	{"  read:", "  raed:", "operations.raed", file.SchemaInvalidValue, false},
	{"name: get_item", "name: ''", "operations.read[0].name", file.SchemaMissingField, false},
	{"name: get_item", "name: GetItem", "operations.read[0].name", file.SchemaInvalidName, false},
	{"name: get_item", "name: introspect", "operations.read[0].name", file.SchemaInvalidName, false},
	{"name: put_item", "name: get_item", "operations.update[0].name", file.SchemaDuplicateName, false},
	{"maps_to: GET /items/{id}", "maps_to: ''", "operations.read[0].maps_to", file.SchemaMissingField, false},
	{"maps_to: GET /items/{id}", "maps_to: HEAD /items/{id}", "operations.read[0].maps_to", file.ProtocolInvalidMapping, false},
	{"maps_to: GET /items/{id}", "maps_to: GET items/{id}", "operations.read[0].maps_to", file.ProtocolInvalidMapping, false},
	{"maps_to: GET /items/{id}", "maps_to: GET /items/{other}", "operations.read[0].maps_to", file.SchemaUnresolvedRef, false},
	{"maps_to: GET /items/{id}", "maps_to: PUT /items/{id}", "operations.read[0].maps_to", file.ProtocolInvalidMapping, true},
	{"    description: Get an item\n", "", "operations.read[0].description", file.SchemaMissingField, true},
	{"id: {type: string, required: true}", "id: {type: text, required: true}", "operations.read[0].params.id.type", file.SchemaInvalidValue, false},
	{"id: {type: string, required: true}", "id: {required: true}", "operations.read[0].params.id.type", file.SchemaMissingField, false},
	{"id: {type: string, required: true}", `id: {type: string, required: "true"}`, "operations.read[0].params.id.required", file.SchemaInvalidType, false},
	{"id: {type: string, required: true}", "id: {type: string}", "operations.read[0].params.id", file.ProtocolInvalidMapping, true},
	{"id: {type: string, required: true}", "id: {type: object, required: true}", "operations.read[0].maps_to", file.ProtocolInvalidMapping, false},
	{"id: {type: string, required: true}", "id: {type: string, required: true, default: a}", "operations.read[0].params.id.default", file.SchemaInvalidValue, true},
	{"id: {type: string, required: true}", "id: {type: string, required: true, in: query}", "operations.read[0].params.id.in", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, default: many}", "operations.read[0].params.n.default", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, default: 5, enum: [1, 2]}", "operations.read[0].params.n.default", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, enum: []}", "operations.read[0].params.n.enum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, enum: [1, x]}", "operations.read[0].params.n.enum[1]", file.SchemaInvalidType, false},
	{"n: {type: integer}", "n: {type: integer, enum: [1, 1.0]}", "operations.read[0].params.n.enum[1]", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, minimum: 2, maximum: 1}", "operations.read[0].params.n.minimum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, minLength: 2}", "operations.read[0].params.n.minLength", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: string, minimum: 2}", "operations.read[0].params.n.minimum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: string, pattern: '(?=a)'}", "operations.read[0].params.n.pattern", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: string, items: {type: string}}", "operations.read[0].params.n.items", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: string, exclusiveMinimum: 2}", "operations.read[0].params.n.exclusiveMinimum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, maximum: 2, exclusiveMaximum: 2}", "operations.read[0].params.n.exclusiveMaximum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: number, minimum: 2, exclusiveMaximum: 2}", "operations.read[0].params.n.minimum", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, multipleOf: 0}", "operations.read[0].params.n.multipleOf", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: string, multipleOf: 2}", "operations.read[0].params.n.multipleOf", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, minItems: 2}", "operations.read[0].params.n.minItems", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: array, minItems: 2, maxItems: 1}", "operations.read[0].params.n.minItems", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: array, maxItems: 0}", "operations.read[0].params.n.maxItems", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: object, uniqueItems: true}", "operations.read[0].params.n.uniqueItems", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, additionalProperties: {type: string}}", "operations.read[0].params.n.additionalProperties", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: object, additionalProperties: {type: text}}", "operations.read[0].params.n.additionalProperties.type", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: array, items: {type: object, additionalProperties: {requird: true}}}", "operations.read[0].params.n.items.additionalProperties.type", file.SchemaMissingField, false},
	{"n: {type: integer}", "n: {type: integer, in: body}", "operations.read[0].params.n.in", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, in: path}", "operations.read[0].params.n.in", file.SchemaUnresolvedRef, false},
	{"n: {type: integer}", "n: {type: integer, in: header, wire_name: Cookie}", "operations.read[0].params.n", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer, style: deep_object}", "operations.read[0].params.n.style", file.SchemaInvalidValue, false},
	{"n: {type: integer}", "n: {type: integer}, m: {type: string, wire_name: n}", "operations.read[0].params.m", file.SchemaDuplicateName, false},
	{"n: {type: integer}", "_n: {type: integer}", "operations.read[0].params._n", file.SchemaInvalidName, false},
	{"n: {type: integer}", "5n: {type: integer}", "operations.read[0].params.5n", file.SchemaInvalidName, false},
	{"n: {type: integer}", "perPage: {type: integer}", "operations.read[0].params.perPage", file.SchemaInvalidName, true},
	{"n: {type: integer}", "n: 5", "operations.read[0].params.n", file.SchemaInvalidType, false},
}

const goodOps = `
read:
- name: get_item
  maps_to: GET /items/{id}
  description: Get an item
  params: {id: {type: string, required: true}, n: {type: integer}}
update:
- name: put_item
  maps_to: PUT /items/{id}
  description: Put an item
  params: {id: {type: string, required: true}}`

func TestEachMistakeIsReported(t *testing.T) {
	good := front("https://api.example.com/v1", goodOps, "# extra")
	opt := fromEnv("SET", "x")
	if a, problems := Parse("test-api-adapter.md", []byte(good), &opt); a == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, m := range mistakes {
		text := strings.Replace(good, m.old, m.new, 1)
		if text == good {
			t.Errorf("%q is not in the good file", m.old)
			continue
		}
		a, problems := Parse("test-api-adapter.md", []byte(text), &opt)
		i := slices.IndexFunc(problems, func(p file.Problem) bool { return p.Path == m.path && p.Code == m.code })
		if i < 0 || (problems[i].Severity == file.Warning) != m.warning || (a != nil) != m.warning {
			t.Errorf("%q\n got %v\nwant %s %s", m.new, problems, m.path, m.code)
			continue
		}
		p := problems[i]
		if p.File == "" || p.Line == 0 || p.Message == "" {
			t.Errorf("%q: incomplete %+v", m.new, p)
		}
		for _, secret := range []string{"ghp_abc", "u:p@"} {
			if strings.Contains(p.String(), secret) {
				t.Errorf("%q: shows a secret: %s", m.new, p)
			}
		}
	}
}

// TestOneMistakeIsReportedOnce shows that a wrong parameter is not reported again where it is
// used.
func TestOneMistakeIsReportedOnce(t *testing.T) {
	text := front("https://api.example.com", "read:\n- {name: op, maps_to: \"GET /x/{id}\", description: D, params: {id: {type: strin, required: true}}}")
	_, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
	if len(problems) != 1 || problems[0].Path != "operations.read[0].params.id.type" {
		t.Error(problems)
	}
}

// TestMistakesBesideAWrongMapping shows that a wrong maps_to does not hide other mistakes.
func TestMistakesBesideAWrongMapping(t *testing.T) {
	text := front("https://api.example.com", "read:\n- {name: op, maps_to: GOT /x, description: D, pagination: {style: page, param_name: p, per_page_param: n, max_limit: 0},\n   cache: {ttl: soon}}\n"+
		"- {name: other, maps_to: GOT /y, description: D, pagination: {style: odd, param_name: p}, cache: {ttl: 30s}}")
	_, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
	var paths []string
	for _, p := range problems {
		paths = append(paths, strings.TrimPrefix(p.Path, "operations.read"))
	}
	want := []string{"[0].maps_to", "[0].pagination.max_limit", "[0].cache.ttl", "[1].maps_to", "[1].pagination.style"}
	if !slices.Equal(paths, want) {
		t.Errorf("\n got  %q\n want %q", paths, want)
	}
}

func TestProblemAsJSON(t *testing.T) {
	text := strings.Replace(front("https://api.example.com", goodOps), "name: get_item\n    maps_to", "maps_to", 1)
	_, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
	data, err := json.Marshal(problems[0])
	got := string(data)
	want := `{"path":"operations.read[0].name","message":"Operation name is required","expected":"non-empty string","received":"undefined","code":"SCHEMA_MISSING_FIELD","severity":"error","file":"test-api-adapter.md","line":10}`
	if got != want || err != nil {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestStrictFilesRefuseWarnings(t *testing.T) {
	text := front("https://api.example.com", status, "colour: red")
	if a, _ := Parse("test-api-adapter.md", []byte(text), &Options{StrictFiles: true}); a != nil {
		t.Error("an unknown field passed")
	}
	text = front("https://api.example.com", status, "x-colour: red")
	if a, problems := Parse("test-api-adapter.md", []byte(text), &Options{StrictFiles: true}); a == nil || len(problems) > 0 {
		t.Error(problems)
	}
}

func TestLocalhostMayUseHTTP(t *testing.T) {
	for _, h := range []string{"localhost", "localhost:8080", "api.localhost", "127.0.0.1:1", "127.9.9.9", "[::1]:80"} {
		if a, p := Parse("test-api-adapter.md", []byte(front("http://"+h, status)), &Options{}); a == nil {
			t.Error(h, p)
		}
	}
	if a, _ := Parse("test-api-adapter.md", []byte(front("http://inner.example", status)), &Options{InsecureHosts: []string{"inner.example"}}); a == nil {
		t.Error("the operator's host was refused")
	}
}

// TestCredentialsGoOverHTTPSOnly shows that a host that may be called over http gets no
// credentials over http.
func TestCredentialsGoOverHTTPSOnly(t *testing.T) {
	opt := fromEnv("T", "x")
	opt.InsecureHosts = []string{"api.test"}
	const auth = "auth: {type: bearer, token_env: T}"
	for _, c := range []struct {
		base, auth string
		good       bool
	}{
		{"http://api.test", "", true}, {"http://api.test", "auth: {type: none}", true}, {"http://api.test", auth, false},
		{"http://127.0.0.1:80", auth, true}, {"http://localhost", auth, true}, {"https://api.test", auth, true},
	} {
		a, problems := Parse("test-api-adapter.md", []byte(front(c.base, status, c.auth)), &opt)
		if (a != nil) != c.good || !c.good && (len(problems) != 1 || problems[0].Path != "auth" || problems[0].Code != file.AuthConfigInvalid || problems[0].Line == 0) {
			t.Error(c.base, c.auth, problems)
		}
	}
}

// TestNamesThatLookLikeCredentialsAreAccepted shows that names of operations and paths may begin like a credential.
func TestNamesThatLookLikeCredentialsAreAccepted(t *testing.T) {
	ops := "read:\n- {name: secret_scanning_list_alerts, maps_to: GET /orgs/secret_scanning_alerts, description: Alerts of secret_scanning_for_orgs, params: {q: {type: string, enum: [secret_scanning_alert, lin_api_keys_all]}}}"
	if a, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", ops)), &Options{}); a == nil || len(problems) > 0 {
		t.Error(problems)
	}
}

// TestWhatWasReceived: a problem says the type of a wrong value and, if it is no secret, the value, which is cut if it is long.
func TestWhatWasReceived(t *testing.T) {
	good := front("https://api.example.com/v1", goodOps, "# extra")
	opt := fromEnv("SET", "x")
	for _, c := range []struct{ old, new, path, received string }{
		{"name: test-api\n", "name: 7\n", "name", "integer 7"},
		{"name: test-api\n", "name: 7.5\n", "name", "number 7.5"},
		{"name: test-api\n", "name: [a, 1]\n", "name", `array ["a",1]`},
		{"name: test-api\n", "name: []\n", "name", `array []`},
		{"name: test-api\n", "name: {}\n", "name", `object {}`},
		{"name: test-api\n", "name: {first: x, n: {y: [true, null]}}\n", "name", `object {"first":"x","n":{"y":[true,null]}}`},
		{"name: test-api\n", "name: {password: hunter2, a: {api_key: 17}}\n", "name", `object {"password":"[redacted]","a":{"api_key":"[redacted]"}}`},
		{"name: test-api\n", "name: [" + strings.Repeat("a long word, ", 20) + "]\n", "name", `array ["a long word","a long word","a long word","a long word","a long word","a long word","a long word","…`},
		{"name: test-api\n", "name: Test\n", "name", `string "Test"`},
		{"name: test-api\n", "name: " + strings.Repeat("x", 200) + "\n", "name", `string "` + strings.Repeat("x", 100) + `…"`},
		{"name: test-api\n", "", "name", "undefined"},
		{"name: test-api\n", "name: ~\n", "name", "null"},
		{"name: get_item\n", "name: true\n", "operations.read[0].name", "boolean true"},
		{"id: {type: string, required: true}", "id: {type: object, required: true}", "operations.read[0].maps_to", `string "object"`},
		{"maps_to: GET /items/{id}", "maps_to: GET /items/{other}", "operations.read[0].maps_to", `undefined`},
		{"n: {type: integer}", "n: {type: integer, in: header, wire_name: Cookie}", "operations.read[0].params.n", `string "Cookie"`},
		{"n: {type: integer}", "n: {type: integer}, m: {type: string, wire_name: n}", "operations.read[0].params.m", `string "n"`},
		{"n: {type: integer}", "5n: {type: integer}", "operations.read[0].params.5n", `string "5n"`},
		{"n: {type: integer}", "_n: {type: integer}", "operations.read[0].params._n", `string "_n"`},
		{"n: {type: integer}", "n: {type: integer, in: path, wire_path: a}", "operations.read[0].params.n.in", `string "path"`},
		{"n: {type: integer}", "n: 5", "operations.read[0].params.n", "integer 5"},
		{"n: {type: integer}", "n: {type: integer, default: many}", "operations.read[0].params.n.default", `string "many"`},
		// secrets, by their form, by their names and by what the file says of them
		{"n: {type: integer}", "n: {type: integer, default: ghp_abcdefghijklmnop1234}", "operations.read[0].params.n.default", `string "[redacted]"`},
		{"n: {type: integer}", "password: {type: integer, default: hunter}", "operations.read[0].params.password.default", "string [redacted]"},
		{"n: {type: integer}", "api_token: {type: integer, enum: [1, zq]}", "operations.read[0].params.api_token.enum[1]", "string [redacted]"},
		{"n: {type: integer}", "n: {type: integer, sensitive: true, default: hunter}", "operations.read[0].params.n.default", "string [redacted]"},
		{"n: {type: integer}", "n: {type: integer, sensitive: true, enum: [1, hunter]}", "operations.read[0].params.n.enum[1]", "string [redacted]"},
		{"n: {type: integer}", "secret: {type: integr}", "operations.read[0].params.secret.type", `string "integr"`},
		{"# extra", "auth: {type: bearer, token_env: MY-TOKEN}", "auth.token_env", "string [redacted]"},
		{"# extra", "auth: {type: bearer, token_env: 17}", "auth.token_env", "integer [redacted]"},
		{"# extra", "auth: {type: magic}", "auth.type", `string "magic"`},
		{"serialization: json", "serialization: json, headers: {Authorization: x}", "target.headers.Authorization", "string [redacted]"},
		{"serialization: json", "serialization: json, headers: {X-Api-Key: [x]}", "target.headers.X-Api-Key", "array [redacted]"},
		{"https://api.example.com/v1", "https://u:p@api.example.com", "target.base_url", "string [redacted]"},
		{"maps_to: GET /items/{id}", "maps_to: GET items?api_key=zq", "operations.read[0].maps_to", `string "GET items?api_key=[redacted]"`},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, problems := Parse("test-api-adapter.md", []byte(text), &opt)
		i := slices.IndexFunc(problems, func(p file.Problem) bool { return p.Path == c.path && p.Received != "" })
		if i < 0 || problems[i].Received != c.received {
			t.Errorf("%q\n got  %v\n want %s received %s", c.new, problems, c.path, c.received)
		}
	}
}

// TestCredentialsInMappings: maps_to that holds a credential is a warning, which names no part of it, and an error for strict files.
func TestCredentialsInMappings(t *testing.T) {
	for mapsTo, warned := range map[string]bool{
		"GET /items/{id}?api_key=zq1":                             true,
		"GET /items/{id}?a=b&Client-Secret=zq":                    true,
		"GET /items/{id}?access_token=zq{id}":                     true,
		"GET /items/{id}?key=zqzqzqzqzqzq1234":                    true,
		"GET /items/{id}?x=ghp_zqzqzqzqzqzqzqzqzqzq1234":          true,
		"GET /ghp_zqzqzqzqzqzqzqzqzqzq1234/{id}":                  true,
		"GET /items/{id}?sig=zqzqzqzqzqzq1234":                    true,
		"GET /items/{id}?api_key={id}":                            false,
		"GET /items/{id}?api_key=":                                false,
		"GET /items/{id}?api_key":                                 false,
		"GET /items/{id}?token_type=bearer&key=name&max_tokens=5": false,
		"GET /tokens/{id}/secret":                                 false,
	} {
		text := strings.Replace(front("https://api.example.com/v1", goodOps), "maps_to: GET /items/{id}", `maps_to: "`+mapsTo+`"`, 1)
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		i := slices.IndexFunc(problems, func(p file.Problem) bool { return p.Code == file.SchemaEmbeddedCredential })
		if (i >= 0) != warned || a == nil {
			t.Errorf("%s: %v", mapsTo, problems)
			continue
		}
		if !warned {
			continue
		}
		if p := problems[i]; p.Path != "operations.read[0].maps_to" || p.Severity != file.Warning || p.Line == 0 || strings.Contains(fmt.Sprint(problems), "zq") {
			t.Errorf("%s: %v", mapsTo, problems)
		}
		if a, problems := Parse("test-api-adapter.md", []byte(text), &Options{StrictFiles: true}); a != nil {
			t.Errorf("%s: strict files: %v", mapsTo, problems)
		}
	}
	for param, warned := range map[string]bool{"api_key: {type: string, default: zq}": true, "api_key: {type: string}": false, "n: {type: string, default: zq}": false} {
		text := strings.Replace(front("https://api.example.com/v1", goodOps), "n: {type: integer}", param, 1)
		_, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		if got := slices.ContainsFunc(problems, func(p file.Problem) bool {
			return p.Code == file.SchemaEmbeddedCredential && strings.HasSuffix(p.Path, ".default") && p.Severity == file.Warning
		}); got != warned || strings.Contains(fmt.Sprint(problems), "zq") {
			t.Errorf("%s: %v", param, problems)
		}
	}
}
