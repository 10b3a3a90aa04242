package present

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The schemas are JSON Schema 2020-12 (https://json-schema.org/draft/2020-12), the default
// dialect of MCP. They contain no $ref: APIs of models refuse a request if the schema of one
// tool has a $ref that leads back to itself.

// maxParamDescription is the largest number of characters of a parameter's description in a
// schema.
const maxParamDescription = 120

// fieldsSchema is the schema of the parameter fields, without its last brace. The parameter is
// the same in all operations that have it.
const fieldsSchema = `{"type":"array","items":{"type":"string"},"description":"Dotted paths"`

// inputSchemaOf returns the schema of an operation's parameters.
func inputSchemaOf(op *file.Operation, v guard.Verdict) []byte {
	props := wire.Members(nil)
	var required []string
	for i, p := range op.Params {
		if p.Hidden {
			continue
		}
		d := p.Definition
		if op.Category == file.Update && !p.Required && (p.Place == file.InBody || p.Place == file.InVariables) {
			d.Also |= file.AlsoNull // null is sent, and clears what was there
		}
		if d.MinLength == 1 {
			d.MinLength = -1 // a model knows that a name is not empty, and reads this with every request
		}
		d.Description = inBase64(op, i, d.Description)
		o := schemaMembers(wire.Members(nil), &d)
		if r := op.Fields; r != nil && i == r.Fields {
			o = wire.Members([]byte(fieldsSchema))
		} else if r != nil && i == r.Preset {
			names := slices.Sorted(maps.Keys(op.Adapter.Presets))
			if len(names) == 0 {
				continue
			}
			o = wire.Members(nil).Str("type", "string").Raw("enum", clean.EscapeHidden(wire.AppendStrings(nil, names)))
		}
		if p.Fallback != nil {
			o = o.Raw("default", p.Fallback)
		}
		props = props.Raw(p.Name, o.End())
		if p.Required {
			required = append(required, p.Name)
		}
	}
	for _, t := range tokensOf(op, v) {
		props = props.Raw(t, []byte(`{"type":"string"}`))
	}
	o := wire.Members(nil).Str("type", "object").Raw("properties", props.End())
	if required != nil {
		o = o.Strs("required", required)
	}
	return o.Bool("additionalProperties", false).End()
}

// tokensOf returns the names of the parameters with which a caller repeats a call that was
// held back: after a confirmation, and when a quota has paused.
func tokensOf(op *file.Operation, v guard.Verdict) (names []string) {
	if v == guard.Confirm {
		names = append(names, "_confirmation")
	}
	for _, l := range [...]*file.Limits{op.Limits, op.Adapter.Limits} {
		if l == nil {
			continue
		}
		for _, q := range l.Quotas {
			if q.Pause >= 0 {
				return append(names, "_quota_continue")
			}
		}
	}
	return names
}

// outputSchemaOf returns the schema of an operation's result, or nil if the file does not
// describe it. Clients refuse a result that does not fit, and an API may answer otherwise
// than its description says. Therefore the schema also accepts any other data.
func outputSchemaOf(op *file.Operation) []byte {
	if op.Schema == nil {
		return nil
	}
	data := slices.Concat([]byte(`{"anyOf":[`), schemaMembers(wire.Members(nil), op.Schema).End(), []byte(`,{}]}`))
	props := wire.Members(nil).Raw("success", []byte(`{"type":"boolean"}`)).Raw("data", data).Raw("error", []byte(`{"type":"object"}`)).End()
	return wire.Members(nil).Str("type", "object").Raw("properties", props).Strs("required", []string{"success"}).End()
}

// schemaMembers appends the members of the schema of d to o.
func schemaMembers(o wire.Members, d *file.Definition) wire.Members {
	if d.Also == 0 {
		o = o.Str("type", d.Type.String())
	} else {
		o = o.Strs("type", append([]string{d.Type.String()}, d.Also.Names()...))
	}
	if d.Description != "" {
		o = o.Str("description", shortened(d.Description, maxParamDescription))
	}
	if len(d.Enum) > 0 {
		values := d.Allowed()
		if d.Also&file.AlsoNull != 0 {
			values = append(values[:len(values)-1], ",null]"...)
		}
		o = o.Raw("enum", values)
	}
	o = withBounds(o, d)
	if d.Pattern != nil && isPortable(d.Pattern.String()) {
		o = o.Raw("pattern", clean.EscapeHidden(wire.AppendQuoted(nil, d.Pattern.String())))
	}
	if d.Format != "" {
		o = o.Str("format", d.Format)
	}
	o = withExtent(o, d)
	switch {
	case d.Items != nil:
		o = o.Raw("items", schemaMembers(wire.Members(nil), d.Items).End())
	case d.Type == file.TypeArray: // some APIs of models refuse an array without items
		o = o.Raw("items", []byte("{}"))
	}
	if d.Properties != nil {
		list := wire.Members(nil)
		var required []string
		for i := range *d.Properties {
			e := &(*d.Properties)[i]
			list = list.Raw(e.Name, schemaMembers(wire.Members(nil), &e.Definition).End())
			if e.Required {
				required = append(required, e.Name)
			}
		}
		o = o.Raw("properties", list.End())
		if required != nil {
			o = o.Strs("required", required)
		}
	}
	if d.Values != nil {
		o = o.Raw("additionalProperties", schemaMembers(wire.Members(nil), d.Values).End())
	}
	return o
}

// isPortable reports whether an RE2 expression means the same in ECMA-262, which JSON Schema
// uses (https://json-schema.org/draft/2020-12/json-schema-core#section-6.4). It may reject one
// that does; the runtime checks the pattern in any case.
func isPortable(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"), strings.HasPrefix(rest, "[[:"), strings.HasPrefix(rest, "[^[:"):
			return false
		case pattern[i] == '\\' && i+1 < len(pattern):
			if strings.IndexByte("AzQECapPxG", pattern[i+1]) >= 0 {
				return false
			}
			i++
		}
	}
	return true
}

// shortened returns text with at most the given number of characters. It cuts at a space.
func shortened(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	text = clean.FirstRunes(text, most-1)
	if i := strings.LastIndexByte(text, ' '); i > most/2 {
		text = text[:i]
	}
	return strings.TrimRight(text, " ,;:.") + "…"
}

// inBase64 returns the description of p, whose value op takes as base64 if it is a file. A model cannot know that otherwise.
func inBase64(op *file.Operation, i int, description string) string {
	p := op.Params[i]
	f := p.IsFile()
	whole := op.Request != nil && op.Request.As == file.AsBytes && op.Request.Whole == i
	if !(f != nil && !f.Text) && !whole || strings.Contains(strings.ToLower(description), "base64") {
		return description
	}
	note := "in base64"
	if p.Type == file.TypeArray {
		note = "each " + note
	}
	if description == "" {
		return note
	}
	return shortened(description, maxParamDescription-len(note)-3) + " (" + note + ")"
}
