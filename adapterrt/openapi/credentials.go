package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Many documents describe a credential as a parameter of each operation, with security schemes or without them. A model has no
// credential, so that such a parameter becomes a part of auth, or is left out if auth sends the credential in another place.

// likeness says how surely a parameter is a credential.
type likeness uint8

const (
	unlike  likeness = iota
	perhaps          // if most operations have it
	surely
)

// The names of credentials, in lower case and without dashes and underscores: those that say it alone, those that need a description
// that does, and the last words of names of headers.
var (
	sureNames = []string{"apikey", "accesstoken", "authtoken", "apitoken", "xapikey", "xaccesstoken", "xauthtoken", "xapitoken", "oauthtoken", "accesskey",
		"apisecret", "clientsecret", "secretkey", "subscriptionkey", "authkey", "apiaccesskey", "privatetoken", "bearertoken", "jwt", "jwttoken", "usertoken", "idtoken"}
	describedNames = []string{"key", "token", "appid", "appkey", "applicationkey", "userkey", "auth", "authorization", "secret", "signature", "xtoken", "xauth",
		"apiuser", "authemail", "xauthemail", "sessiontoken", "sessionkey", "sessionid", "session", "clientid", "developerkey", "partnerkey"}
	headerEnds  = []string{"apikey", "apitoken", "accesstoken", "authtoken", "apisecret", "secretkey", "subscriptionkey", "authkey", "accesskey", "applicationkey", "token", "authorization"}
	otherTokens = []string{"page", "next", "continuation", "csrf", "xsrf", "device", "sync", "refresh", "push", "captcha", "cursor", "idempoten", "confirm", "upload", "resume", "client", "request", "lock", "change"}
	cookieParts = []string{"session", "sid", "auth", "token", "jwt", "sess"}
)

// signatureHeaders are those of Amazon's signatures, of which each request needs another one.
var signatureHeaders = []string{"x-amz-content-sha256", "x-amz-date", "x-amz-algorithm", "x-amz-credential", "x-amz-security-token", "x-amz-signature", "x-amz-signedheaders"}

// saysCredential matches descriptions of credentials.
var saysCredential = pattern.Later(`(?i)api[ _-]?key|access[ _-]?(key|token)|api[ _-]?token|auth\w*[ _-]?(token|key|header)|bearer|credential|\bjwt\b|oauth|authenticat|your (own )?(secret|token|key)|(developer|application|app|user|secret|session|private)[ _-]?(key|token|id\b)`)

// folded returns a name in lower case and without dashes, underscores and points.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// likeness returns how surely a parameter is a credential.
func (p *rawParam) likeness() likeness {
	if t := p.schema.str("type"); t != "" && t != "string" || p.schema.get("enum") != nil || p.schema.get("$ref") != nil && p.in != "header" && p.in != "cookie" {
		return unlike
	}
	name := folded(p.name)
	described := func() bool { // of few parameters it is asked
		return saysCredential().MatchString(p.description + " " + p.schema.str("description") + " " + p.schema.str("title"))
	}
	has := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(name, s) })
	}
	switch p.in {
	case "header":
		switch {
		case name == "authorization" || slices.Contains(sureNames, name):
			return surely
		case has(otherTokens):
			return unlike
		case slices.ContainsFunc(headerEnds, func(s string) bool { return strings.HasSuffix(name, s) }):
			if strings.HasPrefix(name, "x") || name != "token" || described() {
				return surely
			}
			return perhaps
		}
	case "cookie":
		if has(cookieParts) && !has(otherTokens) {
			return surely
		}
		return unlike
	case "query", "body":
		if slices.Contains(sureNames, name) {
			return surely
		}
	default:
		return unlike
	}
	if slices.Contains(describedNames, name) && described() {
		return perhaps
	}
	return unlike
}

// concernsTokens reports whether an operation is about tokens itself, as those of OAuth and logins are: then a token in its query is what
// it works on.
func (op *rawOperation) concernsTokens() bool {
	path := strings.ToLower(op.path)
	words := []string{"oauth", "token", "introspect", "revoke", "login", "logout", "authorize", "signin", "session"}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(path, word) })
}

// found is a credential among the parameters of operations.
type found struct {
	slot
	param    *rawParam // the first
	count    int       // operations that have it
	required int
	like     likeness
	declared bool // as a security scheme
	usual    bool // half of the operations have something of this name, in any place
}

