package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// choose leaves out and fixes parameters of the operation, as a person has decided. Pages are not looked for among these.
func (m *mapper) choose() {
	c := m.base.choices
	if c == nil || len(c.omit)+len(c.set) == 0 {
		return
	}
	op := m.op
	operations := distinct([]string{op.name, m.raw.id}, itself)
	inPath := func(p *param, name string) bool { // p is the placeholder that the document calls so
		return p.in == "path" && paramName(name) == p.name && slices.ContainsFunc(m.raw.params, func(raw *rawParam) bool { return raw.in == "path" && raw.name == name })
	}
	// A name of the file, or in the path, comes before the same name of the API.
	names := func(p *param) []string {
		list := []string{p.name}
		if p.in != "path" && !slices.ContainsFunc(op.params, func(o *param) bool { return o != p && o.name == p.wire || inPath(o, p.wire) }) {
			list = append(list, p.wire)
		}
		for _, raw := range m.raw.params {
			if inPath(p, raw.name) {
				list = append(list, raw.name)
			}
		}
		return distinct(list, itself)
	}
	// chosen returns the name by which a decision is about a parameter. One for a single operation comes first.
	chosen := func(p *param, decided func(name string) bool) (string, bool) {
		for _, name := range names(p) {
			for _, operation := range operations {
				if n := operation + "." + name; operation != "" && decided(n) {
					c.used[name], c.used[n] = true, true
					return n, true
				}
			}
		}
		for _, name := range names(p) {
			if decided(name) {
				c.used[name] = true
				return name, true
			}
		}
		return "", false
	}
	for _, raw := range m.raw.params { // those that are no parameters of the file, such as credentials, are left out already
		if !slices.ContainsFunc(op.params, func(p *param) bool { return p.wire == raw.name || p.name == paramName(raw.name) }) {
			c.used[raw.name] = true
		}
	}
	op.params = slices.DeleteFunc(op.params, func(p *param) bool {
		for _, name := range names(p) {
			c.known[name] = true
		}
		if name, ok := chosen(p, func(name string) bool { _, ok := c.set[name]; return ok }); ok {
			v, err := p.literal(c.set[name])
			if err == nil && (hasSecret(v.JSON(nil)) || v.is(wire.String) && v.text != "" && secret.Named(p.name)) {
				c.fail(errors.New(c.flag("--set-param", name) + ": this looks like a credential, whose value a file must not hold: name it with --auth"))
				return false
			}
			if err != nil {
				c.fail(p.unfit(op, c.flag("--set-param", name)+"="+short(c.set[name]), err.Error()))
				return false
			}
			p.fix(v, c.flag("--set-param", name)+"="+short(c.set[name]))
			return false
		}
		name, omitted := chosen(p, func(name string) bool { return slices.Contains(c.omit, name) })
		if omitted && p.required {
			c.fail(fmt.Errorf("%s: %s requires it: give it a value with --set-param %s=VALUE", c.flag("--omit-param", name), op.name, short(name)))
			return false
		}
		if omitted && op.request.from == p.name {
			op.request = request{}
		}
		return omitted
	})
}

// fix hides the parameter and has it sent with a value.
func (p *param) fix(v *node, choice string) {
	d := *p.definition
	d.description = ""
	p.definition, p.fixed, p.choice, p.required, p.needed = &d, v, choice, false, false
}

// unfit returns the error of a decision for a value that the parameter cannot have.
func (p *param) unfit(op *operation, choice, why string) error {
	return fmt.Errorf("%s: %s of %s: %s", choice, p.name, op.name, why)
}

// misfit returns an error if a problem of the operation, at a path in the file, is about a value that a person has chosen.
func (op *operation) misfit(at, message string) error {
	for _, p := range op.params {
		if p.fixed != nil && strings.HasSuffix(at, ".params."+p.name+".default") {
			return p.unfit(op, p.choice, strings.TrimPrefix(message, "default does not fit its parameter: "))
		}
	}
	return nil
}

// literal returns a text of a command line as a value of the definition's type: texts as they are, lists as JSON or with commas
// between their elements, and the rest as JSON.
func (d *definition) literal(s string) (*node, error) {
	kinds := append([]string{d.typ}, d.also...)
	v := jsonOf(s)
	switch {
	case v != nil && v.kind != wire.String && slices.ContainsFunc(kinds, v.isType):
		if d.typ != "string" || slices.ContainsFunc(d.also, v.isType) {
			return v, nil
		}
	case v.is(wire.String) && d.typ != "string":
		s = v.text
	}
	if slices.Contains(kinds, "string") {
		return text(s), nil
	}
	if d.typ == "array" && v == nil || d.typ == "array" && v.scalar() {
		list := array()
		for e := range strings.SplitSeq(s, ",") {
			item := text(strings.TrimSpace(e))
			if d.items != nil {
				var err error
				if item, err = d.items.literal(item.text); err != nil {
					return nil, err
				}
			}
			list.kids = append(list.kids, item)
		}
		return list, nil
	}
	return nil, errors.New("the value must be of type " + strings.Join(kinds, " or "))
}

// jsonOf returns a text as JSON, or nil if it is none.
func jsonOf(s string) *node {
	if wire.Check([]byte(s), wire.Limits{Depth: 20, Unicode: true}) != nil {
		return nil
	}
	count := 0
	v, err := (&builder{name: "the value", count: &count}).parseJSON([]byte(s))
	if err != nil {
		return nil
	}
	return v
}

// isType reports whether a value is of a type of JSON Schema.
func (n *node) isType(name string) bool {
	switch n.kind {
	case wire.Boolean:
		return name == "boolean"
	case wire.Number:
		return name == "number" || name == "integer"
	case wire.String:
		return name == "string"
	case wire.Array:
		return name == "array"
	case wire.Object:
		return name == "object"
	case wire.Null:
		return name == "null"
	}
	return false
}

// nameTools gives operations that the document calls otherwise than the file the names of their tools.
func nameTools(ops []*operation, names Names) {
	taken := map[string]bool{}
	for _, op := range ops {
		taken[op.name] = true
	}
	for _, op := range ops {
		want, what := op.raw.advice.name, "its name in x-mcp"
		if names == NamesID && op.raw.id != "" {
			want, what = op.raw.id, "its operationId"
		}
		if want == "" || want == op.name {
			continue
		}
		name := strings.TrimLeft(strings.Trim(toolWords().ReplaceAllString(want, "_"), "_"), "-")
		why := ""
		switch {
		case !file.IsCallable(name):
			why = "has no letters or digits"
		case len(name) > maxOperationName:
			why = "is longer than 64 characters"
		case name != op.name && (taken[name] || slices.Contains(reservedOperations, name)):
			why = "is that of another operation"
		}
		if why != "" {
			op.findings = append(op.findings, Finding{Class: Guessed, What: what + " cannot be the name of its tool: it " + why, Do: "give it a tool_name, if you like"})
			continue
		}
		if name != op.name {
			op.tool, taken[name] = name, true
		}
	}
}
