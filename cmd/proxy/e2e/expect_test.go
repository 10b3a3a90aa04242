package e2e

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// additions are what the newer revisions added, which a client of an older one must not get. These
// tables repeat, in terms of a transcript, what package translate does to single messages; they
// share no code with it.
//
// A path leads from a result to a member: "*" stands for each item of an array or each member of an
// object.
var additions = []struct{ since, method, path string }{
	{"2025-03-26", "initialize", "capabilities.completions"},
	{"2025-11-25", "initialize", "capabilities.tasks"},
	{"2025-06-18", "initialize", "serverInfo.title"},
	{"2025-11-25", "initialize", "serverInfo.icons"},
	{"2025-11-25", "initialize", "serverInfo.description"},
	{"2025-11-25", "initialize", "serverInfo.websiteUrl"},

	{"2025-03-26", "tools/list", "*.tools.*.annotations"},
	{"2025-06-18", "tools/list", "*.tools.*.title"},
	{"2025-06-18", "tools/list", "*.tools.*.outputSchema"},
	{"2025-06-18", "tools/list", "*.tools.*._meta"},
	{"2025-11-25", "tools/list", "*.tools.*.icons"},
	{"2025-11-25", "tools/list", "*.tools.*.execution"},

	{"2025-06-18", "resources/list", "*.resources.*.title"},
	{"2025-06-18", "resources/list", "*.resources.*._meta"},
	{"2025-06-18", "resources/list", "*.resources.*.annotations.lastModified"},
	{"2025-11-25", "resources/list", "*.resources.*.icons"},

	{"2025-06-18", "resources/templates/list", "*.resourceTemplates.*.title"},
	{"2025-06-18", "resources/templates/list", "*.resourceTemplates.*._meta"},
	{"2025-06-18", "resources/templates/list", "*.resourceTemplates.*.annotations.lastModified"},
	{"2025-11-25", "resources/templates/list", "*.resourceTemplates.*.icons"},

	{"2025-06-18", "prompts/list", "*.prompts.*.title"},
	{"2025-06-18", "prompts/list", "*.prompts.*._meta"},
	{"2025-06-18", "prompts/list", "*.prompts.*.arguments.*.title"},
	{"2025-11-25", "prompts/list", "*.prompts.*.icons"},

	{"2025-06-18", "resources/read", "contents.*._meta"},

	{"2025-06-18", "tools/call", "structuredContent"},
	{"2025-06-18", "tools/call", "content.*._meta"},
	{"2025-06-18", "tools/call", "content.*.resource._meta"},
	{"2025-06-18", "tools/call", "content.*.annotations.lastModified"},
	{"2025-11-25", "tools/call", "content.*.icons"},
	{"2025-06-18", "prompts/get", "messages.*.content._meta"},
	{"2025-06-18", "prompts/get", "messages.*.content.resource._meta"},
	{"2025-06-18", "prompts/get", "messages.*.content.annotations.lastModified"},
	{"2025-11-25", "prompts/get", "messages.*.content.icons"},

	{"2025-11-25", "asked", "*.params.mode"},
	{"2025-11-25", "asked", "*.params.requestedSchema.$schema"},
}

// answered are the steps that succeed only because the proxy speaks another revision to the server. The reference fails.
var answered = []struct {
	before, step string // clients older than this
	result       any
}{
	// An array of blocks in one sampling message is new: older clients get a message for each block.
	{"2025-11-25", "sampling of blocks", map[string]any{"content": []any{map[string]any{
		"type": "text", "_meta": map[string]any{"example.com/n": 1},
		"text": `{"content":{"type":"text","text":"sampled second"},"model":"e2e","role":"assistant","stopReason":"endTurn"}`,
	}}}},
}

// crossed reports whether a message from revision vu down to vc passes the step that added something. The proxy does
// not remove what a server sends although its own revision does not have it.
func crossed(since, vc, vu string) bool { return vc < since && since <= vu }

