package config

import (
	"reflect"
	"strings"
)

// SecretFile is a file with a secret, and the setting that names it.
type SecretFile struct{ Setting, Path string }

// SecretFiles returns the files with secrets that c names: those of the settings whose field has "secret" in its tag file.
func (c *Config) SecretFiles() (files []SecretFile) {
	_ = c.each(func(path string, field reflect.StructField, v reflect.Value) error {
		if _, secret, _ := strings.Cut(field.Tag.Get("file"), ","); secret == "secret" && v.String() != "" {
			files = append(files, SecretFile{path, v.String()})
		}
		return nil
	})
	return files
}