// credentials returns the parameters of operations that are credentials, the likeliest to be the API's usual one first.
func (d *Document) credentials(ops []*rawOperation) (out []*found) {
	declared := map[slot]bool{}
	if all := d.schemes(); all.is(wire.Object) {
		for _, s := range all.kids {
			if s, _ = d.follow(s); s.str("type") == "apiKey" {
				declared[slotOf(s.str("in"), s.str("name"))] = true
			}
		}
	}
	at := map[slot]*found{}
	named := map[string]int{} // operations that have something of this name, in any place
	for _, op := range ops {
		names := map[string]bool{}
		if op.body != nil && len(op.body.content) > 0 {
			if props := op.body.content[0].schema.get("properties"); props.is(wire.Object) {
				for _, name := range props.keys {
					names[folded(name)] = true
				}
			}
		}
		for _, p := range op.params {
			names[folded(p.name)] = true
		}
		for name := range names {
			named[name]++
		}
		for _, p := range op.params {
			s := slotOf(p.in, p.name)
			like := p.likeness()
			if declared[s] {
				like = surely
			}
			if like == unlike || p.in == "query" && !declared[s] && op.concernsTokens() {
				continue
			}
			f := at[s]
			if f == nil {
				f = &found{slot: slot{p.in, p.name}, param: p, like: like, declared: declared[s]}
				at[s] = f
				out = append(out, f)
			}
			if f.count++; p.required {
				f.required++
			}
		}
	}
	for _, f := range out {
		f.usual = 2*named[folded(f.name)] >= len(ops)
	}
	out = slices.DeleteFunc(out, func(f *found) bool { return f.like == perhaps && !f.usual })
	order := map[string]int{"header": 0, "query": 1, "cookie": 2}
	slices.SortStableFunc(out, func(a, b *found) int {
		return cmp.Or(b.required-a.required, b.count-a.count, order[a.in]-order[b.in])
	})
	return out
}

// bears reports whether the credential is a token that is sent in the Authorization header.
func (a *auth) bears() bool { return a.kind == "bearer" || a.kind == "oauth" }

// isToken reports whether a credential's name is that of a token, which an Authorization header has as well.
func (f *found) isToken() bool {
	n := folded(f.name)
	return strings.Contains(n, "token") || strings.HasSuffix(n, "authorization") || n == "jwt" || n == "auth"
}

// isKeptBy reports whether a file that is updated has the credential as a parameter of its operations, and not in its auth, which is the
// person's: left out, nothing would send it any more.
func (f *found) isKeptBy(mine *file.Adapter) bool {
	if mine == nil {
		return false
	}
	place, there := map[string]file.Place{"header": file.InHeader, "query": file.InQuery}[f.in]
	if !there || slices.ContainsFunc(mine.Auth.Schemes(), func(s file.Scheme) bool {
		return f.in == "header" && strings.EqualFold(s.Header, f.name) || f.in == "query" && s.Query == f.name
	}) {
		return false
	}
	n := 0
	for _, op := range mine.Operations {
		if slices.ContainsFunc(op.Params, func(p *file.Param) bool { return p.Place == place && slotOf(f.in, p.Wire) == slotOf(f.in, f.name) }) {
			n++
		}
	}
	return 2*n >= f.count
}

// withParameters returns what a file's auth is when the parameters of its operations that are credentials are a part of it. mine is the
// file, if it is updated.
func (d *Document) withParameters(name string, ops []*rawOperation, a auth, mine *file.Adapter) auth {
	all := d.credentials(ops)
	all = slices.DeleteFunc(all, func(f *found) bool {
		kept := f.isKeptBy(mine)
		if kept {
			a.note("models are asked for a credential: the "+f.in+" parameter "+short(f.name), "add it to auth of the file, and update it again")
		}
		return kept
	})
	all = slices.DeleteFunc(all, func(f *found) bool { return slices.Contains(signatureHeaders, strings.ToLower(f.name)) })
	if len(all) == 0 {
		return a
	}
	at := func(f *found) bool {
		t := target{auth: a}
		return t.sets(map[string]string{"header": f.name}[f.in], map[string]string{"query": f.name}[f.in], map[string]string{"cookie": f.name}[f.in])
	}
	if a.kind == "none" && len(a.also) == 0 {
		first := all[0]
		said := a.findings
		made, ok := first.auth(name)
		if !ok {
			return a
		}
		a = made
		a.fewer = 2*first.count < len(ops)
		a.note("the credential is described as the "+first.in+" parameter "+short(first.name), "check the auth block")
		if d.schemes() == nil { // else it says what is not supported, or is not used
			said = nil
		}
		a.findings = append(said, a.findings...)
		for _, f := range all[1:] { // further ones that the operations need beside the first
			if b, ok := f.auth(name); ok && 2*f.required >= first.required && f.required > 0 && !at(f) && !(f.isToken() && first.isToken() && !f.declared) && len(a.also) < maxAlso {
				a.add(b, f)
			}
		}
	} else {
		for _, f := range all {
			if at(f) || 2*f.required < len(ops) || a.bears() && f.isToken() && !f.declared || len(a.also) == maxAlso {
				continue
			}
			if b, ok := f.auth(name); ok {
				a.add(b, f)
				a.note("the operations also need the "+f.in+" parameter "+short(f.name)+", which is a credential", "check auth.also")
			}
		}
	}
	for _, f := range all {
		if at(f) || f.in == "header" && strings.EqualFold(f.name, "Authorization") {
			continue
		}
		if few := 2*f.count < len(ops); few && !f.declared && !a.fewer && !(a.bears() && f.isToken()) { // it may be what these operations work on
			continue
		}
		if a.covered = append(a.covered, slotOf(f.in, f.name)); f.usual {
			a.covered = append(a.covered, slot{"body", folded(f.name)})
		}
		a.note("the "+f.in+" parameter "+short(f.name)+" is taken for the credential, and left out", "add it by hand, if it is something else")
	}
	return a
}

