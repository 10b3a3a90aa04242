package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestScopes: the login asks for the scopes that the operations of a file need, all of them, and for no others.
func TestScopes(t *testing.T) {
	const (
		code    = `{type: oauth2, flows: {authorizationCode: {authorizationUrl: 'https://h.example.com/a', tokenUrl: 'https://h.example.com/t', scopes: {r: x, w: x, admin: x}}}}`
		both    = `{type: oauth2, flows: {clientCredentials: {tokenUrl: 'https://h.example.com/t', scopes: {r: x}}, authorizationCode: {authorizationUrl: 'https://h.example.com/a', tokenUrl: 'https://h.example.com/t', scopes: {r: x, w: x}}}}`
		differs = "operations need different scopes"
	)
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprint("s", i))
		}
		return strings.Join(list, ", ")
	}
	for name, c := range map[string]struct{ scheme, a, b, c, want, finding string }{
		"the union":                        {code, "[{o: [r]}]", "[{o: [r]}]", "[{o: [w, r]}]", "[r, w]", differs},
		"the same":                         {code, "[{o: [r]}]", "[{o: [r]}]", "[{o: [r]}]", "[r]", "-" + differs},
		"one without":                      {code, "[{o: []}]", "[{o: [r]}]", "[]", "[r]", differs},
		"none":                             {code, "[{o: []}]", "[{o: []}]", "[]", "", "-" + differs},
		"one of two":                       {code, "[{o: [w]}, {o: [r]}]", "[{o: [r]}]", "[{o: [admin]}, {o: [r]}]", "[r]", ""},
		"more than most need":              {code, "[{o: [r]}, {k: []}]", "[{o: [admin]}, {k: []}]", "[{o: [w]}]", "", ""}, // the key is simpler
		"those of another scheme":          {code, "[{o: [r]}]", "[{o: [r]}]", "[{p: [w]}]", "[r]", "some operations authenticate in another way"},
		"a scope of another flow":          {both, "[{o: [r]}]", "[{o: [w]}]", "[{o: [r]}]", "[r]", `the scope "w" is of another flow`},
		"a scope that no flow has":         {code, "[{o: [r]}]", "[{o: [other]}]", "[{o: [r]}]", "[r, other]", "-of another flow"},
		"several schemes":                  {code, "[{o: [r], k: []}]", "[{k: [], o: [w]}]", "[{o: [r], k: []}]", "[r, w]", differs},
		"more scopes than can be asked of": {code, "[{o: [" + many(300) + "]}]", "[{o: [r]}]", "[{o: [r]}]", "s199]", "more than 200 scopes"},
	} {
		t.Run(name, func(t *testing.T) {
			op := func(id, security string) string {
				return id + ": {get: {operationId: get" + id[1:] + ", security: " + security + "}}"
			}
			text := strings.Replace(document(op("/a", c.a)+", "+op("/b", c.b)+", "+op("/c", c.c), ""), "components: {", "components: {securitySchemes: {o: "+c.scheme+", p: "+code+", k: {type: apiKey, in: header, name: X-Key}}, ", 1)
			in := importOf(t, text)
			_, list, found := strings.Cut(string(in.Files[0].Front()), "  scopes: ")
			list, _, _ = strings.Cut(list, "\n")
			if found != (c.want != "") || !strings.HasSuffix(list, c.want) {
				t.Errorf("scopes: %s, want %s", list, c.want)
			}
			var all []string
			for _, f := range in.Findings {
				all = append(all, f.What)
			}
			without, absent := strings.CutPrefix(c.finding, "-")
			if strings.Contains(strings.Join(all, "\n"), without) == absent && c.finding != "" {
				t.Errorf("findings %q, want %s", all, c.finding)
			}
		})
	}
}

// TestScopesOfEachFile: of a document that becomes several files, each asks for what its own operations need.
func TestScopesOfEachFile(t *testing.T) {
	text := document(`/a/x: {get: {security: [{o: [r]}]}}, /b/x: {get: {security: [{o: [w]}]}}, /c/x: {get: {}}`, "")
	text = strings.Replace(text, "components: {", "components: {securitySchemes: {o: {type: oauth2, flows: {clientCredentials: {tokenUrl: 'https://h.example.com/t', scopes: {r: x, w: x}}}}}, ", 1)
	in, err := parse(t, "d", []byte(text), "").Import(openapi.Options{Split: openapi.SplitPath})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"scopes: [r]\n", "scopes: [w]\n", "type: none\n"} {
		if !strings.Contains(string(in.Files[i].Front()), want) {
			t.Errorf("no %s in\n%s", want, in.Files[i].Front())
		}
	}
}

// TestTheAdviceForARelativeServerHasItsPath: what the message says can be given as it is, but for the host. Where the document tells the
// host, it is used.
func TestTheAdviceForARelativeServerHasItsPath(t *testing.T) {
	const swagger = `{"swagger":"2.0","info":{"title":"T","version":"1"},"basePath":%q,"paths":{"/a":{"get":{"operationId":"get_a"}}}}`
	const open = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"servers":[{"url":%q}],"paths":{"/a":{"get":{"operationId":"get_a"}}}}`
	const file, fetched = "api.json", "https://docs.example.com/specs/v3/api.json"
	for _, c := range []struct {
		document, name, server string
		refused                bool
		want                   string
	}{
		{open, file, "/api/v3", true, "https://HOST/api/v3"},
		{open, file, "/api/v3/", true, "https://HOST/api/v3"},
		{open, file, "api", true, "https://HOST/api"},
		{open, file, "./api", true, "https://HOST/api"},
		{open, file, "/", true, "https://HOST"},
		{open, file, "/a%20b", true, "https://HOST/a%20b"},
		{open, file, "api.example.com/v1", true, "https://api.example.com/v1"},
		{swagger, file, "/api/v3", true, "https://HOST/api/v3"},
		{open, file, "//api.example.com/v1", false, "https://api.example.com/v1"},
		{open, fetched, "/api/v3", false, "https://docs.example.com/api/v3"},
		{open, fetched, "../v4", false, "https://docs.example.com/specs/v4"},
		{open, fetched, "//api.example.com/v1", false, "https://api.example.com/v1"},
		{swagger, fetched, "/api/v3", false, "https://docs.example.com/api/v3"},
	} {
		d, err := openapi.Read(c.name, fmt.Appendf(nil, c.document, c.server), nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Import(openapi.Options{Name: "some-api"})
		switch {
		case c.refused && (err == nil || !strings.HasSuffix(err.Error(), "give --server "+c.want)):
			t.Errorf("%s in %s: got %v, want %s", c.server, c.name, err, c.want)
		case !c.refused && (err != nil || !strings.Contains(string(in.Files[0].Front()), `base_url: "`+c.want+`"`)):
			t.Errorf("%s in %s: got %v, want %s", c.server, c.name, err, c.want)
		}
	}
}

// TestTheAdviceForAServerWithoutTLS has the same server with https, and the one without.
func TestTheAdviceForAServerWithoutTLS(t *testing.T) {
	d := parse(t, "api.json", []byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"servers":[{"url":"http://api.example.com/v1"}],"paths":{"/a":{"get":{"operationId":"get_a"}}}}`), "")
	if _, err := d.Import(openapi.Options{Name: "some-api"}); err == nil || !strings.Contains(err.Error(), "give --server https://api.example.com/v1, or") {
		t.Error(err)
	}
}
