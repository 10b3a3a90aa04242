package slow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// choice is a multi-select property that was asked as one boolean per option;
// name and options as they stand in JSON. The note of a request holds them, each
// as an array of its name, whether it is required, and its options.
type choice struct {
	name     string
	required bool
	options  []string
}

func (c choice) note() string {
	parts := append([]string{c.name, strconv.FormatBool(c.required)}, c.options...)
	return "[" + strings.Join(parts, ",") + "]"
}

func choicesOf(note string) (list []choice) {
	for _, c := range gjson.Parse(note).Array() {
		parts := c.Array()
		one := choice{name: parts[0].Raw, required: parts[1].Bool()}
		for _, o := range parts[2:] {
			one.options = append(one.options, o.Raw)
		}
		list = append(list, one)
	}
	return list
}

func (j *job) elicitationRequest() error {
	url := j.isText("params.mode", "url")
	switch {
	case j.to < r06 || !j.Facts.Has(wire.ClientElicitation):
		j.cannotElicit(-32601, "Method not found: elicitation/create")
		return nil
	case url && (j.to < r11 || !j.Facts.Has(wire.ClientElicitationURL)):
		j.cannotElicit(-32602, "Client does not support elicitation mode: url")
		return nil
	case j.to < r11 && !url && j.at("params.mode").Value() != nil && !j.isText("params.mode", "form"):
		j.cannotElicit(-32602, "Client does not support this elicitation mode")
		return nil
	case !url && !j.Facts.Has(wire.ClientElicitationForm):
		j.cannotElicit(-32602, "Client does not support elicitation mode: form")
		return nil
	case !j.down(r11):
		return nil
	}
	j.strip("params", "mode")
	j.strip("params.requestedSchema", "$schema")
	j.stripTask()
	return j.formProperties("params.requestedSchema")
}

func (j *job) cannotElicit(code int, message string) {
	switch action := j.ElicitationFallback; action {
	case "cancel", "decline":
		j.answer(`"result":{"action":"` + action + `"}`)
	default:
		j.refuse(code, message)
	}
}

func (j *job) formProperties(path string) error {
	properties := j.at(path + ".properties")
	if !j.at(path).IsObject() || !properties.IsObject() {
		return nil
	}
	taken := members(properties)
	required := j.at(path + ".required")
	var choices []choice
	var out []string
	var clash error
	properties.ForEach(func(key, p gjson.Result) bool {
		if textAt(p, "type") != "array" {
			out = append(out, key.Raw+":"+j.single(p))
			return true
		}
		c := choice{name: key.Raw, required: required.IsArray() && contains(required, unquote(key))}
		for i, o := range optionsOf(p) {
			name := unquote(key) + "." + strconv.Itoa(i)
			if _, ok := taken[name]; ok {
				clash = fmt.Errorf("an option of %s would have the name of a property", key.Raw)
			}
			c.options = append(c.options, o.value)
			out = append(out, quote(name)+":"+o.property(key, p))
		}
		choices = append(choices, c)
		return true
	})
	if clash != nil {
		return clash
	}
	j.set(path+".properties", "{"+strings.Join(out, ",")+"}")
	if len(choices) == 0 {
		return nil
	}
	if required.IsArray() {
		var left []string
		for _, r := range required.Array() {
			gone := slices.ContainsFunc(choices, func(c choice) bool {
				return r.Type == gjson.String && unquote(r) == unquote(gjson.Parse(c.name))
			})
			if !gone {
				left = append(left, r.Raw)
			}
		}
		j.set(path+".required", "["+strings.Join(left, ",")+"]")
	}
	notes := make([]string, len(choices))
	for i, c := range choices {
		notes[i] = c.note()
	}
	j.made = "[" + strings.Join(notes, ",") + "]"
	if len(j.made) > wire.MaxNote {
		return fmt.Errorf("%d bytes are more than can be remembered", len(j.made))
	}
	return nil
}

