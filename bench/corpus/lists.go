package corpus

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lists adds the server's lists, and all requests of a client except tool calls.
func (w *writer) lists() {
	w.request("tools_list", client, wire.ToolsList, nil, nil)
	for _, n := range Tools() {
		if name := fmt.Sprintf("tools_list_%d", n); n*1000 <= w.maxSize {
			w.answer(name, server, wire.ToolsList, toolsList(name, n))
		}
	}
	w.request("tools_list_next", client, wire.ToolsList, object{"cursor", "eyJwYWdlIjozfQ=="}, object{"tools", list{}})

	s := newSource("lists")
	w.request("resources_list", client, wire.ResourcesList, object{}, object{"resources", s.resources(20), "nextCursor", "eyJwYWdlIjoyfQ=="})
	w.request("templates_list", client, wire.ResourcesTemplatesList, nil, object{"resourceTemplates", s.templates(5)})
	w.request("resources_read", client, wire.ResourcesRead, object{"uri", "demo://resource/static/document/architecture.md"}, object{"contents", list{object{
		"uri", "demo://resource/static/document/architecture.md", "mimeType", "text/markdown", "text", s.sentences(3000), "_meta", object{"example.com/etag", "77"},
	}}})
	w.answer("resources_read_blob", server, wire.ResourcesRead, object{"contents", list{
		object{"uri", "file:///srv/data/logo%20small.png", "mimeType", "image/png", "blob", s.base64(600)},
		object{"uri", "file:///srv/data/notes/", "mimeType", "text/plain", "text", s.line(80)},
	}})
	w.request("resources_subscribe", client, wire.ResourcesSubscribe, object{"uri", "demo://resource/dynamic/text/1"}, object{})
	w.request("resources_unsubscribe", client, wire.ResourcesUnsubscribe, object{"uri", "demo://resource/dynamic/text/1"}, object{})
	w.request("prompts_list", client, wire.PromptsList, nil, object{"prompts", s.prompts(12)})
	w.request("prompts_get", client, wire.PromptsGet, object{"name", "review", "arguments", object{"title", "Q3", "depth", "full"}}, object{
		"description", s.line(60), "messages", list{
			object{"role", "user", "content", object{"type", "text", "text", s.sentences(400)}},
			object{"role", "user", "content", object{"type", "resource", "resource", object{"uri", "demo://resource/dynamic/text/2", "mimeType", "text/plain", "text", s.line(90), "_meta", object{"example.com/etag", "2"}}}},
			object{"role", "assistant", "content", s.resourceLink(1)},
		}})
	w.request("complete", client, wire.CompletionComplete, object{
		"ref", object{"type", "ref/prompt", "name", "review", "title", "Review"}, "argument", object{"name", "name", "value", "A"},
		"context", object{"arguments", object{"department", "Engineering"}},
	}, object{"completion", object{"values", list{"Alice", "Amir", "Ann"}, "total", 3, "hasMore", false}})
	w.request("complete_template", client, wire.CompletionComplete, object{
		"ref", object{"type", "ref/resource", "uri", "demo://resource/dynamic/text/{resourceId}"}, "argument", object{"name", "resourceId", "value", "1"},
	}, object{"completion", object{"values", list{"1"}, "total", 1, "hasMore", false}})
	w.request("tasks_get", client, wire.TasksGet, object{"taskId", "786512e2"}, object{"taskId", "786512e2", "status", "working", "createdAt", "2025-11-25T10:30:00Z", "lastUpdatedAt", "2025-11-25T10:40:00Z", "ttl", 60000})
}

func (s source) resources(n int) list {
	all := make(list, n)
	for i := range all {
		file := fmt.Sprintf("%s-%d.md", one(s, nouns...), i)
		r := object{"uri", "demo://resource/static/document/" + file, "name", file, "title", s.line(24), "mimeType", "text/markdown", "description", s.line(70)}
		if s.chance(30) {
			r = append(r, "annotations", s.annotations())
		}
		if s.chance(20) {
			r = append(r, "size", s.IntN(1<<20), "icons", s.icons())
		}
		all[i] = r
	}
	return all
}

func (s source) templates(n int) list {
	all := make(list, n)
	for i := range all {
		noun := one(s, nouns...)
		all[i] = object{"name", fmt.Sprintf("Dynamic %s %d", noun, i), "title", s.line(24), "uriTemplate", "demo://" + noun + "/{id}", "mimeType", "application/json", "description", s.line(90)}
	}
	return all
}

func (s source) prompts(n int) list {
	all := make(list, n)
	for i := range all {
		p := object{"name", fmt.Sprintf("%s-%s-%d", one(s, verbs...), one(s, nouns...), i), "title", s.line(20), "description", s.line(80)}
		if arguments := s.IntN(4); arguments > 0 {
			var args list
			for k := range arguments {
				args = append(args, object{"name", fmt.Sprintf("argument%d", k), "title", s.line(14), "description", s.line(40), "required", s.chance(50)})
			}
			p = append(p, "arguments", args)
		}
		if s.chance(20) {
			p = append(p, "icons", s.icons())
		}
		all[i] = p
	}
	return all
}

// calls adds tool calls and their results in all sizes.
func (w *writer) calls() {
	s := newSource("calls")
	w.request("call", client, wire.ToolsCall, object{
		"name", "search_issues_3",
		"arguments", object{"query", s.line(40), "limit", 20, "title", "x", "labels", list{"bug", "ui"}, "task", object{"id", 1}},
		"_meta", object{"progressToken", 67},
	}, object{"content", list{object{"type", "text", "text", "Echo: recorded ✓"}}})
	w.request("call_task", client, wire.ToolsCall, object{"name", "export_reports_9", "arguments", object{}, "task", object{"ttl", 60000}}, nil)
	w.answer("call_failed", server, wire.ToolsCall, object{"content", list{object{"type", "text", "text", s.line(90)}}, "isError", true})
	for _, size := range Sizes() {
		if size > w.maxSize {
			continue
		}
		for _, of := range []struct {
			what string
			make func(name string, size int) object
		}{
			{"text", textResult},
			{"structured", func(name string, size int) object { return structuredResult(name, size, false) }},
			{"twin", func(name string, size int) object { return structuredResult(name, size, true) }},
			{"blob", blobResult},
			{"mixed", mixedResult},
		} {
			name := "call_" + of.what + "_" + sizeName(size)
			w.answer(name, server, wire.ToolsCall, of.make(name, size))
		}
	}
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}
