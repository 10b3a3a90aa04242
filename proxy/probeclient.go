package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// Capabilities names the client capabilities that a probe declares, since servers may list fewer tools
// for clients with fewer capabilities. The probe answers no server request except roots/list, with an
// empty list.
type Capabilities []string

// A declarable is a capability of clients, as those with a handshake declare it and
// those without one; "" where they do not.
type declarableCapability struct{ name, handshake, modern string }

func declarables() []declarableCapability {
	return []declarableCapability{
		{"elicitation", `{"form":{},"url":{}}`, `{"form":{},"url":{}}`},
		{"roots", `{"listChanged":true}`, `{}`},
		{"sampling", `{"context":{},"tools":{}}`, `{"context":{},"tools":{}}`},
		{"tasks", `{"cancel":{},"list":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}`, ""},
	}
}

// AllCapabilities are all there are.
func AllCapabilities() (all Capabilities) {
	for _, d := range declarables() {
		all = append(all, d.name)
	}
	return all
}

// Validate reports a name that is no capability.
func (c Capabilities) Validate() error {
	all := AllCapabilities()
	for _, name := range c {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%q is not one of %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}

// json is what is declared, to a server with a handshake or to one without.
func (c Capabilities) json(modern bool) string {
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
