package legacyclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Conn is the session of a handshake client with a modern server. See "Legacy client, modern server" in
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type Conn struct {
	bridge *Bridge
	host   *host.Host
	conn   upstream.Conn
	web    bool          // the server is reached over HTTP, where messages have headers
	piped  upstream.Conn // conn if the server is a process of this session, else nil
	facts  wire.Facts
	up     *translate.Translator // the client's revision to the server's
	down   *translate.Translator
	client []byte // clientInfo, nil for none
	can    []byte // clientCapabilities
	prefix string // of the ids of questions to the client
	realm  string // the part of the cache of results that belongs to this client
	tools  toolindex.Index
	tasks  taskMemory
	done   sessionTasks
	shared shared

	life context.Context // ends with the session
	end  context.CancelFunc

	mu       sync.Mutex
	lastID   int64
	lastAsk  int64
	level    []byte            // a JSON string; nil if the client has set none
	rawNames bool              // the server compares Mcp-Name without decoding it
	offered  []byte            // the server's capabilities; nil if they are not known yet
	asked    map[string]*ask   // questions without an answer, by the keys of their ids
	running  map[string]*call  // requests without a response, by the keys of the client's ids
	watched  map[string]func() // ends subscriptions, by URI
	news     server.Queue      // for the standing stream
	queued   []queuedNews      // the observations of some of them
	seeing   func(raw []byte) (*observe.Call, observe.Copy)
	standing *standingStream // nil for none
}

var _ upstream.Conn = (*Conn)(nil)

// New returns the session of a client of this revision and these capabilities. conn is the connection to the server;
// the session owns it from now on.
func (b *Bridge) New(conn upstream.Conn, client *translate.Revision, facts wire.Facts) *Conn {
	modern := translate.Lookup(translate.Modern())
	table, cfg := b.host.Table(), b.host.Config()
	c := &Conn{
		bridge: b, host: b.host, conn: conn, facts: facts, prefix: "p-",
		up: table.Between(client, modern), down: table.Between(modern, client),
		asked: make(map[string]*ask), running: make(map[string]*call), watched: make(map[string]func()),
	}
	c.BelongTo(rand.Text()) // no other client may use it, since its owner is unknown
	pipe, piped := conn.(Pipe)
	if c.web = !piped; piped && !pipe.Shared() {
		c.piped = conn
	}
	c.tasks.bridged = cfg.Contract.Tasks == "bridge" && client.Tasks
	c.news.Limit(cfg.Limits)
	life := callctx.New()
	c.life, c.end = life, func() { life.End(nil) }
	c.done.life = life
	return c
}

// BelongTo sets the principal that the session belongs to.
func (c *Conn) BelongTo(who string) {
	realm := results.KeyOf("modern", who)
	c.realm = string(realm[:])
}

