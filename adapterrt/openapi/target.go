package openapi

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// target is where an adapter's API is, and how it authenticates.
type target struct {
	url  string // base_url
	env  string // base_url_env
	vars map[string]string
	auth auth

	choices *choices
	given   bool // by a person, as a URL
}

// slot is a place in a request: query api_key, header X-Api-Key, cookie session.
type slot struct{ in, name string }

// slotOf returns the place of a parameter. The case of a header's name does not count.
func slotOf(in, name string) slot {
	if in == "header" {
		name = strings.ToLower(name)
	}
	return slot{in, name}
}

// auth is the auth block of a file.
type auth struct {
	kind     string // none, bearer, api_key, basic, oauth
	members  []pair // further members, in order
	header   string // which it sets
	query    string
	cookie   string
	also     []auth
	scopesOf func(*rawOperation) []string // those that an operation needs; nil if all need the same
	schemes  []string                     // of the document, that it is made of
	covered  []slot                       // parameters that are left out because this sends the credential
	fewer    bool                         // fewer than half of the operations need it
	findings []Finding
}

// sets reports whether a credential is sent in the header, query parameter or cookie of that name.
func (t *target) sets(header, query, cookie string) bool {
	return slices.ContainsFunc(append([]auth{t.auth}, t.auth.also...), func(a auth) bool {
		return header != "" && strings.EqualFold(a.header, header) || query != "" && a.query == query || cookie != "" && a.cookie == cookie
	})
}

// envName returns the name of an environment variable for an adapter.
func envName(adapter, what string) string {
	return strings.ToUpper(strings.ReplaceAll(adapter, "-", "_")) + "_" + what
}

// schemesOf returns the names of the schemes of one alternative.
func schemesOf(alternative *node) string {
	return strings.Join(slices.Sorted(slices.Values(alternative.keys)), "\n")
}

// maxScopes is how many scopes are asked for.
const maxScopes = 200

// scopes returns the scopes of a scheme that the operations need which can be called with an alternative's schemes: the
// union. Of several requirements that have the same schemes, one is enough. differ says that they need not all the same.
func scopes(ops []*rawOperation, alternative *node, scheme string) (out []string, differ bool) {
	there := map[string]bool{}
	add := func(list []string) {
		for _, s := range list {
			if !there[s] {
				there[s] = true
				out = append(out, s)
			}
		}
	}
	missing := func(list []string) (n int) {
		for _, s := range list {
			if !there[s] {
				n++
			}
		}
		return n
	}
	wanted, sets := schemesOf(alternative), map[string]bool{}
	var either [][][]string
	for _, op := range ops {
		var ways [][]string
		for _, a := range op.security.elements() {
			if a.is(wire.Object) && schemesOf(a) == wanted {
				ways = append(ways, a.strs(scheme))
			}
		}
		if len(ways) > 0 {
			sets[strings.Join(ways[0], "\n")] = true
		}
		if len(ways) == 1 {
			add(ways[0])
		} else if len(ways) > 1 {
			either = append(either, ways)
		}
	}
	for _, ways := range either {
		add(slices.MinFunc(ways, func(a, b []string) int { return missing(a) - missing(b) }))
	}
	return out, len(sets) > 1
}

// auth decides how the adapter authenticates: as most of the operations want it.
func (d *Document) auth(name string, ops []*rawOperation) auth {
	none := auth{kind: "none"}
	count := map[string]int{}
	var best *node
	most := 0
	for _, op := range ops {
		if !op.security.is(wire.Array) || len(op.security.kids) == 0 {
			continue
		}
		if op.anonymous() {
			continue
		}
		var ways []string // not which scopes, which only add up
		for _, a := range op.security.kids {
			ways = append(ways, schemesOf(a))
		}
		key := strings.Join(distinct(ways, itself), "\n\n")
		if count[key]++; count[key] > most {
			best, most = op.security, count[key]
		}
	}
	if best == nil {
		none.note("the document does not say how to authenticate", "add an auth block, if the API needs one")
		return none
	}
	type choice struct {
		auths   []auth
		schemes []string
		rank    int
	}
	var choices []choice
	var refused []string
	for _, alternative := range best.kids {
		if !alternative.is(wire.Object) || len(alternative.keys) == 0 {
			continue
		}
		c := choice{schemes: alternative.keys}
		for _, scheme := range alternative.keys {
			list, differ := scopes(ops, alternative, scheme)
			a, rank, err := d.scheme(name, scheme, list)
			if isOAuth(a) > 0 && differ {
				a.note("operations need different scopes: the login asks for those of all", "remove from auth.scopes what is seldom used: an operation that needs more then asks for it")
				a.scopesOf = func(op *rawOperation) []string { return scopesOf(op, alternative, scheme, list) }
			}
			if err != nil {
				refused = append(refused, err.Error())
				c.auths = nil
				break
			}
			c.auths = append(c.auths, a)
			c.rank = max(c.rank, rank)
		}
		if len(c.auths) > 0 {
			choices = append(choices, c)
		}
	}
	const others, where = "some operations authenticate in another way", "see security in the document"
	if len(choices) == 0 {
		none.note("its authentication is not supported: "+short(strings.Join(refused, "; ")), "add an auth block by hand")
		if len(count) > 1 {
			none.note(others, where)
		}
		return none
	}
	c := slices.MinFunc(choices, func(a, b choice) int { return a.rank - b.rank })
	a, alike := joined(c.auths)
	a.schemes = c.schemes
	if alike {
		a.note("two credentials in one place, or two of OAuth", "check the auth block")
	}
	if len(count) > 1 {
		a.note(others, where)
	}
	return a
}

