package setting

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// Limits of one file or variable. Each use of a YAML alias counts.
const (
	maxDepth  = 64
	maxValues = 100_000
)

// File sets the settings that the YAML text of the file called name contains. A file
// that sets nothing is valid.
func (l *Layers) File(name string, text []byte) {
	l.text(name, text, func(n *yaml.Node) string { return name + ":" + strconv.Itoa(n.Line) })
}

// Part is File for a text that was made of what stands at a place in a file.
func (l *Layers) Part(at string, text []byte) {
	l.text(at, text, func(*yaml.Node) string { return at })
}

func (l *Layers) text(name string, text []byte, where func(*yaml.Node) string) {
	l.values = 0
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		l.yamlError(name, "", withTab(err, text))
		return
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.add(name, "", "more than one YAML document; keep one")
		return
	}
	l.lay(where, "", doc.Content[0], l.into, maxDepth)
}

// lay decodes n into v, setting by setting.
func (l *Layers) lay(where func(*yaml.Node) string, path string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch l.values++; {
	case depth == 0:
		l.add(where(n), path, "nested too deeply")
		return
	case l.values == maxValues:
		l.add(where(n), path, "more than %d values", maxValues)
		return
	case l.values > maxValues:
		return
	}
	if path != "" {
		l.origins[path] = where(n)
	}
	null := n.Kind == yaml.ScalarNode && n.Tag == "!!null"
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		if null {
			v.SetZero()
			return
		}
		l.allocate(v)
		if n.Kind != yaml.MappingNode {
			fields, _ := fieldsOf(v.Elem())
			l.add(where(n), path, "expected %s; %s", form(t), mayHave(path, fields))
			return
		}
		l.members(where, path, n, v.Elem(), depth)
	case null && (path != "" || t.Kind() != reflect.Struct):
		// a null sets nothing
	case isLeaf(v):
		l.leaf(where, path, n, v)
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		l.members(where, path, n, v, depth)
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		all := reflect.MakeMap(t)
		l.each(where, path, n, func(key, value *yaml.Node) {
			e := reflect.New(t.Elem()).Elem()
			l.lay(where, Join(path, key.Value), value, e, depth-1)
			all.SetMapIndex(reflect.ValueOf(key.Value), e)
		})
		if v.IsNil() {
			v.Set(all)
			return
		}
		for _, k := range all.MapKeys() {
			v.SetMapIndex(k, all.MapIndex(k))
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		all := reflect.MakeSlice(t, len(n.Content), len(n.Content))
		for i, e := range n.Content {
			l.lay(where, fmt.Sprintf("%s[%d]", path, i), e, all.Index(i), depth-1)
		}
		v.Set(all)
	case t.Kind() == reflect.Struct && path != "":
		fields, _ := fieldsOf(v)
		l.add(where(n), path, "expected %s; %s", form(t), mayHave(path, fields))
	case t.Kind() == reflect.Slice && n.Kind == yaml.ScalarNode && l.MeantList != nil && l.MeantList(path, n.Value) != "":
		l.add(where(n), path, "is a list: %s", l.MeantList(path, n.Value))
	default:
		l.add(where(n), path, "expected %s", form(t))
	}
}

// mayHave lists the settings below path.
func mayHave(path string, fields map[string]reflect.Value) string {
	return cmp.Or(path, "the configuration") + " may have " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// members decodes a mapping into a struct.
func (l *Layers) members(where func(*yaml.Node) string, path string, n *yaml.Node, v reflect.Value, depth int) {
	fields, rest := fieldsOf(v)
	l.each(where, path, n, func(key, value *yaml.Node) {
		at := Join(path, key.Value)
		switch f, ok := fields[key.Value]; {
		case ok:
			l.lay(where, at, value, f, depth-1)
		case rest.IsValid():
			if rest.IsNil() {
				rest.Set(reflect.MakeMap(rest.Type()))
			}
			e := reflect.New(rest.Type().Elem()).Elem()
			l.lay(where, at, value, e, depth-1)
			rest.SetMapIndex(reflect.ValueOf(key.Value), e)
		default:
			if instead, was := l.removed[at]; was {
				l.add(where(key), at, "this setting was removed: %s", instead)
				return
			}
			if near := Nearest(key.Value, slices.Collect(maps.Keys(fields))); near != "" {
				l.add(where(key), at, "unknown setting%s", suggest(Join(path, near)))
				return
			}
			if path == "" {
				if deeper := ending(v.Type(), "", key.Value); len(deeper) > 0 && len(deeper) <= 3 {
					l.add(where(key), at, "unknown setting%s", suggest(strings.Join(deeper, " or ")))
					return
				}
			}
			if l.listed[path] { // such as in a file of another program
				l.add(where(key), at, "unknown setting")
				return
			}
			if l.listed == nil {
				l.listed = map[string]bool{}
			}
			l.listed[path] = true
			l.add(where(key), at, "unknown setting; %s", mayHave(path, fields))
		}
	})
}

// ending returns the paths of settings below path that end in this name.
func ending(t reflect.Type, path, name string) (all []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		if path != "" && key == name {
			all = append(all, Join(path, key))
		}
		all = append(all, ending(f.Type, Join(path, key), name)...)
	}
	return all
}

