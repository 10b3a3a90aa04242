package mcp

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ClientFacts returns the capabilities that a client has declared in c, its
// ClientCapabilities.
func ClientFacts(c gjson.Result) (f wire.Facts) {
	if c.Raw == "{}" {
		return 0
	}
	for _, is := range []struct {
		path string
		fact wire.Facts
	}{
		{"roots", wire.ClientRoots},
		{"sampling", wire.ClientSampling},
		{"sampling.tools", wire.ClientSamplingTools},
		{"sampling.context", wire.ClientSamplingContext},
		{"elicitation", wire.ClientElicitation},
		{"elicitation.form", wire.ClientElicitationForm},
		{"elicitation.url", wire.ClientElicitationURL},
		{"tasks", wire.ClientTasks},
	} {
		if v := c.Get(is.path); v.Exists() && v.Type != gjson.Null {
			f |= is.fact
		}
	}
	if f.Has(wire.ClientElicitation) && !f.Has(wire.ClientElicitationURL) {
		f |= wire.ClientElicitationForm // declared without a mode means forms
	}
	return f
}

// CapabilitiesOf returns the ClientCapabilities of a client, as far as f has them.
func CapabilitiesOf(f wire.Facts) []byte {
	dst := []byte{'{'}
	object := func(name string, is wire.Facts, members ...string) {
		if !f.Has(is) {
			return
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":{`...)
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), m...), `":{}`...)
		}
		dst = append(dst, '}')
	}
	with := func(name string, is wire.Facts) []string {
		if f.Has(is) {
			return []string{name}
		}
		return nil
	}
	object("roots", wire.ClientRoots)
	object("sampling", wire.ClientSampling, append(with("tools", wire.ClientSamplingTools), with("context", wire.ClientSamplingContext)...)...)
	object("elicitation", wire.ClientElicitation, append(with("form", wire.ClientElicitationForm), with("url", wire.ClientElicitationURL)...)...)
	return append(dst, '}')
}