// expected returns the transcript that a client of revision vc must have through a proxy that speaks vu to the server.
// ref is the transcript of the same client with the same server and no proxy.
func expected(ref transcript, vc, vu string) transcript {
	out := make(transcript, 0, len(ref))
	for _, e := range ref {
		if vc != vu {
			e.Refused = "" // the proxy translates what the client could not read
			e.Result, e.Progress = plain(e.Result), plain(e.Progress)
			if vc < vu {
				e = downgraded(e, vc, vu)
			} else {
				e = upgraded(e, vc, vu)
			}
		}
		if e.Step == "initialize" && vc != newest { // the newest revision has no protocolVersion in the result
			e.Result.(map[string]any)["protocolVersion"] = vc
		}
		if vc >= newestHandshake && methodOf()[e.Step] == "tools/list" {
			e.Result = withoutDraft07(e.Result)
		}
		out = append(out, e)
	}
	return out
}

// withoutDraft07 takes the dialect out of the schemas of lists of tools, as for clients of 2025-11-25 and after, whose
// default is another. No published server's schema has a keyword that the two dialects spell differently.
func withoutDraft07(lists any) any {
	lists = plain(lists)
	for _, page := range asList(lists) {
		for _, tool := range asList(at(page, "tools")) {
			for _, name := range []string{"inputSchema", "outputSchema"} {
				if schema, ok := at(tool, name).(map[string]any); ok && schema["$schema"] == "http://json-schema.org/draft-07/schema#" {
					delete(schema, "$schema")
				}
			}
		}
	}
	return lists
}

func asList(v any) []any { list, _ := v.([]any); return list }

func downgraded(e entry, vc, vu string) entry {
	for _, a := range answered {
		if e.Step == a.step && crossed(a.before, vc, vu) {
			e.Result, e.Error = plain(a.result), nil
		}
	}
	method := methodOf()[e.Step]
	result, _ := e.Result.(map[string]any)
	switch method {
	case "tools/list":
		pages, _ := e.Result.([]any)
		for _, page := range pages {
			page := page.(map[string]any)
			page["tools"] = slices.DeleteFunc(page["tools"].([]any), func(tool any) bool {
				return crossed("2025-11-25", vc, vu) && at(tool, "execution.taskSupport") == "required"
			})
			for _, tool := range page["tools"].([]any) {
				if vc == "2025-03-26" && crossed("2025-06-18", vc, vu) {
					titled(tool.(map[string]any))
				}
			}
		}
	case "tools/call":
		if value, ok := result["structuredContent"]; ok && crossed("2025-06-18", vc, vu) {
			quoted(result, value)
		}
		if blocks, ok := result["content"].([]any); ok {
			for i := range blocks {
				blocks[i] = readable(blocks[i].(map[string]any), vc, vu)
			}
		}
	case "prompts/get":
		if messages, ok := result["messages"].([]any); ok {
			for _, m := range messages {
				m := m.(map[string]any)
				m["content"] = readable(m["content"].(map[string]any), vc, vu)
			}
		}
	case "resources/read":
		if crossed("2025-06-18", vc, vu) { // no schema has a name for a resource's contents, although servers send it
			remove(e.Result, "contents.*.name")
		}
	case "asked":
		if crossed("2025-11-25", vc, vu) {
			askable(e.Result)
		}
	}
	for _, a := range additions {
		if a.method == method && crossed(a.since, vc, vu) {
			remove(e.Result, a.path)
		}
	}
	if crossed("2025-03-26", vc, vu) {
		remove(e.Progress, "*.message")
	}
	return e
}

