package file

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxDocument is the largest number of bytes of a GraphQL document.
const maxDocument = 64 << 10

func (c *checker) graphql(n *node, path string, op *Operation) {
	if !op.Adapter.Target.graphql {
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
	case kinds["mutation"] && op.Category == Read:
		c.wrong(SchemaInvalidValue, path+".query", "a read operation must not hold a mutation", "query", v, 0)
	case !kinds["mutation"] && !kinds["query"]:
		c.wrong(SchemaInvalidValue, path+".query", "document holds no operation", "query or mutation", v, 0)
	}
	if op.Mapping != nil && op.Mapping.Method != "POST" {
		c.wrong(ProtocolInvalidMapping, path+".maps_to", "GraphQL is sent by POST", "POST /path", n.get("maps_to"), 0)
	}
	r := &GraphQL{Result: []string{"data"}}
	if s := c.str(n, path, "result_path"); s != "" {
		r.Result = splitPath(s)
	}
	r.Head = append(wire.AppendQuoted([]byte(`{"query":`), document), `,"variables":{`...)
	if vars := c.get(n, path, "variables", wire.Object); vars != nil {
		for _, f := range vars.fields {
			r.Head = wire.AppendName(r.Head, f.key)
			r.Head = f.val.JSON(r.Head)
			for _, p := range op.Params {
				if p.Wire == f.key && p.Place == InVariables {
					c.wrong(SchemaDuplicateName, join(path+".variables", f.key), "variable is a parameter already", "another name", f.val, 0)
				}
			}
		}
	}
	op.GraphQL = r
}

// graphqlVariables compares the variables that are sent with those that the document declares.
// Servers refuse other variables, or ignore them silently.
func (c *checker) graphqlVariables(n *node, path string, op *Operation) {
	if op.GraphQL == nil {
		return
	}
	declared := declaredVariables(n.get("query").text)
	sent := map[string]bool{}
	check := func(name, at string, line int) {
		sent[name] = true
		if _, ok := declared[name]; !ok {
			c.mind(SchemaUnresolvedRef, at, "the document declares no variable $"+clean.FirstRunes(clean.Text(name, 60), 60), line)
		}
	}
	for _, i := range op.Placed[InVariables] {
		p := op.Params[i]
		check(p.Wire, path+".params."+p.Name, n.get("params").get(p.Name).lineOr(n.line))
	}
	if fixed := n.get("variables"); fixed != nil && fixed.kind == wire.Object {
		for _, f := range fixed.fields {
			check(f.key, join(path+".variables", clean.FirstRunes(f.key, 60)), f.line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if declared[name] && !sent[name] {
			c.mind(SchemaUnresolvedRef, path+".query", "variable $"+clean.FirstRunes(name, 60)+" is required and no parameter gives it", n.get("query").line)
		}
	}
}

// declaredVariables returns the variables that a document declares, and whether they are
// required: https://spec.graphql.org/October2021/#sec-Language.Variables
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
			// Only a declaration has a colon after the name.
			if last = ""; i < len(s) && s[i] == ':' {
				last, declared[name] = name, false
			}
			continue
		case last != "" && c == '!':
			declared[last] = true // also for the ! in [String!]; the closing bracket resets it
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

// skipIgnored returns the index after the string, comment, comma or white space at i. It
// returns i if there is none.
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

// graphqlKinds returns the kinds of definitions in a document: query, mutation, subscription,
// fragment. A document may leave out the word query.
func graphqlKinds(s string) map[string]bool {
	kinds := map[string]bool{}
	depth, named := 0, false // named: the first word of a definition was read
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
