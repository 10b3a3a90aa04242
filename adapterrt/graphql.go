package adapterrt

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// graphqlRule is an operation of an API that speaks GraphQL:
// https://graphql.github.io/graphql-over-http/draft/
type graphqlRule struct {
	head   []byte // {"query":"…","variables":{
	fixed  bool   // head ends in a variable
	result []string
}

// The longest document.
const maxDocument = 64 << 10

func (c *checker) graphql(n *node, path string, op *operation) {
	if !op.adapter.target.graphql {
		for _, key := range [...]string{"query", "variables", "result_path"} {
			if v := n.get(key); v != nil {
				c.wrong(SchemaInvalidValue, join(path, key), key+" is for protocol graphql", "protocol graphql", v, 0)
			}
		}
		return
	}
	document, v := c.need(n, path, "query", "GraphQL document")
	if v == nil {
		return
	}
	switch kinds := graphqlKinds(document); {
	case len(document) > maxDocument:
		c.wrong(SchemaInvalidValue, path+".query", "document is too long", "up to 64 KiB", v, 0)
	case kinds["subscription"]:
		c.wrong(SchemaInvalidValue, path+".query", "subscriptions are not supported", "query or mutation", v, 0)
	case kinds["mutation"] && op.category == Read:
		c.wrong(SchemaInvalidValue, path+".query", "a read operation must not hold a mutation", "query", v, 0)
	case !kinds["mutation"] && !kinds["query"]:
		c.wrong(SchemaInvalidValue, path+".query", "document holds no operation", "query or mutation", v, 0)
	}
	if op.mapping != nil && op.mapping.method != "POST" {
		c.wrong(ProtocolInvalidMapping, path+".maps_to", "GraphQL is sent by POST", "POST /path", n.get("maps_to"), 0)
	}
	r := &graphqlRule{result: []string{"data"}}
	if s := c.str(n, path, "result_path"); s != "" {
		r.result = splitPath(s)
	}
	r.head = append(wire.AppendQuoted([]byte(`{"query":`), document), `,"variables":{`...)
	if vars := c.get(n, path, "variables", wire.Object); vars != nil {
		for i, f := range vars.fields {
			if i > 0 {
				r.head = append(r.head, ',')
			}
			r.head = append(wire.AppendQuoted(r.head, f.key), ':')
			r.head = f.val.json(r.head)
			r.fixed = true
			for _, p := range op.params {
				if p.wire == f.key && p.place == inVariables {
					c.wrong(SchemaDuplicateName, join(path+".variables", f.key), "variable is a parameter already", "another name", f.val, 0)
				}
			}
		}
	}
	op.graphql = r
}