// enquire returns the look-up of a request in the cache of results, or nil if results of the method are not kept.
func (c *Conn) enquire(msg *wire.Message, uri string, header []upstream.Header) *results.Enquiry {
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
	c := b.New(conn, t.ClientRevision, t.Facts)
	if t.ClientInfo != "" {
		c.client = []byte(t.ClientInfo)
	}
	if c.can = []byte(t.Capabilities); len(c.can) == 0 {
		c.can = mcp.CapabilitiesOf(t.Facts)
	}
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

// Send implements [upstream.Conn].
func (c *Conn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	st, _, err := c.Pass(ctx, m)
	return st, err
}

// Answering tells more of the last message of a stream that Pass has returned.
type Answering interface {
	// Scanned returns what was scanned and translated last: if that is the message, there is no need to scan it again. It may
	// return nil.
	Scanned() *wire.Message
	// Failed reports whether the message is dragoman's own error and not the server's response.
	Failed() bool
}

// Pass is Send. more is nil if the message does not go to the server.
func (c *Conn) Pass(ctx context.Context, m *upstream.Outgoing) (st upstream.Stream, more Answering, err error) {
	if c.life.Err() != nil {
		return nil, nil, upstream.ErrClosed
	}
	if c.shared.stale.Load() {
		c.refresh(ctx)
	}
	both := messagesPool.Get().(*messages)
	msg := &both.up
	if err := msg.ScanLike(m.Scanned, m.Body, c.up.Shape()); err != nil {
		return nil, nil, err
	}
	switch {
	case msg.Kind.Response():
		if err := c.keep(ctx, msg); err != nil {
			return nil, nil, err
		}
		c.receiveAnswer(msg, m.Header)
		return nil, nil, nil
	case msg.Kind == wire.Notification && msg.Method == wire.Cancelled:
		c.cancel(wire.AppendIDKey(nil, []byte(gjson.Get(wire.View(msg.Params()), "requestId").Raw)))
		return nil, nil, nil
	case msg.Kind == wire.Notification:
		return nil, nil, nil // modern revisions have none of these notifications
	}
	switch msg.Method {
	case wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		st, err = c.remember(ctx, msg, m.Header)
		return st, nil, err
	case wire.TasksGet, wire.TasksResult, wire.TasksCancel, wire.TasksUpdate:
		if st := c.task(ctx, msg, m.Header); st != nil {
			return st, nil, nil
		}
	}
	return c.begin(ctx, m, both)
}

// keep makes msg, which was scanned in the caller's memory, own its text.
func (c *Conn) keep(ctx context.Context, msg *wire.Message) (err error) {
	msg.Raw, err = c.host.Memory().Clone(ctx, large.RequestWait, large.RequestCopy, msg.Raw)
	return err
}

// remember answers a request that only changes the state of the session.
func (c *Conn) remember(ctx context.Context, msg *wire.Message, header []upstream.Header) (upstream.Stream, error) {
	if err := c.keep(ctx, msg); err != nil {
		return nil, err
	}
	id, method := msg.ID(), msg.Method
	level := gjson.Get(wire.View(msg.Params()), "level")
	uri := gjson.Get(wire.View(msg.Params()), "uri")
	header = append([]upstream.Header(nil), header...)
	return bridge.AnswerHere(ctx, func(ctx context.Context) ([]byte, error) {
		var err error
		switch {
		case method == wire.LoggingSetLevel:
			err = c.setLevel(ctx, level, header)
		case uri.Type != gjson.String:
			err = mcp.Saying(mcp.CodeInvalidParams, "params.uri must be a string")
		case method == wire.ResourcesSubscribe:
			err = c.subscribe(ctx, uri.String(), header)
		default:
			c.unsubscribe(uri.String())
		}
		if err == nil {
			c.save(ctx)
		}
		if f := (*mcp.Failure)(nil); errors.As(err, &f) {
			return f.About(id).Body(), nil
		}
		return mcp.AppendResult(nil, id, "{}"), err
	}), nil
}

func (c *Conn) setLevel(ctx context.Context, level gjson.Result, header []upstream.Header) error {
	if err := c.mustOffer(ctx, "logging", wire.LoggingSetLevel, header); err != nil {
		return err
	}
	if level.Type != gjson.String || mcp.LogLevelOf(level.String()) == mcp.NoLogLevel {
		return mcp.Saying(mcp.CodeInvalidParams, fmt.Sprintf("Invalid log level: %.64s", level.String()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = mcp.AppendString(nil, level.String())
	return nil
}

// mustOffer returns an error if the server lacks the capability that method needs.
func (c *Conn) mustOffer(ctx context.Context, capability string, method wire.Method, header []upstream.Header) error {
	offers, err := c.offers(ctx, header)
	if err != nil {
		return err
	}
	switch v := gjson.GetBytes(offers, capability); v.Type {
	case gjson.Null, gjson.False:
		return mcp.Saying(mcp.CodeMethodNotFound, "Method not found: "+method.String())
	}
	return nil
}

// offers returns the server's capabilities.
func (c *Conn) offers(ctx context.Context, header []upstream.Header) ([]byte, error) {
	c.mu.Lock()
	offers := c.offered
	c.mu.Unlock()
	if offers != nil {
		return offers, nil
	}
	result, err := c.discover(ctx, header)
	if err != nil {
		return nil, err
	}
	return []byte(gjson.GetBytes(result, "capabilities").Raw), nil
}

// discover sends server/discover. The result is the caller's. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (c *Conn) discover(ctx context.Context, header []upstream.Header) ([]byte, error) {
	result, err := c.inquire(ctx, wire.ServerDiscover, "", header)
	if f, ok := errors.AsType[*mcp.Failure](err); ok && f.Code == mcp.CodeUnsupportedVersion {
		if modern, _, _ := era.Named(gjson.GetBytes(f.Data, "supported")); modern != nil { // it names the revision that it has just refused: try again
			result, err = c.inquire(ctx, wire.ServerDiscover, "", header)
		}
	}
	if err != nil {
		return nil, err
	}
	offers := gjson.GetBytes(result, "capabilities")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered = []byte("{}"); offers.IsObject() {
		c.offered = []byte(offers.Raw)
	}
	return result, nil
}

// inquire sends a request of dragoman's own. params is the content of the object, without the braces. The result is
// the caller's.
func (c *Conn) inquire(ctx context.Context, method wire.Method, params string, header []upstream.Header) ([]byte, error) {
	return c.inquireAs(ctx, ownRequest{method: method, params: params, can: c.can}, header)
}

// ownRequest is a request of dragoman's own.
type ownRequest struct {
	method wire.Method
	params string // the content of the object, without the braces
	target string // the value of Mcp-Name; "" for none
	can    []byte // the clientCapabilities that it declares
}

func (c *Conn) inquireAs(ctx context.Context, q ownRequest, header []upstream.Header) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	id, o, err := c.own(q, header)
	if err != nil {
		return nil, err
	}
	span := telemetry.Ask(ctx, o, c.up.To().Name)
	st, err := c.conn.Send(ctx, o)
	var result []byte
	if err == nil {
		result, err = server.Answer(ctx, st, id)
	}
	span.Done(err)
	if refused, ok := errors.AsType[*mcp.ServerError](err); ok {
		return nil, refused.Failure()
	}
	return result, err
}

// own makes a request of dragoman's own.
func (c *Conn) own(q ownRequest, header []upstream.Header) (id []byte, o *upstream.Outgoing, err error) {
	id = c.nextID()
	params := ""
	if q.params != "" {
		params = "{" + q.params + "}"
	}
	var m wire.Message
	if err := m.Scan(mcp.Request(id, q.method, params), c.up.Shape()); err != nil {
		return nil, nil, err
	}
	m.Facts, m.Stamp = c.facts, &wire.Stamp{ClientInfo: c.client, Capabilities: q.can}
	out, _, err := c.up.Rewrite(nil, &m)
	if err != nil {
		return nil, nil, err
	}
	o = &upstream.Outgoing{Body: out, Request: true, Header: c.headers(header, q.method.String(), q.target)}
	if q.method == wire.SubscriptionsListen {
		o.FirstByte, o.Silence = 0, bridge.MaxQuiet
	}
	return id, o, nil
}

// headers returns from, the client's headers, and those that describe the request. It returns nil for a pipe.
func (c *Conn) headers(from []upstream.Header, method, target string) []upstream.Header {
	if c.piped != nil {
		return nil
	}
	h := make([]upstream.Header, 0, len(from)+4)
	h = append(append(h, from...), upstream.Header{Name: "Mcp-Method", Value: mcpheader.Encode(method)})
	if target != "" {
		h = append(h, upstream.Header{Name: "Mcp-Name", Value: c.nameHeader(target)})
	}
	return h
}

// nameHeader returns the value of Mcp-Name in the form that the server accepts.
func (c *Conn) nameHeader(target string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rawNames {
		return target
	}
	return mcpheader.Encode(target)
}

func (c *Conn) nextID() []byte { return c.appendNextID(nil) }

// appendNextID appends an id for a request to the server.
func (c *Conn) appendNextID(dst []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return strconv.AppendInt(dst, c.lastID, 10)
}

// logLevel returns the level that requests name, as JSON; nil for none.
func (c *Conn) logLevel() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.level != nil {
		return c.level
	}
	if level := c.host.Config().Bridge.DefaultLogLevel; level != "off" && c.facts.Has(wire.ServerLogging) {
		return mcp.AppendString(nil, level)
	}
	return nil
}

// cancel ends the request with this key, which the client has cancelled.
func (c *Conn) cancel(key []byte) {
	c.mu.Lock()
	b := c.running[string(key)]
	c.mu.Unlock()
	if b != nil {
		b.ctx.End(requests.ErrCancelled)
	}
}

// sendCancelled cancels a request at a server on a pipe. Over HTTP the end of the stream cancels it.
func (c *Conn) sendCancelled(id []byte) {
	if c.piped == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), server.NoticeTimeout)
	defer cancel()
	body := mcp.Cancelled(id, "")
	if _, err := c.piped.Send(ctx, &upstream.Outgoing{Body: body}); err != nil {
		c.host.Log.Debug("cannot send a cancellation to the server", zap.Error(err))
	}
}

// Close ends the session. The server is not notified, because it has no sessions.
func (c *Conn) Close(ctx context.Context) error {
	c.end()
	c.forgetState(ctx)
	c.bridge.finished.end(&c.done)
	if c.piped != nil {
		c.bridge.results.Unheard(c.realm)
	}
	return c.conn.Close(ctx)
}

// isModern asks the server again whether it needs no session.
func (c *Conn) isModern(ctx context.Context, header []upstream.Header) (bool, error) {
	if !c.web { // a process is asked itself
		_, err := c.discover(ctx, header)
		return err == nil, err
	}
	return c.bridge.eras.Recheck(ctx, header)
}
