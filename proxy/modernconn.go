package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// modernConn is the session of a client that wants one with a server that has none.
// To the session it is a connection to a server of the client's own revision; what
// that server would remember is here: who the client is, its log level, what it has
// subscribed to, and the questions that it was asked. See "Legacy client, modern
// server" in
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
type modernConn struct {
	srv    *Server
	conn   upstream.Conn
	web    bool   // the server is reached over HTTP, where messages have headers
	piped  *lanes // conn, where the server is on a pipe of its own; else nil
	facts  wire.Facts
	up     *translate.Translator // the client's revision to the server's
	down   *translate.Translator
	client []byte // clientInfo, nil for none
	can    []byte // clientCapabilities
	prefix string // of the ids of our questions
	realm  string // of what is kept of the server's results
	tools  toolindex.Index
	tasks  taskMemory

	life context.Context // of what no request waits for
	end  context.CancelFunc

	mu       sync.Mutex
	lastID   int64
	lastAsk  int64
	level    []byte                  // a JSON string; nil before the client has said one
	rawNames bool                    // the server wants them as they are
	offered  []byte                  // the server's capabilities, nil while they are not known
	asked    map[string]*ask         // questions without an answer, by the keys of their ids
	running  map[string]*bridgedCall // what the server was asked, by the keys of the client's ids
	watched  map[string]func()       // ends subscriptions, by URI
	news     server.Queue            // for the standing stream
	standing *modernStandingStream   // nil for none
}

var _ upstream.Conn = (*modernConn)(nil)

