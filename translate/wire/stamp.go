package wire

// Stamp is what each message of a revision without a handshake says of its two
// ends. Peers with a handshake have said it once, so that whoever leads a message
// from them to such a revision must remember it. Every value is JSON as it shall
// stand in the message; nil leaves it out, or puts the least in its place where
// the revision demands one.
type Stamp struct {
	// ID and ProgressToken take the place of the message's own: several
	// conversations of one side may share one of the other.
	ID, ProgressToken []byte

	ClientInfo   []byte // an Implementation
	Capabilities []byte // of the client, as the newer revision has them
	LogLevel     []byte // a string: the least severe level that the client wants to hear of
	ServerInfo   []byte // an Implementation
	Subscription []byte // the id of the request that a notification is sent for
	// TTL, in milliseconds, is how long lists and resources may be kept that do not
	// say so themselves.
	TTL int64
	// ElicitationID is the name that a question to open a URL gets towards a
	// revision that wants one: a string.
	ElicitationID []byte
	// Task says of a call of a tool, and of its answer, that the client wants, or has
	// wanted, a task: what an older revision has for that in params, an object.
	Task []byte
}
