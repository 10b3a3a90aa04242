package file

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxOperations is the largest number of operations in a file.
const maxOperations = 2000

func (c *checker) operations(root *node, a *Adapter) {
	n := c.block(root, "operations", "Operations")
	if n == nil {
		return
	}
	for _, f := range n.fields {
		path := join("operations", clean.FirstRunes(f.key, 60))
		category, ok := CategoryOf(f.key)
		if !ok {
			if !strings.HasPrefix(f.key, "x-") {
				c.wrong(SchemaInvalidValue, path, "no such category", "create, read, update, delete, execute", f.val, 0)
			}
			continue
		}
		if f.val.kind == wire.Null {
			continue
		}
		if f.val.kind != wire.Array {
			c.wrong(SchemaInvalidType, path, path+" has the wrong type", "array", f.val, 0)
			continue
		}
		for i, e := range f.val.list {
			if len(a.Operations) == maxOperations {
				c.wrong(SchemaInvalidValue, path, "too many operations", fmt.Sprintf("up to %d", maxOperations), f.val, 0)
				return
			}
			c.operation(e, index(path, i), category, a)
		}
	}
	c.sources(a)
	a.shareTags()
	if len(a.Operations) == 0 {
		c.warn(SchemaMissingField, "operations", "adapter has no operations", n.line)
	}
}

// safetyKeys are the keys of an operation that keep it from doing harm.
var safetyKeys = []string{"danger_level", "requires_confirmation", "danger", "non_idempotent", "capability_gate", "rate_limits"}

var operationBlock = block{"operations.CATEGORY[]", "CATEGORY is create, read, update, delete or execute. A file has up to 2,000 operations.", []key{
	{"name", "string", must, "The name, in snake_case, up to 128 characters, unique in the file. Names that the specification uses itself, such as introspect, are refused."},
	{"maps_to", "METHOD /path/{param}", must, "The request: GET, POST, PUT, PATCH or DELETE, and the path with parameters in braces. A query may follow, as in `?state={state}`."},
	{"base_url", "URL", "", "The URL that its path is appended to, if it is not at `target.base_url`. The adapter's headers and credentials are sent there, too. `base_url_env` and `base_url_file` of the target do not replace it."},
	{"auth", "none", "", "The word none: the operation is sent without the file's credentials."},
	{"scopes", "list of strings", "", "Up to 50 scopes of OAuth that it needs. Where the login was not asked for one of them, a call asks for [another login](oauth.md)."},
	{"tool_name", "string", "", "The name of its tool in `mode: discrete`, if that must be another one: up to 64 letters, digits, _ and -, not beginning with -. Requests may call the operation by it, too."},
	{"description", "string", "", "What the operation does, up to 1,000 characters. The model reads it; without it there is a warning."},
	{"params", "map", "", "The parameters by name, up to 200."},
	{"request", "map", "", "How parameters become a body, and further headers."},
	{"response", "map", "", "How answers are read, and what they hold."},
	{"pagination", "map", "", "How the API divides a list into pages."},
	{"supports_fields", "boolean", "false", "Calls may select fields of the answer by `fields` or `preset`. For read operations."},
	{"default_fields", "list of strings, or map", "", "The dotted paths of the fields that calls get that select none; as a map, with the type of each."},
	{"cache", "{ttl: 30s} or headers", "", "How long an answer is fresh: a time, or as its own headers say. For read operations by GET."},
	{"coalesce", "boolean", "false", "Identical calls at one time share one request. Needs `cache`."},
	{"timeout_ms", "integer 1–600000", "", "Milliseconds that a call may take. Without it, those of `target.timeout_ms`."},
	{"rate_limits", "map", "", "Limits for calls of this operation, in addition to the file's."},
	{"danger", "map", "", "How much harm the operation can do, and what keeps it from that."},
	{"danger_level", "safe, reversible, destructive, dangerous, forbidden", "", "The same as `danger.level`."},
	{"requires_confirmation", "boolean", "false", "The same as `danger.requires_confirmation`."},
	{"non_idempotent", "boolean", "", "Whether sending the request twice does more than once. Without it, so for execute and for every method but GET. Such a request is sent again only if the API has said that it did not process it."},
	{"capability_gate", "map, or list of maps", "", "Parameters that are allowed only if the API says that it supports them."},
	{"error_mapping", "list of maps", "", "What answers of the API mean. These rules come before the file's."},
	{"transform", "map", "", "How results are shortened, in place of the file's `transform`."},
	{"aliases", "list of strings", "", "Up to 20 further words by which a search finds the operation."},
	{"tags", "list of strings", "", "Up to 20 words by which lists and searches are narrowed. A tag of the file that no operation has is one of all operations."},
	{"deprecated", "map", "", "Since when there is something better; introspection shows it."},
	{"lifecycle", "map", "", "What states the operation goes through; introspection shows it."},
	{"query", "GraphQL document", "", "The query or mutation, required for protocol graphql; `maps_to` is a POST."},
	{"variables", "map", "", "Variables of the document with fixed values."},
	{"result_path", "dotted path", "data", "The member of the GraphQL answer that is returned."},
}}