// newModernConn makes the session of a client with these capabilities on conn, which
// is its own from now on.
func (srv *Server) newModernConn(conn upstream.Conn, vc *translate.Revision, facts wire.Facts) *modernConn {
	now := srv.now()
	modern := translate.Lookup(translate.Modern())
	c := &modernConn{
		srv: srv, conn: conn, facts: facts, prefix: "p-",
		up: now.table.Between(vc, modern), down: now.table.Between(modern, vc),
		asked: make(map[string]*ask), running: make(map[string]*bridgedCall), watched: make(map[string]func()),
	}
	c.belongTo(rand.Text()) // no other client may use it, since its owner is unknown
	c.piped, _ = conn.(*lanes)
	_, shares := conn.(*sharedModernConn)
	c.web = c.piped == nil && !shares
	c.tasks.bridged = now.cfg.Contract.Tasks == "bridge" && vc.Tasks
	c.news.Limit(now.cfg.Limits)
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// belongTo makes the session one of a principal.
func (c *modernConn) belongTo(who string) {
	realm := results.KeyOf("modern", who)
	c.realm = string(realm[:])
}

// enquire is a request of the client, as one whose answer may
// be kept.
func (c *modernConn) enquire(msg *wire.Message, uri string, header []upstream.Header) *results.Enquiry {
	if !c.srv.results.Keeps(msg.Method) {
		return nil
	}
	return c.srv.results.Enquire(results.Lookup{
		Method: msg.Method, Digest: results.Digest(string(msg.MethodName()), wire.View(msg.Params())), URI: uri,
		Header: header, Variant: c.can, Realm: c.realm, TTL: results.AsSaid,
	})
}

// asItself are the translators of the session, which has nothing to translate.
func (c *modernConn) asItself() (up, down *translate.Translator) {
	same := c.srv.now().table.Between(c.up.From(), c.up.From())
	return same, same
}

// resumeModern takes up a session that began in another process, of which its
// id says what its client can do.
func (srv *Server) resumeModern(t sealed.Session) *modernConn {
	c := srv.newModernConn(srv.now().origin.resume("", t.ServerRevision.HeaderName()), t.ClientRevision, t.Facts)
	if t.ClientInfo != "" {
		c.client = []byte(t.ClientInfo)
	}
	if c.can = []byte(t.Capabilities); len(c.can) == 0 {
		c.can = mcp.CapabilitiesOf(t.Facts)
	}
	c.prefix += rand.Text()[:8] + "-" // the other process may have asked something, too
	return c
}

// Send takes one message of the client.
func (c *modernConn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if c.life.Err() != nil {
		return nil, upstream.ErrClosed
	}
	room, err := c.srv.host.Memory().Alloc(ctx, large.RequestWait, large.RequestCopy, 2*len(m.Body)) // for the message, and what it becomes
	if err != nil {
		return nil, err
	}
	room = append(room, m.Body...)
	var msg wire.Message
	if err := msg.Scan(room[:len(room):len(room)], c.up.Shape()); err != nil {
		return nil, err
	}
	switch {
	case msg.Kind.Response():
		c.receiveAnswer(&msg, m.Header)
		return nil, nil
	case msg.Kind == wire.Notification && msg.Method == wire.Cancelled:
		c.cancel(wire.AppendIDKey(nil, []byte(gjson.Get(wire.View(msg.Params()), "requestId").Raw)))
		return nil, nil
	case msg.Kind == wire.Notification:
		return nil, nil // what the client has told servers has no place here, and none of it asks for anything
	}
	switch msg.Method {
	case wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		return c.remember(ctx, &msg, m.Header), nil
	case wire.TasksGet, wire.TasksResult, wire.TasksCancel, wire.TasksUpdate:
		if st := c.task(ctx, &msg, m.Header); st != nil {
			return st, nil
		}
	}
	return c.call(ctx, m, &msg, room[len(room):])
}

// remember does what a server with sessions would have done about msg.
func (c *modernConn) remember(ctx context.Context, msg *wire.Message, header []upstream.Header) upstream.Stream {
	id, method := bytes.Clone(msg.ID()), msg.Method
	level := gjson.Get(wire.View(msg.Params()), "level")
	uri := gjson.Get(wire.View(msg.Params()), "uri")
	header = append([]upstream.Header(nil), header...)
	return answerHere(ctx, func(ctx context.Context) ([]byte, error) {
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
		if f := (*mcp.Failure)(nil); errors.As(err, &f) {
			return f.About(id).Body(), nil
		}
		return mcp.AppendResult(nil, id, "{}"), err
	})
}

func (c *modernConn) setLevel(ctx context.Context, level gjson.Result, header []upstream.Header) error {
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

// mustOffer is an error where the server has not what method needs.
func (c *modernConn) mustOffer(ctx context.Context, capability string, method wire.Method, header []upstream.Header) error {
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

// offers are the server's capabilities.
func (c *modernConn) offers(ctx context.Context, header []upstream.Header) ([]byte, error) {
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

// discover asks the server who it is. The result is the caller's. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (c *modernConn) discover(ctx context.Context, header []upstream.Header) ([]byte, error) {
	result, err := c.inquire(ctx, wire.ServerDiscover, "", header)
	if f, ok := errors.AsType[*mcp.Failure](err); ok && f.Code == mcp.CodeUnsupportedVersion {
		if modern, _, _ := era.Named(gjson.GetBytes(f.Data, "supported")); modern != nil { // the one that it has just refused
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

// inquire asks the server something for ourselves. params is what is within the
// braces. The result is the caller's.
func (c *modernConn) inquire(ctx context.Context, method wire.Method, params string, header []upstream.Header) ([]byte, error) {
	return c.inquireAs(ctx, ownRequest{method: method, params: params, can: c.can}, header)
}

// ownRequest is a request of ours.
type ownRequest struct {
	method wire.Method
	params string // what is within the braces
	target string // what Mcp-Name says of it, "" for nothing
	can    []byte // the clientCapabilities that it declares
}

func (c *modernConn) inquireAs(ctx context.Context, q ownRequest, header []upstream.Header) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	id, st, err := c.post(ctx, q, header)
	if err != nil {
		return nil, err
	}
	result, err := server.Answer(ctx, st, id)
	if refused, ok := errors.AsType[*mcp.ServerError](err); ok {
		return nil, refused.Failure()
	}
	return result, err
}

// post sends a request of ours. The stream is the caller's to close.
func (c *modernConn) post(ctx context.Context, q ownRequest, header []upstream.Header) (id []byte, st upstream.Stream, err error) {
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
	o := upstream.Outgoing{Body: out, Request: true, Header: c.headers(header, q.method.String(), q.target)}
	if q.method == wire.SubscriptionsListen {
		o.FirstByte, o.Silence = 0, maxQuiet
	}
	st, err = c.conn.Send(ctx, &o)
	return id, st, err
}

// headers are those of a request behind those that the client sent along. On a pipe
// there are none.
func (c *modernConn) headers(from []upstream.Header, method, target string) []upstream.Header {
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

// nameHeader is the value of Mcp-Name, as the server wants it.
func (c *modernConn) nameHeader(target string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rawNames {
		return target
	}
	return mcpheader.Encode(target)
}

func (c *modernConn) nextID() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return strconv.AppendInt(nil, c.lastID, 10)
}

// logLevel is the level that requests name, nil for none.
func (c *modernConn) logLevel() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.level != nil {
		return c.level
	}
	if level := c.srv.now().cfg.Bridge.DefaultLogLevel; level != "off" && c.facts.Has(wire.ServerLogging) {
		return mcp.AppendString(nil, level)
	}
	return nil
}

// cancel ends what the client no longer wants.
func (c *modernConn) cancel(key []byte) {
	c.mu.Lock()
	b := c.running[string(key)]
	c.mu.Unlock()
	if b != nil {
		b.cancel(requests.ErrCancelled)
	}
}

// tellCancelled tells a server on a pipe that a request is given up; over HTTP the
// end of its stream does.
func (c *modernConn) sendCancelled(id []byte) {
	if c.piped == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	body := mcp.Cancelled(id, "")
	if _, err := c.piped.Send(ctx, &upstream.Outgoing{Body: body}); err != nil {
		c.srv.host.Log.Debug("the server was not told of a cancellation", zap.Error(err))
	}
}

// Close ends the session. It sends nothing about the session to the server, which has no sessions.
func (c *modernConn) Close(ctx context.Context) error {
	c.end()
	c.srv.finished.end(c)
	if c.piped != nil {
		c.srv.results.Unheard(c.realm)
	}
	return c.conn.Close(ctx)
}

// answeredHere is the stream of a request that is answered here.
type answeredHere struct {
	ctx    context.Context
	stop   context.CancelFunc
	answer func(ctx context.Context) ([]byte, error)
}

func answerHere(ctx context.Context, answer func(ctx context.Context) ([]byte, error)) *answeredHere {
	l := &answeredHere{answer: answer}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// Next is the answer, then the end.
func (l *answeredHere) Next() (sse.Event, error) {
	if l.answer == nil {
		return sse.Event{}, io.EOF
	}
	body, err := l.answer(l.ctx)
	l.answer = nil
	return sse.Event{Data: body}, err
}

// Close gives the answer up.
func (l *answeredHere) Close() error {
	l.stop()
	return nil
}

// isModern asks the server again whether it needs no session.
func (c *modernConn) isModern(ctx context.Context, header []upstream.Header) (bool, error) {
	if !c.web { // a process is asked itself
		_, err := c.discover(ctx, header)
		return err == nil, err
	}
	return c.srv.eras.Recheck(ctx, header)
}
