package translate

import "fmt"

// Options are the contract's switches. The zero value is the default of each.
type Options struct {
	// ResourceContentsName is on (default), off or strict: give the contents of
	// resources/read a name on their way up, or fail where none can be derived.
	ResourceContentsName string `yaml:"resource_contents_name"`
	// ElicitationFallback is error (default), cancel or decline: what a server hears
	// that asks a client who cannot be asked.
	ElicitationFallback string `yaml:"elicitation_fallback"`
	// Tasks is bridge (default) or strip: carry the tasks of 2025-11-25 over to the
	// extension of 2026-07-28 that has them, and back. Otherwise neither is told of
	// the other's.
	Tasks string `yaml:"tasks"`
	// SchemaDialect is auto (default) or off: bring schemas of tools that are of JSON
	// Schema draft-07 to 2020-12 for clients whose revision takes that for granted. It is
	// for who hands lists of tools on: a Translator leaves schemas alone.
	SchemaDialect string `yaml:"schema_dialect"`
}

// Validate names the first switch with a value that it cannot have, by its YAML key.
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
			return fmt.Errorf("%s: %q is none of %v", s.key, s.value, s.may)
		}
	}
	return nil
}

func among(value string, may []string) bool {
	for _, m := range may {
		if value == m {
			return true
		}
	}
	return value == ""
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

// Conditions that rules name.
func namesContents(o Options) bool { return o.ResourceContentsName != "off" }
func bridgesTasks(o Options) bool  { return o.Tasks == "bridge" }
func stripsTasks(o Options) bool   { return !bridgesTasks(o) }
