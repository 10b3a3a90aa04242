package config

import (
	"fmt"
	"slices"
)

// Footprint bounds what the list of tools costs the model, which reads it in
// every conversation.
type Footprint struct {
	// MaxBytes is how large the list and the server's instructions may be together
	// before it is warned of; 0 is any size.
	// No server's list is ever refused.
	MaxBytes Size `yaml:"max_bytes"`
	// Enforce leaves out of a list over MaxBytes what says nothing, whatever Drop
	// is, and refuses to serve tools of our own that are over it by themselves.
	Enforce bool `yaml:"enforce"`
	// Hoist is off, report, or apply: prose that three or more descriptions repeat
	// is moved to the server's instructions where that saves at least 5 %.
	Hoist string `yaml:"hoist"`
	// Drop names what is left out of tools: titles and echoes (descriptions) that
	// only repeat a name, examples, schema_names ($schema), output_schema.
	Drop []string `yaml:"drop"`
}

// droppable is what can be left out of tools.
func droppable() []string {
	return []string{"titles", "echoes", "examples", "schema_names", "output_schema"}
}

func (c *Footprint) validate() error {
	if c.MaxBytes < 0 {
		return fmt.Errorf("footprint.max_bytes: must not be below 0")
	}
	if !slices.Contains([]string{"off", "report", "apply"}, c.Hoist) {
		return fmt.Errorf("footprint.hoist: %q is not off, report or apply", c.Hoist)
	}
	for _, name := range c.Drop {
		if !slices.Contains(droppable(), name) {
			return fmt.Errorf("footprint.drop: %q is not one of %q", name, droppable())
		}
	}
	return nil
}
