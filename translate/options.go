package translate

import (
	"fmt"
	"slices"
)

// Options are the switches of the translation. An empty string stands for the default.
type Options struct {
	// ResourceContentsName sets whether the contents of resources/read get a name for
	// revisions from 2025-06-18 on: on (default), off, or strict, which fails if the URI
	// gives no name.
	ResourceContentsName string `yaml:"resource_contents_name"`
	// ElicitationFallback is the answer to a server's elicitation/create if the client does
	// not support elicitation: error (default), cancel or decline.
	ElicitationFallback string `yaml:"elicitation_fallback"`
	// Tasks is bridge (default), which translates between the tasks of 2025-11-25 and the
	// tasks extension of 2026-07-28, or strip, which removes both.
	Tasks string `yaml:"tasks"`
	// SchemaDialect is auto (default), which rewrites tool schemas of JSON Schema draft-07 to
	// 2020-12 for clients of revisions that assume 2020-12, or off. It is applied to the tool
	// lists that are sent to clients, not by a Translator.
	SchemaDialect string `yaml:"schema_dialect"`
}

// Validate returns an error if a switch has an invalid value. The error names the first such switch by its YAML key.
func (o Options) Validate() error {
	for _, s := range []struct {
		key, value string
		may        []string
	}{
		{"resource_contents_name", o.ResourceContentsName, []string{"on", "off", "strict"}},
		{"elicitation_fallback", o.ElicitationFallback, []string{"error", "cancel", "decline"}},
		{"tasks", o.Tasks, []string{"bridge", "strip"}},
		{"schema_dialect", o.SchemaDialect, []string{"auto", "off"}},
	} {
		if !among(s.value, s.may) {
			return fmt.Errorf("%s: %q is not one of %v", s.key, s.value, s.may)
		}
	}
	return nil
}

func among(value string, may []string) bool {
	return value == "" || slices.Contains(may, value)
}

func (o Options) withDefaults() Options {
	for value, def := range map[*string]string{
		&o.ResourceContentsName: "on", &o.ElicitationFallback: "error",
		&o.Tasks: "bridge", &o.SchemaDialect: "auto",
	} {
		if *value == "" {
			*value = def
		}
	}
	return o
}

// The following functions are conditions for Rule.When.

func namesContents(o Options) bool { return o.ResourceContentsName != "off" }
func bridgesTasks(o Options) bool  { return o.Tasks == "bridge" }
func stripsTasks(o Options) bool   { return !bridgesTasks(o) }
