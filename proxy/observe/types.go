package observe

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Reader gets what is observed, in the order in which it happened, on a goroutine of its own. It may keep what it gets, and
// must not change it.
type Reader interface {
	Message(*Message)
	Note(*Note)
	End(*End)
	Session(*Session)
	Stderr(*Stderr)
	// Gap says that this many events were lost before the next one, because the reader was too slow.
	Gap(dropped uint64)
}

// Edge is a side of dragoman.
type Edge uint8

// The two edges.
const (
	ClientEdge Edge = iota + 1
	ServerEdge
)

// String returns "client" or "server".
func (e Edge) String() string { return [...]string{"", "client", "server"}[e] }

// Direction is where a message goes.
type Direction uint8

// The two directions.
const (
	ToServer Direction = iota + 1
	ToClient
)

// String returns the direction in words.
func (d Direction) String() string { return [...]string{"", "client-to-server", "server-to-client"}[d] }

// Peers says who talks in a call.
type Peers struct {
	Session   string // a fingerprint: the id itself would grant access
	Principal string // a fingerprint

	Client, Server                   string // name and version, as they call themselves
	ClientRevision, ServerRevision   string
	ClientTransport, ServerTransport string // stdio, http or sse
	Bridged                          bool   // one side has a handshake and the other one has not
}

// Revision returns the revision that is spoken at an edge.
func (p *Peers) Revision(at Edge) string {
	if at == ClientEdge {
		return p.ClientRevision
	}
	return p.ServerRevision
}

// Transport returns the transport at an edge.
func (p *Peers) Transport(at Edge) string {
	if at == ClientEdge {
		return p.ClientTransport
	}
	return p.ServerTransport
}

// Head is what is known of a message that was read.
type Head struct {
	Kind   wire.Kind
	Method string
	Tool   string // the tool or prompt that it names
	ID     string // as it stands in the message; "" for none

	// Subject is what a message is about that names no tool: the URI of a resource, the prompt whose argument is completed, a level.
	Subject string
}

// Call is one message of the client with all that belongs to it: its response, what the server asks during it, and its
// progress. Or it is one message of the server outside of any call. Its exported fields do not change after it began. All
// methods may be called on nil, which is a call that is not observed, and by several goroutines.
type Call struct {
	N      uint64 // its number: unique in this process, and rising
	Began  time.Time
	Peers  *Peers // other calls have the same; it does not change
	Server bool   // it is a message of the server outside of any call

	Head // of its first message

	observer *Observer

	mu      sync.Mutex
	ended   bool
	came    [3]*Message // the newest message of each direction that came in
	because *[3]reason  // how it was translated, if that was said

	timing Timing
	spent  *time.Duration // the part of timing for which the call waits; nil while dragoman is at work
	since  time.Time

	short bool // only sum is kept
	sum   summary

	first    []Message // memory for messages; its length is what was used
	answered Timing    // memory for that of the first response, if replied is set
	replied  bool
	end      End
}

// peers returns Peers also of a call that says nothing of them.
func (c *Call) peers() *Peers {
	if c.Peers == nil {
		return new(Peers)
	}
	return c.Peers
}

// reason is how a message was translated.
type reason struct {
	Why
	lost []wire.Loss
}

// Message is one message at one edge.
type Message struct {
	Seq       uint64 // unique in this process, and rising
	Call      *Call
	At        time.Time
	Edge      Edge
	Direction Direction
	Kind      wire.Kind    // 0 for a text that is no JSON-RPC message
	Method    string       // of a response: that of the request that it answers; "" if unknown
	ID        string       // as it stands in the message, if that was read before a reader asks [Message.IDText]
	Header    []mcp.Header // HTTP headers that came with it; they may be secrets
	Status    int          // HTTP status of a response at the client's edge; 0 if there is none

	Copy

	// From is the message that this one was made of, which came in at the other edge. It is nil for a message that came in,
	// and for one that dragoman sends of its own accord.
	From *Message
	// Timing is set on the response at the client's edge.
	Timing *Timing
	// Losses is what the translation has removed or changed. It stands where Why does, or with what became of the message.
	Losses []wire.Loss
	// Why has what it takes to explain the translation. It stands with the message that came in, or with what became of it;
	// see [Message.Explain].
	Why Why
	// Rev is the revision of the message, if that is not the one in Peers.
	Rev string
	// Recorded is set if the message was read from a file, which has the changes.
	Recorded []translate.Change
}

