package wire

import "github.com/tidwall/gjson"

// Classify guesses the method of a response from the members of its result, and sets Method. It is for responses
// with an id that this process does not know: another replica sent the request, or a stream was replayed. It sets
// [OtherMethod] if the members do not tell.
func (m *Message) Classify() {
	m.Method = OtherMethod
	if m.Kind != Result {
		return
	}
	has := map[Name]bool{}
	gjson.ParseBytes(m.Result()).ForEach(func(key, _ gjson.Result) bool {
		has[NameOf([]byte(key.Str))] = true
		return true
	})
	switch {
	case has[Action]:
		m.Method = ElicitationCreate
	case has[Roots]:
		m.Method = RootsList
	case has[Model] && has[Role]:
		m.Method = SamplingCreateMessage
	case has[Tools]:
		m.Method = ToolsList
	case has[Resources]:
		m.Method = ResourcesList
	case has[ResourceTemplates]:
		m.Method = ResourcesTemplatesList
	case has[Prompts]:
		m.Method = PromptsList
	case has[Contents]:
		m.Method = ResourcesRead
	case has[Messages]:
		m.Method = PromptsGet
	case has[Completion]:
		m.Method = CompletionComplete
	case has[ProtocolVersion]:
		m.Method = Initialize
	case has[StructuredContent], has[Content] && !has[Model]:
		m.Method = ToolsCall
	}
}

// HasProgressToken reports whether m names a request by a progress token: the member of its params is text or a number, and
// nothing else if it occurs more than once.
func (m *Message) HasProgressToken() bool {
	params, named := m.Params(), false
	if len(params) == 0 || params[0] != '{' {
		return false
	}
	Each(params, func(name, value []byte) bool {
		if string(name) != ProgressTokenKey.String() {
			return true
		}
		kind := KindOf(value)
		named = kind == String || kind == Number
		return named
	})
	return named
}
