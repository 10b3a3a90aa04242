package main

import (
	"fmt"
	"maps"
	"slices"
)

const modernRevision = "2026-07-28"

// revisions are those of the raw clients.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", newestHandshake, modernRevision}

// newestHandshake is the revision of the client whose session a client without a handshake is compared with where a server
// has a handshake only, and the other way round.
const newestHandshake = "2025-11-25"

// hello is the step that begins a session.
const hello = "hello"

// A call is one of a tool.
type call struct {
	Tool string         `yaml:"tool"`
	With map[string]any `yaml:"with"`
}

// play goes through the whole script. Each step's answer is noted, whatever it is.
func (c *client) play(calls []call, slow *call) {
	answer, modern := c.begin(c.pace.start)
	c.modern, c.notes.modern = modern, modern
	if c.answered(hello, answer) == nil {
		return
	}
	if !c.modern {
		c.ask("ping", "ping", nil)
		c.ask("logging/setLevel", "logging/setLevel", map[string]any{"level": "debug"})
	}
	c.list("tools/list", "tools")
	prompts := c.list("prompts/list", "prompts")
	resources := c.list("resources/list", "resources")
	templates := c.list("resources/templates/list", "resourceTemplates")
	c.calls(calls)
	c.prompts(prompts)
	c.completions(prompts, templates)
	c.resources(resources)
	c.ask("unknown method", "no/such", map[string]any{})
	if slow != nil && c.notes.broken == "" {
		c.answered("tools/call that is cancelled", c.cancel(map[string]any{"name": slow.Tool, "arguments": c.filled(slow.With)}))
		c.ask("tools/call after a cancellation", "tools/call", map[string]any{"name": "no_such_tool", "arguments": map[string]any{}})
	}
	if !c.modern {
		if c.notes.broken == "" {
			c.notify("notifications/roots/list_changed")
		}
		c.ask("last ping", "ping", nil)
	}
	c.settle()
}

// list reads all pages of a list, and notes them as one.
func (c *client) list(method, member string) []map[string]any {
	params, pages, all := map[string]any{}, 0, []any{}
	for {
		result := c.ask(method, method, params)
		if result == nil {
			return nil
		}
		entries, _ := result[member].([]any)
		all = append(all, entries...)
		pages++
		cursor, more := result["nextCursor"].(string)
		if !more || cursor == "" && !c.modern || pages == maxPages {
			result[member] = all
			delete(result, "nextCursor")
			break
		}
		params = map[string]any{"cursor": cursor}
	}
	c.notes.answers[method].(map[string]any)["pages"] = pages
	var entries []map[string]any
	for _, e := range all {
		if entry, ok := e.(map[string]any); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

func (c *client) calls(calls []call) {
	c.ask("tools/call of an unknown tool", "tools/call", map[string]any{"name": "no_such_tool", "arguments": map[string]any{}})
	for i, one := range calls {
		arguments := c.filled(one.With)
		c.ask(fmt.Sprintf("tools/call %d %s", i+1, one.Tool), "tools/call", map[string]any{
			"name": one.Tool, "arguments": arguments, "_meta": map[string]any{"progressToken": fmt.Sprint("call ", i+1)},
		})
	}
}

// filled returns arguments with the folder's names in place of {work} and others.
func (c *client) filled(value map[string]any) map[string]any {
	all := map[string]any{}
	for name, v := range value {
		all[name] = c.filledValue(v)
	}
	return all
}

func (c *client) filledValue(v any) any {
	switch v := v.(type) {
	case string:
		return c.folder.fill(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = c.filledValue(v[i])
		}
		return all
	case map[string]any:
		return c.filled(v)
	}
	return v
}

func (c *client) prompts(prompts []map[string]any) {
	for _, p := range prompts[:min(3, len(prompts))] {
		name, _ := p["name"].(string)
		arguments := map[string]any{}
		for _, a := range argumentsOf(p) {
			arguments[a] = "1"
		}
		c.ask("prompts/get "+name, "prompts/get", map[string]any{"name": name, "arguments": arguments})
	}
	c.ask("prompts/get of an unknown prompt", "prompts/get", map[string]any{"name": "no_such_prompt"})
}

func argumentsOf(prompt map[string]any) (names []string) {
	list, _ := prompt["arguments"].([]any)
	for _, a := range list {
		argument, _ := a.(map[string]any)
		if name, ok := argument["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (c *client) completions(prompts, templates []map[string]any) {
	complete := func(step string, ref map[string]any, argument string) {
		c.ask(step, "completion/complete", map[string]any{"ref": ref, "argument": map[string]any{"name": argument, "value": ""}})
	}
	done := 0
	for _, p := range prompts {
		if names := argumentsOf(p); len(names) > 0 && done < 2 {
			done++
			complete(fmt.Sprint("completion/complete of prompt ", p["name"]), map[string]any{"type": "ref/prompt", "name": p["name"]}, names[0])
		}
	}
	for _, t := range templates[:min(1, len(templates))] {
		uri, _ := t["uriTemplate"].(string)
		complete("completion/complete of template", map[string]any{"type": "ref/resource", "uri": uri}, variableOf(uri))
	}
	complete("completion/complete of an unknown prompt", map[string]any{"type": "ref/prompt", "name": "no_such_prompt"}, "x")
}

// variableOf returns the first variable of a URI template.
func variableOf(template string) string {
	for i, r := range template {
		if r != '{' {
			continue
		}
		for j, end := range template[i:] {
			if end == '}' {
				return template[i+1 : i+j]
			}
		}
	}
	return "x"
}

func (c *client) resources(resources []map[string]any) {
	for i, r := range resources[:min(3, len(resources))] {
		c.ask(fmt.Sprint("resources/read ", i+1), "resources/read", map[string]any{"uri": r["uri"]})
	}
	c.ask("resources/read of an unknown resource", "resources/read", map[string]any{"uri": "no-such://resource"})
	uri := any("no-such://resource")
	if len(resources) > 0 {
		uri = resources[0]["uri"]
	}
	if c.modern {
		if c.notes.broken != "" {
			return
		}
		answer := c.listen(map[string]any{
			"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": []any{uri},
		})
		if answer != nil {
			c.answered("subscriptions/listen", answer)
		}
		return
	}
	c.ask("resources/subscribe", "resources/subscribe", map[string]any{"uri": uri})
	c.ask("resources/unsubscribe", "resources/unsubscribe", map[string]any{"uri": uri})
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