// Revision returns the revision that is spoken at the message's edge.
func (m *Message) Revision() string {
	if m.Rev != "" {
		return m.Rev
	}
	return m.Call.peers().Revision(m.Edge)
}

// Transport returns the transport of the message's edge.
func (m *Message) Transport() string { return m.Call.peers().Transport(m.Edge) }

// IDText returns the id as it stands in the message, or "".
func (m *Message) IDText() string {
	switch {
	case m.ID != "":
		return m.ID
	case m.Kind == wire.Notification:
		return ""
	}
	return short(gjson.GetBytes(m.Raw, "id").Raw) // gjson reads broken JSON as well
}

// Unchanged reports whether the message left as it came: its text is that of From.
func (m *Message) Unchanged() bool {
	return m.From != nil && len(m.Raw) > 0 && len(m.From.Raw) > 0 && &m.Raw[0] == &m.From.Raw[0]
}

// Copy is the text of a message. A long one is cut.
type Copy struct {
	Raw    []byte // the message, or its beginning
	Size   int    // of the whole message, in bytes
	Cut    bool
	SHA256 string // of the whole message in hexadecimal, if it was cut for its length; "" if too much came at once

	at    time.Time // when it was copied
	short bool      // it was not: its call is only summarized
}

// Kept reports whether there is a reader for the message.
func (c *Copy) Kept() bool { return !c.at.IsZero() }

// Timing says how long a call has waited for whom.
type Timing struct{ Client, Proxy, Server time.Duration }

// Why is what a translation knew of a message.
type Why struct {
	Translator *translate.Translator // nil if the message was not translated
	Known      translate.Known
}

// Note says what else than the translation was done to a message of a call.
type Note struct {
	Call   *Call
	At     time.Time
	By     string    // one of the constants below; "" if the message was only counted
	What   string    // what was done, in a word: "shorten_arrays"
	To     Direction // of the message that was changed; 0 for any
	Path   string    // where in the message; "" for all of it
	Detail string    // a sentence; "" for none

	// TokensBefore and TokensAfter are the size of a result that was counted; 0 if it was not.
	TokensBefore, TokensAfter int
}

// What does something to messages besides the translation.
const (
	Transform = "transform" // results are shortened for a model
	OwnTools  = "own_tools" // tools of dragoman's own
	Cache     = "cache"     // a result was kept from before
	Bridge    = "bridge"    // between a side with a handshake and one without
	Gate      = "gate"      // a check before a call
	Restart   = "restart"   // the server's process or session began anew
	Replica   = "replica"   // another process of dragoman has the session
	Trace     = "trace"     // the trace context of telemetry
	Dialect   = "C36"       // newer JSON Schema; a rule like those of the translation
	Footprint = "footprint" // lists of tools are kept small
	Handshake = "handshake" // which revisions are spoken
)

// End says how a call ended.
type End struct {
	Call   *Call
	At     time.Time
	Status string // ok, tool_error, error, local, refused, failed, cancelled or left
	Cause  string // why it failed, see package failures; "" if that is not known
	Timing Timing
}

// Session says that a session began or ended.
type Session struct {
	At    time.Time
	Made  time.Time // when it began, if Ended is set; zero if that is not known
	Ended bool
	Peers Peers
	Call  *Call  // the call that it began with, which did not know Peers; nil if it was not observed
	Why   string // why it ended; "" if that is not known
}

