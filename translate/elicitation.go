package translate

import (
	"errors"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// refuseForm answers an elicitation with an error if the client supports no elicitation, or no forms (C17).
func refuseForm(x *pass, root wire.Node) {
	params := root.Get(wire.Params)
	switch facts := x.m.Facts; {
	case x.t.to.order < rev20250618.order || !facts.Has(wire.ClientElicitation):
		x.cannotElicit(root, -32601, "Method not found: elicitation/create")
	case x.t.to.order < rev20251125.order && unknownMode(params.Get(wire.Mode)):
		x.cannotElicit(root, -32602, "Client does not support this elicitation mode")
	case !params.Get(wire.Mode).Is("url") && !facts.Has(wire.ClientElicitationForm):
		x.cannotElicit(root, -32602, "Client does not support elicitation mode: form")
	}
}

// unknownMode reports whether no revision has the mode. A client whose revision has no modes would take such an
// elicitation as a form.
func unknownMode(mode wire.Node) bool {
	return mode.OK() && mode.Kind() != 'n' && !mode.Is("form") && !mode.Is("url")
}

// refuseURL answers a URL elicitation with an error if the client cannot open URLs. A URL elicitation is never
// translated to a form: a form must not ask for secrets or show links (C18).
func refuseURL(x *pass, root wire.Node) {
	if root.Get(wire.Params).Get(wire.Mode).Is("url") &&
		(x.t.to.order < rev20251125.order || !x.m.Facts.Has(wire.ClientElicitationURL)) {
		x.cannotElicit(root, -32602, "Client does not support elicitation mode: url")
	}
}

func (x *pass) cannotElicit(n wire.Node, code int, message string) {
	x.lost(n, wire.Info)
	if fallback := x.t.options.ElicitationFallback; fallback != "error" {
		x.answerResult(`{"action":"` + fallback + `"}`)
		return
	}
	x.answerError(code, message)
}

var (
	errNoteSize = errors.New("more multi-select options than can be remembered")
	errClash    = errors.New("an option of a multi-select would get the name of another property")
	errNotArray = errors.New("not an array")
)

// flattenForm translates titled choices, multiple choices and defaults of a form to what 2025-06-18 has. A note
// keeps what is needed to rebuild the answer (C19).
func flattenForm(x *pass, schema wire.Node) {
	properties := schema.Get(wire.Properties)
	if !properties.OK() || properties.Kind() != '{' {
		return
	}
	var note []byte
	for p := properties.First(); p.OK(); p = p.Next() {
		switch {
		case p.Kind() != '{':
		case p.Get(wire.Type).Is("array"):
			note = x.flattenMultiSelect(schema, properties, p, note)
		default:
			x.flattenProperty(p)
		}
		if x.done() {
			return
		}
	}
	if note == nil {
		return
	}
	if note = append(note, ']'); len(note) > wire.MaxNote {
		x.fail(properties, errNoteSize)
		return
	}
	x.m.Note = note
}

// flattenProperty rewrites a property that keeps its name.
func (x *pass) flattenProperty(p wire.Node) {
	if options := p.Get(wire.OneOf); options.OK() && options.Kind() == '[' {
		x.movedAs("oneOf", options, wire.Warn)
		w := append(x.m.Writer(), `"enum":[`...)
		w = appendOptions(w, options, func(dst []byte, o wire.Node) []byte { return append(dst, o.Get(wire.Const).Raw()...) })
		w = append(w, `],"enumNames":[`...)
		w = appendOptions(w, options, func(dst []byte, o wire.Node) []byte { return append(dst, optionTitle(o)...) })
		options.Swap(append(w, ']'))
	}
	if p.Get(wire.Type).Is("boolean") {
		return
	}
	for c := p.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Default {
			x.lostAs("default", c, stripLevel(c))
			c.Remove()
		}
	}
}

