package corpus

import "github.com/dragoman-proxy/dragoman/translate/wire"

const (
	choicesForm = "elicit_choices"
	flatAnswer  = "elicit_choices_result"
)

// questions adds the server's requests to its client.
func (w *writer) questions() {
	w.request("roots_list", server, wire.RootsList, nil, object{"roots", list{
		object{"uri", "file:///srv/data", "name", "data", "_meta", object{"example.com/kind", "volume"}}, object{"uri", "file:///home/ann/work"},
	}})
	w.sampling()
	w.elicitation()
}

func (w *writer) sampling() {
	s := newSource("sampling")
	text := func(n int) object { return object{"type", "text", "text", s.sentences(n)} }
	w.request("sample", server, wire.SamplingCreateMessage, object{
		"messages", list{object{"role", "user", "content", text(300)}},
		"systemPrompt", "You are a helpful test server.", "maxTokens", 200, "temperature", 0.7, "includeContext", "thisServer",
		"modelPreferences", object{"hints", list{object{"name", "small"}}, "speedPriority", 0.8},
	}, object{"model", "example-1", "stopReason", "endTurn", "role", "assistant", "content", text(500)})
	w.request("sample_arrays", server, wire.SamplingCreateMessage, object{
		"messages", list{
			object{"role", "user", "content", list{text(120), object{"type", "image", "data", s.base64(200), "mimeType", "image/png"}, text(60)}, "_meta", object{"example.com/turn", 1}},
			object{"role", "assistant", "content", list{text(80)}},
			object{"role", "user", "content", text(50)},
		},
		"maxTokens", 500,
	}, object{"model", "example-1", "role", "assistant", "stopReason", "endTurn", "content", list{text(200), object{"type", "audio", "data", s.base64(90), "mimeType", "audio/wav"}}})
	w.request("sample_tools", server, wire.SamplingCreateMessage, object{
		"messages", list{object{"role", "user", "content", text(100)}}, "maxTokens", 500,
		"tools", toolsList("sample_tools", 3)[1], "toolChoice", object{"mode", "auto"},
	}, object{"model", "example-1", "role", "assistant", "stopReason", "toolUse", "content", list{
		text(40), object{"type", "tool_use", "id", "call_1", "name", "get_issues_1", "input", object{"query0", "x", "limit1", 5}},
	}})
}

func (w *writer) elicitation() {
	s := newSource("elicitation")
	w.request("elicit", server, wire.ElicitationCreate, object{
		"mode", "form", "message", "How shall it be called?", "requestedSchema", object{
			"type", "object", "properties", object{
				"name", object{"type", "string", "title", "Name", "description", s.line(30), "minLength", 1},
				"public", object{"type", "boolean", "title", "Public", "default", true},
				"copies", object{"type", "integer", "minimum", 1, "maximum", 9},
			}, "required", list{"name"},
		},
	}, object{"action", "accept", "content", object{"name", "report", "public", false, "copies", 2}})
	w.request(choicesForm, server, wire.ElicitationCreate, object{
		"message", "Please provide inputs for the following fields:", "requestedSchema", object{
			"$schema", "https://json-schema.org/draft/2020-12/schema", "type", "object", "properties", object{
				"firstLine", object{"title", "First line", "type", "string", "description", s.line(30), "default", "It was a dark and stormy night."},
				"friend", object{"type", "string", "title", "Friend", "enum", list{"Monica", "Rachel", "Joey", "Ross"}, "default", "Monica"},
				"hero", object{"type", "string", "title", "Hero", "oneOf", list{titled("hero-1", "Superman"), titled("hero-2", "Green Lantern"), titled("hero-3", "Wonder Woman")}, "default", "hero-1"},
				"instruments", object{"type", "array", "title", "Instruments", "minItems", 1, "maxItems", 3, "items", object{"type", "string", "enum", list{"Guitar", "Piano", "Violin", "Drums", "Bass"}}, "default", list{"Guitar"}},
				"fish", object{"type", "array", "description", "Favorite types of fish", "items", object{"anyOf", list{titled("fish-1", "Tuna"), titled("fish-2", "Salmon"), titled("fish-3", "Trout")}}, "default", list{"fish-1"}},
				"pet", object{"type", "string", "title", "Pet", "enum", list{"pet-1", "pet-2"}, "enumNames", list{"Cats", "Dogs"}},
			}, "required", list{"friend", "instruments"},
		},
	}, nil)
	// The answer of a client whose revision has no multi-select, and which got one boolean for each option.
	w.answer(flatAnswer, client, wire.ElicitationCreate, object{"action", "accept", "content", object{
		"firstLine", "Call me Ishmael.", "friend", "Ross", "hero", "hero-2", "instruments.0", false, "instruments.1", true, "instruments.2", false,
		"instruments.3", true, "instruments.4", false, "fish.0", true, "fish.1", false, "fish.2", false, "pet", "pet-1",
	}})
	w.request("elicit_url", server, wire.ElicitationCreate, object{"mode", "url", "url", "https://example.com/connect?state=77", "message", "Please sign in", "elicitationId", "e-1"}, object{"action", "accept"})
	w.answer("elicit_declined", client, wire.ElicitationCreate, object{"action", "decline"})
}

// titled returns an option with a title.
func titled(value, title string) object { return object{"const", value, "title", title} }
