package session

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/features/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Recall is how a connection that replaces request ids cancels a request, as [pipes.Renumbered.Recall] does.
type Recall func(id, reason string, header []mcp.Header) (given string, on upstream.Conn)

// Session is one client's session with its server.
type Session struct {
	Table          *Table
	ID             string // the Mcp-Session-Id that HTTP clients get; "" for a client on a pipe
	sealed.Session        // what the id holds
	Conn           upstream.Conn
	Bare           upstream.Conn         // sends what has all its headers, if Conn adds those that repeat arguments; else nil
	Recall         Recall                // of Conn; nil if the server knows requests by the ids of the client
	Bridge         *legacyclient.Conn    // Conn, if the server alone is modern; else nil
	Renewing       *restart.HTTP         // Conn, if a session that the server has lost can be renewed; else nil
	Lanes          *Lanes                // Conn, or beneath Bridge, if the server is on a pipe and the client is not; else nil
	Web            *upstream.HTTPSession // Conn, or beneath it, over Streamable HTTP; else nil
	Transport      upstream.Transport    // of Conn, to a server at a URL; "" for others
	Serverless     bool                  // there is no server, only dragoman's own tools
	Unheld         bool                  // the server knows no session of this client: Conn is a share of one process, or there is no server
	Pooled         bool                  // it is for requests without a session, of several clients
	Renamed        *pipes.Renamed        // the ids of the requests of a pooled session over HTTP; else nil
	Piped          bool                  // all messages of the server come on one stream
	Principal      string                // what Who returns for a session of clients that have none; "" for others
	ClientName     string                // name and version, as the client has introduced itself; "" if it has not
	ServerName     string                // that of the server
	RunsFor        string                // the client that its process is counted for
	Pipe           int64                 // a number of its own for a session of a client on a pipe; 0 for others

	Direct *Direct           // not nil if both ends are modern
	Tasked func(task string) // receives the id of each task that only the server's process knows; nil if none is to be known

	authorization upstream.Authorization // over HTTP+SSE; Web has its own

	Up   *translate.Translator // client to server
	Down *translate.Translator // server to client

	Open  *Calls // requests of the client
	Asked *Calls // requests of the server

	Tools     toolindex.Index // the server's tools
	Catalogue footprint.List  // the list that the client has

	Again   atomic.Bool // the server's process was started again, or another session at the server has replaced one that it has lost
	Deaf    atomic.Bool // the client receives no more messages that it could answer
	Unknown atomic.Bool // a response to an unknown request was received, and logged
	Used    atomic.Int64
	Busy    atomic.Int32                     // exchanges and streams under way
	Listens atomic.Int32                     // of these, the standing streams of clients over HTTP
	pinger  *time.Timer                      // pings the server when it is idle; nil if nothing does
	Taken   atomic.Bool                      // this process is the heir of the session, as the store has said; see [Table.Heir]
	over    atomic.Bool                      // this process does not hold the session any more
	closing atomic.Bool                      // end, Release or ReleaseEnded was called
	closed  chan struct{}                    // closed when the first of these calls returns
	notices host.Notices                     // that the end of the session waits for
	counted func(why error)                  // counts the session when it ends, in this process or elsewhere
	Ended   func()                           // called when the session ends in this process; may be nil
	marks   atomic.Pointer[marks]            // of the session's ids, once a span has needed them
	sender  downstream.Sender                // that began the session here, without its headers
	seen    atomic.Pointer[seenPeers]        // of its last calls, if a reader has seen them
	Told    atomic.Pointer[owntools.Edition] // the edition of dragoman's own tools that the client knows; nil if there are none
}

// Notes remembers the Authorization of a client's message for messages of dragoman's own; header goes to the server.
func (s *Session) Notes(header []mcp.Header) {
	if s.Web != nil {
		s.Web.Notes(header)
	} else if s.Transport != "" {
		s.authorization.Note(header)
	}
}

