package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A sight is a difference that a client of a revision sees, with the server's own answer in which it is.
type sight struct {
	difference
	revision string
	eras     bool // client and server are of different eras
	direct   map[string]any
}

// A promise is a difference that docs/revisions-and-losses.md or docs/bridging-eras.md has.
type promise struct {
	rule   string // its number, or the page
	before string // for clients of older revisions than this one; "" for all
	eras   bool   // only between a client and a server of different eras
	at     *regexp.Regexp
	holds  func(sight) bool // nil if nothing more is needed
}

const (
	bridging = "bridging-eras.md"
	thisPage = "servers.md" // its second paragraph
	entries  = `(tools|prompts|resources|resourceTemplates)\[\]`
	content  = `.*\.result\.(content\[\]|messages\[\]\.content)`
)

// promises are all differences that are not reported.
var promises = []promise{
	{"D.3", "", false, at(`hello\.result\.protocolVersion changed`), func(s sight) bool { return s.after == s.revision }},
	{"C01", "2025-06-18", false, at(`.*/list\.result\.` + entries + `\.title removed`), nil},
	{"C01", "2025-06-18", false, at(`hello\.result\.serverInfo\.title removed`), nil},
	{"C01", "2025-06-18", false, at(`tools/list\.result\.tools\[\]\.annotations(\.title)? added`), nil},
	{"C02", "2025-03-26", false, at(`tools/list\.result\.tools\[\]\.annotations removed`), nil},
	{"C03", "2025-06-18", false, at(`tools/list\.result\.tools\[\]\.outputSchema removed`), nil},
	{"C03", "", true, at(`tools/list\.result\.tools\[\]\.outputSchema removed`), func(s sight) bool { return s.revision != modernRevision }},
	{"C04", "2025-06-18", false, at(`tools/call.*\.result\.structuredContent removed`), nil},
	{"C04", "2025-06-18", false, at(`tools/call.*\.result\.content\[\] added`), sight.addsStructured},
	{"C05", "2025-11-25", false, at(`.*\.icons removed`), nil},
	{"C06", "2025-11-25", false, at(`hello\.result\.serverInfo\.(description|websiteUrl) removed`), nil},
	{"C07", "2025-11-25", false, at(`tools/list\.result\.tools\[\]\.execution removed`), nil},
	{"C07", "", true, at(`tools/list\.result\.tools\[\]\.execution removed`), nil},
	{"C07", "", false, at(`tools/list\.result\.tools\[\] removed`), sight.onlyTask},
	{"C08", "2025-06-18", false, at(`.*\.result\..*\[\]\._meta removed`), nil},
	{"C09", "2025-06-18", false, at(content + `.*\.annotations\.lastModified removed`), nil},
	{"C09", "2025-06-18", false, at(`resources/(templates/)?list\.result\.` + entries + `\.annotations(\.lastModified)? removed`), nil},
	{"C10", "2025-03-26", false, at(content + `\.(type changed|(data|mimeType) removed|text added)`), func(s sight) bool { return s.wasBlock("audio") }},
	{"C11", "2025-06-18", false, at(content + `\.(type changed|text added|.* removed)`), func(s sight) bool { return s.wasBlock("resource_link") }},
	{"C14", "2025-03-26", false, at(`notifications\.notifications/progress\[\]\.message removed`), nil},
	{"C15", "2025-03-26", false, at(`hello\.result\.capabilities\.completions removed`), nil},
	{"C15", "", false, at(`hello\.result\.capabilities\.completions added`), func(s sight) bool { return s.revision >= "2025-03-26" }},
	{"C17", "2025-11-25", false, at(`asked\.elicitation/create\[\]\.mode removed`), func(s sight) bool { return s.before == "form" }},
	{"C19", "2025-11-25", false, at(`asked\.elicitation/create\[\]\.requestedSchema\..*`), nil},
	{"C20", "2025-11-25", false, at(`hello\.result\.capabilities\.tasks removed`), nil},
	{"C36", "", false, at(`tools/list\.result\.tools\[\]\.(inputSchema|outputSchema)(\..*)?\.(\$schema removed|prefixItems added|items changed|` +
		`additionalItems removed|definitions removed|\$defs added|\$ref changed|dependencies removed|dependent(Schemas|Required) added)`), sight.newDialect},
	{"C41", "", false, at(`resources/read.*\.contents\[\]\.name added`), func(s sight) bool { return s.revision >= "2025-06-18" }},
	{"C41", "2025-06-18", false, at(`resources/read.*\.contents\[\]\.name removed`), nil},

	// A refusal in HTTP that is no JSON-RPC becomes an error of JSON-RPC, which published clients may quote.
	{thisPage, "", false, at(`.*\.(transport removed|error added)`), func(s sight) bool { return s.direct["transport"] != nil }},
	{thisPage, "", false, at(`.*\.transport changed`), func(s sight) bool { return strings.Contains(short(s.after), "jsonrpc") }},
	// With 2026-07-28 the error for an unknown method has the status 404, of which published clients make an error of the transport.
	{bridging, "", true, at(`.*\.(error removed|transport added)`), func(s sight) bool { return strings.Contains(short(s.direct["error"]), "-32601") }},

	{"C18", "", true, at(`asked\.elicitation/create\[\]\.elicitationId (added|removed)`), nil},
	{"C22", "", true, at(`resources/read.*\.error\.code changed`), func(s sight) bool { return short(s.before) == "-32002" && short(s.after) == "-32602" }},
	{"C22", "", true, at(`resources/read.*\.error\.data added`), func(s sight) bool { return strings.Contains(short(s.direct["error"]), "-32002") }},
	{"C28", "", true, at(`hello\.result\.capabilities\.(tasks removed|extensions(\..*)? (added|removed))`), nil},
	{"C29", "", true, at(`tools/call.*\.result\.content added`), func(s sight) bool { return short(s.after) == "[]" }},
	{"C29", "", true, at(`.*\.result\.resultType (added|removed)`), nil},
	{"C30", "", true, at(`.*\.result\.(ttlMs|cacheScope) (added|removed|changed)`), nil},
	{"C32", "", true, at(`.*\.result\._meta(\.io\.modelcontextprotocol/serverInfo)? (added|removed)`), func(s sight) bool {
		return !strings.Contains(short(s.before)+short(s.after), "progressToken")
	}},
	// server/discover in place of initialize, subscriptions in place of the session's, no changes of roots, log messages by request.
	{bridging, "", true, at(`hello\.result\.(protocolVersion|serverInfo|supportedVersions) (added|removed)`), nil},
	{bridging, "", true, at(`notifications\.notifications/subscriptions/acknowledged added`), nil},
	// Version 2 of the TypeScript client reports its own progress when it answers questions.
	{bridging, "", true, at(`notifications\.notifications/progress(\[\])? added`), sight.ownProgress},
	{bridging, "", true, at(`notifications\.notifications/message(\[\])? removed`), nil},
	{bridging, "", true, at(`notifications\.notifications/(tools|prompts|resources)/list_changed(\[\])? (added|removed)`), nil},
	{bridging, "", true, at(`asked\.roots/list(\[\])? removed`), nil},
}

