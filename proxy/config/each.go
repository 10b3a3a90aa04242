package config

import (
	"reflect"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// EachSetting calls do with the path of every setting of c ("session.max") and the
// place it is kept in.
func (c *Config) EachSetting(do func(path string, v reflect.Value) error) error {
	return c.each(func(path string, _ reflect.StructField, v reflect.Value) error { return do(path, v) })
}

// each is [Config.EachSetting]. do also gets the field of the setting.
func (c *Config) each(do func(path string, field reflect.StructField, v reflect.Value) error) error {
	all := reflect.ValueOf(c).Elem()
	for _, s := range settings() {
		if err := do(s.path, s.field, all.FieldByIndex(s.index)); err != nil {
			return err
		}
	}
	return nil
}

// place is where a setting is in a Config.
type place struct {
	path  string
	field reflect.StructField
	index []int
}

// settings are those of each Config.
var settings = sync.OnceValue(func() []place { return settingsIn(reflect.TypeFor[Config](), "", nil) })

// settingsIn are those in a struct, which is at path.
func settingsIn(t reflect.Type, path string, index []int) (all []place) {
	for field := range t.Fields() {
		key := field.Tag.Get("yaml")
		at := place{setting.Join(path, key), field, slices.Concat(index, field.Index)}
		switch {
		case key == "-":
		case field.Type.Kind() == reflect.Struct:
			all = append(all, settingsIn(field.Type, at.path, at.index)...)
		default:
			all = append(all, at)
		}
	}
	return all
}