// Authorization returns the header of the last Authorization of the session's messages; nil for none.
func (s *Session) Authorization() []mcp.Header {
	if s.Web != nil {
		return s.Web.Authorization()
	}
	return s.authorization.Header()
}

// seenPeers are the peers of a session, and what they were made of besides what never changes.
type seenPeers struct {
	observe.Peers
	client, server, owner string
	info                  string // the clientInfo of a request; "" for none
}

// marks are the fingerprints of the ids of a session.
type marks struct{ Client, Server string }

// Table holds the sessions of HTTP clients in this process, by the id that dragoman gave
// them. Only this type makes and opens ids.
//
// The number of sessions is bounded, and so is how long one may be idle. If the session is not local to
// this process, the bounds only limit memory: the session's id resumes it, here and in
// every other process with the same key.
type Table struct {
	Host     *host.Host
	Setup    *setup.Current
	Metrics  *metrics.Metrics
	Tracer   *telemetry.Tracer // nil if no traces are sent
	Observer observe.Observer
	Eras     *era.Cache           // which era the server is of
	Legacy   *legacyclient.Bridge // to modern servers, for handshake clients
	Adapters *adapters.Adapters   // nil if there are none
	Personal atomic.Bool          // there is one client, on stdio: a login that its user makes is for this client only

	Pipes atomic.Int64 // the number of sessions of clients on pipes so far
	Kept  atomic.Int64 // the number of bytes of events that are kept for replay

	max    int
	nonce  string // keeps pipes of different processes apart where these share a store; never changes
	sealer *sealed.Sealer
	Resume func(sealed.Session, *downstream.Sender) *Session // resumes a session that is not local

	mu     sync.Mutex
	byID   map[string]*Session
	piped  map[*Session]struct{} // one for each client on a pipe
	places map[sealed.Owner]int  // that are reserved, without a session yet
	last   ended.Serial          // of the newest session that began here
	over   *ended.Set            // sessions that have ended although their ids could still be opened

	end     func(of ended.Serial, made time.Time) // adds to over, here and in the replicas that share a store
	unshare func()                                // ends what Share has begun; nil for nothing
}

// Now returns the current setup. A caller that needs several of its fields to be consistent calls now
// once.
func (t *Table) Now() *setup.Setup { return t.Setup.Now() }

// Who returns a text that identifies the session and that only its client knows.
func (s *Session) Who() string {
	if s.Principal != "" {
		return s.Principal
	}
	if s.ID == "" {
		return "pipe " + s.Table.nonce + " " + strconv.FormatInt(s.Pipe, 10)
	}
	return s.ID
}

// ForReplicas returns what another process needs to know to serve the session.
func (s *Session) ForReplicas() sealed.Session {
	t := s.Session
	if s.Web != nil && !t.Local {
		t.Cookies = s.Web.Cookies(t.RoomForCookies())
	}
	return t
}

// Enter marks the session as in use until leave.
func (s *Session) Enter() { s.Busy.Add(1) }

// Leave ends what Enter began.
func (s *Session) Leave() {
	s.Used.Store(time.Now().UnixNano())
	s.Busy.Add(-1)
}

// idle reports whether the session was not used since t.
func (s *Session) idle(t time.Time) bool {
	return s.Busy.Load() == 0 && s.Used.Load() < t.UnixNano()
}

// MayYield reports whether the session could end without a loss: no message of its client is on its way, and no request is open.
func (s *Session) MayYield() bool {
	return s.Open.None() && s.Busy.Load() <= s.Listens.Load()
}

// Release ends every open request with the error why, and leaves the session at the
// server as it is. It does not wait.
func (s *Session) Release(why error) {
	if s.closing.CompareAndSwap(false, true) {
		defer close(s.closed)
		s.stopWaits(why)
	}
}

// ReleaseEnded is Release for a session that has ended at the server.
func (s *Session) ReleaseEnded(why error) {
	if s.closing.CompareAndSwap(false, true) {
		defer close(s.closed)
		s.stopWaits(why)
		s.counted(why)
	}
}

