package slow

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// choice is a multi-select property that was asked as one boolean per option.
// It is what the note of a request remembers.
type choice struct {
	Name     string // as it stands in JSON
	Options  []string
	Required bool
}

func (j *job) elicitationRequest() {
	switch {
	case j.down(r06):
		j.cannotElicit(-32601, "Method not found: elicitation/create")
		return
	case !j.down(r11):
		return
	case !j.Facts.Has(wire.ClientElicitation):
		j.cannotElicit(-32601, "Method not found: elicitation/create")
		return
	case j.isText("params.mode", "url"):
		j.cannotElicit(-32602, "Client does not support elicitation mode: url")
		return
	case !j.Facts.Has(wire.ClientElicitationForm):
		j.cannotElicit(-32602, "Client does not support elicitation mode: form")
		return
	}
	j.strip("params", "mode")
	j.strip("params.requestedSchema", "$schema")
	j.stripTask()
	j.formProperties("params.requestedSchema")
}

func (j *job) cannotElicit(code int, message string) {
	switch action := j.ElicitationFallback; action {
	case "cancel", "decline":
		j.answer(`"result":{"action":"` + action + `"}`)
	default:
		j.refuse(code, message)
	}
}

func (j *job) formProperties(path string) {
	properties := j.at(path + ".properties")
	if !j.at(path).IsObject() || !properties.IsObject() {
		return
	}
	var required []gjson.Result
	if r := j.at(path + ".required"); r.IsArray() {
		required = r.Array()
	}
	var choices []choice
	var out []string
	properties.ForEach(func(key, p gjson.Result) bool {
		if options := optionsOf(p); options != nil {
			c := choice{Name: key.Raw, Required: slices.ContainsFunc(required, func(r gjson.Result) bool {
				return r.Type == gjson.String && unquote(r) == unquote(key)
			})}
			for i, o := range options {
				c.Options = append(c.Options, o.value)
				out = append(out, quote(unquote(key)+"."+strconv.Itoa(i))+":"+o.property(key, p))
			}
			choices = append(choices, c)
			return true
		}
		out = append(out, key.Raw+":"+j.single(p))
		return true
	})
	j.set(path+".properties", "{"+strings.Join(out, ",")+"}")
	if len(choices) == 0 {
		return
	}
	left := slices.DeleteFunc(required, func(r gjson.Result) bool {
		return r.Type == gjson.String && slices.ContainsFunc(choices, func(c choice) bool {
			return unquote(r) == unquote(gjson.Parse(c.Name))
		})
	})
	if j.at(path + ".required").IsArray() {
		raws := make([]string, len(left))
		for i, r := range left {
			raws[i] = r.Raw
		}
		j.set(path+".required", "["+strings.Join(raws, ",")+"]")
	}
	note, err := json.Marshal(choices)
	if err != nil {
		panic(err) // strings and booleans
	}
	j.made = string(note)
}

// option is one entry of a multi-select; value and title as they stand in JSON.
type option struct{ value, title string }

// optionsOf is nil for everything but a well-formed multi-select.
func optionsOf(p gjson.Result) []option {
	if !p.IsObject() || textAt(p, "type") != "array" || !p.Get("items").IsObject() {
		return nil
	}
	out := []option{}
	if titled := p.Get("items.anyOf"); titled.IsArray() {
		for _, o := range titled.Array() {
			value, title := o.Get("const"), o.Get("title")
			if !o.IsObject() || value.Type != gjson.String {
				return nil
			}
			if title.Type != gjson.String {
				title = value
			}
			out = append(out, option{value.Raw, title.Raw})
		}
		return out
	}
	untitled := p.Get("items.enum")
	if !untitled.IsArray() {
		return nil
	}
	for _, o := range untitled.Array() {
		if o.Type != gjson.String {
			return nil
		}
		out = append(out, option{o.Raw, o.Raw})
	}
	return out
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
	if chosen := p.Get("default"); chosen.IsArray() {
		for _, c := range chosen.Array() {
			if c.Type == gjson.String && unquote(c) == unquote(gjson.Parse(o.value)) {
				return out + `,"default":true}`
			}
		}
	}
	return out + `}`
}

// single is the schema of a property with one value.
func (j *job) single(p gjson.Result) string {
	if !p.IsObject() {
		return p.Raw
	}
	var values, titles []string
	for _, o := range p.Get("oneOf").Array() {
		value, title := o.Get("const"), o.Get("title")
		if !value.Exists() {
			values = nil
			break
		}
		if !title.Exists() {
			title = value
		}
		values, titles = append(values, value.Raw), append(titles, title.Raw)
	}
	hasEnum := p.Get("enum").Exists() || p.Get("oneOf").Exists()
	kind := textAt(p, "type")
	noDefault := (hasEnum || kind == "string" || kind == "number" || kind == "integer") && j.StripMode != "lenient"
	var out []string
	p.ForEach(func(key, v gjson.Result) bool {
		switch {
		case key.String() == "oneOf" && len(values) > 0 && v.IsArray():
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
	var choices []choice
	if !j.up(r11) || j.Note == "" || json.Unmarshal([]byte(j.Note), &choices) != nil {
		return
	}
	content := j.at("result.content")
	if !content.IsObject() {
		return
	}
	var out []string
	chosen := make([][]string, len(choices))
	content.ForEach(func(key, v gjson.Result) bool {
		for c, choice := range choices {
			for i := range choice.Options {
				if unquote(key) == unquote(gjson.Parse(choice.Name))+"."+strconv.Itoa(i) {
					if v.Type == gjson.True {
						chosen[c] = append(chosen[c], strconv.Itoa(i))
					}
					return true
				}
			}
		}
		out = append(out, key.Raw+":"+v.Raw)
		return true
	})
	for c, choice := range choices {
		var values []string
		for i, o := range choice.Options {
			if slices.Contains(chosen[c], strconv.Itoa(i)) {
				values = append(values, o)
			}
		}
		if values != nil || choice.Required {
			out = append(out, choice.Name+":["+strings.Join(values, ",")+"]")
		}
	}
	j.set("result.content", "{"+strings.Join(out, ",")+"}")
}
