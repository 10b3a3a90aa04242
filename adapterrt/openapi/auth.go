package openapi

import (
	"fmt"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// authWords are the ways to authenticate that need no security scheme of the document.
const authWords = "none, bearer, basic, header:NAME or query:NAME"

// chosenAuth returns the auth block that a person has chosen: one of the document's security schemes, several of them joined by
// commas, or one of authWords. "" leaves the choice to the document.
func (d *Document) chosenAuth(opt *Options, ops []*rawOperation) (auth, error) {
	want := opt.Auth
	if want == "" {
		return d.auth(opt.Name, ops), nil
	}
	var list []auth
	for _, key := range distinct(strings.Split(want, ","), itself) {
		a, err := d.namedAuth(opt.Name, strings.TrimSpace(key), ops)
		if err != nil {
			if opt.recorded { // the document has renamed it; the file keeps its auth block
				return d.auth(opt.Name, ops), nil
			}
			return auth{}, fmt.Errorf("--auth %s: %w", short(want), err)
		}
		list = append(list, a)
	}
	a, bad := joined(list)
	if bad {
		return auth{}, fmt.Errorf("--auth %s: two credentials in one place, or two of OAuth", short(want))
	}
	return a, nil
}

// namedAuth returns one way to authenticate.
func (d *Document) namedAuth(name, want string, ops []*rawOperation) (auth, error) {
	all := d.schemes()
	if all.get(want) != nil {
		a, _, err := d.scheme(name, want, scopesFor(ops, want))
		return a, err
	}
	kind, where, _ := strings.Cut(want, ":")
	switch {
	case want == "none":
		return auth{kind: "none"}, nil
	case want == "bearer":
		return bearer(name), nil
	case want == "basic":
		return basic(name), nil
	case kind == "header" && file.IsCredentialHeader(where), kind == "query" && where != "":
		a, _, err := d.schemeOf(name, want, object(nil, "type", text("apiKey"), "in", text(kind), "name", text(where)), nil)
		return a, err
	}
	var names []string
	if all.is(wire.Object) {
		names = all.keys
	}
	meant := ""
	if list := near.Names(want, names, 3); len(list) > 0 {
		meant = "; did you mean " + strings.Join(list, " or ") + "?"
	}
	there := "it has none"
	if len(names) > 0 {
		there = "it has " + short(strings.Join(names, ", "))
	}
	return auth{}, fmt.Errorf("the document has no security scheme of this name%s (%s; without one: %s)", meant, there, authWords)
}

// scopesFor returns the scopes of a scheme that the operations need which may be called with it.
func scopesFor(ops []*rawOperation, scheme string) []string {
	var out []string
	for _, op := range ops {
		for _, a := range op.security.elements() {
			if a.get(scheme) != nil {
				out = append(out, a.strs(scheme)...)
				break // one alternative is enough
			}
		}
	}
	return distinct(out, itself)
}