func appendOptions(dst []byte, options wire.Node, appendOne func([]byte, wire.Node) []byte) []byte {
	for o := elements(options); o.OK(); o = o.Next() {
		if !o.Get(wire.Const).OK() {
			continue
		}
		dst = wire.Comma(dst)
		dst = appendOne(dst, o)
	}
	return dst
}

// optionTitle returns an option's title as a JSON string, or its value if it has no title.
func optionTitle(o wire.Node) []byte {
	if title := o.Get(wire.Title); title.OK() && title.Kind() == '"' {
		return title.Raw()
	}
	return o.Get(wire.Const).Raw()
}

// option is one choice of a multi-select. Both fields are JSON strings.
type option struct{ value, title []byte }

// appendMultiSelect appends the options of a property to list.
func appendMultiSelect(list []option, p wire.Node) []option {
	items := p.Get(wire.Items)
	if values := items.Get(wire.Enum); values.OK() {
		for v := elements(values); v.OK(); v = v.Next() {
			if v.Kind() == '"' {
				list = append(list, option{v.Raw(), v.Raw()})
			}
		}
		return list
	}
	titled := items.Get(wire.AnyOf)
	if !titled.OK() {
		titled = items.Get(wire.OneOf)
	}
	for o := elements(titled); o.OK(); o = o.Next() {
		if c := o.Get(wire.Const); c.OK() && c.Kind() == '"' {
			list = append(list, option{c.Raw(), optionTitle(o)})
		}
	}
	return list
}

// flattenMultiSelect replaces a multi-select with one boolean property for each option, and appends the
// multi-select to note.
func (x *pass) flattenMultiSelect(schema, properties, p wire.Node, note []byte) []byte {
	name := p.Key()
	required := removeRequired(schema, name)
	var room [16]option
	options := appendMultiSelect(room[:0], p)
	if len(options) > 0 {
		x.moved(p, wire.Warn)
	} else {
		x.lost(p, wire.Warn)
	}
	if note == nil {
		note = append(make([]byte, 0, 512), '[')
	} else {
		note = append(note, ',')
	}
	note = append(append(append(note, `["`...), name...), `",`...)
	note = strconv.AppendBool(note, required)
	bounds := boundsOf(p, required, len(options))
	note = bounds.append(note)
	for _, o := range options {
		note = append(append(note, ','), o.value...)
	}
	note = append(note, ']')
	if len(note) > wire.MaxNote {
		x.fail(p, errNoteSize)
		return note
	}
	if len(options) == 0 {
		p.Remove()
		return note
	}
	description, counted := descriptionOf(p), bounds.String()
	w := x.m.Writer()
	for i, o := range options {
		if i > 0 {
			w = append(w, ',')
		}
		from := len(w) + 1
		w = append(append(w, '"'), name...)
		w = strconv.AppendInt(append(w, '.'), int64(i), 10)
		if hasMember(properties, w[from:]) {
			x.fail(p, errClash)
			return note
		}
		w = append(w, `":{"type":"boolean","title":`...)
		w = append(w, o.title...)
		w = append(w, `,"description":"`...)
		w = append(append(append(w, description...), counted...), '"')
		if isDefault(p, o.value) {
			w = append(w, `,"default":true`...)
		}
		w = append(w, '}')
	}
	p.Swap(w)
	return note
}

// descriptionOf returns the text that names the property to the user: its title, its description, or its name.
func descriptionOf(p wire.Node) []byte {
	for _, from := range []wire.Name{wire.Title, wire.Description} {
		if text, ok := nonEmpty(p.Get(from)); ok {
			return text
		}
	}
	return p.Key()
}

func isDefault(p wire.Node, value []byte) bool {
	want, _ := wire.Inner(value)
	for d := elements(p.Get(wire.Default)); d.OK(); d = d.Next() {
		if text, ok := d.Text(); ok && wire.SameText(text, want) {
			return true
		}
	}
	return false
}