func (s *Session) stopWaits(why error) {
	for _, c := range s.Open.Drain() {
		if c.Stop != nil {
			c.Stop(why)
		}
	}
	s.Asked.Drain()
	if s.over.Store(true); s.pinger != nil {
		s.pinger.Stop()
	}
	if s.Renewing != nil {
		s.Renewing.Release()
	}
	if s.Ended != nil {
		s.Ended()
	}
}

// end ends every open request with the error why, and closes the connection to the
// server within limit. It may be called more than once: later calls wait for the first one, until ctx ends.
func (s *Session) end(ctx context.Context, limit time.Duration, why error, log *zap.Logger) {
	if !s.closing.CompareAndSwap(false, true) {
		select {
		case <-s.closed:
		case <-ctx.Done():
		}
		return
	}
	defer close(s.closed)
	s.stopWaits(why)
	s.counted(why)
	s.notices.Wait(ctx) // a cancellation is of no use to a server whose pipe or session has ended
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.Conn.Close(ctx); err != nil {
		log.Debug("cannot close the upstream session", zap.Error(err))
	}
}

// Over implements [restart.Session].
func (s *Session) Over() bool { return s.over.Load() }

// Restarted implements [restart.Session].
func (s *Session) Restarted() (open []string) {
	s.Again.Store(true)
	for _, c := range s.Asked.List() {
		open = append(open, c.ID)
		c.Cancelled.Store(true) // whether or not the client learns of it
	}
	return open
}

// DropRequests implements [restart.Session].
func (s *Session) DropRequests() (open [][]byte) {
	s.Again.Store(true)
	by := s.Table.Now().Sealer
	for _, c := range s.Asked.Drain() {
		c.Cancelled.Store(true)
		id := c.As
		if id == nil {
			id = []byte(c.ID)
		}
		open = append(open, by.SealQuestion(id, nil))
	}
	return open
}

// Reply sends the server the answer to a question. within is the server's id of the session to which the question belongs; "" for the current
// one.
func (s *Session) Reply(ctx context.Context, within string, answer *upstream.Outgoing) error {
	if s.Renewing != nil && within != "" {
		return s.Renewing.Answer(ctx, within, answer)
	}
	st, err := s.Conn.Send(ctx, answer)
	if st != nil {
		st.Close()
	}
	return err
}

// Stand opens the standing stream of the session.
func (s *Session) Stand(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if s.Renewing != nil {
		return s.Renewing.Stand(ctx, o)
	}
	return s.Conn.Listen(ctx, o)
}

// Inquire sends the server one of dragoman's own requests, on a connection that returns a stream
// for each request. The caller owns the result.
func (s *Session) Inquire(ctx context.Context, method wire.Method, params string, from []mcp.Header) (result []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Table.Now().Config.Upstream.HandshakeTimeout)
	defer cancel()
	d := s.Direct
	id := mcp.OwnID()
	o := &upstream.Outgoing{Body: d.Request(id, method, params), Request: true, Repeats: method.Reads(), Header: d.Headers(from, method.String(), "")}
	span := telemetry.Ask(ctx, o, s.ServerRevision.Name)
	defer func() { span.Done(err) }()
	st, err := cmp.Or(s.Bare, s.Conn).Send(ctx, o)
	if err != nil {
		return nil, err
	}
	return pipes.Answer(ctx, st, id, nil)
}

// Shape says what the scan of a message of the client has to find.
func (s *Session) Shape() *wire.Shape {
	shape := s.Up.Shape()
	if shape == nil && s.Bridge != nil {
		return s.Bridge.Shape() // the message goes on as it is, and need not be scanned again
	}
	return shape
}

// CanCall reports whether a call of the tool can be sent without reading the server's list of tools first, for headers that
// repeat arguments.
func (s *Session) CanCall(tool string) bool {
	if s.Bridge != nil {
		return s.Bridge.Knows(tool)
	}
	_, known := s.Tools.Find(tool)
	return known || s.Bare == nil // the headers that repeat arguments need the tool's entry in the server's list
}