// Stderr is a line that a server's process wrote to its standard error.
type Stderr struct {
	At   time.Time
	Text string
}

// summary is what is kept of the messages of a call when too many calls come at once: what its row needs. Messages in which
// something is asked, or which say that something failed, are kept besides.
type summary struct {
	messages int
	size     RowSize
	kind     [3]wire.Kind // of the message that came in last, by direction
	more     *summaryMore // nil for most calls
}

type summaryMore struct {
	losses []wire.Loss
	by     []string
	tokens RowSize
}

// RowSize is a size before and after.
type RowSize struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// short returns a copy of a name that is not too long: what is cut has a mark, by which redaction knows it.
func short(text string) string {
	if len(text) <= maxName {
		return strings.ToValidUTF8(strings.Clone(text), "")
	}
	return strings.ToValidUTF8(text[:maxName], "") + "…"
}

// Observer hands what is observed to its readers. The zero value has none, and is ready for use.
type Observer struct {
	// Lost is called for each event that a reader loses. It may be nil, and is set before there is a reader.
	Lost func(reader string)
	// Credential is called with the value of Authorization of each message that comes in with one, before a reader gets it: a peer may
	// repeat it. It may be nil, and is set before there is a reader.
	Credential func(value string)

	tap   atomic.Pointer[tap] // nil while there is no reader
	calls atomic.Uint64
	seq   atomic.Uint64

	mu sync.Mutex // guards changes of tap
}

// tap is the set of readers. It does not change.
type tap struct {
	order  sync.Mutex // held while an event gets its number and its place in all queues
	queues []*queue
	long   *allowance // for messages longer than longMessage; nil if all are kept
	calls  *allowance // for calls with their messages; nil if all are kept
}

// Bounds are how much of the messages a reader gets.
type Bounds struct {
	Queue int // how many bytes wait for the reader
	// Long is how many bytes a second of messages over 4 KiB are kept. While more pass, such messages are cut to 4 KiB. 0 is
	// for a reader that wants all.
	Long int
	// Calls is how many calls a second are kept with their messages. While more come, the others are only summarized: their
	// rows say all, and they have no messages but those that ask something or say that something failed. 0 is for all.
	Calls int
}

// queue holds the events that one reader has not read. It is bounded in bytes: what does not fit is dropped and counted.
type queue struct {
	name  string
	max   int
	long  *allowance
	calls *allowance
	lost  func(reader string) // called for each dropped event

	urgent chan struct{} // the reader must not wait for more events

	mu      sync.Mutex
	filled  *sync.Cond
	events  []event
	bytes   int // of these, and of those that the reader is reading
	reading int
	dropped uint64 // since the reader was last told
	closed  bool
}

// These constants bound what is kept of one message.
const (
	maxWhole = 1 << 20  // a longer message is cut
	maxCut   = 64 << 10 // to this length
	maxName  = 256      // of a method, a tool or an id

	maxReady = 4 // messages for which a call has memory: most calls have no more

	longMessage = 4 << 10 // a longer one is read once, and not again when it leaves; see also Bounds
)

// event is one thing that happened: a *Message, *Note, *End, *Session or *Stderr.
type event struct {
	what any
	size int
}

// Cloned returns a copy of k in memory of its own.
func Cloned(k translate.Known) translate.Known {
	k.Note = bytes.Clone(k.Note)
	if k.Stamp == nil {
		return k
	}
	s := *k.Stamp
	for _, part := range partsOf(&s) {
		*part = bytes.Clone(*part)
	}
	k.Stamp = &s
	return k
}

// partsOf returns the texts of a stamp.
func partsOf(s *wire.Stamp) [9]*[]byte {
	return [...]*[]byte{&s.ID, &s.ProgressToken, &s.ClientInfo, &s.Capabilities, &s.LogLevel, &s.ServerInfo, &s.Subscription, &s.ElicitationID, &s.Task}
}

// with returns list with text in it, once.
func with(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