var deprecatedBlock = block{"operations.CATEGORY[].deprecated", "", []key{
	{"since", "string", "", "The version of the file."},
	{"replacement", "string", "", "The operation to use instead."},
	{"removal_date", "string", "", "When this one goes."},
}}

var lifecycleBlock = block{"operations.CATEGORY[].lifecycle", "", []key{
	{"states", "any", "", "Shown as they are."},
	{"supports_cancel", "any", "", ""},
	{"supports_retry", "any", "", ""},
	{"progress_reporting", "any", "", ""},
}}

func (c *checker) operation(n *node, path string, category Category, a *Adapter) {
	if n.kind != wire.Object {
		c.wrong(SchemaInvalidType, path, "operation must be a map", "object", n, 0)
		return
	}
	op := &Operation{Adapter: a, Index: len(a.Operations), Category: category}
	c.misspelt(n, path, safetyKeys, &operationBlock, &elsewhere)

	if name, v := c.need(n, path, "name", "Operation name"); v != nil {
		op.Name = name
		switch {
		case !IsSnake(name) || len(name) > 128:
			c.wrong(SchemaInvalidName, path+".name", "Operation name is not valid", "snake_case, starting with a letter", v, 0)
		case slices.Contains(reserved, name):
			c.wrong(SchemaInvalidName, path+".name", "Operation name is reserved", "another name", v, 0)
		case a.Index[name] != nil:
			c.wrong(SchemaDuplicateName, path+".name", "Duplicate operation name: "+name, "a name unique over all categories", v, 0)
		default:
			a.Index[name] = op
		}
	}
	a.Operations = append(a.Operations, op)
	c.ownTarget(n, path, op)
	c.toolName(n, path, op)
	if d := c.get(n, path, "description", wire.String); d != nil {
		op.Description = clean.Text(d.text, descriptionRunes)
	} else if n.get("description") == nil {
		c.warn(SchemaMissingField, path+".description", "operation should have a description", n.line)
	}

	if p := c.get(n, path, "params", wire.Object); p != nil {
		if len(p.fields) > maxParams {
			c.wrong(SchemaInvalidValue, path+".params", "too many parameters", fmt.Sprintf("up to %d", maxParams), p, 0)
			p = &node{kind: wire.Object}
		}
		for _, f := range p.fields {
			if p := c.param(f, path+".params."+clean.FirstRunes(f.key, 60)); p != nil {
				op.Params = append(op.Params, p)
			}
		}
	}
	if s, v := c.need(n, path, "maps_to", "Mapping"); v != nil {
		c.mapping(s, v, path, n.get("params"), op)
	}
	inBody := c.request(n, path, op)
	c.fileNames(n, path, op)
	c.placement(path, n, op, inBody)
	c.graphql(n, path, op)
	c.paging(n, path, op)
	c.bodyShape(n, path, op, inBody)
	c.graphqlVariables(n, path, op)
	c.fieldRules(n, path, op)
	c.gates(n, path, op)

	op.Timeout = a.Target.Timeout
	if n.has("timeout_ms") {
		op.Timeout = c.millis(n, path, "timeout_ms", 30_000, 1, 600_000)
	}
	unsafe := c.flag(n, path, "non_idempotent", category == Execute)
	if op.Mapping != nil {
		op.Repeatable = !unsafe && (op.Mapping.Method == "GET" || n.has("non_idempotent"))
	}
	c.cacheRule(n, path, op)
	op.Errors = slices.Concat(c.errorRules(n, path), a.errors)
	op.Danger = c.danger(n, path, category, op.Name)
	a.DeclaresDanger = a.DeclaresDanger || op.Danger.Declared
	op.Limits = c.limits(n, path)
	c.about(n, path, op)
	c.hidden(n, path, op)
	op.indexParams()
	op.setKeys()
}

