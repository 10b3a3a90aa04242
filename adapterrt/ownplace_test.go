package adapterrt

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// placed writes to got where a request arrived, and with which credentials.
func placed(t *testing.T, name string, got *string) string {
	return api(t, func(w http.ResponseWriter, r *http.Request) {
		*got = strings.TrimSpace(name + " " + r.Method + " " + r.URL.RequestURI() + " " + strings.TrimSpace(r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")+" "+r.Header.Get("Cookie")))
		say(200, "application/json", `[1]`)(w, r)
	}).URL
}

// TestOperationsWithAPlaceOfTheirOwn: an operation with a base_url is sent there, one with auth: none has no credentials.
func TestOperationsWithAPlaceOfTheirOwn(t *testing.T) {
	var got string
	first, second := placed(t, "first", &got), placed(t, "second", &got)
	ops := `read:
- {name: here, maps_to: GET /here}
- {name: there, maps_to: 'GET /there/{id}', base_url: "` + second + `/v2", params: {id: {type: string, required: true}}}
- {name: list_there, maps_to: GET /notes, base_url: "` + second + `", pagination: {style: link_header, param_name: page}}
- {name: open, maps_to: GET /open, auth: none}
- {name: open_there, maps_to: GET /open, base_url: "` + second + `", auth: none}`
	const auth = "auth: {type: bearer, token_env: T, also: [{type: api_key, header_name: X-Key, key_env: K}, {type: api_key, in: cookie, cookie_name: sid, key_env: C}]}"
	rt := one(t, Options{Getenv: environment("T", "token-0123456", "K", "key-0123456", "C", "cookie-0123456")}, first, ops, auth)
	const all = "Bearer token-0123456 key-0123456 sid=cookie-0123456"
	for call, want := range map[string]string{
		`{"operation":"here"}`:                          "first GET /here " + all,
		`{"operation":"there","params":{"id":"a/b:c"}}`: "second GET /v2/there/a%2Fb%3Ac " + all,
		`{"operation":"list_there"}`:                    "second GET /notes " + all,
		`{"operation":"open"}`:                          "first GET /open ",
		`{"operation":"open_there"}`:                    "second GET /open ",
	} {
		if answer := ask(rt, Endpoint{}, call); got != strings.TrimSpace(want) || !strings.Contains(answer, `"success":true`) {
			t.Errorf("%s: %s, want %s; %s", call, got, want, answer)
		}
		p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(call)})
		if f != nil {
			t.Fatal(f)
		}
		has := false
		for _, h := range p.Header {
			has = has || h.Name == "Authorization" || h.Name == "Cookie" || h.Name == "X-Key"
			if strings.Contains(h.Value, "0123456") {
				t.Errorf("%s shows %v", call, h)
			}
		}
		base := map[string]string{"first": first, "second": second}[strings.Fields(want)[0]]
		if !strings.HasPrefix(p.URL, base+"/") || has != strings.Contains(want, all) {
			t.Errorf("%s: %s %v", call, p.URL, p.Header)
		}
	}
	// Nothing is missing for an operation that needs none.
	rt = one(t, Options{Getenv: environment()}, first, ops, auth)
	if got := ask(rt, Endpoint{}, `{"operation":"open"}`); !strings.Contains(got, `"success":true`) {
		t.Error(got)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"here"}`); !strings.Contains(got, "AUTH_CREDENTIAL_MISSING") {
		t.Error(got)
	}
}

// TestCookies: the keys in cookies are in one header, and a value cannot begin another cookie.
func TestCookies(t *testing.T) {
	var got string
	base := api(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Cookie")
		say(200, "application/json", `1`)(w, r)
	}).URL
	const auth = "auth: {type: api_key, in: cookie, cookie_name: sid, key_env: A, also: [{type: api_key, in: cookie, cookie_name: csrf, key_env: B}]}"
	rt := one(t, Options{Getenv: environment("A", "first-secret-01", "B", "second secret,02")}, base, status, auth)
	if answer := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != "sid=first-secret-01; csrf=second secret,02" || !strings.Contains(answer, "true") {
		t.Errorf("%q %s", got, answer)
	}
	p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if f != nil {
		t.Fatal(f)
	}
	shown := ""
	for _, h := range p.Header {
		shown += h.Name + ": " + h.Value + "\n"
	}
	if !strings.Contains(shown, "Cookie: sid=firs...; csrf=seco...") {
		t.Error(shown)
	}
	got = ""
	rt = one(t, Options{Getenv: environment("A", "x; admin=1", "B", "y")}, base, status, auth)
	if answer := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(answer, "AUTH_CONFIG_INVALID") || got != "" || strings.Contains(answer, "admin") {
		t.Errorf("%q %s", got, answer)
	}
}

// TestMistakesInOwnPlaces shows that mistakes in these keys are reported with their path.
func TestMistakesInOwnPlaces(t *testing.T) {
	for _, c := range []struct{ auth, keys, path string }{
		{"", `base_url: "https://user:pw@x.example"`, "operations.read[0].base_url"},
		{"", `base_url: "http://x.example"`, "operations.read[0].base_url"},
		{"", `base_url: "/v2"`, "operations.read[0].base_url"},
		{"", `auth: bearer`, "operations.read[0].auth"},
		{"", `auth: {type: none}`, "operations.read[0].auth"},
		{"auth: {type: bearer, token_env: T}", `base_url: "http://insecure.example"`, "auth"},
		{"auth: {type: api_key, in: cookie, key_env: T}", ``, "auth.cookie_name"},
		{"auth: {type: api_key, in: cookie, cookie_name: 'a;b', key_env: T}", ``, "auth.cookie_name"},
		{"auth: {type: api_key, in: cookie, cookie_name: a, key_env: T, also: [{type: api_key, in: cookie, cookie_name: a, key_env: U}]}", ``, "auth.also[0]"},
	} {
		text := front("https://api.example.com", "read:\n- {name: get_status, maps_to: GET /status, description: Get the status, "+c.keys+"}", c.auth)
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{InsecureHosts: []string{"insecure.example"}})
		if a != nil || len(problems) == 0 || problems[0].Path != c.path || strings.Contains(problems[0].Received, "pw") {
			t.Errorf("%s %s: %v", c.auth, c.keys, problems)
		}
	}
	text := front("https://api.example.com", "read:\n- {name: get_status, maps_to: GET /status, description: Get the status, base_url: 'http://insecure.example', auth: none}", "auth: {type: bearer, token_env: T}")
	if a, problems := Parse("test-api-adapter.md", []byte(text), &Options{InsecureHosts: []string{"insecure.example"}}); a == nil {
		t.Error(problems)
	}
	text = strings.Replace(front("https://api.example.com", "read:\n- {name: get_status, maps_to: GET /status, description: Get the status, base_url: 'https://b.example'}"), "{base_url", "{base_url_env: U, base_url", 1)
	a, problems := Parse("test-api-adapter.md", []byte(text), &Options{Getenv: environment("U", "https://staging.example")})
	if a == nil || len(problems) != 1 || problems[0].Severity == file.Error || !strings.Contains(problems[0].Message, "is replaced, and this one is not") {
		t.Error(problems)
	}
}
