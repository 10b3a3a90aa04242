package config

import (
	"fmt"
	"slices"
)

// Footprint bounds the size of the tool list, which the model reads in every conversation.
type Footprint struct {
	// MaxBytes is the size of the tool list and the server's instructions above which a warning is logged;
	// 0 is any size. A server's list is never refused.
	MaxBytes Size `yaml:"max_bytes"`
	// Enforce removes from a list over MaxBytes what tells the model nothing, whatever Drop is. It refuses
	// adapter tools that exceed MaxBytes by themselves.
	Enforce bool `yaml:"enforce"`
	// Hoist is off, report, or apply: prose that three or more descriptions repeat
	// is moved to the server's instructions where that saves at least 5 %.
	Hoist string `yaml:"hoist"`
	// Drop names what is left out of tools: titles and echoes (descriptions) that
	// only repeat a name, examples, schema_names ($schema), output_schema.
	Drop []string `yaml:"drop"`
}

// droppable returns the names of what can be left out of tools.
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
