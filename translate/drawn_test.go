package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// grammar lists the members of an object, by the object's own name. The elements of an array
// are objects with the array's name. A member without an entry gets any value.
var grammar = map[string]string{
	"tools/list result":                 "tools nextCursor ttlMs cacheScope resultType",
	"tools/call result":                 "content structuredContent isError task resultType ttlMs pollIntervalMs status",
	"tasks/get result":                  "taskId status ttl pollInterval ttlMs pollIntervalMs result error inputRequests resultType",
	"tasks/cancel result":               "taskId status ttl resultType",
	"notifications/tasks params":        "taskId status ttlMs pollIntervalMs result",
	"notifications/tasks/status params": "taskId status ttl pollInterval",
	"result":                            "content isError structuredContent",
	"prompts/list result":               "prompts",
	"prompts/get result":                "messages description",
	"resources/list result":             "resources",
	"resources/templates/list result":   "resourceTemplates",
	"resources/read result":             "contents resultType ttlMs",
	"roots/list result":                 "roots",
	"initialize result":                 "protocolVersion capabilities serverInfo instructions",
	"sampling/createMessage result":     "content model role stopReason task",
	"elicitation/create result":         "action content task",
	"tools/call params":                 "name arguments task inputResponses requestState",
	"resources/read params":             "uri inputResponses requestState",
	"prompts/get params":                "name arguments inputResponses",
	"roots/list params":                 "cursor",
	"resources/subscribe params":        "uri",
	"server/discover params":            "x",
	"server/discover result":            "supportedVersions capabilities ttlMs cacheScope resultType",
	"initialize params":                 "protocolVersion capabilities clientInfo",
	"completion/complete params":        "ref argument context",
	"sampling/createMessage params":     "messages tools toolChoice includeContext task",
	"elicitation/create params":         "mode message requestedSchema task url elicitationId",
	"notifications/progress params":     "progressToken message",
	"notifications/cancelled params":    "requestId reason",
	"tasks/list params":                 "cursor",
	"tools/call error":                  "code message data",
	"resources/read error":              "code message data",
	"tools":                             "name title annotations execution outputSchema icons inputSchema",
	"prompts":                           "name title arguments icons",
	"prompts arguments":                 "name title required",
	"resources":                         "name title uri annotations icons",
	"resourceTemplates":                 "name title uriTemplate annotations icons",
	"contents":                          "name uri text title",
	"roots":                             "uri name title",
	"messages":                          "role content",
	"content":                           "type text data mimeType uri name title size description annotations icons resource id input toolUseId content structuredContent",
	"resource":                          "uri text name annotations",
	"annotations":                       "title lastModified priority",
	"execution":                         "taskSupport",
	"capabilities":                      "tasks sampling elicitation completions prompts resources experimental roots extensions",
	"sampling":                          "tools context",
	"elicitation":                       "form url",
	"serverInfo":                        "name title icons description websiteUrl",
	"clientInfo":                        "name title icons description websiteUrl",
	"ref":                               "type name title",
	"task":                              "taskId ttl status pollInterval",
	"requestedSchema":                   "type $schema properties required",
	"properties":                        "p q p.0",
	"p":                                 "type title description default oneOf enum items minItems maxItems",
	"q":                                 "type title default oneOf items minItems",
	"p.0":                               "type default",
	"items":                             "type enum anyOf oneOf",
	"oneOf":                             "const title",
	"anyOf":                             "const title",
	"data":                              "elicitations",
	"elicitations":                      "message url mode",
	"structuredContent":                 "a title",
	"extensions":                        "io.modelcontextprotocol/tasks x/y",
	"_meta":                             "io.modelcontextprotocol/protocolVersion io.modelcontextprotocol/serverInfo io.modelcontextprotocol/subscriptionId progressToken",
	"inputSchema":                       "type properties",
	"outputSchema":                      "type properties",
}

// values are typical values of a member, by its name. A member may also get any other value.
var values = map[string][]string{
	"type": {`"text"`, `"audio"`, `"\u0061udio"`, `"resource_link"`, `"resource"`, `"tool_use"`, `"tool_result"`, `"image"`,
		`"array"`, `"string"`, `"boolean"`, `"ref/prompt"`, `"ref\/prompt"`, `"ref/resource"`},
	"text":           {`"{}"`, `"{\"a\":1.0}"`, `" [ ] "`, `"null"`, `"x\n\ud800"`},
	"data":           {`"AAAA"`, `"AA=="`, `"AA"`, `"\/\/8="`, `"A\nAA"`, `"é"`},
	"mimeType":       {`"audio\/wav"`, `"\"\u00e9"`},
	"uri":            {`"file:///a/b%20c"`, `"https://u@h.example:1/"`, `"u:x"`, `"a%22/"`, `"file:\/\/\/%ff"`, `"x:"`},
	"size":           {`1024`, `1.50`},
	"taskSupport":    {`"required"`, `"optional"`, `"\u0072equired"`},
	"mode":           {`"form"`, `"url"`, `"\u0075rl"`},
	"includeContext": {`"none"`, `"thisServer"`, `"all\u0053ervers"`},
	"code":           {`-32042`, `-32042`, `-32002`, `-32602`, `-32020`, `-32022`},
	"status":         {`"completed"`, `"failed"`, `"working"`, `"f\u0061iled"`},
	"isError":        {`true`, `false`},
	"a":              {`"{}"`, `" [ ] "`, `"x\u000a\ud800"`},
	"resultType":     {`"complete"`, `"complete"`, `"input_required"`, `"task"`, `"\u0063omplete"`},
	"action":         {`"accept"`, `"accept"`, `"decline"`, `"\u0061ccept"`},
	"minItems":       {`0`, `1`, `2`, `1.0`, `-1`, `1.5`, `3e0`},
	"maxItems":       {`0`, `1`, `2`, `1e0`, `9e99`},
	"required":       {`["p","q"]`, `["q","\u0070",1,"p"]`},
	"enum":           {`["x","y"]`, `["x",1,"\u0078"]`},
	"default":        {`["x"]`, `"x"`, `true`, `["\u0079",2]`},
	"const":          {`"x"`, `"y\""`},
}

