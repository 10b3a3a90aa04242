package translate

import (
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// setRevision replaces the `protocolVersion` of the handshake with the receiver's revision.
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

// formOnly replaces a capability `elicitation` that lists modes with an empty object, which means forms. It removes
// the capability of a client that can only open URLs (C17).
func formOnly(x *pass, elicitation wire.Node) {
	if elicitation.Kind() != '{' || !elicitation.First().OK() {
		return
	}
	if onlyForms(elicitation) {
		x.moved(elicitation, wire.Warn) // an empty object means forms, too
	} else {
		x.lost(elicitation, wire.Warn)
	}
	if elicitation.Get(wire.URL).OK() && !elicitation.Get(wire.Form).OK() {
		elicitation.Remove()
		return
	}
	elicitation.Put(append(x.m.Writer(), "{}"...))
}

// onlyForms reports whether a capability `elicitation` says nothing but that the client shows forms.
func onlyForms(elicitation wire.Node) bool {
	for c := elicitation.First(); c.OK(); c = c.Next() {
		if c.Name() != wire.Form || !c.Hollow() {
			return false
		}
	}
	return true
}

// hideCompletions removes the capability `completions`. Clients of 2024-11-05 complete without it, so they miss nothing (C15).
func hideCompletions(x *pass, completions wire.Node) {
	if completions.Hollow() {
		x.lost(completions, wire.Info)
	} else {
		x.moved(completions, wire.Warn) // their revision stands in for it
	}
	completions.Remove()
}

// addCompletions declares the capability `completions`, which servers of 2024-11-05 have without declaring it
// (C15).
func addCompletions(x *pass, capabilities wire.Node) {
	if capabilities.Kind() != '{' || capabilities.Get(wire.Completions).OK() {
		return
	}
	if capabilities.Get(wire.Prompts).OK() || capabilities.Get(wire.Resources).OK() {
		x.lost(capabilities, wire.Debug)
		capabilities.Add(append(x.m.Writer(), `"completions":{}`...))
	}
}
