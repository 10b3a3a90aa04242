package config

import "reflect"

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// EachSetting calls do with the path of every setting of c ("session.max") and the
// place it is kept in.
func (c *Config) EachSetting(do func(path string, v reflect.Value) error) error {
	return fieldsOf(reflect.ValueOf(c).Elem(), "", func(path string, _ reflect.StructField, v reflect.Value) error { return do(path, v) })
}

// fieldsOf is [Config.EachSetting] for the struct at path. do also gets the field of the setting.
func fieldsOf(v reflect.Value, path string, do func(path string, field reflect.StructField, v reflect.Value) error) error {
	for field, f := range v.Fields() {
		key := field.Tag.Get("yaml")
		if key == "-" {
			continue
		}
		var err error
		p := join(path, key)
		if f.Kind() == reflect.Struct {
			err = fieldsOf(f, p, do)
		} else {
			err = do(p, field, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
