package adapterrt

import (
	"bytes"
	"strconv"
	"strings"
)

// generatedType is one entry of introspect types.
type generatedType struct {
	name, kind, description string
	members                 []byte // ,"values":[…] and the like: what its details add
}

func (t *generatedType) object() jsonObject {
	o := jsonObject(nil).str("name", t.name).str("kind", t.kind)
	if t.description != "" {
		o = o.str("description", t.description)
	}
	return o
}

func (t *generatedType) appendItem(dst []byte) []byte {
	return append(dst, t.object().end()...)
}

func (t *generatedType) appendDetail(dst []byte) []byte {
	dst = append(append(dst, `{"type":`...), t.object()...)
	return append(append(dst, t.members...), "}}"...)
}

// protocolTypes are the types of the protocol itself.
func protocolTypes() []generatedType {
	return []generatedType{
		{"SemanticCategory", "enum", "What an operation does to the target", []byte(`,"values":["CREATE","READ","UPDATE","DELETE","EXECUTE"]`)},
		{"OperationInput", "object", "A request", []byte(`,"fields":[{"name":"operation","type":"string","required":true},{"name":"params","type":"object","required":false}]`)},
		{"OperationResult", "union", "The answer to a request", []byte(`,"members":["OperationSuccess","OperationFailure"]`)},
		{"OperationSuccess", "object", "A request that succeeded", []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"data","type":"JsonValue","required":true}]`)},
		{"OperationFailure", "object", "A request that failed", []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"error","type":"object","required":true}]`)},
		{"EndpointPermissions", "object", "What an endpoint may do", []byte(`,"fields":[{"name":"readOnly","type":"boolean","required":true},{"name":"destructive","type":"boolean","required":true}]`)},
		{"JsonValue", "scalar", "Any JSON value", nil},
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
			if len(p.enum) == 0 {
				continue
			}
			var words []string
			for _, e := range p.enum {
				words = append(words, e.text)
			}
			a.generated = append(a.generated, generatedType{
				unique(base + camel(p.name)), "enum", "Values of " + p.name + " of " + op.name,
				appendStrings([]byte(`,"values":`), words),
			})
		}
		if len(op.params) == 0 {
			continue
		}
		fields := []byte(`,"fields":[`)
		for _, p := range op.params {
			if p.hidden {
				continue
			}
			if fields[len(fields)-1] != '[' {
				fields = append(fields, ',')
			}
			o := jsonObject(nil).str("name", p.name).str("type", p.typ.String()).bool("required", p.required)
			if p.description != "" {
				o = o.str("description", p.description)
			}
			fields = append(fields, o.end()...)
		}
		a.generated = append(a.generated, generatedType{
			unique(base + "Params"), "object", "Parameters of " + op.name, bytes.Clone(append(fields, ']')),
		})
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
