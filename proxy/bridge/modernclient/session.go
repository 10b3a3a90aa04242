package modernclient

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shared is what the parts of a Bridge have in common.
type shared struct {
	*Options
	waits *Waits
	tasks sessionTasks
}

// pooledSession is a session with a server for modern clients. Their requests use ids that dragoman
// makes. Several clients may share it if they are the same principal and declare the same
// clientInfo and capabilities.
type pooledSession struct {
	shared
	discard func()            // removes the session, which is unusable, from the pool
	tasked  func(task string) // notes a task that only its process knows

	key     poolKey
	realm   string         // identifies the cached results that the session's change notifications invalidate
	kept    *large.Holding // counts what the session keeps of its client and of the server
	s       Session
	said    profile
	opening chan struct{} // closed when s is set, or when err says why there is no session
	err     error
	hearing sync.Once       // opens the standing stream
	yields  sync.Once       // ends the subscriptions, since a call needs room for another session
	settled chan struct{}   // closed when there is a standing stream, or no more time to wait for it
	life    callctx.Context // ends with the session's standing stream

	leveling chan struct{} // has a value while a goroutine reads or sets level
	level    mcp.LogLevel  // the level of log messages that the server was asked for; mcp.NoLogLevel before

	hasOpened func(notification []byte) // receives the server's notifications about opened URLs
	taskNews  func(notification []byte) // and those about tasks
	withdraws func(question string)     // is withdraw

	lastID    atomic.Int64
	questions atomic.Int64 // questions of the server that wait for the client's answer
	asked     atomic.Int64 // when their number changed last, in nanoseconds of Unix; 0 for never

	calls     openCalls
	urls      pendingURLs
	listeners listeners
	resources resourceWatches

	// These fields are guarded by the pool's mutex.
	holder quota.Holder // the client whose share the session counts for while it is in use
	opener quota.Holder // the client that has opened it
	uses   int          // how many requests, parked calls and subscriptions use it
	stands int          // how many of these are subscriptions
	since  time.Time    // when uses became 0
	dead   bool         // new calls do not get it
	lost   bool         // calls that have it cannot use it either
	gone   bool         // it was removed from the pool
	made   []string     // the ids of the tasks that only its process knows, oldest first

	adopted string // the server's id of the session, if another replica has begun it; "" otherwise
}

// sessionTasks are the tasks of all sessions.
type sessionTasks interface {
	// route gives the questions that name a task of b to that task, and returns the others.
	route(b *pooledSession, list []crossing.Question) (others []crossing.Question)
	// withdraw removes a question that the server has cancelled from the task that has it.
	withdraw(b *pooledSession, question string)
	// changed receives a notification that a task of b has changed its state.
	changed(b *pooledSession, notification []byte)
	// forgetSession forgets the tasks of a session that can no longer be used.
	forgetSession(b *pooledSession)
}

// unknownServer is the serverInfo of a server that names none.
const unknownServer = `{"name":"unknown-server","version":"0.0.0"}`

// profile holds what the server's InitializeResult says of it, translated to the newest revision.
type profile struct {
	capabilities []byte
	server       []byte // the serverInfo
	instructions []byte // the instructions as a JSON string; nil for none
}

// poolKey separates clients that must not share a session.
type poolKey struct {
	kind         Kind
	principal    string
	address      string // the peer's address, if the principal is not identified
	client       string // the clientInfo
	capabilities string
}

// size returns how many bytes b keeps of its client and of the server.
func (b *pooledSession) size() int {
	return len(b.key.client) + len(b.key.capabilities) + len(b.said.capabilities) + len(b.said.server) + len(b.said.instructions)
}

// idRoom is enough for a request id and for the progress token behind it, which holds the id again.
const idRoom = 48

// nextID returns a new request id for the session.
func (b *pooledSession) nextID() []byte { return b.appendID(make([]byte, 0, idRoom)) }

// appendID appends a new request id to dst.
func (b *pooledSession) appendID(dst []byte) []byte {
	return strconv.AppendInt(dst, b.lastID.Add(1), 10)
}