// each calls do for every key of a mapping. A key that the mapping repeats is a
// mistake, and do is called for its first occurrence only.
func (l *Layers) each(where func(*yaml.Node) string, path string, n *yaml.Node, do func(key, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if line, twice := first[key.Value]; twice {
			l.add(where(key), Join(path, key.Value), "set twice; the first time in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		do(key, n.Content[i+1])
	}
}

func (l *Layers) leaf(where func(*yaml.Node) string, path string, n *yaml.Node, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]() && n.Value == "0":
		v.SetInt(0)
		return
	case v.Type() == reflect.TypeFor[time.Duration]() && n.Tag == "!!int":
		l.add(where(n), path, "expected %s; did you mean %ss?", form(v.Type()), n.Value)
		return
	case v.CanInt() && n.Tag == "!!float": // the decoder would truncate it
		l.add(where(n), path, "expected %s", form(v.Type()))
		return
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		l.decodeError(where, path, n, v.Type(), err)
	}
}

// inLine matches the line number with which errors of the YAML decoder begin.
var inLine = pattern.Later(`^(?:yaml: )?line (\d+): `)

// decodeError notes why a value does not fit its setting. The decoder's own texts quote
// values, which may be secrets: they are kept only if the setting's type has an
// UnmarshalYAML method.
func (l *Layers) decodeError(where func(*yaml.Node) string, path string, n *yaml.Node, t reflect.Type, err error) {
	texts := []string{err.Error()}
	if of, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = nil
		if isComposite(t) {
			texts = of.Errors
		}
	}
	if texts == nil || n.Kind != yaml.ScalarNode && !isComposite(t) {
		l.add(where(n), path, "expected %s", form(t))
		return
	}
	for _, text := range texts {
		at := *n
		if line := inLine().FindStringSubmatch(text); line != nil {
			text = text[len(line[0]):]
			at.Line, _ = strconv.Atoi(line[1])
		}
		l.add(where(&at), path, "%s", text)
	}
}

// withTab returns err, an error of the YAML decoder, or what is wrong in its place if that is a tab.
func withTab(err error, text []byte) error {
	found := inLine().FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	line, _ := strconv.Atoi(found[1])
	for at, content := range bytes.Split(text, []byte("\n")) {
		before := content[:len(content)-len(bytes.TrimLeft(content, " \t"))]
		if near := at + 1; near >= line-1 && near <= line+1 && bytes.IndexByte(before, '\t') >= 0 {
			return fmt.Errorf("yaml: line %d: a tab: indent with spaces", near)
		}
	}
	return err
}

// yamlError notes that the text is not YAML.
func (l *Layers) yamlError(where, path string, err error) {
	file, text := where, err.Error()
	if line := inLine().FindStringSubmatch(text); line != nil {
		where, text = where+":"+line[1], text[len(line[0]):]
	}
	form := "YAML"
	if filepath.Ext(file) == ".json" {
		form = "JSON"
	}
	l.add(where, path, "not "+form+": %s", strings.TrimPrefix(text, "yaml: "))
}

// allocate makes what a nil pointer points to, with the defaults of its type. The
// type's UnmarshalYAML sets these for an empty mapping.
func (l *Layers) allocate(v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
		_ = yaml.Unmarshal([]byte("{}"), v.Interface()) // cannot fail for a type that has defaults
	}
}

// isLeaf reports whether a setting is decoded in one step: it is a single value, or its
// type has an UnmarshalYAML method.
func isLeaf(v reflect.Value) bool {
	_, own := reflect.New(v.Type()).Interface().(yaml.Unmarshaler)
	return own || !isComposite(v.Type())
}

func isComposite(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return true
	case reflect.Pointer:
		return t.Elem().Kind() == reflect.Struct
	}
	return false
}

// fieldsOf returns the settings of a struct by their keys, and the inline map for all
// other keys, if the struct has one.
func fieldsOf(v reflect.Value) (fields map[string]reflect.Value, rest reflect.Value) {
	fields = map[string]reflect.Value{}
	for field, f := range v.Fields() {
		switch key, options, _ := strings.Cut(field.Tag.Get("yaml"), ","); {
		case key == "-":
		case key != "":
			fields[key] = f
		case options == "inline":
			rest = f
		}
	}
	return fields, rest
}

// former is a type that describes the form of its values.
type former interface{ Form() string }

// form describes the values of a type, for error messages.
func form(t reflect.Type) string {
	if f, ok := reflect.New(t).Interface().(former); ok {
		return f.Form()
	}
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 10s, 5m or 1h30m"
	case k == reflect.Pointer:
		return form(t.Elem())
	case k == reflect.Bool:
		return "true or false"
	case reflect.Int <= k && k <= reflect.Uint64:
		return "a whole number"
	case k == reflect.Float64:
		return "a number"
	case k == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of texts such as [a, b]"
	case k == reflect.Slice:
		return "a list"
	case k == reflect.Struct || k == reflect.Map:
		return "a mapping of keys to values"
	}
	return "a text"
}

// Join returns the path of a setting below another one, or at the top.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
