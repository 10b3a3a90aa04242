package present

import (
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// hints are a tool's annotations. openWorldHint is not among them: it is true for all tools,
// because each of them calls an API.
type hints struct{ readOnly, destructive, idempotent bool }

// purposes are the first sentence of a tool's description and its annotations, by category.
var purposes = [...]struct {
	verb string
	hints
}{
	file.AnyCategory: {"Read and change data through HTTP APIs; may be mutating or destructive.", hints{false, true, false}},
	file.Create:      {"Create data through HTTP APIs; mutating, not destructive.", hints{false, false, false}},
	file.Read:        {"Read data through HTTP APIs; read-only.", hints{true, false, true}},
	file.Update:      {"Change data through HTTP APIs; mutating.", hints{false, true, false}},
	file.Delete:      {"Delete data through HTTP APIs; mutating and destructive.", hints{false, true, false}},
	file.Execute:     {"Run actions of HTTP APIs; mutating.", hints{false, true, false}},
}

// maxDescription is the largest size of a tool's description, in bytes. It is small because
// a model reads the description of each tool with every request.
const maxDescription = 1000

// maxNamed is the largest number of operations that a description names. If more than
// fewAdapters adapters share the tools, the names may take manyAdaptersRoom bytes, so that
// descriptions do not grow with every adapter.
const maxNamed, fewAdapters, manyAdaptersRoom = 40, 3, 200

// ToolJSON returns the entry of tools/list for one tool.
func (k *Catalogue) ToolJSON(adapter, name string, category file.Category) []byte {
	names := k.namesOf(category)
	p := purposes[category]
	o := wire.Members(nil).Str("name", name).Str("description", k.describeTool(adapter, category, names)).
		Raw("inputSchema", k.inputSchema(category))
	return o.Raw("annotations", p.annotations()).End()
}

// namesOf returns the names of a category's operations, with the adapter's name if several
// adapters have an operation of that name.
func (k *Catalogue) namesOf(category file.Category) []string {
	var names []string
	for _, s := range k.Adapters {
		for _, op := range s.operations {
			if category != file.AnyCategory && op.Category != category {
				continue
			}
			names = append(names, k.nameOf(s, op))
		}
	}
	if category == file.Read || category == file.AnyCategory {
		names = append(names, k.How.Builtin.Name)
	}
	return names
}

func (k *Catalogue) describeTool(adapter string, category file.Category, names []string) string {
	head := purposes[category].verb
	if len(k.Adapters) == 1 {
		head = strings.Replace(head, "HTTP APIs", "the API of "+k.Adapters[0].adapter.Name, 1)
	}
	tail := k.pointer(adapter, category)
	if len(names) == 0 {
		return head + "\nNo " + category.String() + " operations." + tail
	}
	const list = "\nOperations: "
	room := maxDescription - len(head) - len(list) - len(tail) - 20
	if len(k.Adapters) > fewAdapters {
		room = min(room, manyAdaptersRoom)
	}
	shown := 0
	for shown < len(names) && shown < maxNamed && room >= len(names[shown])+2 {
		room -= len(names[shown]) + 2
		shown++
	}
	head += list + strings.Join(names[:shown], ", ")
	if shown < len(names) {
		head += " … of " + strconv.Itoa(len(names))
	}
	return head + tail
}

// pointer returns the part of a tool's description that says where a model finds the
// parameters of operations. Only the tools that offer introspect say how to call it, and how
// to keep results small, because they are the ones with large results.
func (k *Catalogue) pointer(adapter string, category file.Category) string {
	if category == file.AnyCategory || category == file.Read {
		return "\nParameters: operation introspect, params {\"query\":\"operations\",\"name\":…}. Page, narrow or aggregate large results."
	}
	at := file.Read
	if k.How.Mode == Single {
		at = file.AnyCategory
	}
	return "\nParameters of " + category.String() + " operations: introspect, of " + k.How.ToolName(adapter, at) + "."
}

// inputSchema returns the input schema of a tool. Only the tools that offer introspect
// describe the members.
func (k *Catalogue) inputSchema(category file.Category) []byte {
	member := func(typ, meaning string) []byte {
		o := wire.Members(nil).Str("type", typ)
		if typ == "array" { // some APIs of models refuse an array without items
			o = o.Raw("items", []byte(`{"type":"object"}`))
		}
		if category == file.AnyCategory || category == file.Read {
			o = o.Str("description", meaning)
		}
		return o.End()
	}
	props := wire.Members(nil).Raw("operation", []byte(`{"type":"string"}`)).
		Raw("params", []byte(`{"type":"object","additionalProperties":true}`))
	if len(k.Adapters) > 1 {
		props = props.Raw("adapter", member("string", "Which adapter, when several offer the operation"))
	}
	props = props.Raw("operations", member("array", "Several {operation, params} in one, instead of operation"))
	return wire.Members(nil).Str("type", "object").Raw("properties", props.End()).End()
}