// maxAlso is the largest number of further credentials of an adapter file.
const maxAlso = 16

// add adds a further credential, with variables of its own.
func (a *auth) add(b auth, f *found) {
	suffix := strings.ToUpper(snake(strings.TrimPrefix(strings.ToLower(f.name), "x-")))
	b.members = slices.Clone(b.members)
	for k := range b.members {
		if strings.HasSuffix(b.members[k].key, "_env") {
			b.members[k].value = b.members[k].value[:strings.LastIndexByte(b.members[k].value, '_')+1] + suffix
		}
	}
	a.also = append(a.also, b)
}

// auth returns the auth block for a credential.
func (f *found) auth(name string) (auth, bool) {
	if f.in == "header" && strings.EqualFold(f.name, "Authorization") {
		says := strings.ToLower(f.param.description + " " + f.param.schema.str("description") + " " + f.param.schema.str("pattern"))
		for _, e := range append(slices.Clone(f.param.examples), f.param.schema.get("example"), f.param.schema.get("default")) {
			if e.is(wire.String) {
				says += " " + strings.ToLower(e.text)
			}
		}
		switch {
		case strings.Contains(says, "basic") && !strings.Contains(says, "bearer"):
			return basic(name), true
		case strings.Contains(says, "bearer"), strings.Contains(says, "jwt"), strings.Contains(says, "oauth"), strings.Contains(says, "access token"):
			return bearer(name), true
		}
		a := bearer(name)
		a.members = append(a.members, pair{"prefix", `""`})
		a.note("the key is the whole Authorization header", `set auth.prefix, if the API wants a word such as "Bearer " before it`)
		return a, true
	}
	a := auth{kind: "api_key"}
	switch {
	case f.in == "header" && file.IsCredentialHeader(f.name):
		a.header = f.name
		a.members = []pair{{"header_name", scalar(f.name)}}
	case f.in == "query" && f.name != "":
		a.query = f.name
		a.members = []pair{{"in", "query"}, {"query_name", scalar(f.name)}}
	case f.in == "cookie" && file.IsToken(f.name):
		a.cookie = f.name
		a.members = []pair{{"in", "cookie"}, {"cookie_name", scalar(f.name)}}
	default:
		return a, false
	}
	a.members = append(a.members, pair{"key_env", envName(name, "KEY")})
	return a, true
}

// carries reports whether a parameter of an operation is a credential that auth sends, in this place or in another one.
func (t *target) carries(of *rawOperation, p *rawParam) bool {
	s := slotOf(p.in, p.name)
	switch p.in {
	case "header":
		if slices.Contains(signatureHeaders, s.name) {
			return true
		}
		return t.sets(p.name, "", "") || slices.Contains(t.auth.covered, s)
	case "query":
		return t.sets("", p.name, "") || slices.Contains(t.auth.covered, s) && !of.concernsTokens()
	case "cookie":
		return t.sets("", "", p.name) || slices.Contains(t.auth.covered, s)
	}
	return false
}

// isWithout reports whether an operation has none of the parameters that are the file's credential, in a file of which only a few have.
func (t *target) isWithout(op *rawOperation) bool {
	return t.auth.fewer && op.security == nil && !slices.ContainsFunc(op.params, func(p *rawParam) bool { return t.carries(op, p) }) && !slices.ContainsFunc(op.params, func(p *rawParam) bool {
		return p.in == "header" && strings.EqualFold(p.name, "Authorization")
	})
}

// bodyCredentials leaves members of a body out that are the token or the key which other operations have as a parameter, as forms of some
// APIs have it. What else looks like a credential is sensitive.
func (m *mapper) bodyCredentials() {
	m.op.params = slices.DeleteFunc(m.op.params, func(p *param) bool {
		raw := &rawParam{name: p.wire, in: p.in, description: p.description, schema: object(nil, "type", text(p.typ))}
		if p.in != "body" || m.op.request.from == p.name || raw.likeness() == unlike || m.raw.concernsTokens() {
			return false
		}
		same := func(name string) bool { return name != "" && folded(name) == folded(p.wire) }
		a := &m.base.auth
		if slices.Contains(a.covered, slot{"body", folded(p.wire)}) || slices.ContainsFunc(append([]auth{*a}, a.also...), func(b auth) bool { return same(b.query) || same(b.header) }) {
			m.find(Guessed, "the member "+short(p.wire)+" of the body is taken for the credential, and left out", "add it by hand, if it is something else")
			return true
		}
		p.sensitive = p.typ == "string"
		return false
	})
}
