package translate

import (
	"reflect"
	"runtime"
	"strings"

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

// Rule is one change: an action and the places where it is applied.
type Rule struct {
	ID   string // "C01", as in the loss report
	What string // the member or thing that it is about: "title"
	At   []Place
	Do   action
	// Reads are the paths of the values below a place that Do looks at; "*" is every member, and "../" leads to
	// the place's siblings. Do can only see values that Reads or At of some rule name.
	Reads []string
	// When reports whether the rule applies with the given switches; nil means always.
	When func(Options) bool
}

// Place is where a rule is applied: a kind of message, a method (for a response, that of its request), and a path
// from the message to a value. The path "" is the message itself.
type Place struct {
	Kind   wire.Kind
	Method wire.Method
	Path   string
}

// anyMethod stands for every method, known or not.
const anyMethod = wire.NumMethods

// action applies a rule to one value.
type action func(x *pass, n wire.Node)

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

func both(groups ...[]Place) []Place {
	var list []Place
	for _, g := range groups {
		list = append(list, g...)
	}
	return list
}

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

// Direction says whether a rule applies to messages to a newer or to an older revision.
type Direction string

// The directions of a rule.
const (
	Up   Direction = "up"   // from an older revision to a newer one
	Down Direction = "down" // from a newer revision to an older one
	Both Direction = "both"
)

// action returns the name of the function Do.
func (r *Rule) action() string {
	name := runtime.FuncForPC(reflect.ValueOf(r.Do).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// does returns what the rule does, in words.
func (r *Rule) does() string { return sentences[r.action()] }
