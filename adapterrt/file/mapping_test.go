package file

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzMapping shows that the literal parts of an accepted maps_to are only a path: they change
// no host and begin no query or fragment.
func FuzzMapping(f *testing.F) {
	for _, s := range []string{"GET /a/{b}?c={d}", "POST /%2e%2e/x", "DELETE /{a}{b}.x", "get  /é?=&&", "GET /{a{b}}", "PUT /a?b={", "PATCH /\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		m, err := parseMapping(in)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, seg := range m.Segments {
			b.WriteByte('/')
			for _, p := range seg {
				b.WriteString(p.Literal)
			}
		}
		u, err := url.Parse("https://h" + b.String())
		if err != nil || u.Host != "h" || u.RawQuery != "" || u.Fragment != "" || u.EscapedPath() != b.String() {
			t.Errorf("%q makes %q: %v", in, b.String(), err)
		}
	})
}

func TestVersionsAreSemVer(t *testing.T) {
	for _, v := range []string{"0.0.0", "1.2.3-alpha.1", "1.2.3-RC.1+Build.5", "1.0.0-x-y-z.--"} {
		if !semVer().MatchString(v) {
			t.Error(v, "refused")
		}
	}
}

func TestMappings(t *testing.T) {
	for _, bad := range []string{"", "GET", "GET/", "GET x", "OPTIONS /", "GET /a b", "GET /#x", "GET /{a", "GET /a}", "GET /{a{b}}", "GET /{}", "GET /{1}",
		"GET /a/../b", "GET /./b", "GET /%2e%2E/b", "GET /%zz", "GET /%00", "GET /?{a}=1", "GET /\u2028", "GET\t/a", "GET /?a={"} {
		if _, err := parseMapping(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
	m, err := parseMapping("patch   /a/{b}.json/{c}{d}/名?x=1&y={e}&flag&z=")
	if err != nil {
		t.Fatal(err)
	}
	if m.Method != "PATCH" || !slices.Equal(m.Names, []string{"b", "c", "d", "e"}) || len(m.Query) != 4 || m.Segments[3][0].Literal != "%E5%90%8D" {
		t.Errorf("%+v", m)
	}
}