// joined makes one auth block of credentials that are sent together. alike says that some are left out, because others are sent
// in their places.
func joined(list []auth) (a auth, alike bool) {
	slices.SortStableFunc(list, func(a, b auth) int { return isOAuth(b) - isOAuth(a) }) // it must be the first
	a = list[0]
	for _, b := range list[1:] {
		t := target{auth: a}
		if isOAuth(b) > 0 || t.sets(b.header, b.query, b.cookie) {
			alike = true
			continue
		}
		if b.kind == a.kind {
			b = b.renamed(len(a.also) + 2)
		}
		a.also = append(a.also, b)
	}
	return a, alike
}

// scopesOf returns the scopes that an operation needs, of those that the login asks for.
func scopesOf(op *rawOperation, alternative *node, scheme string, all []string) (least []string) {
	found := false
	for _, a := range op.security.elements() {
		if !a.is(wire.Object) || schemesOf(a) != schemesOf(alternative) {
			continue
		}
		way := distinct(a.strs(scheme), itself)
		if within := !slices.ContainsFunc(way, func(s string) bool { return !slices.Contains(all, s) }); within && (!found || len(way) < len(least)) {
			least, found = way, true
		}
	}
	return least
}

// anonymous reports whether the document says that an operation needs no credential: security is an empty list, or one that has
// only the empty alternative. An operation of which nothing is said is not anonymous, because many documents forget to say it.
func (op *rawOperation) anonymous() bool {
	if !op.security.is(wire.Array) {
		return false
	}
	return !slices.ContainsFunc(op.security.kids, func(a *node) bool { return !a.is(wire.Object) || len(a.keys) > 0 })
}

func isOAuth(a auth) int {
	if a.kind == "oauth" {
		return 1
	}
	return 0
}

// renamed returns a second credential of the same kind, with variables of its own.
func (a auth) renamed(i int) auth {
	a.members = slices.Clone(a.members)
	for k := range a.members {
		if strings.HasSuffix(a.members[k].key, "_env") {
			a.members[k].value += "_" + strconv.Itoa(i)
		}
	}
	return a
}

func (a *auth) note(what, do string) {
	if slices.ContainsFunc(a.findings, func(f Finding) bool { return f.What == what }) || len(a.findings) == maxFindings {
		return
	}
	a.findings = append(a.findings, Finding{Class: Guessed, What: what, Do: do})
}

// schemes returns the document's security schemes by name.
func (d *Document) schemes() *node {
	s := d.root.get("components").get("securitySchemes")
	if d.swagger {
		s = d.root.get("securityDefinitions")
	}
	s, _ = d.follow(s)
	return s
}

// scheme makes the auth block of one security scheme. rank is the order in which
// alternatives are preferred.
func (d *Document) scheme(name, key string, scopes []string) (a auth, rank int, err error) {
	s, _ := d.follow(d.schemes().get(key))
	return d.schemeOf(name, key, s, scopes)
}

