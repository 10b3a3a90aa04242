package legacyclient

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Conn is the session of a handshake client with a modern server. See "Legacy client, modern server" in
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type Conn struct {
	bridge  *Bridge
	host    *host.Host
	conn    upstream.Conn
	reach   Reach
	facts   wire.Facts
	up      *translate.Translator // the client's revision to the server's
	down    *translate.Translator
	client  []byte         // clientInfo, nil for none
	name    string         // the client's name and version, for the log
	can     []byte         // clientCapabilities
	kept    *large.Holding // counts what the session keeps
	prefix  string         // of the ids of questions to the client
	realm   string         // the part of the cache of results that belongs to this client
	counted quota.Holder   // the client that its connections are counted for
	tools   toolindex.Index
	tasks   taskMemory
	done    sessionTasks
	shared  shared
	news    news

	life context.Context // ends with the session
	end  context.CancelFunc

	mu       sync.Mutex
	lastID   int64
	lastAsk  int64
	level    []byte                      // a JSON string; nil if the client has set none
	rawNames bool                        // the server compares Mcp-Name without decoding it
	offered  []byte                      // the server's capabilities; nil if they are not known yet
	asked    map[string]*ask             // questions without an answer, by the keys of their ids
	running  map[string]*callctx.Context // requests without a response, by the keys of the client's ids
	subs     subscriptions
	seeing   func(raw []byte) (*observe.Call, observe.Copy)
}

var _ upstream.Conn = (*Conn)(nil)

// lossPeers says between which peers t translates.
func (c *Conn) lossPeers(t *translate.Translator) losses.Peers {
	return losses.Peers{From: t.From(), To: t.To(), Client: c.name}
}

// New returns the session of a client of this revision and these capabilities. conn is the connection to the server;
// the session owns it from now on.
func (b *Bridge) New(conn upstream.Conn, by Reach, client *translate.Revision, facts wire.Facts) *Conn {
	modern := translate.Lookup(translate.Modern())
	table, cfg := b.host.Table(), b.host.Config()
	c := &Conn{
		bridge: b, host: b.host, conn: conn, reach: by, facts: facts, prefix: askPrefix, kept: b.host.Memory().Holding(),
		up: table.Between(client, modern), down: table.Between(modern, client),
		asked: make(map[string]*ask), running: make(map[string]*callctx.Context),
		subs: subscriptions{watched: make(map[string]*watch), most: maxWatched, atOnce: maxWatched},
	}
	c.BelongTo(rand.Text()) // no other client may use it, since its owner is unknown
	c.tasks.bridged = cfg.Contract.Tasks == "bridge" && client.Tasks
	c.news.queue.Limit(cfg.Limits, c.kept)
	life := callctx.New()
	c.life, c.end = life, func() {
		life.End(nil)
		c.kept.Close()
	}
	c.done.life = life
	return c
}

// askPrefix begins the ids of questions to clients.
const askPrefix = "p-"

// BelongTo sets the principal that the session belongs to.
func (c *Conn) BelongTo(who string) {
	realm := results.KeyOf("modern", who)
	c.realm = string(realm[:])
}

// RunsFor sets the client that connections of the session are counted for. It must be called before the first use.
func (c *Conn) RunsFor(client string) { c.counted.Principal = client }

// enquire returns the look-up of a request in the cache of results, or nil if results of the method are not kept.
func (c *Conn) enquire(msg *wire.Message, uri string, header []mcp.Header) *results.Enquiry {
	if !c.bridge.results.Keeps(msg.Method) {
		return nil
	}
	return c.bridge.results.Enquire(results.Lookup{
		Method: msg.Method, Digest: results.Digest(string(msg.MethodName()), wire.View(msg.Params())), URI: uri,
		Header: header, Variant: c.can, Realm: c.realm, TTL: results.AsSaid,
	})
}

// Translators returns the translators between the client and the Conn, which change nothing.
func (c *Conn) Translators() (up, down *translate.Translator) {
	same := c.host.Table().Between(c.up.From(), c.up.From())
	return same, same
}

// Resume returns the session that t describes, which began in another process. conn is the connection to the server;
// the session owns it from now on. The caller calls Resumed before it uses the session.
func (b *Bridge) Resume(t sealed.Session, conn upstream.Conn) *Conn {
	c := b.New(conn, ByHTTP, t.ClientRevision, t.Facts)
	if t.ClientInfo != "" {
		c.client = []byte(t.ClientInfo)
	}
	if c.can = []byte(t.Capabilities); len(c.can) == 0 {
		c.can = mcp.CapabilitiesOf(t.Facts)
	}
	c.RunsFor(string(t.Owner[:]))
	c.prefix += rand.Text()[:8] + "-" // the other process may have asked something, too
	return c
}