func upgraded(e entry, vc, vu string) entry {
	result, _ := e.Result.(map[string]any)
	switch methodOf()[e.Step] {
	case "initialize": // completion existed before there was a capability for it
		capabilities := result["capabilities"].(map[string]any)
		if vu < "2025-03-26" && capabilities["completions"] == nil && (capabilities["prompts"] != nil || capabilities["resources"] != nil) {
			capabilities["completions"] = map[string]any{}
		}
	case "resources/read":
		if vu < "2025-06-18" && vc >= "2025-06-18" && result != nil {
			for _, c := range result["contents"].([]any) {
				if c := c.(map[string]any); c["name"] == nil {
					c["name"] = lastSegment(c["uri"].(string))
				}
			}
		}
	case "asked": // a server of a revision without the capability may not ask for context
		if vu < "2025-11-25" && vc >= "2025-11-25" {
			remove(e.Result, "*.params.includeContext")
		}
	}
	return e
}

// titled moves a tool's title to the member where 2025-03-26 has it.
func titled(tool map[string]any) {
	title, _ := tool["title"].(string)
	if title == "" {
		return
	}
	annotations, ok := tool["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		tool["annotations"] = annotations
	}
	if annotations["title"] == nil {
		annotations["title"] = title
	}
}

// quoted appends a structured value as text to a result, unless a block has it already.
func quoted(result map[string]any, value any) {
	blocks, _ := result["content"].([]any)
	for _, b := range blocks {
		text, _ := b.(map[string]any)["text"].(string)
		if said, err := readValue([]byte(text)); err == nil && compact(said) == compact(value) {
			return
		}
	}
	result["content"] = append(blocks, map[string]any{"type": "text", "text": compact(value)})
}

// readable replaces a content block that the client's revision does not have with text.
func readable(block map[string]any, vc, vu string) map[string]any {
	var text string
	member := func(name string) string { s, _ := block[name].(string); return s }
	switch {
	case block["type"] == "audio" && crossed("2025-03-26", vc, vu):
		data, err := base64.StdEncoding.DecodeString(member("data"))
		if err != nil {
			panic(err)
		}
		text = fmt.Sprintf("[audio omitted: %s, %d bytes]", member("mimeType"), len(data))
	case block["type"] == "resource_link" && crossed("2025-06-18", vc, vu):
		label := member("title")
		if label == "" {
			label = member("name")
		}
		text = fmt.Sprintf("[resource link: %s] %s", label, member("uri"))
		var about []string
		if mime := member("mimeType"); mime != "" {
			about = append(about, mime)
		}
		if size := block["size"]; size != nil {
			about = append(about, fmt.Sprintf("%v bytes", size))
		}
		if len(about) > 0 {
			text += " (" + strings.Join(about, ", ") + ")"
		}
		if description := member("description"); description != "" {
			text += " - " + description
		}
	default:
		return block
	}
	words := map[string]any{"type": "text", "text": text}
	if annotations, ok := block["annotations"]; ok {
		words["annotations"] = annotations
	}
	return words
}

// askable changes the requests of a 2025-11-25 server to the form of the revisions before.
func askable(requests any) {
	list, _ := requests.([]any)
	for _, r := range list {
		messages, _ := at(r, "params.messages").([]any)
		var single []any
		for _, m := range messages {
			m := m.(map[string]any)
			blocks, ok := m["content"].([]any)
			if !ok {
				single = append(single, m)
			}
			for _, b := range blocks {
				single = append(single, map[string]any{"role": m["role"], "content": b})
			}
		}
		if messages != nil {
			r.(map[string]any)["params"].(map[string]any)["messages"] = single
		}
		if properties, ok := at(r, "params.requestedSchema.properties").(map[string]any); ok {
			primitive(at(r, "params.requestedSchema").(map[string]any), properties)
		}
	}
}