// graphqlVariables holds what is sent against the variables that the document
// declares: servers refuse others, or pass over them without a word.
func (c *checker) graphqlVariables(n *node, path string, op *operation) {
	if op.graphql == nil {
		return
	}
	declared := declaredVariables(n.get("query").text)
	sent := map[string]bool{}
	check := func(name, at string, line int) {
		sent[name] = true
		if _, ok := declared[name]; !ok {
			c.mind(SchemaUnresolvedRef, at, "the document declares no variable $"+firstRunes(cleanText(name, 60), 60), line)
		}
	}
	for _, i := range op.placed[inVariables] {
		p := op.params[i]
		line := n.line
		if said := n.get("params").get(p.name); said != nil {
			line = said.line
		}
		check(p.wire, path+".params."+p.name, line)
	}
	if fixed := n.get("variables"); fixed != nil && fixed.kind == wire.Object {
		for _, f := range fixed.fields {
			check(f.key, join(path+".variables", firstRunes(f.key, 60)), f.line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if declared[name] && !sent[name] {
			c.mind(SchemaUnresolvedRef, path+".query", "variable $"+firstRunes(name, 60)+" is required and no parameter gives it", n.get("query").line)
		}
	}
}

// declaredVariables are the variables that a document declares, and whether they
// have to be given: https://spec.graphql.org/October2021/#sec-Language.Variables
func declaredVariables(s string) map[string]bool {
	declared := map[string]bool{}
	last := "" // the variable whose type is being read
	for i := 0; i < len(s); {
		if j := skipIgnored(s, i); j > i {
			i = j
			continue
		}
		switch c := s[i]; {
		case c == '$':
			j := i + 1
			for j < len(s) && isNameByte(s[j]) {
				j++
			}
			name := s[i+1 : j]
			i = j
			for j = skipIgnored(s, i); j > i; j = skipIgnored(s, i) {
				i = j
			}
			// Only a declaration has a colon behind the name.
			if last = ""; i < len(s) && s[i] == ':' {
				last, declared[name] = name, false
			}
			continue
		case last != "" && c == '!':
			declared[last] = true // of [String!] as well, until the bracket closes
		case last != "" && (c == ']' || c == '='):
			declared[last] = false
			if c == '=' {
				last = ""
			}
		case c == ')' || c == '{' || c == '@':
			last = ""
		}
		i++
	}
	return declared
}

func isNameByte(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

// skipIgnored is the place behind the string, comment or blank at i, i when there
// is none.
func skipIgnored(s string, i int) int {
	switch {
	case i >= len(s):
		return i
	case s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r' || s[i] == ',':
		return i + 1
	case s[i] == '#':
		for i < len(s) && s[i] != '\n' && s[i] != '\r' {
			i++
		}
	case strings.HasPrefix(s[i:], `"""`):
		for i += 3; i < len(s) && !strings.HasPrefix(s[i:], `"""`); i++ {
			if strings.HasPrefix(s[i:], `\"""`) {
				i += 3
			}
		}
		i += 3
	case s[i] == '"':
		for i++; i < len(s) && s[i] != '"' && s[i] != '\n'; i++ {
			if s[i] == '\\' {
				i++
			}
		}
		i++
	}
	return min(i, len(s))
}

// graphqlKinds are the operations at the top of a document. A document may leave
// the word query out.
func graphqlKinds(s string) map[string]bool {
	kinds := map[string]bool{}
	depth, named := 0, false // named: a definition has begun
	for i := 0; i < len(s); {
		if j := skipIgnored(s, i); j > i {
			i = j
			continue
		}
		switch c := s[i]; {
		case c == '{' || c == '(' || c == '[':
			if c == '{' && depth == 0 {
				if !named {
					kinds["query"] = true
				}
				named = false
			}
			depth++
			i++
		case c == '}' || c == ')' || c == ']':
			depth--
			i++
		case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z':
			j := i
			for j < len(s) && isNameByte(s[j]) {
				j++
			}
			if depth == 0 && !named {
				kinds[s[i:j]] = true
				named = true
			}
			i = j
		default:
			i++
		}
	}
	return kinds
}

// variables writes the body of a GraphQL request.
func (c *call) variables() {
	op, o := c.op, &c.out
	body := append(o.body.buf, op.graphql.head...)
	more := op.graphql.fixed
	for _, i := range op.placed[inVariables] {
		v := c.values[i]
		if v.kind == wire.Absent {
			continue
		}
		if more {
			body = append(body, ',')
		}
		more = true
		body = append(append(body, op.params[i].bodyKey...), v.raw...)
	}
	o.body.buf = append(body, "}}"...)
	o.hasBody, o.contentType = true, "application/json"
}

// graphqlCodes are the codes that servers put into extensions.
var graphqlCodes = map[string]statusRow{
	"UNAUTHENTICATED":      {PermissionDenied, "Authentication required: "},
	"AUTHENTICATION_ERROR": {PermissionDenied, "Authentication required: "},
	"FORBIDDEN":            {PermissionDenied, "Permission denied: "},
	"RATELIMITED":          {RateLimitExceeded, "Rate limit exceeded: "},
}

// graphqlRow is how the first error of errs reads whose code says more than that
// there is one.
func graphqlRow(errs []byte) (row statusRow, ok bool) {
	if errs == nil || wire.KindOf(errs) != wire.Array {
		return row, false
	}
	wire.Each(errs, func(_, e []byte) bool {
		if code := wire.Member(wire.Member(e, "extensions"), "code"); code != nil && wire.KindOf(code) == wire.String {
			row, ok = graphqlCodes[string(wire.Unquoted(code))]
		}
		return !ok
	})
	return row, ok
}

// graph takes the result out of a GraphQL response, whose status is 200 for
// failures, too.
func (c *call) graph(rt *Runtime, body []byte) ([]byte, *Failure) {
	data := wire.Lookup(body, c.op.graphql.result)
	there := data != nil && wire.KindOf(data) != wire.Null
	errs := wire.Member(body, "errors")
	if errs == nil || wire.KindOf(errs) != wire.Array || len(wire.Trim(errs[1:len(errs)-1])) == 0 {
		if !there {
			data = []byte("null")
		}
		return data, nil
	}
	z := sanitizer{off: rt.opt.DevErrors, host: c.op.adapter.target.base.Host}
	said := z.clean(joinedErrors(errs), messageRunes, c.out.secrets)
	details := wire.Members(nil).Str("upstream_error", said).Str("operation", c.op.name)
	if there {
		c.warn(Notice{Code: "UPSTREAM_PARTIAL_ERROR", Message: "The answer is not complete", Details: details.End(), Severity: "high"})
		return data, nil
	}
	row, ok := graphqlRow(errs)
	if !ok {
		row = statusRow{ValidationInvalidType, "Invalid request: "}
	}
	return nil, &Failure{Code: row.code, Message: row.prefix + said, Details: details.Int("http_status", 200).End()}
}
