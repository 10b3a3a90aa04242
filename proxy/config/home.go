package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
)

// atHome replaces ~ in the settings that are paths.
func (c *Config) atHome(home string) {
	_ = c.each(func(path string, field reflect.StructField, v reflect.Value) error {
		switch at := v.Addr().Interface().(type) {
		case *string:
			if socket, ok := strings.CutPrefix(*at, unixsocket.Scheme); ok && (path == "listen" || path == "upstream.url") {
				*at = unixsocket.Scheme + file.AtHome(socket, home)
			}
			if field.Tag.Get("file") != "" || path == "upstream.dir" || path == "credentials" || path == "record.file" {
				*at = file.AtHome(*at, home)
			}
		case *[]string:
			if path == "adapters.sources" || path == "upstream.command" {
				*at = slices.Clone(*at) // of the command line
			}
			for i := range *at {
				if path == "adapters.sources" || path == "upstream.command" && i == 0 {
					(*at)[i] = file.AtHome((*at)[i], home)
				}
			}
		}
		return nil
	})
}

// lookup returns the value of a variable. If a name occurs twice, the last one counts.
func lookup(environ []string, name string) (value string, ok bool) {
	for _, entry := range environ {
		if key, v, found := strings.Cut(entry, "="); found && key == name {
			value, ok = v, true
		}
	}
	return value, ok
}
