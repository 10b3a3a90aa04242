package slowtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// choice is a multi-select property that became one boolean for each option. Its name and
// options are JSON strings. The note of a request has an array for each choice: its name,
// whether it is required, its bounds if it has any, and its options.
type choice struct {
	name     string
	required bool
	bounds   string // as "[least,most]", most -1 for any number; "" for no bounds
	options  []string
}

func (c choice) note() string {
	parts := []string{c.name, strconv.FormatBool(c.required)}
	if c.bounds != "" {
		parts = append(parts, c.bounds)
	}
	return "[" + strings.Join(append(parts, c.options...), ",") + "]"
}

// bind sets the bounds of c from the property p.
func (c *choice) bind(p gjson.Result, options int) {
	least, most := int64(0), int64(-1)
	if n := p.Get("minItems"); isNatural(n) && (n.Num > 1 || n.Num > 0 && c.required) {
		least = int64(n.Num)
	}
	if n := p.Get("maxItems"); isNatural(n) && n.Num < float64(options) {
		most = int64(n.Num)
	}
	if least != 0 || most != -1 {
		c.bounds = fmt.Sprintf("[%d,%d]", least, most)
	}
}

func isNatural(n gjson.Result) bool {
	return n.Type == gjson.Number && n.Num >= 0 && n.Num <= 1e9 && n.Num == math.Trunc(n.Num)
}

// asked returns the bounds as text for the user.
func (c choice) asked() string {
	b := gjson.Parse(c.bounds).Array()
	if len(b) == 0 {
		return ""
	}
	least, most := b[0].Int(), b[1].Int()
	text := map[bool]string{true: "none or "}[!c.required && least > 0]
	switch {
	case least == most:
		text += fmt.Sprint("exactly ", most)
	case least > 0 && most >= 0:
		text += fmt.Sprint(least, " to ", most)
	case least > 0:
		text += fmt.Sprint("at least ", least)
	default:
		text += fmt.Sprint("at most ", most)
	}
	return " (choose " + text + ")"
}

func (c choice) fits(chosen int64) bool {
	b := gjson.Parse(c.bounds).Array()
	if len(b) == 0 || chosen == 0 && !c.required {
		return true
	}
	return chosen >= b[0].Int() && (b[1].Int() < 0 || chosen <= b[1].Int())
}

func choicesOf(note string) (list []choice) {
	for _, c := range gjson.Parse(note).Array() {
		parts := c.Array()
		one := choice{name: parts[0].Raw, required: parts[1].Bool()}
		parts = parts[2:]
		if len(parts) > 0 && parts[0].IsArray() {
			one.bounds, parts = parts[0].Raw, parts[1:]
		}
		for _, o := range parts {
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
		options := optionsOf(p)
		c.bind(p, len(options))
		for i, o := range options {
			name := unquote(key) + "." + strconv.Itoa(i)
			if _, ok := taken[name]; ok {
				clash = fmt.Errorf("an option of %s would have the name of a property", key.Raw)
			}
			c.options = append(c.options, o.value)
			out = append(out, quote(name)+":"+o.property(key, p, c.asked()))
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

// option is one entry of a multi-select. Its value and title are JSON strings.
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

// titleOf returns an option's title, or its value if it has no title, as a JSON string.
func titleOf(o gjson.Result) string {
	if title := o.Get("title"); title.Type == gjson.String {
		return title.Raw
	}
	return o.Get("const").Raw
}

// property returns the boolean property for an option of the property p.
func (o option) property(key, p gjson.Result, count string) string {
	description := key.Raw
	for _, name := range []string{"description", "title"} {
		if textAt(p, name) != "" {
			description = p.Get(name).Raw
		}
	}
	out := `{"type":"boolean","title":` + o.title + `,"description":` + strings.TrimSuffix(description, `"`) + count + `"`
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
	noDefault := textAt(p, "type") != "boolean"
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

// elicitationResult replaces the booleans of a form with the arrays that the
// server expects.
func (j *job) elicitationResult() {
	content := j.at("result.content")
	if !j.up(r11) || j.Note == "" || content.Exists() && !content.IsObject() {
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
	fits := true
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
		fits = fits && choice.fits(int64(len(values)))
	}
	switch {
	case !fits && j.isText("result.action", "accept"):
		j.set("result.action", `"decline"`)
		j.remove("result.content")
	case content.Exists():
		j.set("result.content", "{"+strings.Join(out, ",")+"}")
	}
}
