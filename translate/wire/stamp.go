package wire

// Stamp is what each message of a revision without a handshake says about client and server. Peers with a handshake
// say it only once. The caller that translates their messages must remember it. Every value is JSON as it is written
// into the message. A nil value is left out; if the revision requires the member, an empty value is written.
type Stamp struct {
	// ID and ProgressToken replace the message's own, because several sessions of one side may share one
	// session of the other.
	ID, ProgressToken []byte

	ClientInfo   []byte // an Implementation
	Capabilities []byte // the client's, in the form of the newer revision
	LogLevel     []byte // a string: the least severe level of log messages that the client wants
	ServerInfo   []byte // an Implementation
	Subscription []byte // the id of the request that a notification is sent for
	// TTL, in milliseconds, is how long a client may cache lists and resources.
	TTL int64
	// ElicitationID is the elicitationId of a URL elicitation in a revision that requires one: a JSON string.
	ElicitationID []byte
	// Task is set on a tools/call, and on its response, if the client wants the call to run as a task: the object
	// task that 2025-11-25 has in params.
	Task []byte
}