func at(pattern string) *regexp.Regexp { return regexp.MustCompile("^(" + pattern + ")$") }

// promised returns the rule by which a client gets something else than the server sends.
func promised(s sight) (rule string, ok bool) {
	for _, p := range promises {
		if (p.before == "" || s.revision < p.before) && (!p.eras || s.eras) && p.at.MatchString(s.place+" "+s.what) &&
			(p.holds == nil || p.holds(s)) {
			return p.rule, true
		}
	}
	return "", false
}

// addsStructured reports whether an added block has structured content, and nothing that the server's own blocks have said.
func (s sight) addsStructured() bool {
	block, _ := s.after.(map[string]any)
	added, _ := block["text"].(string)
	if block["type"] != "text" || added == "" || resultOf(s.direct)["structuredContent"] == nil {
		return false
	}
	blocks, _ := resultOf(s.direct)["content"].([]any)
	for _, b := range blocks {
		b, _ := b.(map[string]any)
		for _, member := range []string{"text", "data"} {
			said, _ := b[member].(string)
			quoted, _ := json.Marshal(said) // cannot fail for a string
			if len(said) > 8 && (strings.Contains(added, said) || strings.Contains(added, strings.Trim(string(quoted), `"`))) {
				return false
			}
		}
	}
	return true
}

// ownProgress reports whether all progress that was added is the client's own.
func (s sight) ownProgress() bool {
	list, ok := s.after.([]any)
	if !ok {
		list = []any{s.after}
	}
	return !slices.ContainsFunc(list, func(p any) bool { return !strings.Contains(short(p), "Fulfilling input required by") })
}

// newDialect reports whether the client's revision means 2020-12 by a schema without a dialect.
func (s sight) newDialect() bool {
	return s.revision >= "2025-11-25" && (s.what != "removed" || !strings.HasSuffix(s.place, "$schema") || strings.Contains(short(s.before), "draft-07"))
}

// wasBlock reports whether the difference is in a block of content that the server sent with this type.
func (s sight) wasBlock(kind string) bool {
	found := false
	walk(s.direct, func(m map[string]any) { found = found || m["type"] == kind })
	return found
}

// onlyTask reports whether a tool that is missing only runs as a task.
func (s sight) onlyTask() bool {
	return (s.revision < "2025-11-25" || s.eras) && strings.Contains(short(s.before.(map[string]any)["execution"]), "required")
}

func walk(v any, each func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		each(v)
		for _, member := range v {
			walk(member, each)
		}
	case []any:
		for _, element := range v {
			walk(element, each)
		}
	}
}

func resultOf(answer map[string]any) map[string]any {
	result, _ := answer["result"].(map[string]any)
	return result
}
