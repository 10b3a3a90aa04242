package translate

import (
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// setRevision names the receiver's revision in the handshake.
func setRevision(x *pass, n wire.Node) {
	if n.Is(x.t.to.Name) {
		return
	}
	x.lost(n, wire.Debug)
	n.Put(append(append(append(x.m.Writer(), '"'), x.t.to.Name...), '"'))
}

// stripMembers empties an object whose members came with later revisions.
func stripMembers(x *pass, n wire.Node) {
	if n.Kind() != '{' {
		return
	}
	for c := n.First(); c.OK(); c = c.Next() {
		strip(x, c)
	}
}

// formOnly turns elicitation with modes into elicitation as 2025-06-18 knows it,
// which is a form; a client that can only open URLs has none of that.
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

// addCompletions says for a 2024-11-05 server, which could not, that it may
// complete arguments (C15).
func addCompletions(x *pass, capabilities wire.Node) {
	if capabilities.Kind() != '{' || capabilities.Get(wire.Completions).OK() {
		return
	}
	if capabilities.Get(wire.Prompts).OK() || capabilities.Get(wire.Resources).OK() {
		x.lost(capabilities, wire.Debug)
		capabilities.Add(append(x.m.Writer(), `"completions":{}`...))
	}
}