// asks notes that the number of questions has changed by n.
func (b *pooledSession) asks(n int) {
	if n != 0 {
		b.questions.Add(int64(n))
		b.asked.Store(time.Now().UnixNano())
	}
}

// mayWait returns how much longer the server may be silent that was so for limit, which counts from when it had the last answer of a client:
// it may have needed that for a response to another request. It is limit while a client is asked.
func (b *pooledSession) mayWait(limit time.Duration) time.Duration {
	if b.questions.Load() > 0 {
		return limit
	}
	return limit - time.Since(time.Unix(0, b.asked.Load()))
}

// wantsLogs reports whether the server may send q log messages.
func (b *pooledSession) wantsLogs(q *stateless.Request) bool {
	return q.LogLevel != mcp.NoLogLevel && b.s.About().Facts.Has(wire.ServerLogging)
}

// mayReceiveOnStanding reports whether the standing stream may carry messages about q. For a server
// on a pipe, lanes attributes the progress notifications.
func (b *pooledSession) mayReceiveOnStanding(q *stateless.Request) bool {
	return b.wantsLogs(q) || q.ProgressToken != nil && !b.s.Piped()
}

// interested reports whether a message that is no response goes to q's client. List changes and resource
// updates go to the session's subscriptions instead.
func (b *pooledSession) interested(q *stateless.Request, m *wire.Message, body []byte) bool {
	if m.Kind != wire.Notification {
		return true
	}
	switch m.Method {
	case wire.Progress:
		return q.ProgressToken != nil
	case wire.LogMessage:
		return q.LogLevel != mcp.NoLogLevel && mcp.LogLevelOf(gjson.GetBytes(body, "params.level").String()) >= q.LogLevel
	case wire.ToolsListChanged, wire.PromptsListChanged, wire.ResourcesListChanged, wire.ResourcesUpdated:
		if m.Method == wire.ToolsListChanged {
			b.s.Tools().Forget()
		}
		b.listeners.announce(m.Method, body)
		return false
	case wire.Cancelled:
		return false // the server cancels a question: withdraw
	}
	return true
}

// withdraw removes a question that the server has cancelled. If the client has it already, its answer will not be sent on.
func (b *pooledSession) withdraw(question string) {
	calls, waited := b.calls.withdraw(question)
	defer b.calls.giveBack()
	if waited {
		b.asks(-1)
	}
	for _, d := range calls {
		d.withdraw(question)
	}
	b.tasks.withdraw(b, question)
}

// deliver sends the server the answer to a question, translated like one that came over a session. It does nothing if the question is over: the
// server may ask another one under that id.
func (b *pooledSession) deliver(q *crossing.Question, answer []byte, from []mcp.Header) error {
	if q.IsOver() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.Host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	x := b.s.Begin(ctx, nil, from, nil, nil)
	defer x.Done()
	out, v, err := x.Translate(Message{Text: answer})
	if err == nil && v == wire.Forward {
		_, err = x.Forward(out)
	}
	return err
}

// deliverOrLog is deliver for callers that cannot handle an error: it logs the error.
func (b *pooledSession) deliverOrLog(q *crossing.Question, answer []byte, from []mcp.Header) {
	if err := b.deliver(q, answer, from); err != nil {
		b.Host.Report.Undelivered(err, b.at(from))
	}
}

// at returns what reports say about a message of clients with these headers in the session.
func (b *pooledSession) at(from []mcp.Header) report.At {
	is := b.s.About()
	return report.At{Client: is.ClientRevision, Server: is.ServerRevision, Session: is.Named, Header: from}
}

// refuse answers questions with an error that says why the client is not asked.
func (b *pooledSession) refuse(list []crossing.Question, why string, from []mcp.Header) {
	for _, q := range list {
		b.deliverOrLog(&q, mcp.AppendError(nil, q.ID, -32603, why, nil), from)
	}
}

// Why questions are refused.
const (
	unattached   = "no client request to attach to"
	clientSilent = "the client has closed its side of the pipe"
	tooManyAsked = "the server asks too many questions at once"
)
