package config

import "reflect"

// Files returns the files that c names and that are read when c is taken into use: those of the settings whose field has the tag
// file:"reload". The files of settings with file:"use" are read again each time that they are needed.
func (c *Config) Files() (files []string) {
	_ = fieldsOf(reflect.ValueOf(c).Elem(), "", func(_ string, field reflect.StructField, v reflect.Value) error {
		if field.Tag.Get("file") == "reload" && v.String() != "" {
			files = append(files, v.String())
		}
		return nil
	})
	return files
}
