package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// step20250618 is what 2025-06-18 changed in 2025-03-26
// (https://modelcontextprotocol.io/specification/2025-06-18/changelog).
var step20250618 = Step{
	To: rev20250618,
	Up: []Rule{
		{ID: "C41", What: "name", At: contents, Reads: []string{"*"}, Do: nameContents, When: namesContents},
	},
	Down: []Rule{
		{ID: "C01", What: "title", At: tools, Reads: []string{"title", "annotations.title"}, Do: titleToAnnotations, To: "annotations.title"},
		{ID: "C01", What: "title", At: in("title", resources, templates, prompts, in("arguments[]", prompts), identities), Do: strip},
		{ID: "C01", What: "title", At: at(wire.Request, wire.CompletionComplete, "params.ref.title"), Reads: []string{"../type"}, Do: stripPromptTitle},
		{ID: "C03", What: "outputSchema", At: in("outputSchema", tools), Do: strip},
		{ID: "C04", What: "structuredContent", At: in("structuredContent", toolCall),
			Reads: []string{"../content[].type", "../content[].text"}, Do: structuredToText},
		{ID: "C11", What: "resource_link", At: blocks, Reads: []string{"*", "annotations.*"}, Do: linkToText},
		{ID: "C08", What: "_meta", At: in("_meta", tools, prompts, resources, templates, contents, roots,
			blocks, in("resource", blocks)), Do: strip},
		{ID: "C09", What: "lastModified", At: in("annotations", resources, templates, blocks),
			Reads: []string{"*"}, Do: stripLastModified},
		{ID: "C16", What: "context", At: at(wire.Request, wire.CompletionComplete, "params.context"), Do: strip},
		{ID: "C17", What: "elicitation", At: in("elicitation", clientCapabilities), Do: strip},
		{ID: "C41", What: "name", At: in("name", contents), Do: stripName,
			When: namesContents},
	},
}