// Introduced stores the client's clientInfo and capabilities in t, as far as they fit. Another process needs them to
// resume the session.
func (c *Conn) Introduced(t *sealed.Session) { t.Introduce(string(c.client), string(c.can)) }

// Shape returns the shape with which the connection scans requests of the client.
func (c *Conn) Shape() *wire.Shape { return c.up.Shape() }

// Beneath returns the connection to the server.
func (c *Conn) Beneath() upstream.Conn { return c.conn }

// Calls returns the number of requests that the server has not answered.
func (c *Conn) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

// End ends everything that still runs for the session, such as subscriptions, and makes Send return
// upstream.ErrClosed. The connection to the server stays open.
func (c *Conn) End() { c.end() }

// logLevel returns the level that requests name, as JSON; nil for none.
func (c *Conn) logLevel() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.level != nil {
		return c.level
	}
	if level := c.host.Config().Bridge.DefaultLogLevel; level != "off" && c.facts.Has(wire.ServerLogging) {
		return wire.AppendQuoted(nil, level)
	}
	return nil
}

// taskMemory is what a session remembers about its tasks. The session's mutex guards it.
type taskMemory struct {
	bridged   bool            // the client may have tasks, if the server has; never changes
	asked     map[string]bool // questions by task and name; true if answered
	watched   int
	unwatched []runningTask // the client has no standing stream yet
}

// runningTask is a task of the server that the client may be told about.
type runningTask struct {
	id     string
	until  time.Time    // when the server may forget it
	header []mcp.Header // of the request that has begun it
}

// shared is the part of a Conn whose state other replicas have, too. The zero value shares nothing.
type shared struct {
	store *store.Store
	key   store.Key
	until time.Time   // the session's id cannot be used after that
	stale atomic.Bool // the state must be read before the next request

	turn   chan struct{} // holds a value while the state is read or written, which may take as long as the store does
	known  []byte        // the stored value, as it was last seen; nil for none
	behind bool          // a change could not be written
	unsure []state       // writes without an answer, since the last one with an answer
	pause  time.Time     // no reading before
	waits  bool          // it is read after the pause

	wanted []string // stored subscriptions that begin with the next standing stream; guarded by the session's mutex
}

// state is what the store has of a session.
type state struct {
	Level         string   `json:"level,omitempty"`
	Subscriptions []string `json:"subscriptions,omitempty"` // in order
	Marks         []string `json:"marks,omitempty"`         // of the last writes, the newest first: what it is based on
}

// listenRequest is one subscriptions/listen request of dragoman's own, which is sent again when it ends by itself. Its
// notifications go to the standing stream.
type listenRequest struct {
	c      *Conn
	ctx    context.Context // ends when the notifications are no longer wanted
	what   string          // params, without the braces
	can    []byte          // clientCapabilities
	header []mcp.Header
	missed [][]byte // what the client is told after a time in which the server could not send it

	id      []byte
	st      upstream.Stream
	counted bool // in streams of the Bridge
}

// maxWatched is how many resources a session may have subscribed to.
const maxWatched = 1000

// subscriptions are the resources that a session is subscribed to. The mutex of the session guards them.
type subscriptions struct {
	watched map[string]*watch // by URI; nil where the server has to be asked again
	bytes   int               // that they take
	watches []*watch          // those that the server has acknowledged
	wishes  []*wish           // not settled
	header  []mcp.Header      // of the client's last request
	most    int               // resources that the server accepts in one request
	atOnce  int               // wishes that are tried with one request

	tending, merging, restoring, tidying bool      // there is a goroutine for it
	pause                                time.Time // no merging before
	again                                pipes.Reopening
	heard                                bool // something has come since the last restoring
}

// A wish is a subscription that is to begin.
type wish struct {
	uri    string
	sent   bool            // in a request of its own
	before int             // how many others the server has granted instead, in an earlier request
	wanted func() bool     // asked when the server has accepted it
	done   func(err error) // called once; must not block. The mutex of the session is held during both.
}

// A watch is a request for subscriptions to resources.
type watch struct {
	listenRequest
	stop  context.CancelFunc
	names map[string]bool // the resources that the server has granted
	in    *handover       // in which it takes part; nil for none
}

// handover is the time in which one request names the same resources as some older ones. For each resource, the updates of the older
// ones count until it has been quiet for a while: then what was sent on both has come on both.
type handover struct {
	to       *watch
	lost     map[*watch]bool // by the server
	broken   chan struct{}   // closed when there is one
	switched bool            // resources that are not in unsettled belong to the new request
	// unsettled are resources with updates.
	unsettled map[string]*overlap
	bytes     int // of unsettled
}

// overlap counts the updates of one resource.
type overlap struct {
	told, held     int // on the older requests, and on the new one
	toldAt, heldAt time.Time
}
