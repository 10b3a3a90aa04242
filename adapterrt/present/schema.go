package present

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
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
		if d.MinLength == 1 {
			d.MinLength = -1 // a model knows that a name is not empty, and reads this with every request
		}
		d.Description = inBase64(op, i, d.Description)
		var notes []string
		if p.Key() != p.Name {
			notes = append(notes, sentAs+p.Wire)
		}
		o := valueMembers(wire.Members(nil), &d, notes, true)
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
		props = props.Raw(p.Key(), o.End())
		if p.Required {
			required = append(required, p.Key())
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

// sentAs begins the note about a value that has another name in the request.
const sentAs = "sent as "

// valueMembers appends the members of the schema of d to o. notes are added to its description. input says that a model writes the
// value: then names that providers of models refuse are replaced, the description of a member has its own, and the forms of objects
// are told.
func valueMembers(o wire.Members, d *file.Definition, notes []string, input bool) wire.Members {
	if d.Also == 0 {
		o = o.Str("type", d.Type.String())
	} else {
		o = o.Strs("type", append([]string{d.Type.String()}, d.Also.Names()...))
	}
	valid := ""
	if d.Pattern != nil {
		var ok bool
		if valid, ok = pattern.ECMA(d.Pattern.String()); !ok {
			notes = append(notes, "pattern, in RE2 syntax: "+d.Pattern.String())
		}
	}
	if description := noted(d.Description, notes); description != "" {
		o = o.Str("description", description)
	}
	if len(d.Enum) > 0 {
		values := d.Allowed()
		if d.Also&file.AlsoNull != 0 {
			values = append(values[:len(values)-1], ",null]"...)
		}
		o = o.Raw("enum", values)
	}
	o = withBounds(o, d)
	if valid != "" {
		o = o.Raw("pattern", clean.EscapeHidden(wire.AppendQuoted(nil, valid)))
	}
	if d.Format != "" {
		o = o.Str("format", d.Format)
	}
	o = withExtent(o, d)
	switch {
	case d.Items != nil:
		o = o.Raw("items", valueMembers(wire.Members(nil), d.Items, nil, input).End())
	case d.Type == file.TypeArray: // some APIs of models refuse an array without items
		o = o.Raw("items", []byte("{}"))
	}
	if d.Properties != nil || input && d.Forms != nil {
		o = objectMembers(o, d, input)
	}
	if d.Values != nil {
		o = o.Raw("additionalProperties", valueMembers(wire.Members(nil), d.Values, nil, input).End())
	}
	return o
}

// objectMembers appends what the schema of the object d says about its members.
func objectMembers(o wire.Members, d *file.Definition, input bool) wire.Members {
	var all []file.Property
	if d.Properties != nil {
		all = *d.Properties
	}
	schemas := make(map[string][]byte, len(all))
	for i := range all {
		e := &all[i]
		var notes []string
		if input && e.Key() != e.Name {
			notes = append(notes, sentAs+e.Name)
		}
		schemas[e.Name] = valueMembers(wire.Members(nil), &e.Definition, notes, input).End()
	}
	var forms []byte
	var inForm map[string]bool
	if input && d.Forms != nil {
		forms, inForm = formsOf(d, schemas)
	}
	list := wire.Members(nil)
	var required []string
	for i := range all {
		e := &all[i]
		name := e.Name
		if input {
			name = e.Key()
		}
		if !inForm[e.Name] {
			list = list.Raw(name, schemas[e.Name])
		}
		if e.Required {
			required = append(required, name)
		}
	}
	o = o.Raw("properties", list.End())
	if required != nil {
		o = o.Strs("required", required)
	}
	switch {
	case forms == nil:
	case d.Also != 0 || !isTagged(d.Forms): // null fits each of them, and what nothing tells apart may fit several
		o = o.Raw("anyOf", forms)
	default:
		o = o.Raw("oneOf", forms)
	}
	return o
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

// maxNote is the largest number of characters of what is added to a description.
const maxNote = 300

// noted returns a description, cut to its usual length, with notes behind it.
func noted(description string, notes []string) string {
	text := shortened(description, maxParamDescription)
	for _, note := range notes {
		text = strings.TrimLeft(text+" ("+clean.Text(note, maxNote)+")", " ")
	}
	return text
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
