package config

import (
	"reflect"
	"strings"
)

// Files returns the files that c names and that are read when c is taken into use: those of the settings whose field has the tag
// file:"reload". The files of settings with file:"use" are read again each time that they are needed; [Config.SecretFiles] has those
// of either kind that hold a secret.
func (c *Config) Files() (files []string) {
	_ = c.each(func(_ string, field reflect.StructField, v reflect.Value) error {
		if when, _, _ := strings.Cut(field.Tag.Get("file"), ","); when == "reload" && v.String() != "" {
			files = append(files, v.String())
		}
		return nil
	})
	return files
}
