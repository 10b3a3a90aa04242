package adapterrt

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// TestSeveralCredentials shows that APIs that need two or three keys get each in its place, and that no failure and no
// preview contains one.
func TestSeveralCredentials(t *testing.T) {
	var got *http.Request
	base := api(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		say(403, "application/json", `{"message":"key first-secret-0123 of app-secret-456789 and s%C3%A9cret-7890123, user:second-secret"}`)(w, r)
	}).URL
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("file-secret-0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := front(base, status, `auth:
  type: api_key
  header_name: DD-API-KEY
  key_env: FIRST
  also:
  - {type: api_key, in: query, query_name: site, key_env: THIRD}
  - {type: basic, username_env: USER_NAME, password_env: SECOND}`)
	text = strings.Replace(text, "serialization: json", "serialization: json, headers_env: {DD-APPLICATION-KEY: APP}, headers_file: {X-Key: "+keyFile+"}", 1)
	env := environment("FIRST", "first-secret-0123", "SECOND", "second-secret", "USER_NAME", "user", "THIRD", "sécret-7890123", "APP", "app-secret-456789")
	rt := start(t, Options{Getenv: env}, map[string]string{"test-api-adapter.md": text})
	answer := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
	user, password, _ := got.BasicAuth()
	if got.Header.Get("DD-API-KEY") != "first-secret-0123" || got.Header.Get("DD-APPLICATION-KEY") != "app-secret-456789" || got.Header.Get("X-Key") != "file-secret-0123" ||
		got.URL.RawQuery != "site=s%C3%A9cret-7890123" || user != "user" || password != "second-secret" {
		t.Errorf("sent %s %v", got.URL, got.Header)
	}
	p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if f != nil {
		t.Fatal(f)
	}
	shown := p.URL
	for _, h := range p.Header {
		shown += "\n" + h.Name + ": " + h.Value
	}
	for _, want := range []string{"/status?site=s%C3...", "DD-API-KEY: firs...", "DD-APPLICATION-KEY: app-...", "Authorization: Basic dXNl...", "X-Key: file..."} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in %s", want, shown)
		}
	}
	for _, secret := range []string{"secret-0123", "secret-456789", "second-secret", "cret-7890123"} {
		if strings.Contains(answer, secret) || strings.Contains(shown, secret) {
			t.Errorf("%s is shown:\n%s\n%s", secret, answer, shown)
		}
	}

	rt = start(t, Options{Getenv: environment("FIRST", "first-secret-0123", "SECOND", "x", "USER_NAME", "user", "THIRD", "y")}, map[string]string{"test-api-adapter.md": text})
	if answer := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(answer, "AUTH_CREDENTIAL_MISSING") {
		t.Error("called without a key:", answer)
	}
}

// TestBaseURLFromEnvironmentOrFile shows that base_url_env and base_url_file replace base_url, with the same checks.
func TestBaseURLFromEnvironmentOrFile(t *testing.T) {
	base := api(t, say(200, "application/json", `1`)).URL
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(base+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(keys string) string {
		return strings.Replace(front("GONE", status), `base_url: "GONE"`, keys, 1)
	}
	for _, c := range []struct{ keys, value, want string }{
		{`base_url: "https://api.example.com", base_url_env: SHOP_URL`, base, ""},
		{`base_url_env: SHOP_URL`, base + "\n", ""},
		{`base_url_file: "` + path + `"`, "", ""},
		{`base_url: "` + base + `", base_url_env: SHOP_URL`, "", ""},
		{`base_url_env: SHOP_URL`, "", "target.base_url_env: there is nothing in SHOP_URL, and no base_url"},
		{`base_url_env: SHOP_URL`, "http://s3cr3t.example.com", "target.base_url_env: base_url must be https"},
		{`base_url_env: SHOP_URL`, "https://user:s3cr3t@example.com", "target.base_url_env: base_url must not hold user information"},
		{`base_url_env: "https://s3cr3t.example.com"`, "", "target.base_url_env: base_url_env is not the name of an environment variable"},
		{`base_url_file: /no/such/file`, "", "target.base_url_file: base_url_file: file cannot be read"},
		{`base_url_file: 5`, "", "target.base_url_file: base_url_file is not valid"},
	} {
		a, problems := Parse("test-api-adapter.md", []byte(with(c.keys)), &Options{Getenv: environment("SHOP_URL", c.value)})
		said := ""
		for _, p := range problems {
			if p.Severity == file.Error {
				said += p.Path + ": " + p.Message + p.Received
			}
		}
		if (a != nil) != (c.want == "") || !strings.HasPrefix(said, c.want) || strings.Contains(said, "s3cr3t") {
			t.Errorf("%s with %q: %v", c.keys, c.value, problems)
		}
		if a == nil {
			continue
		}
		rt := start(t, Options{Getenv: environment("SHOP_URL", c.value)}, map[string]string{"test-api-adapter.md": with(c.keys)})
		if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":1}` {
			t.Errorf("%s with %q: %s", c.keys, c.value, got)
		}
	}
}

