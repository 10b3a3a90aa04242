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
	walkFacts(c, clientFacts, &f)
	if f.Has(wire.ClientElicitation) && !f.Has(wire.ClientElicitationURL) {
		f |= wire.ClientElicitationForm // declared without a mode means forms
	}
	return f
}

// fact is a member that stands for a fact.
type fact struct {
	name   string
	fact   wire.Facts
	within []fact
}

var clientFacts = []fact{
	{"roots", wire.ClientRoots, nil},
	{"sampling", wire.ClientSampling, []fact{{"tools", wire.ClientSamplingTools, nil}, {"context", wire.ClientSamplingContext, nil}}},
	{"elicitation", wire.ClientElicitation, []fact{{"form", wire.ClientElicitationForm, nil}, {"url", wire.ClientElicitationURL, nil}}},
	{"tasks", wire.ClientTasks, nil},
}

// walkFacts adds the facts whose members are in the object c and are not null. Only the first of equal names counts.
func walkFacts(c gjson.Result, list []fact, f *wire.Facts) {
	if !c.IsObject() {
		return
	}
	var seen uint
	c.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		for i := range list {
			is := &list[i]
			if is.name != name || seen&(1<<i) != 0 {
				continue
			}
			seen |= 1 << i
			if v.Type != gjson.Null {
				*f |= is.fact
				walkFacts(v, is.within, f)
			}
		}
		return true
	})
}

// CapabilitiesOf returns the ClientCapabilities of a client, as far as f has them.
func CapabilitiesOf(f wire.Facts) []byte {
	dst := []byte{'{'}
	object := func(name string, is wire.Facts, members ...string) {
		if !f.Has(is) {
			return
		}
		dst = append(wire.AppendKey(dst, name), '{')
		for _, m := range members {
			dst = append(wire.AppendKey(dst, m), "{}"...)
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