// of generates a value for a member of this name. members are the members of the value, as in grammar.
func of(name, members string, depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 9).Draw(t, name)
		switch {
		case kind == 0 || depth == 0:
			return raw(1).Draw(t, "value")
		case members != "" && (kind >= 6 || values[name] == nil):
			one := objectOf(name, members, depth-1)
			if lists[name] != (kind == 6) { // sometimes an array instead of an object, or an object instead of an array
				elements := rapid.SliceOfN(one, 0, 3).Draw(t, "elements")
				times := rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "times") // a scan expects of entries what those before had
				return "[" + strings.Join(slices.Repeat(elements, times), ",") + "]"
			}
			return one.Draw(t, "object")
		case values[name] != nil:
			return rapid.SampledFrom(values[name]).Draw(t, "value")
		}
		return raw(2).Draw(t, "value")
	})
}

// lists are the members that hold arrays.
var lists = map[string]bool{
	"tools": true, "prompts": true, "prompts arguments": true, "resources": true, "resourceTemplates": true, "contents": true,
	"roots": true, "messages": true, "content": true, "oneOf": true, "anyOf": true, "elicitations": true,
}

func objectOf(name, members string, depth int) *rapid.Generator[string] {
	all := append(strings.Fields(members), "_meta", "x")
	return rapid.Custom(func(t *rapid.T) string {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID).Draw(t, "members")
		parts := make([]string, len(chosen))
		for i, m := range chosen {
			key, within := m, m
			if _, ok := grammar[name+" "+m]; ok {
				within = name + " " + m
			}
			if rapid.IntRange(0, 15).Draw(t, "spelling") == 15 {
				key = fmt.Sprintf(`\u%04x%s`, m[0], m[1:])
			}
			gap := rapid.SampledFrom([]string{"", "", "", " ", "\n"}).Draw(t, "gap")
			parts[i] = gap + `"` + key + `"` + gap + ":" + gap + of(within, grammar[within], depth).Draw(t, m) + gap
		}
		return "{" + strings.Join(parts, ",") + "}"
	})
}

// drawnMessage generates messages of every kind and method that rules name, with most
// of the members that rules name.
var drawnMessage = rapid.Custom(func(t *rapid.T) against {
	roots := make([]string, 0, len(grammar))
	for name := range grammar {
		if _, kind, ok := strings.Cut(name, " "); ok && kind != "arguments" {
			roots = append(roots, name)
		}
	}
	slices.Sort(roots)
	root := rapid.SampledFrom(roots).Draw(t, "root")
	method, part, _ := strings.Cut(root, " ")
	body := objectOf(root, grammar[root], 6).Draw(t, part)
	a := against{method: wire.MethodOf([]byte(method))}
	switch {
	case strings.HasPrefix(method, "notifications/"):
		a.text = `{"jsonrpc":"2.0","method":"` + method + `","params":` + body + `}`
	case part == "params":
		a.text = `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + body + `}`
	default:
		a.text = `{"jsonrpc":"2.0","id":1,"` + part + `":` + body + `}`
	}
	a.from, a.to = pairOf(rapid.Uint8Range(0, uint8(pairs-1)).Draw(t, "pair"))
	a.facts = rapid.SampledFrom([]wire.Facts{
		0, allFacts, wire.ClientElicitation | wire.ClientElicitationForm, wire.ClientElicitation | wire.ClientElicitationURL,
	}).Draw(t, "facts")
	a.stamp = rapid.SampledFrom(stamps).Draw(t, "stamp")
	return a
})

// TestDrawnMessagesAgreeWithPackageSlow compares the engine with package slow, its slow twin, on messages that look like
// the protocol's, with any switches. Random bytes rarely look like that.
func TestDrawnMessagesAgreeWithPackageSlow(t *testing.T) {
	var cache tables
	rapid.Check(t, func(t *rapid.T) {
		a := drawnMessage.Draw(t, "message")
		n := rapid.Uint16Range(0, 1).Draw(t, "defaults") * rapid.Uint16().Draw(t, "switches")
		a.t, a.table, a.options = t, cache.table(t, n), slowtest.Options(switches(n))
		if got := a.compare(a.text, ""); got.note != "" {
			a.compareAnswers(a.text, got)
		}
	})
}
