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
)

// Has reports whether every bit of want is set.
func (f Facts) Has(want Facts) bool { return f&want == want }
