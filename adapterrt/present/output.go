package present

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// outputSchemaOf returns the schema of an operation's result, or nil if the file does not describe it. It is an object in every
// revision. Clients refuse a result that does not fit, but an API may answer otherwise than its description says, and a result that
// was cut lacks members. Therefore the schema describes the data and accepts any other.
func outputSchemaOf(op *file.Operation) []byte {
	if op.Schema == nil {
		return nil
	}
	data := slices.Concat([]byte(`{"anyOf":[`), answerMembers(wire.Members(nil), op.Schema).End(), []byte(`,{}]}`))
	props := wire.Members(nil).Raw("success", []byte(`{"type":"boolean"}`)).Raw("data", data).Raw("error", []byte(`{"type":"object"}`)).End()
	return wire.Members(nil).Str("type", "object").Raw("properties", props).Strs("required", []string{"success"}).End()
}

// answerMembers appends the members of the schema of d, which describes an answer, to o. It has no format, pattern, length or
// bound: they tell a model little, and clients fail with what their library does not know, as Python's with \p{L}.
func answerMembers(o wire.Members, d *file.Definition) wire.Members {
	if d.Also == 0 {
		o = o.Str("type", d.Type.String())
	} else {
		o = o.Strs("type", append([]string{d.Type.String()}, d.Also.Names()...))
	}
	if d.Description != "" {
		o = o.Str("description", shortened(d.Description, maxParamDescription))
	}
	if len(d.Enum) > 0 {
		o = o.Raw("enum", d.Allowed())
	}
	if d.Items != nil {
		o = o.Raw("items", answerMembers(wire.Members(nil), d.Items).End())
	}
	if d.Properties == nil {
		return o
	}
	list := wire.Members(nil)
	var required []string
	for i := range *d.Properties {
		e := &(*d.Properties)[i]
		list = list.Raw(e.Name, answerMembers(wire.Members(nil), &e.Definition).End())
		if e.Required {
			required = append(required, e.Name)
		}
	}
	o = o.Raw("properties", list.End())
	if required != nil {
		o = o.Strs("required", required)
	}
	return o
}

// saidOfOutput returns what the description of the tool for op says of its results: that they are structured, and how to keep
// those of reads small; "" if they are a text only. Models see either form.
func saidOfOutput(op *file.Operation) string {
	switch {
	case op.Schema == nil:
		return ""
	case op.Category != file.Read:
		return " (structured output)"
	case op.Paging != nil && op.Fields != nil:
		return " (structured output; page, or select fields)"
	case op.Paging != nil:
		return " (structured output; page large results)"
	case op.Fields != nil:
		return " (structured output; select fields)"
	}
	return " (structured output; narrow large results)"
}
