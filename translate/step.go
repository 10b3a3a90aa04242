package translate

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Step holds the changes of a revision against the one before it.
type Step struct {
	To *Revision
	// Up has the rules for messages from an older revision to this one, Down those for messages from this one
	// to an older one. A message between revisions that are several steps apart takes the rules of every step
	// between them, oldest change first.
	Up, Down []Rule
}

// at returns a place for each path in messages of one kind and method.
func at(kind wire.Kind, method wire.Method, paths ...string) []Place {
	list := make([]Place, len(paths))
	for i, p := range paths {
		list[i] = Place{kind, method, p}
	}
	return list
}

// in returns the places at a path below each of the given places.
func in(path string, groups ...[]Place) []Place {
	var list []Place
	for _, g := range groups {
		for _, p := range g {
			list = append(list, Place{p.Kind, p.Method, p.Path + "." + path})
		}
	}
	return list
}

func both(groups ...[]Place) []Place { return slices.Concat(groups...) }

// The places of the protocol's types.
var (
	tools      = at(wire.Result, wire.ToolsList, "result.tools[]")
	prompts    = at(wire.Result, wire.PromptsList, "result.prompts[]")
	resources  = at(wire.Result, wire.ResourcesList, "result.resources[]")
	templates  = at(wire.Result, wire.ResourcesTemplatesList, "result.resourceTemplates[]")
	contents   = at(wire.Result, wire.ResourcesRead, "result.contents[]")
	roots      = at(wire.Result, wire.RootsList, "result.roots[]")
	toolCall   = at(wire.Result, wire.ToolsCall, "result")
	sampling   = at(wire.Request, wire.SamplingCreateMessage, "params")
	question   = at(wire.Request, wire.ElicitationCreate, "params")
	identities = both(
		at(wire.Request, wire.Initialize, "params.clientInfo"),
		at(wire.Result, wire.Initialize, "result.serverInfo"))
	clientCapabilities = at(wire.Request, wire.Initialize, "params.capabilities")
	serverCapabilities = at(wire.Result, wire.Initialize, "result.capabilities")

	samplingTools    = in("tools[]", sampling)
	samplingMessages = in("messages[]", sampling)
	samplingResult   = at(wire.Result, wire.SamplingCreateMessage, "result")
	samplingBlocks   = both(
		in("content", samplingMessages), in("content[]", samplingMessages),
		in("content", samplingResult), in("content[]", samplingResult))
	blocks = both(
		in("content[]", toolCall),
		at(wire.Result, wire.PromptsGet, "result.messages[].content"),
		samplingBlocks)
)