// about reads the blocks of an operation that are for introspection, and its transform block.
func (c *checker) about(n *node, path string, op *Operation) {
	c.response(n, path, op)
	op.Aliases = c.words(n, path, "aliases")
	op.Tags = c.words(n, path, "tags")
	if d := c.get(n, path, "deprecated", wire.Object); d != nil {
		c.known(d, path+".deprecated", &deprecatedBlock)
		at := path + ".deprecated"
		op.Deprecated = &Deprecation{clean.Text(c.str(d, at, "since"), 100), clean.Text(c.str(d, at, "replacement"), 100), clean.Text(c.str(d, at, "removal_date"), 100)}
	}
	if l := c.get(n, path, "lifecycle", wire.Object); l != nil {
		c.known(l, path+".lifecycle", &lifecycleBlock)
		op.Lifecycle = l.shown()
	}
	if op.Transform = c.transform(n, path); op.Transform == nil {
		op.Transform = op.Adapter.transform
	}
}

// mapping compiles maps_to and links its placeholders to the parameters. params is the node
// that declares the parameters, including those that have an error.
func (c *checker) mapping(s string, v *node, path string, params *node, op *Operation) {
	m, err := parseMapping(s)
	if err != nil {
		c.wrong(ProtocolInvalidMapping, path+".maps_to", "maps_to is not valid: "+err.Error(), "METHOD /path/{param}", v, 0)
		return
	}
	op.Mapping = m
	if m.holdsSecret() {
		c.mind(SchemaEmbeddedCredential, path+".maps_to", "this holds what looks like a credential; keep it in an environment variable, and send it with auth", v.line)
	}
	bind := func(seg Segment) {
		for i := range seg {
			if seg[i].Name != "" {
				if k, ok := op.Param([]byte(seg[i].Name)); ok {
					seg[i].Param = k
				}
			}
		}
	}
	for _, seg := range m.Segments {
		bind(seg)
	}
	for _, q := range m.Query {
		bind(q.Value)
	}
	for _, name := range m.Names {
		k, ok := op.Param([]byte(name))
		if !ok && params.get(name) != nil {
			continue // the error of that parameter is reported already
		}
		if !ok {
			c.wrong(SchemaUnresolvedRef, path+".maps_to", "placeholder {"+name+"} has no parameter", "params."+name, nil, v.line)
			continue
		}
		p := op.Params[k]
		if p.Type == TypeObject {
			c.wrong(ProtocolInvalidMapping, path+".maps_to", "placeholder {"+name+"} is of type object", "any other type", textAt("object", v.line), 0)
		}
		if !p.Required && p.Fallback == nil {
			c.warn(ProtocolInvalidMapping, path+".params."+name, "a placeholder's parameter is always required", v.line)
			p.Required = true
		}
	}
	odd := false
	switch op.Category {
	case Read:
		odd = m.Method != "GET" && m.Method != "POST"
	case Delete:
		odd = m.Method == "GET"
	}
	if odd {
		c.warn(ProtocolInvalidMapping, path+".maps_to", m.Method+" is unusual for category "+op.Category.String(), v.line)
	}
}

// placement decides where each parameter goes in the request.
func (c *checker) placement(path string, n *node, op *Operation, inBody map[int]bool) {
	if op.Mapping == nil {
		return
	}
	inURL := op.Mapping.Method == "GET" || op.Mapping.Method == "DELETE"
	type slot struct {
		at   Place
		wire string
	}
	taken := map[slot]bool{}
	for i, p := range op.Params {
		placeholder := slices.Contains(op.Mapping.Names, p.Name)
		at := path + ".params." + p.Name + ".in"
		said := n.get("params").get(p.Name)
		line := said.lineOr(0)
		declared := said.has("in")
		switch {
		case placeholder && declared && p.Place != InPath:
			c.wrong(SchemaInvalidValue, at, "a placeholder's parameter goes into the path", "path", said.get("in"), line)
		case placeholder:
			p.Place = InPath
		case p.Place == InFileName:
		case inBody[i] && declared && p.Place != InBody:
			c.wrong(SchemaInvalidValue, at, "the request block puts the parameter into the body", "body", said.get("in"), line)
		case declared && p.Place == InPath:
			c.wrong(SchemaUnresolvedRef, at, "the path has no placeholder {"+p.Name+"}", "a placeholder in maps_to", said.get("in"), line)
		case op.Adapter.Target.graphql && p.Place == InBody:
			p.Place = InVariables
		case declared && p.Place == InBody && op.Mapping.Method == "GET":
			c.wrong(SchemaInvalidValue, at, "a GET request has no body", "path, query or header", said.get("in"), line)
		case !declared && inURL && !inBody[i]:
			p.Place = InQuery
		}
		if p.Place == InBody || p.Place == InVariables {
			p.inBody()
		}
		if p.Body != nil && p.Body.Path != nil && p.Place != InBody && p.Place != InQuery {
			c.wrong(SchemaInvalidValue, path+".params."+p.Name+".wire_path", "wire_path is for bodies and queries", "wire_name", said.get("wire_path"), line)
		}
		if p.Place == InHeader {
			if !IsToken(p.Wire) || IsForbiddenHeader(p.Wire) || op.Adapter.Auth.sets(p.Wire, "", "") {
				c.wrong(SchemaInvalidValue, path+".params."+p.Name, "parameter cannot be this header", "a header name that is not the connection's or auth's", textAt(p.Wire, line), 0)
			}
		}
		if p.Place != InPath && p.Place != InFileName {
			s := slot{p.Place, p.Wire}
			if taken[s] {
				c.wrong(SchemaDuplicateName, path+".params."+p.Name, "two parameters are sent as "+strconv.Quote(clean.FirstRunes(p.Wire, 60)), "a wire_name of its own", textAt(p.Wire, line), 0)
			}
			taken[s] = true
			op.Placed[p.Place] = append(op.Placed[p.Place], i)
		}
		if p.Required {
			op.Required = append(op.Required, i)
		}
	}
}

