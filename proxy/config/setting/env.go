package setting

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// Env sets the settings whose variables environ ("NAME=value") contains, and so overrides
// earlier layers. It looks at names that begin with prefix. Values are written
// as in the file; a list may also be a,b without brackets. An empty value sets only
// strings and lists. A variable that belongs to no setting is a mistake, unless other
// lists it or Kubernetes sets it for a service of the namespace.
func (l *Layers) Env(prefix string, environ, other []string) {
	values := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, prefix) {
			values[name] = value
		}
	}
	if len(values) == 0 {
		return // as at most starts: to go through all settings takes longer than to read the file
	}
	var names []string
	l.variables(prefix, values, l.into, "", func(name string) {
		names = append(names, strings.TrimPrefix(name, prefix))
		delete(values, name)
	})
	left := make([]string, 0, len(values))
	for name := range values {
		if !slices.Contains(other, name) && !ofKubernetes().MatchString(name) {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	for _, path := range slices.Sorted(maps.Keys(l.removed)) {
		name := variable(prefix, path)
		if i, ok := slices.BinarySearch(left, name); ok {
			left = slices.Delete(left, i, i+1)
			l.unknown = append(l.unknown, Mistake{Where: name, Text: "this setting was removed: " + l.removed[path]})
		}
	}
	for _, name := range left {
		near := Nearest(name[len(prefix):], names) // the prefix is no likeness
		if near != "" {
			near = prefix + near
		}
		l.unknown = append(l.unknown, Mistake{Where: name, Text: "no setting has this variable" + suggest(near)})
	}
}

// ofKubernetes matches the variables that Kubernetes sets in each container for each
// service. The name of a service may begin with our prefix.
var ofKubernetes = pattern.Later(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// variables sets the settings below v from values, outer ones before inner ones, and
// calls known with the name of each setting's variable.
func (l *Layers) variables(prefix string, values map[string]string, v reflect.Value, path string, known func(name string)) {
	for field, f := range v.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		at := Join(path, key)
		name := variable(prefix, at)
		section := f.Kind() == reflect.Struct && !isLeaf(f)
		if value, ok := values[name]; ok && !section {
			l.set(name, at, value, f)
		}
		if !section {
			known(name)
		}
		switch {
		case section:
			l.variables(prefix, values, f, at, known)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			l.below(prefix, values, f, at, known)
		}
	}
}

// variable returns the name of the variable of the setting at path.
func variable(prefix, path string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// below does what variables does, for an optional section. It creates the section if
// values sets one of its settings.
func (l *Layers) below(prefix string, values map[string]string, f reflect.Value, path string, known func(string)) {
	section := reflect.New(f.Type()).Elem()
	section.Set(f)
	l.allocate(section)
	any := false
	l.variables(prefix, values, section.Elem(), path, func(name string) {
		_, ok := values[name]
		any = any || ok
		known(name)
	})
	if any {
		f.Set(section)
	}
}

func (l *Layers) set(name, path, value string, v reflect.Value) {
	where := func(*yaml.Node) string { return name }
	list := v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String
	switch {
	case v.Kind() == reflect.String:
		v.SetString(value) // not decoded as YAML: "off" and "2025" are strings here
		l.origins[path] = name
	case list && !strings.HasPrefix(strings.TrimSpace(value), "["):
		l.origins[path] = name
		all := []string{}
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		v.Set(reflect.ValueOf(all).Convert(v.Type()))
	case strings.TrimSpace(value) == "":
	default:
		l.values = 0
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) == 0 {
			l.add(name, path, "expected %s", form(v.Type()))
			return
		}
		l.lay(where, path, doc.Content[0], v, maxDepth)
	}
}
