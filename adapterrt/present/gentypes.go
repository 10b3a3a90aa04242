package present

import (
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// generatedType is one entry of introspect types: a type of the specification, a type that
// a file declares, or a type generated from an operation's parameters or from an enum.
type generatedType struct {
	file.DeclaredType
	of    *file.Operation // from which it is generated, nil for the other two
	param *file.Param     // from whose enum it is generated; nil for none
}

func (t *generatedType) object() wire.Members {
	o := wire.Members(nil).Str("name", t.Name).Str("kind", t.Kind)
	description := t.Description
	switch {
	case t.param != nil:
		description = "Values of " + t.param.Name + " of " + t.of.Name
	case t.of != nil:
		description = "Parameters of " + t.of.Name
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
		for _, e := range t.param.Enum {
			words = append(words, e.Text)
		}
		dst = append(append(dst, `,"values":`...), clean.EscapeHidden(wire.AppendStrings(nil, words))...)
	case t.of != nil:
		dst = appendFields(append(dst, `,"fields":`...), t.of)
	default:
		dst = append(dst, t.Members...)
	}
	return append(dst, "}}"...)
}

// appendFields appends the operation's parameters as the fields of a type.
func appendFields(dst []byte, op *file.Operation) []byte {
	dst = append(dst, '[')
	for _, p := range op.Params {
		if p.Hidden {
			continue
		}
		dst = wire.Comma(dst)
		o := wire.Members(nil).Str("name", p.Name).Str("type", p.Type.String()).Bool("required", p.Required)
		if p.Description != "" {
			o = o.Str("description", p.Description)
		}
		dst = append(dst, o.End()...)
	}
	return append(dst, ']')
}

// generateTypes returns a type for every enum and for every operation's parameters, and the
// types that the file declares.
func generateTypes(a *file.Adapter) (generated []generatedType) {
	taken := map[string]bool{}
	for _, t := range file.ProtocolTypes() {
		taken[t.Name] = true
	}
	unique := func(name string) string {
		base := name
		for i := 2; taken[name]; i++ {
			name = base + strconv.Itoa(i)
		}
		taken[name] = true
		return name
	}
	for _, t := range a.Declared {
		taken[t.Name] = true
	}
	for _, op := range a.Operations {
		base := camel(op.Name)
		for _, p := range op.Params {
			if len(p.Enum) > 0 {
				generated = append(generated, generatedType{DeclaredType: file.DeclaredType{Name: unique(base + camel(p.Name)), Kind: "enum"}, of: op, param: p})
			}
		}
		if len(op.Params) > 0 {
			generated = append(generated, generatedType{DeclaredType: file.DeclaredType{Name: unique(base + "Params"), Kind: "object"}, of: op})
		}
	}
	for _, t := range a.Declared {
		generated = append(generated, generatedType{DeclaredType: t})
	}
	return generated
}

// camel makes get_issue into GetIssue.
func camel(s string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == '_' || r == '-' }) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}
