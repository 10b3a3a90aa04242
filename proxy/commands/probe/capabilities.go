package probe

import (
	"fmt"
	"slices"
	"strings"
)

// Capabilities names the client capabilities that a probe declares, since servers may list fewer tools
// for clients with fewer capabilities. The probe answers no server request except roots/list, with an
// empty list.
type Capabilities []string

// declarableCapability is a client capability, as it is declared in a handshake and in a modern
// request; "" if it cannot be declared there.
type declarableCapability struct{ name, handshake, modern string }

func declarables() []declarableCapability {
	return []declarableCapability{
		{"elicitation", `{"form":{},"url":{}}`, `{"form":{},"url":{}}`},
		{"roots", `{"listChanged":true}`, `{}`},
		{"sampling", `{"context":{},"tools":{}}`, `{"context":{},"tools":{}}`},
		{"tasks", `{"cancel":{},"list":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}`, ""},
	}
}

// AllCapabilities returns all client capabilities.
func AllCapabilities() (all Capabilities) {
	for _, d := range declarables() {
		all = append(all, d.name)
	}
	return all
}

// Validate returns an error if a name is not a capability.
func (c Capabilities) Validate() error {
	all := AllCapabilities()
	for _, name := range c {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%q is not one of %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}

// JSON returns the capabilities as they are declared to a handshake server, or to a modern one.
func (c Capabilities) JSON(modern bool) string {
	var members []string
	for _, d := range declarables() {
		value := d.handshake
		if modern {
			value = d.modern
		}
		if value != "" && slices.Contains(c, d.name) {
			members = append(members, fmt.Sprintf("%q:%s", d.name, value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}
