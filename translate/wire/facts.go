package wire

// Facts holds what a rule may know of client and server beyond their revisions: the capabilities that the client
// declared, before dragoman filtered them, and some of the server's. It is a set of bits so that a session id can
// carry it.
type Facts uint16

// What a client may declare.
const (
	ClientRoots Facts = 1 << iota
	ClientSampling
	ClientSamplingTools
	ClientSamplingContext
	ClientElicitation
	ClientElicitationForm // declared, or implied by an empty elicitation object
	ClientElicitationURL
	ClientTasks
	// ServerLogging says that the server declared logging.
	ServerLogging
	// ServerTools says that the server declared tools.
	ServerTools
	// ServerTasks says that calls of the server's tools may become tasks.
	ServerTasks
	// ServerPrompts says that the server declared prompts.
	ServerPrompts
	// ServerResources says that the server declared resources.
	ServerResources
	// ServerCompletions says that the server declared completions.
	ServerCompletions
)

// Has reports whether every bit of want is set.
func (f Facts) Has(want Facts) bool { return f&want == want }

// HasMethod reports whether the server declared the capability that m is of. It is false for methods of none.
func (f Facts) HasMethod(m Method) bool {
	switch m {
	case ToolsList, ToolsCall:
		return f.Has(ServerTools)
	case PromptsList, PromptsGet:
		return f.Has(ServerPrompts)
	case ResourcesList, ResourcesTemplatesList, ResourcesRead:
		return f.Has(ServerResources)
	case CompletionComplete:
		return f.Has(ServerCompletions)
	}
	return false
}