// schemeOf is scheme for a scheme that is read already.
func (d *Document) schemeOf(name, key string, s *node, scopes []string) (a auth, rank int, err error) {
	switch kind := s.str("type"); kind {
	case "http":
		switch scheme := strings.ToLower(s.str("scheme")); scheme {
		case "bearer":
			return bearer(name), 0, nil
		case "basic":
			return basic(name), 2, nil
		default:
			return a, 0, fmt.Errorf("HTTP scheme %s", quoted(scheme))
		}
	case "basic":
		return basic(name), 2, nil
	case "apiKey":
		where := s.str("name")
		a = auth{kind: "api_key"}
		switch s.str("in") {
		case "header":
			if strings.EqualFold(where, "authorization") {
				info := d.root.get("info")
				if service := cmp.Or(info.str("x-aws-signingName"), info.str("x-serviceName")); strings.EqualFold(s.str("x-amazon-apigateway-authtype"), "awsSigv4") && awsName().MatchString(service) {
					return signature(name, service), 1, nil
				}
				a = bearer(name)
				a.members = append(a.members, pair{"prefix", `""`})
				a.note("the key is the whole Authorization header", `set auth.prefix, if the API wants a word such as "Bearer " before it`)
				return a, 1, nil
			}
			a.header = where
			a.members = []pair{{"header_name", scalar(where)}, {"key_env", envName(name, "KEY")}}
			return a, 1, nil
		case "query":
			a.query = where
			a.members = []pair{{"in", "query"}, {"query_name", scalar(where)}, {"key_env", envName(name, "KEY")}}
			return a, 3, nil
		case "cookie":
			if !file.IsToken(where) {
				return a, 0, fmt.Errorf("a cookie called %s", quoted(where))
			}
			a.cookie = where
			a.members = []pair{{"in", "cookie"}, {"cookie_name", scalar(where)}, {"key_env", envName(name, "KEY")}}
			return a, 6, nil // the last choice: a session's cookie ends with the session
		}
		return a, 0, fmt.Errorf("a key in a %s", short(s.str("in")))
	case "oauth2":
		a, err = d.oauth(name, s, scopes)
		return a, 4, err
	case "openIdConnect":
		a = bearer(name)
		a.note("the API uses OpenID Connect", "put a token into the variable, or write an auth block of type oauth")
		return a, 5, nil
	case "":
		return a, 0, fmt.Errorf("the security scheme %s is not defined", quoted(key))
	default:
		return a, 0, fmt.Errorf("the scheme %s", quoted(kind))
	}
}

func bearer(name string) auth {
	return auth{kind: "bearer", header: "Authorization", members: []pair{{"token_env", envName(name, "TOKEN")}}}
}

func basic(name string) auth {
	return auth{kind: "basic", header: "Authorization", members: []pair{{"username_env", envName(name, "USERNAME")}, {"password_env", envName(name, "PASSWORD")}}}
}

// awsName is what the names of Amazon's services consist of.
var awsName = pattern.Later(`^[a-z0-9][a-z0-9-]{0,62}$`)

// signature returns the auth block of a service of Amazon's, without its region.
func signature(name, service string) auth {
	return auth{kind: "aws-sig4", header: "Authorization", members: []pair{
		{"service", scalar(service)}, {"access_key_id_env", envName(name, "ACCESS_KEY_ID")}, {"secret_access_key_env", envName(name, "SECRET_ACCESS_KEY")},
	}}
}

// oauth makes an auth block of the flows of an OAuth scheme. For flows that are only for
// browsers or for passwords, it is a token in a variable.
func (d *Document) oauth(name string, s *node, scopes []string) (auth, error) {
	flows := s.get("flows")
	if d.swagger {
		key := map[string]string{"application": "clientCredentials", "accessCode": "authorizationCode"}[s.str("flow")]
		flows = object(s, cmp.Or(key, "other"), s)
	}
	a := auth{kind: "oauth", header: "Authorization"}
	add := func(key, value string) { a.members = append(a.members, pair{key, value}) }
	client := func(flow *node) {
		var list []string
		for _, scope := range scopes {
			if elsewhere := flows.offers(scope); elsewhere && !object(nil, "flow", flow).offers(scope) {
				a.note("the scope "+quoted(scope)+" is of another flow", "add it to auth.scopes, if the login may ask for it")
			} else if len(list) < maxScopes {
				list = append(list, scalar(scope))
			} else {
				a.note("more than 200 scopes", "see security in the document")
			}
		}
		add("client_id_env", envName(name, "CLIENT_ID"))
		add("client_secret_env", envName(name, "CLIENT_SECRET"))
		if len(list) > 0 {
			add("scopes", "["+strings.Join(list, ", ")+"]")
		}
	}
	if f := flows.get("clientCredentials"); isHTTPS(f.str("tokenUrl")) {
		add("grant", "client_credentials")
		add("token_url", quote(f.str("tokenUrl")))
		client(f)
		return a, nil
	}
	if f := flows.get("authorizationCode"); isHTTPS(f.str("tokenUrl")) && isHTTPS(f.str("authorizationUrl")) {
		add("grant", "authorization_code")
		add("authorization_url", quote(f.str("authorizationUrl")))
		add("token_url", quote(f.str("tokenUrl")))
		client(f)
		a.note("a person logs in", "run dragoman adapter login")
		return a, nil
	}
	a = bearer(name)
	a.note("the document has no OAuth flow that dragoman supports", "put a token into the variable")
	return a, nil
}

// offers reports whether one of the flows has a scope.
func (n *node) offers(scope string) bool {
	if !n.is(wire.Object) {
		return false
	}
	return slices.ContainsFunc(n.kids, func(flow *node) bool { return flow.get("scopes").get(scope) != nil })
}

func isHTTPS(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == "" && !strings.ContainsAny(s, " {}$")
}
