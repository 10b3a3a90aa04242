// Package config has every setting of the proxy: its type, its default, where it is read from, and how it is checked.
//
// [Sources.Read] lays a YAML file, the environment and the command line over [Default], in this order, puts the values of
// variables in the place of ${NAME}, and validates the result; it reports all mistakes at once. A setting is a field with
// a yaml tag, a default in [Default], a check in [Config.Validate] and a line in deploy/config.example.yaml, which a test
// holds against the defaults. No other package reads the environment or a file for settings.
//
// The room setting reads a configuration into any struct.
package config
