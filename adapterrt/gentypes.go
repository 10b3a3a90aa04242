package adapterrt

import (
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// generatedType is one entry of introspect types: of the protocol, of a file, or
// made of an operation's parameters, or of the values that one of them may have.
type generatedType struct {
	name, kind, description string
	members                 []byte // ,"values":[…] and the like: what its details add

	of    *operation // what it is made of, nil for the other two
	param *param
}

func (t *generatedType) object() wire.Members {
	o := wire.Members(nil).Str("name", t.name).Str("kind", t.kind)
	description := t.description
	switch {
	case t.param != nil:
		description = "Values of " + t.param.name + " of " + t.of.name
	case t.of != nil:
		description = "Parameters of " + t.of.name
	}
	if description != "" {
		o = o.Str("description", description)
	}
	return o
}

func (t *generatedType) appendItem(dst []byte) []byte {
	return append(dst, t.object().End()...)
}

func (t *generatedType) appendDetail(dst []byte) []byte {
	dst = append(append(dst, `{"type":`...), t.object()...)
	switch {
	case t.param != nil:
		var words []string
		for _, e := range t.param.enum {
			words = append(words, e.text)
		}
		dst = append(append(dst, `,"values":`...), escapeHidden(wire.AppendStrings(nil, words))...)
	case t.of != nil:
		dst = t.of.appendFields(append(dst, `,"fields":`...))
	default:
		dst = append(dst, t.members...)
	}
	return append(dst, "}}"...)
}

// appendFields writes the operation's parameters as the fields of a type.
func (op *operation) appendFields(dst []byte) []byte {
	dst = append(dst, '[')
	first := true
	for _, p := range op.params {
		if p.hidden {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		o := wire.Members(nil).Str("name", p.name).Str("type", p.typ.String()).Bool("required", p.required)
		if p.description != "" {
			o = o.Str("description", p.description)
		}
		dst = append(dst, o.End()...)
	}
	return append(dst, ']')
}

// protocolTypes are the types of the protocol itself.
func protocolTypes() []generatedType {
	return []generatedType{
		{name: "SemanticCategory", kind: "enum", description: "What an operation does to the target", members: []byte(`,"values":["CREATE","READ","UPDATE","DELETE","EXECUTE"]`)},
		{name: "OperationInput", kind: "object", description: "A request", members: []byte(`,"fields":[{"name":"operation","type":"string","required":true},{"name":"params","type":"object","required":false}]`)},
		{name: "OperationResult", kind: "union", description: "The answer to a request", members: []byte(`,"members":["OperationSuccess","OperationFailure"]`)},
		{name: "OperationSuccess", kind: "object", description: "A request that succeeded", members: []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"data","type":"JsonValue","required":true}]`)},
		{name: "OperationFailure", kind: "object", description: "A request that failed", members: []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"error","type":"object","required":true}]`)},
		{name: "EndpointPermissions", kind: "object", description: "What an endpoint may do", members: []byte(`,"fields":[{"name":"readOnly","type":"boolean","required":true},{"name":"destructive","type":"boolean","required":true}]`)},
		{name: "JsonValue", kind: "scalar", description: "Any JSON value"},
	}
}

// generateTypes makes a type of every enum and of every operation's parameters.
func (a *Adapter) generateTypes() {
	taken := map[string]bool{}
	for _, t := range protocolTypes() {
		taken[t.name] = true
	}
	unique := func(name string) string {
		base := name
		for i := 2; taken[name]; i++ {
			name = base + strconv.Itoa(i)
		}
		taken[name] = true
		return name
	}
	for _, t := range a.declared {
		taken[t.name] = true
	}
	for _, op := range a.ops {
		base := camel(op.name)
		for _, p := range op.params {
			if len(p.enum) > 0 {
				a.generated = append(a.generated, generatedType{name: unique(base + camel(p.name)), kind: "enum", of: op, param: p})
			}
		}
		if len(op.params) > 0 {
			a.generated = append(a.generated, generatedType{name: unique(base + "Params"), kind: "object", of: op})
		}
	}
	a.generated = append(a.generated, a.declared...)
}

// camel makes get_issue into GetIssue.
func camel(s string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == '_' || r == '-' }) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}
