package adapterrt

import (
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// hints are a tool's annotations. openWorldHint is true of all: behind each is an
// API.
type hints struct{ readOnly, destructive, idempotent bool }

// purposes say in a few words what a tool does, and how large a thing it is.
var purposes = [...]struct {
	verb string
	hints
}{
	AnyCategory: {"Read and change data through HTTP APIs; may be mutating or destructive.", hints{false, true, false}},
	Create:      {"Create data through HTTP APIs; mutating, not destructive.", hints{false, false, false}},
	Read:        {"Read data through HTTP APIs; read-only.", hints{true, false, true}},
	Update:      {"Change data through HTTP APIs; mutating.", hints{false, true, false}},
	Delete:      {"Delete data through HTTP APIs; mutating and destructive.", hints{false, true, false}},
	Execute:     {"Run actions of HTTP APIs; mutating.", hints{false, true, false}},
}

// The most operations that a description names, and how many bytes of names there
// may be when more than a few adapters share the tools: these must not grow with
// every adapter.
const maxNamed, fewAdapters, manyAdaptersRoom = 40, 3, 200

// toolJSON is the entry of tools/list for one tool.
func (rt *Runtime) toolJSON(name string, category Category, sc *scope) []byte {
	names := sc.namesOf(category, rt.builtin.name)
	p := purposes[category]
	o := wire.Members(nil).Str("name", name).Str("description", rt.describeTool(category, sc, names)).
		Raw("inputSchema", rt.inputSchema(sc, names))
	if rt.opt.Structured {
		o = o.Raw("outputSchema", []byte(resultSchema))
	}
	notes := wire.Members(nil).Bool("readOnlyHint", p.readOnly).Bool("destructiveHint", p.destructive).
		Bool("idempotentHint", p.idempotent).Bool("openWorldHint", true).End()
	return o.Raw("annotations", notes).End()
}

// resultSchema describes the discriminated result.
const resultSchema = `{"type":"object","properties":{"success":{"type":"boolean"},"data":{},"error":{"type":"object",` +
	`"properties":{"code":{"type":"string"},"message":{"type":"string"},"details":{"type":"object"}},"required":["code","message"]}},"required":["success"]}`

// namesOf lists the operations of a category, with the adapter's name where two
// adapters have one of the same.
func (sc *scope) namesOf(category Category, builtin string) []string {
	var names []string
	for _, a := range sc.adapters {
		for _, op := range a.ops {
			if category != AnyCategory && op.category != category {
				continue
			}
			name := op.name
			if len(sc.index[name]) > 1 {
				name = a.Name + "." + name
			}
			names = append(names, name)
		}
	}
	if category == Read || category == AnyCategory {
		names = append(names, builtin)
	}
	return names
}

func (rt *Runtime) describeTool(category Category, sc *scope, names []string) string {
	head := purposes[category].verb
	if len(sc.adapters) == 1 {
		head = strings.Replace(head, "HTTP APIs", "the API of "+sc.adapters[0].Name, 1)
	}
	at := Read
	if rt.opt.Mode == Single {
		at = AnyCategory
	}
	adapter := ""
	if rt.opt.PerAdapter {
		adapter = sc.adapters[0].Name
	}
	tail := "\nParameters: operation introspect, params {\"query\":\"operations\",\"name\":…}, of " + rt.opt.toolName(adapter, at) +
		". Page, narrow or aggregate large results."
	if category == AnyCategory || category == Read {
		tail = "\nParameters: operation introspect, params {\"query\":\"operations\",\"name\":…}. Page, narrow or aggregate large results."
	}
	list := "\nOperations: "
	if len(names) == 0 {
		return head + list + "none" + tail
	}
	room := rt.opt.DescriptionSize - len(head) - len(list) - len(tail) - 20
	if len(sc.adapters) > fewAdapters {
		room = min(room, manyAdaptersRoom)
	}
	shown := 0
	for shown < len(names) && shown < maxNamed && room >= len(names[shown])+2 {
		room -= len(names[shown]) + 2
		shown++
	}
	list += strings.Join(names[:shown], ", ")
	if shown < len(names) {
		list += " … of " + strconv.Itoa(len(names))
	}
	return head + list + tail
}

// The most operations that a schema names, and adapters.
const maxEnumerated = 200

func (rt *Runtime) inputSchema(sc *scope, names []string) []byte {
	operation := wire.Members(nil).Str("type", "string")
	if rt.opt.EnumOperations && len(names) > 0 && len(names) <= maxEnumerated {
		operation = operation.Strs("enum", names)
	}
	props := wire.Members(nil).Raw("operation", operation.End()).
		Raw("params", []byte(`{"type":"object","additionalProperties":true}`))
	if len(sc.adapters) > 1 {
		props = props.Raw("adapter", []byte(`{"type":"string","description":"Which adapter, when several offer the operation"}`))
	}
	if rt.opt.Batch {
		props = props.Raw("operations", []byte(`{"type":"array","description":"Several {operation, params} in one, instead of operation"}`))
		return wire.Members(nil).Str("type", "object").Raw("properties", props.End()).End()
	}
	return wire.Members(nil).Str("type", "object").Raw("properties", props.End()).Strs("required", []string{"operation"}).End()
}

// AppendToolResult appends r as the result of tools/call, isError and all.
func (rt *Runtime) AppendToolResult(dst []byte, r *Result) []byte {
	result := r.JSON()
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = wire.AppendQuoted(dst, result)
	dst = append(dst, "}]"...)
	if rt.opt.Structured {
		dst = append(append(dst, `,"structuredContent":`...), result...)
	}
	dst = append(dst, `,"isError":`...)
	return append(strconv.AppendBool(dst, r.IsError(rt.opt.AlwaysIsError)), '}')
}
