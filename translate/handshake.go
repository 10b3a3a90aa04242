package translate

import (
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// setRevision writes the receiver's revision into the handshake.
func setRevision(x *pass, n wire.Node) {
	if n.Is(x.t.to.Name) {
		return
	}
	x.lost(n, wire.Debug)
	n.Put(append(append(append(x.m.Writer(), '"'), x.t.to.Name...), '"'))
}

// stripMembers removes the members of an object that had none in the receiver's revision.
func stripMembers(x *pass, n wire.Node) {
	if n.Kind() != '{' {
		return
	}
	for c := n.First(); c.OK(); c = c.Next() {
		strip(x, c)
	}
}

// formOnly turns the capability with modes into that of forms, and removes it for a client that can only open
// URLs (C17).
func formOnly(x *pass, elicitation wire.Node) {
	if elicitation.Kind() != '{' || !elicitation.First().OK() {
		return
	}
	x.lost(elicitation, wire.Warn)
	if elicitation.Get(wire.URL).OK() && !elicitation.Get(wire.Form).OK() {
		elicitation.Remove()
		return
	}
	elicitation.Put(append(x.m.Writer(), "{}"...))
}

// addCompletions declares the capability `completions`, which 2024-11-05 servers have without a word (C15).
func addCompletions(x *pass, capabilities wire.Node) {
	if capabilities.Kind() != '{' || capabilities.Get(wire.Completions).OK() {
		return
	}
	if capabilities.Get(wire.Prompts).OK() || capabilities.Get(wire.Resources).OK() {
		x.lost(capabilities, wire.Debug)
		capabilities.Add(append(x.m.Writer(), `"completions":{}`...))
	}
}