var responseBlock = block{"operations.CATEGORY[].response", "How an answer is read, and what it holds. [What each format becomes](adapters.md#answers).", []key{
	{"type", "string", "", "A JSON type or one of `types`, for introspection."},
	{"description", "string", "", "What is returned, for introspection."},
	{"fields", "any", "", "What is in it, for introspection."},
	{"schema", "map", "", "What the data looks like: the keys of a value, as of a parameter. It becomes the tool's `outputSchema`, which accepts other data, too, and has no bounds, formats and patterns."},
}}

// response reads what an operation returns: a JSON type or one of the types.
func (c *checker) response(n *node, path string, op *Operation) {
	r := c.get(n, path, "response", wire.Object)
	if r == nil {
		return
	}
	path += ".response"
	c.only(r, path, &responseBlock, &answerBlock)
	op.Answer = c.answer(r, path, op.Adapter.Target.graphql)
	op.Returns = &Returns{Name: "JsonValue", Kind: "scalar", Description: clean.Text(c.str(r, path, "description"), descriptionRunes)}
	if f := r.get("fields"); f != nil && f.kind != wire.Null {
		op.Returns.Fields = f.shown()
	}
	if s := c.get(r, path, "schema", wire.Object); s != nil {
		c.known(s, path+".schema", &valueBlock)
		if d := new(Definition); c.definition(s, path+".schema", 0, d) {
			op.Schema = d
		}
	}
	name := c.str(r, path, "type")
	if name == "" || slices.Contains(typeNames[:], name) {
		return
	}
	for _, t := range append(ProtocolTypes(), op.Adapter.Declared...) {
		if t.Name == name {
			op.Returns.Name, op.Returns.Kind = t.Name, t.Kind
			return
		}
	}
	c.wrong(SchemaUnresolvedRef, path+".type", "type is unknown: "+clean.FirstRunes(name, 60), "a JSON type or one of types", r.get("type"), 0)
}

// maxWords is the largest number of aliases or tags of an operation, and wordRunes of characters of one.
const maxWords, wordRunes = 20, 60

// words reads the aliases or the tags of an operation.
func (c *checker) words(n *node, path, key string) (words []string) {
	list := c.strs(n, path, key)
	if len(list) > maxWords {
		c.wrong(SchemaInvalidValue, join(path, key), "too many "+key, "up to "+strconv.Itoa(maxWords), n.get(key), 0)
		list = list[:maxWords]
	}
	for _, w := range list {
		if w = clean.Text(w, wordRunes); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// shareTags gives each operation the tags of the file that no operation has as its own.
func (a *Adapter) shareTags() {
	own := map[string]bool{}
	for _, op := range a.Operations {
		for _, t := range op.Tags {
			own[t] = true
		}
	}
	var shared []string
	for _, t := range a.Tags {
		if t = clean.Text(t, 100); t != "" && !own[clean.Text(t, wordRunes)] && !slices.Contains(shared, t) {
			shared = append(shared, t)
		}
	}
	for _, op := range a.Operations {
		op.Tags = append(op.Tags, shared...)
	}
}
