package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// Value is a setting in effect, as text.
type Value struct {
	Path   string // such as "session.max", or "upstream.headers.Accept"
	Text   string // the value as a file has it; a secret is shown by its length and fingerprint only
	Origin string // "default", "dragoman.yaml:12", the name of a variable, or a flag
}

// DefaultOrigin is the origin of a setting that nothing sets.
const DefaultOrigin = "default"

// Effective returns the settings in effect and where each is from. The error is that of [Sources.Read].
func (s Sources) Effective() ([]Value, error) {
	c, layers, err := s.read()
	if err != nil {
		return nil, err
	}
	e := effective{layers: layers}
	e.section("", reflect.ValueOf(c), DefaultOrigin)
	return e.all, nil
}

// effective collects the settings in effect.
type effective struct {
	layers *setting.Layers
	all    []Value
}

func (e *effective) add(path string, n *yaml.Node, from string) {
	text, err := yaml.Marshal(n)
	if err != nil {
		text = []byte("cannot be shown: " + err.Error())
	}
	line := quotedMask().ReplaceAllString(strings.Join(strings.Fields(string(text)), " "), "$1")
	e.all = append(e.all, Value{path, line, from})
}

// quotedMask matches what stands for a secret, with the quotes that YAML would need.
var quotedMask = pattern.Later(`'(\[set, [^']*\])'`)

// section adds the settings of a struct. around is the origin of the whole struct, if nothing else sets a member.
func (e *effective) section(path string, v reflect.Value, around string) {
	for field, f := range v.Fields() {
		key, rest, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		at := setting.Join(path, key)
		from := cmp.Or(e.layers.Origin(at), around)
		switch {
		case rest == "inline":
			e.entries(path, f, around)
		case key == "" || key == "-":
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil():
			e.section(at, f.Elem(), DefaultOrigin)
		case f.Kind() == reflect.Struct:
			e.section(at, f, around)
		case f.Kind() == reflect.Map && f.Len() > 0:
			e.entries(at, f, from)
		default:
			e.add(at, shown(at, f), from)
		}
	}
}

// entries adds the entries of a map.
func (e *effective) entries(path string, v reflect.Value, around string) {
	for _, key := range sortedKeys(v) {
		at := setting.Join(path, key.String())
		e.add(at, shown(at, v.MapIndex(key)), cmp.Or(e.layers.Origin(at), around))
	}
}

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
}

// shown returns the setting at path as YAML, without secrets.
func shown(path string, v reflect.Value) *yaml.Node {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return plain(shortDuration(value))
	case Size:
		return plain(value.String())
	case string:
		return text(path, value)
	case []string:
		if path == "upstream.command" || strings.HasPrefix(path, "adapters.token_commands.") {
			value = SafeCommand(value)
		}
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, one := range value {
			list.Content = append(list.Content, text(path, one))
		}
		return list
	}
	n := &yaml.Node{Style: yaml.FlowStyle}
	switch v.Kind() {
	case reflect.Struct:
		n.Kind = yaml.MappingNode
		for field, f := range v.Fields() {
			key, how, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case how == "inline":
				n.Content = append(n.Content, shown(path, f).Content...)
			case key != "" && key != "-" && !f.IsZero():
				n.Content = append(n.Content, plain(key), shown(setting.Join(path, key), f))
			}
		}
	case reflect.Map:
		n.Kind = yaml.MappingNode
		for _, key := range sortedKeys(v) {
			at := setting.Join(path, key.String())
			n.Content = append(n.Content, text("", key.String()), shown(at, v.MapIndex(key)))
		}
	case reflect.Slice:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, shown(fmt.Sprintf("%s[%d]", path, i), v.Index(i)))
		}
	default:
		return plain(fmt.Sprint(v.Interface()))
	}
	return n
}

// text returns a text as YAML, or what may be shown of a secret.
func text(path, value string) *yaml.Node {
	switch {
	case isSecret(path) && value != "":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: Masked(value)}
	case strings.Contains(value, "://"):
		value = SafeURL(value)
	}
	n := new(yaml.Node)
	n.SetString(value)
	n.Style = 0
	return n
}

func plain(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// shortDuration returns a duration without the units that are zero.
func shortDuration(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Secrets returns the values of the settings that are secrets.
func (c *Config) Secrets() (all []string) {
	c.eachText(func(path, _, value string) string {
		if value != "" && isSecret(path) {
			all = append(all, value)
		}
		return value
	})
	return all
}