// TestMistakesInCredentials shows that mistakes in auth are reported with their path.
func TestMistakesInCredentials(t *testing.T) {
	key := func(also string) string {
		return "auth: {type: api_key, header_name: X-Key, key_env: K, also: [" + also + "]}"
	}
	for _, c := range []struct{ target, auth, ops, path string }{
		{"", key(`{type: oauth}`), "", "auth.also[0].type"},
		{"", key(`{type: api_key, header_name: x-key, key_env: L}`), "", "auth.also[0]"},
		{"", key(`{type: api_key, header_name: Y, key_env: L}, {type: api_key, header_name: Y, key_env: M}`), "", "auth.also[1]"},
		{"", key(`{type: api_key, header_name: Y}`), "", "auth.also[0].key_env"},
		{"", key(`{type: api_key, header_nam: Y, key_env: L}`), "", "auth.also[0].header_nam"},
		{"", key(`5`), "", "auth.also[0]"},
		{"headers_env: {X-Key: L}", key(""), "", "target.headers_env.X-Key"},
		{"headers_env: {Host: L}", key(""), "", "target.headers_env.Host"},
		{"headers_env: {Y: not a name}", key(""), "", "target.headers_env.Y"},
		{"headers_file: {Y: 5}", key(""), "", "target.headers_file.Y"},
		{"headers: {Y: 'Token ${TOKEN}'}", "", "", "target.headers.Y"},
		{"", "auth: {type: bearer, token_env: '${TOKEN}'}", "", "auth.token_env"},
		{"", "", `read:
- {name: get_status, maps_to: GET /status, description: Get the status, request: {headers: {X: "${X}"}}}`, "operations.read[0].request.headers.X"},
		{"", key(`{type: api_key, header_name: Y, key_env: L}`), `read:
- {name: get_status, maps_to: GET /status, description: Get the status, params: {y: {type: string, in: header, wire_name: Y}}}`, "operations.read[0].params.y"},
	} {
		ops := c.ops
		if ops == "" {
			ops = status
		}
		text := front("https://api.example.com", ops, c.auth)
		text = strings.Replace(text, "serialization: json", "serialization: json, "+c.target, 1)
		text = strings.Replace(text, "json, }", "json}", 1)
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		if a != nil || len(problems) == 0 || problems[0].Path != c.path {
			t.Errorf("%s %s %s: %v", c.target, c.auth, c.ops, problems)
		}
	}
	plain := strings.Replace(status, "Get the status", "'Get ${status}'", 1)
	if a, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", plain)), &Options{}); a == nil {
		t.Error("text that is not sent:", problems)
	}
	text := strings.Replace(front("http://api.example.com", status), "serialization: json", "serialization: json, headers_env: {X-Key: L}", 1)
	if a, _ := Parse("test-api-adapter.md", []byte(text), &Options{InsecureHosts: []string{"api.example.com"}}); a != nil {
		t.Error("a key goes over http")
	}
}

// TestErrorRulesOfAnOperation shows that the error rules of an operation come before those of the file.
func TestErrorRulesOfAnOperation(t *testing.T) {
	ops := `read:
- {name: get_status, maps_to: GET /status, description: Get the status, error_mapping: [{status: 404, code: PERMISSION_DENIED, message: mine}]}
- {name: get_other, maps_to: GET /other, description: Get another}`
	rules := "error_mapping: [{status: 404, message: the file's}, {status: 418, message: tea}]"
	for _, c := range []struct {
		status          int
		operation, want string
	}{
		{404, "get_status", `"code":"PERMISSION_DENIED","message":"mine"`},
		{418, "get_status", `"message":"tea"`},
		{404, "get_other", `"code":"NOT_FOUND_RESOURCE","message":"the file's"`},
	} {
		rt := one(t, Options{}, api(t, say(c.status, "application/json", `{}`)).URL, ops, rules)
		if got := ask(rt, Endpoint{}, `{"operation":"`+c.operation+`"}`); !strings.Contains(got, c.want) {
			t.Errorf("%s %d: %s", c.operation, c.status, got)
		}
	}
	text := front("https://api.example.com", strings.Replace(ops, "code: PERMISSION_DENIED", "code: NOTHING", 1))
	if _, problems := Parse("test-api-adapter.md", []byte(text), &Options{}); len(problems) == 0 || problems[0].Path != "operations.read[0].error_mapping[0].code" {
		t.Error(problems)
	}
}
