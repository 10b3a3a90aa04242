package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
)

// AtHome returns a path in which ~ at the beginning is replaced by the home directory. A shell does that too, but not behind = or in
// quotes, and not in files.
func AtHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return home + rest
	}
	return path
}

// atHome replaces ~ in the settings that are paths.
func (c *Config) atHome(home string) {
	_ = fieldsOf(reflect.ValueOf(c).Elem(), "", func(path string, field reflect.StructField, v reflect.Value) error {
		switch at := v.Addr().Interface().(type) {
		case *string:
			if socket, ok := strings.CutPrefix(*at, unixsocket.Scheme); ok && (path == "listen" || path == "upstream.url") {
				*at = unixsocket.Scheme + AtHome(socket, home)
			}
			if field.Tag.Get("file") != "" || path == "upstream.dir" || path == "credentials" || path == "record.file" {
				*at = AtHome(*at, home)
			}
		case *[]string:
			if path == "adapters.sources" || path == "upstream.command" {
				*at = slices.Clone(*at) // of the command line
			}
			for i := range *at {
				if path == "adapters.sources" || path == "upstream.command" && i == 0 {
					(*at)[i] = AtHome((*at)[i], home)
				}
			}
		}
		return nil
	})
}
