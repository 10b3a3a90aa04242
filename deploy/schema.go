// Package deploy holds the files that dragoman is deployed with. The JSON Schema of the configuration is also part of the
// command, which prints it.
package deploy

import _ "embed"

// ConfigSchema is the JSON Schema (2020-12) of the configuration file. A test of package config generates it.
//
//go:embed config.schema.json
var ConfigSchema []byte