// primitive changes a form to what revision 2025-06-18 has: one value per property, and defaults only of booleans.
func primitive(schema, properties map[string]any) {
	for name, p := range properties {
		p := p.(map[string]any)
		values, titles := options(p)
		if p["type"] == "array" {
			delete(properties, name)
			for i, value := range values {
				properties[fmt.Sprintf("%s.%d", name, i)] = option(name, p, value, titles[i], len(values))
			}
			if required, ok := schema["required"].([]any); ok {
				schema["required"] = slices.DeleteFunc(required, func(r any) bool { return r == name })
			}
			continue
		}
		if p["type"] != "boolean" {
			delete(p, "default")
		}
		if p["oneOf"] != nil {
			delete(p, "oneOf")
			p["enum"], p["enumNames"] = values, titles
		}
	}
	delete(schema, "$schema")
}

// options returns the values of a choice in the forms of 2025-11-25, and their titles.
func options(p map[string]any) (values, titles []any) {
	choices, _ := p["oneOf"].([]any)
	if choices == nil {
		choices, _ = at(p, "items.anyOf").([]any)
	}
	for _, c := range choices {
		c := c.(map[string]any)
		values, titles = append(values, c["const"]), append(titles, c["title"])
	}
	if choices == nil {
		values, _ = at(p, "items.enum").([]any)
		titles = values
	}
	return values, titles
}

// option returns the boolean for one of the values of a multi-select p.
func option(name string, p map[string]any, value, title any, of int) map[string]any {
	b := map[string]any{"type": "boolean", "title": title, "description": name}
	for _, member := range []string{"description", "title"} {
		if said, ok := p[member]; ok {
			b["description"] = said
		}
	}
	if most := p["maxItems"]; most != nil && fmt.Sprint(most) != strconv.Itoa(of) { // no published server asks for another bound
		b["description"] = fmt.Sprintf("%s (choose at most %v)", b["description"], most)
	}
	if chosen, _ := p["default"].([]any); slices.Contains(chosen, value) {
		b["default"] = true
	}
	return b
}

// newerThan returns every member of a transcript that vc does not have and vu has. It applies the tables above to what
// the client actually received, notifications included.
func newerThan(vc, vu string, t transcript) (faults []string) {
	for _, e := range t {
		for _, a := range additions {
			if a.method == methodOf()[e.Step] && crossed(a.since, vc, vu) && remove(plain(e.Result), a.path) {
				faults = append(faults, fmt.Sprintf("%s: %s came with revision %s", e.Step, a.path, a.since))
			}
		}
		if e.Refused != "" {
			faults = append(faults, fmt.Sprintf("%s: the client refused the answer: %s", e.Step, e.Refused))
		}
	}
	heard, _ := plain(t.step("heard").Result).(map[string]any)
	if crossed("2025-03-26", vc, vu) && remove(heard, "notifications/progress.*.message") {
		faults = append(faults, "progress with a message")
	}
	for method := range heard {
		since := map[string]string{"notifications/tasks/status": "2025-11-25", "notifications/elicitation/complete": "2025-11-25"}[method]
		if crossed(since, vc, vu) {
			faults = append(faults, method+" came with revision "+since)
		}
	}
	return faults
}

// lastSegment returns the last part of a URI.
func lastSegment(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		panic(err)
	}
	segments := strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' })
	return segments[len(segments)-1]
}

// at returns the member at a path without "*", or nil if there is none.
func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// remove removes the members at a path from v, and an object "annotations" that is then empty. It reports whether it
// removed any.
func remove(v any, path string) (found bool) {
	name, rest, more := strings.Cut(path, ".")
	switch v := v.(type) {
	case []any:
		if name == "*" {
			for _, item := range v {
				found = remove(item, rest) || found
			}
		}
	case map[string]any:
		if name == "*" {
			for _, member := range v {
				found = remove(member, rest) || found
			}
			return found
		}
		member, ok := v[name]
		if !ok {
			return false
		}
		if !more {
			delete(v, name)
			return true
		}
		found = remove(member, rest)
		if left, ok := member.(map[string]any); ok && found && len(left) == 0 && name == "annotations" {
			delete(v, name)
		}
	}
	return found
}