func contains(list gjson.Result, text string) bool {
	return slices.ContainsFunc(list.Array(), func(v gjson.Result) bool {
		return v.Type == gjson.String && unquote(v) == text
	})
}

// option is one entry of a multi-select; value and title as they stand in JSON.
type option struct{ value, title string }

func optionsOf(p gjson.Result) (list []option) {
	items := p.Get("items")
	if !items.IsObject() {
		return nil
	}
	if untitled := items.Get("enum"); untitled.Exists() {
		for _, o := range arrayOf(untitled) {
			if o.Type == gjson.String {
				list = append(list, option{o.Raw, o.Raw})
			}
		}
		return list
	}
	titled := items.Get("anyOf")
	if !titled.Exists() {
		titled = items.Get("oneOf")
	}
	for _, o := range arrayOf(titled) {
		if value := o.Get("const"); o.IsObject() && value.Type == gjson.String {
			list = append(list, option{value.Raw, titleOf(o)})
		}
	}
	return list
}

func arrayOf(v gjson.Result) []gjson.Result {
	if !v.IsArray() {
		return nil
	}
	return v.Array()
}

// titleOf is an option's title, or else its value, as it stands in JSON.
func titleOf(o gjson.Result) string {
	if title := o.Get("title"); title.Type == gjson.String {
		return title.Raw
	}
	return o.Get("const").Raw
}

// property is the boolean that stands for the option of the property p.
func (o option) property(key, p gjson.Result) string {
	description := key.Raw
	for _, name := range []string{"description", "title"} {
		if textAt(p, name) != "" {
			description = p.Get(name).Raw
		}
	}
	out := `{"type":"boolean","title":` + o.title + `,"description":` + description
	if chosen := p.Get("default"); chosen.IsArray() && contains(chosen, unquote(gjson.Parse(o.value))) {
		out += `,"default":true`
	}
	return out + `}`
}

// single is the schema of a property with one value.
func (j *job) single(p gjson.Result) string {
	if !p.IsObject() {
		return p.Raw
	}
	var values, titles []string
	for _, o := range arrayOf(p.Get("oneOf")) {
		if o.IsObject() && o.Get("const").Exists() {
			values, titles = append(values, o.Get("const").Raw), append(titles, titleOf(o))
		}
	}
	noDefault := textAt(p, "type") != "boolean" && j.StripMode != "lenient"
	var out []string
	p.ForEach(func(key, v gjson.Result) bool {
		switch {
		case key.String() == "oneOf" && v.IsArray():
			out = append(out, `"enum":[`+strings.Join(values, ",")+`],"enumNames":[`+strings.Join(titles, ",")+`]`)
		case key.String() == "default" && noDefault:
		default:
			out = append(out, key.Raw+":"+v.Raw)
		}
		return true
	})
	return "{" + strings.Join(out, ",") + "}"
}

// elicitationResult turns the booleans of a form back into the arrays that the
// server asked for.
func (j *job) elicitationResult() {
	content := j.at("result.content")
	if !j.up(r11) || j.Note == "" || !content.IsObject() {
		return
	}
	choices := choicesOf(j.Note)
	chosen := make([]map[int]bool, len(choices))
	var out []string
	content.ForEach(func(key, v gjson.Result) bool {
		for c, choice := range choices {
			for i := range choice.options {
				if unquote(key) == unquote(gjson.Parse(choice.name))+"."+strconv.Itoa(i) {
					if chosen[c] == nil {
						chosen[c] = map[int]bool{}
					}
					chosen[c][i] = v.Type == gjson.True
					return true
				}
			}
		}
		out = append(out, key.Raw+":"+v.Raw)
		return true
	})
	for c, choice := range choices {
		var values []string
		for i, o := range choice.options {
			if chosen[c][i] {
				values = append(values, o)
			}
		}
		if values != nil || choice.required {
			out = append(out, choice.name+":["+strings.Join(values, ",")+"]")
		}
	}
	j.set("result.content", "{"+strings.Join(out, ",")+"}")
}