// removeRequired removes a property from the list of required ones and reports whether it was in the list.
func removeRequired(schema wire.Node, name []byte) (was bool) {
	for r := elements(schema.Get(wire.Required)); r.OK(); r = r.Next() {
		if text, ok := r.Text(); ok && wire.SameText(text, name) {
			r.Remove()
			was = true
		}
	}
	return was
}

func hasMember(object wire.Node, name []byte) bool {
	for c := object.First(); c.OK(); c = c.Next() {
		if wire.SameText(c.Key(), name) {
			return true
		}
	}
	return false
}

// gatherForm rebuilds the answer to a flattened form, by the note from the translation of the form. It changes an
// answer with too few or too many choices to decline; the caller may ask again instead (C19).
func gatherForm(x *pass, result wire.Node) {
	if len(x.m.Note) == 0 {
		return
	}
	var content wire.Node
	for c := result.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Content {
			content = c
			x.gather(result, c)
		}
	}
	if !content.OK() {
		x.gather(result, content)
	}
}

func (x *pass) gather(result, content wire.Node) {
	if content.OK() && content.Kind() != '{' {
		return
	}
	fits := true
	var fieldRoom [8][]byte
	fields, _ := wire.AppendElements(fieldRoom[:0], x.m.Note, wire.MaxNote)
	for _, field := range fields {
		var room [32][]byte
		parts, _ := wire.AppendElements(room[:0], field, wire.MaxNote)
		if len(parts) < 2 {
			continue
		}
		name, ok := wire.Inner(parts[0])
		if !ok {
			continue
		}
		required, options, bounds := string(parts[1]) == "true", parts[2:], noBounds
		if len(options) > 0 && options[0][0] == '[' {
			bounds, options = readBounds(options[0]), options[1:]
		}
		chosen := 0
		if content.OK() {
			chosen = x.gatherField(content, name, required, options)
		}
		fits = fits && (chosen == 0 && !required || bounds.hold(chosen))
	}
	action := result.Get(wire.Action)
	if fits || !action.Is("accept") {
		return
	}
	x.lostAs("choices", action, wire.Warn)
	x.m.Unfit = true
	action.Put(append(x.m.Writer(), `"decline"`...))
	for c := result.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Content {
			c.Remove()
		}
	}
}

// gatherField replaces the booleans of a field's options with one array, and returns the number of chosen options.
func (x *pass) gatherField(content wire.Node, name []byte, required bool, options [][]byte) (count int) {
	var room [32]bool
	chosen := append(room[:0], make([]bool, len(options))...)
	var first wire.Node
	for c := content.First(); c.OK(); c = c.Next() {
		i, ok := optionOf(c.Key(), name, len(options))
		if !ok {
			continue
		}
		if c.Kind() == 't' && !chosen[i] {
			chosen[i] = true
			count++
		}
		if first.OK() {
			c.Remove()
		} else {
			first = c
		}
	}
	if count == 0 && !required {
		if first.OK() {
			first.Remove()
		}
		return 0
	}
	w := append(append(append(x.m.Writer(), '"'), name...), `":[`...)
	for i, o := range options {
		if !chosen[i] {
			continue
		}
		w = wire.Comma(w)
		w = append(w, o...)
	}
	w = append(w, ']')
	if first.OK() {
		first.Swap(w)
	} else {
		content.Add(w)
	}
	return count
}

// optionOf reads the index of an option from the name of its boolean.
func optionOf(key, name []byte, n int) (i int, ok bool) {
	var room [2][64]byte
	text := wire.AppendUnescaped(room[0][:0], key)
	prefix := append(wire.AppendUnescaped(room[1][:0], name), '.')
	if len(text) <= len(prefix) || string(text[:len(prefix)]) != string(prefix) {
		return 0, false
	}
	i, err := strconv.Atoi(string(text[len(prefix):]))
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == string(text[len(prefix):])
}
