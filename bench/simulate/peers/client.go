package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// ClientOptions says what a client is.
type ClientOptions struct {
	Name      string // c1
	Transport string // http, sse, stdio
	Revision  string
	Lacks     func(what string) bool // stream, roots, sampling, elicitation, form, url; nil for nothing
	Open      func(url string)       // its user opens a page; nil: none is opened
	Trace     *trace.Trace
	Turn      func(what string) // returns when it is the client's turn; nil: it always is

	Dial    func(ctx context.Context, network, address string) (net.Conn, error) // http, sse
	Address func() string                                                        // http, sse: where the next connection goes to
	In      io.Reader                                                            // stdio: what dragoman writes; closed at the end if it can be
	Out     io.WriteCloser                                                       // stdio: what dragoman reads
	Token   string                                                               // bearer; "" for none
	User    string                                                               // whose it is
}

// Client is a client as the SDKs make them: it begins a session if a step needs one and there is none, keeps a standing stream open,
// answers what it is asked, and forgets its session after a 404.
//
// What it writes down of its requests: one that has a mark is Calls, others are Requests, Subscribes, Unsubscribe; exactly one of
// Answered and Refused follows with the same mark, method and ID. An input_required is no answer: Asked and Replies follow, and the
// request is sent again under a new id, with which it is Answered. Of a request after Cancels, Unheard or Leaves an answer is written
// down if it comes, and never that there was none. Begins is followed by one of Began, Answered with an error and Refused, of the method
// initialize or server/discover. Failed of Answered is "code message", or "tool text" for a result with isError. Failed of Refused is
// "status N: what came", "ended: how" or "dial: why"; a Note "not accepted" says the same of an answer or a notification. A listen of 2026-07-28 is neither answered nor refused: it is Opened when it is
// acknowledged, and Closed. A standing stream or listen that ends, or cannot be opened (Closed without Opened), is begun again 1 s later,
// then ever more slowly, every half a minute at last.
type Client struct {
	o      ClientOptions
	modern bool
	done   chan struct{} // closed by Close
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	box    *outbox // stdio

	mu       sync.Mutex // held by all that takes a message or a step; never while bytes move or time passes
	closed   bool
	gone     bool // stdio: the pipe has ended, or the client left; it never comes back
	session  *clientSession
	deleted  *clientSession // that it has ended at last
	sessions int
	wanted   map[*call]bool       // what has no answer yet and needs one
	waiting  int                  // steps that wait for a session
	calls    map[string]*call     // by mark
	pages    map[string]*question // by elicitationId
	lastTask string
	level    string // modern: of the logs that it wants
	deaf     time.Time
	spoilt   bool               // a bad line was sent, which may be answered without an id
	active   map[*exchange]bool // exchanges of HTTP that have not ended
	laters   int                // how often later was called
	idle     []*clientConn
}

// clientSession is a session, from its beginning; of a modern client, all that it does until it forgets.
type clientSession struct {
	c        *Client
	n        int
	began    chan struct{} // closed when there is a session, or there will be none
	ok, over bool
	id       string
	revision string
	endpoint string // http+sse: the URI for POSTs
	ids      int
	open     map[string][]*call // requests without an answer, by id
	answered map[string]string  // ids that have had one, and how: answered, refused, listen
	asked    map[string]*question
	listens  map[string]*call // modern: by URI; "" is that for the lists
	standing *exchange
	tasks    bool   // the server has tasks
	last     string // of the standing stream: the last event's id
	away     bool   // it left, and has not come back: there is no standing stream
	leaves   int    // how often it left
	broken   []*exchange
}

// call is a request of the client.
type call struct {
	s            *clientSession
	mark, method string
	id           string
	params       object
	plan         script.Plan
	tasks        bool                                        // it may be a task, or is about one
	task         string                                      // its task; "" for none
	hung         bool                                        // the client has closed its way back, and can cancel it still
	alone        bool                                        // its stream is not resumed
	listen       *listen                                     // a modern subscription
	x            *exchange                                   // over HTTP: where its answer comes
	pages        []*question                                 // that are opened before it is sent again; nil if it does not wait for that
	ended        bool                                        // answered or refused, or nothing is awaited any more
	silent       bool                                        // that there is no answer is no matter: it was cancelled, or left
	then         func(result json.RawMessage, failed string) // takes the answer of one that has no mark; nil for none
}

// NewClient returns a client that has done nothing yet.
func NewClient(o ClientOptions) *Client {
	c := &Client{o: o, modern: o.Revision >= "2026", done: make(chan struct{}), calls: map[string]*call{}, pages: map[string]*question{}, wanted: map[*call]bool{}, active: map[*exchange]bool{}}
	if o.Lacks == nil {
		c.o.Lacks = func(string) bool { return false }
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if o.Transport == "stdio" {
		c.box = newOutbox(o.Out, func(error) { o.Out.Close() })
		c.wg.Go(c.readPipe)
	}
	return c
}

// Busy reports whether requests of it are open, or wait for a session.
func (c *Client) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.wanted)+c.waiting > 0
}

// Close leaves at once with all that is open. All goroutines have ended when it returns.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.leave(false)
	c.hangUp()
	c.closed = true
	close(c.done)
	c.cancel()
	c.mu.Unlock()
	if c.box != nil {
		c.o.Out.Close()
		if in, ok := c.o.In.(io.Closer); ok {
			in.Close()
		}
		<-c.box.ended
	}
	c.wg.Wait()
}

// goes runs f in a goroutine that Close waits for. The lock is held.
func (c *Client) goes(f func()) {
	if !c.closed {
		c.wg.Go(f)
	}
}

// later runs f with the lock after d, unless the client is closed meanwhile. The lock is held, and f runs at once if d is 0.
func (c *Client) later(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	c.laters++
	what := "later " + strconv.Itoa(c.laters)
	c.goes(func() {
		if c.sleep(d) {
			if c.o.Turn != nil {
				c.o.Turn(what)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.closed {
				f()
			}
		}
	})
}

// sleep returns after d, or with false when the client is closed.
func (c *Client) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// hear waits as long as the client is deaf.
func (c *Client) hear() {
	for {
		c.mu.Lock()
		d := time.Until(c.deaf)
		c.mu.Unlock()
		if d <= 0 || !c.sleep(d) {
			return
		}
	}
}

// note writes e down as the client's.
func (c *Client) note(e trace.Event) {
	e.Who = c.o.Name
	if e.Via == "" && c.o.Transport == "stdio" {
		e.Via = "p" + strings.TrimPrefix(c.o.Name, "c")
	}
	c.o.Trace.Add(e)
}

// note writes e down as of this session, and of the connection of x, which may be nil.
func (s *clientSession) note(x *exchange, e trace.Event) {
	e.Session = s.id
	if x != nil && x.conn != nil {
		e.Conn, e.Via = x.conn.number, x.conn.via
	}
	s.c.note(e)
}

func (s *clientSession) strange(x *exchange, text string, raw []byte) {
	s.note(x, trace.Event{Kind: trace.Strange, Text: text, Raw: raw})
}

// Do carries out a step. It never blocks; a step whose object is gone does nothing.
func (c *Client) Do(step script.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.gone {
		return
	}
	s := c.session
	switch step.Verb {
	case "deaf":
		d, _ := time.ParseDuration(step.Word(0))
		c.deaf = time.Now().Add(d)
	case "cancel":
		if k := c.calls[step.Mark()]; k != nil {
			k.cancel()
		}
	case "hang":
		if k := c.calls[step.Mark()]; k != nil {
			k.hang()
		}
	case "leave":
		c.leave(c.o.Transport == "http" && !c.modern)
	case "forget":
		c.leave(false)
	case "delete":
		c.end()
	case "finish":
		c.finish()
	case "ghost":
		c.ghost()
	case "back":
		if s != nil && s.ok {
			s.back(step.Word(0) != "none")
		}
	case "garbage":
		c.garbage(step.Word(0))
	case "steal": // the world says whose session
		c.steal(step.Get("session"), step.Get("revision"), step.Word(1))
	default:
		if do := c.doing(step); do != nil {
			c.inSession(step, do)
		}
	}
}

// inSession calls do with the lock as soon as there is a session: it begins one if need be. If that fails, the step is not done.
func (c *Client) inSession(step script.Step, do func(s *clientSession)) {
	s := c.session
	if s == nil {
		s = c.begin()
	}
	if s.ok {
		do(s)
		return
	}
	c.waiting++
	c.goes(func() {
		select {
		case <-s.began:
		case <-c.done:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting--; s.ok && !s.over {
			do(s)
		} else if !c.closed {
			s.note(nil, trace.Event{Kind: trace.Note, Text: "there is no session for: " + step.String()})
		}
	})
}

// doing returns what a step does in a session; nil if it is nothing.
func (c *Client) doing(step script.Step) func(s *clientSession) {
	asks := func(method string, params object, text string) func(*clientSession) {
		return func(s *clientSession) { s.request(trace.Requests, &call{method: method, params: params}, "", text) }
	}
	switch step.Verb {
	case "begin":
		return func(*clientSession) {}
	case "list":
		method := step.Word(0) + "/list"
		if step.Word(0) == "templates" {
			method = "resources/templates/list"
		}
		if step.Word(0) == "tools" {
			return func(s *clientSession) { s.listTools(nil, nil, 1) }
		}
		return asks(method, object{}, "")
	case "call", "read", "same", "again", "batch", "look", "put":
		return func(s *clientSession) { s.marked(step) }
	case "note":
		return asks("resources/read", object{"uri": step.Word(0)}, step.Word(0))
	case "prompt":
		return asks("prompts/get", object{"name": "greet"}, "greet")
	case "ping":
		if c.modern { // there is no ping in it
			return asks("server/discover", object{}, "")
		}
		return asks("ping", nil, "")
	case "raw":
		return asks(step.Word(0), object{}, "")
	case "subscribe", "unsubscribe":
		kind, uri := trace.Subscribes, step.Word(0)
		if step.Verb == "unsubscribe" {
			kind = trace.Unsubscribe
		}
		if c.modern {
			return func(s *clientSession) { s.listenTo(kind, uri) }
		}
		return func(s *clientSession) {
			s.request(kind, &call{method: "resources/" + step.Verb, params: object{"uri": uri}}, "", uri)
		}
	case "level":
		if c.modern {
			c.level = step.Word(0)
			return nil
		}
		return asks("logging/setLevel", object{"level": step.Word(0)}, step.Word(0))
	case "peek": // the world says whose task
		if task := step.Get("task"); task != "" {
			return func(s *clientSession) { s.peek(step.Word(0), task) }
		}
	case "roots":
		if !c.modern {
			return func(s *clientSession) { s.tell("notifications/roots/list_changed", "", nil) }
		}
	}
	return nil
}

// marked sends the calls of a step.
func (s *clientSession) marked(step script.Step) {
	c, plan := s.c, script.PlanOf(step)
	words := step.Words
	if step.Verb != "batch" {
		words = words[:min(len(words), 1)]
	}
	id := ""
	if step.Verb == "same" || step.Verb == "again" {
		other := c.calls[c.o.Name+"."+step.Word(1)]
		if other == nil || other.s != s || (other.ended || other.silent) == (step.Verb == "same") {
			return // the other call is not as the step wants it
		}
		id = other.id
	}
	var together []*call
	var all []json.RawMessage
	for _, word := range words {
		k := &call{mark: c.o.Name + "." + word, plan: plan, alone: step.Get("back") == "none"}
		if c.calls[k.mark] != nil {
			continue // a mark is of one call
		}
		if ofAdapter(step) {
			k.method, k.params = "tools/call", object{"name": step.Verb, "arguments": object{"mark": k.mark, "plan": script.PlanText(step)}}
		} else if step.Verb == "read" {
			k.method, k.params = "resources/read", object{"uri": "mark://" + k.mark + "?plan=" + url.QueryEscape(script.PlanText(step))}
		} else {
			tool := "act"
			if plan.Task == "run" && step.Verb == "call" {
				tool = plan.Task
			}
			k.method, k.params = "tools/call", object{"name": tool, "arguments": object{"mark": k.mark, "odd": odd, "plan": script.PlanText(step)}}
		}
		if arguments, ok := k.params["arguments"].(object); ok && plan.Kind != "" {
			arguments["kind"], arguments["extra"] = plan.Kind, []string{"x"}
		}
		if plan.Task != "" && step.Verb == "call" {
			k.wantTask(s)
		}
		if plan.Progress > 0 {
			k.params["_meta"] = object{"progressToken": k.mark}
		}
		c.calls[k.mark] = k
		if step.Verb == "batch" && s.revision == "2025-03-26" {
			all = append(all, s.register(trace.Calls, k, "", script.PlanText(step)))
			together = append(together, k)
		} else {
			s.request(trace.Calls, k, id, script.PlanText(step))
		}
		if plan.Cancel > 0 {
			c.later(plan.Cancel, k.cancel)
		}
	}
	if len(together) > 0 {
		s.send(encode(all), together...)
	}
}

// register gives k an id, if id is "", notes it as open and returns its message.
func (s *clientSession) register(kind trace.Kind, k *call, id, text string) []byte {
	k.s = s
	if k.id = id; id == "" {
		if s.ids++; s.ids%3 == 0 {
			k.id = strconv.Quote(s.c.o.Name + "-" + strconv.Itoa(s.ids))
		} else {
			k.id = strconv.Itoa(s.ids)
		}
	}
	delete(s.answered, k.id)
	s.open[k.id] = append(s.open[k.id], k)
	if k.listen == nil {
		s.c.wanted[k] = true
	}
	raw := writeRequest(json.RawMessage(k.id), k.method, s.withMeta(k))
	switch k.plan.As {
	case script.Escaped:
		raw = bytes.Replace(raw, []byte("tools/call"), []byte(`tools\/call`), 1)
	case script.Gated:
		raw = bytes.Replace(raw, []byte(`"arguments":{`), []byte(`"arguments":{"extra":"x",`), 1)
	case script.GatedTwice:
		raw = bytes.Replace(raw, []byte(`"arguments":{`), []byte(`"arguments":{"extra":"x","extra":"y",`), 1)
	}
	if kind != "" {
		s.note(nil, trace.Event{Kind: kind, Mark: k.mark, Method: k.method, ID: k.id, Text: text, Raw: raw})
	}
	return raw
}

// withMeta returns the parameters of k, of a modern client with what each request has to say.
func (s *clientSession) withMeta(k *call) any {
	if !s.c.modern {
		if k.params == nil {
			return nil
		}
		return k.params
	}
	meta := object{
		metaPrefix + "protocolVersion":    s.c.o.Revision,
		metaPrefix + "clientInfo":         object{"name": s.c.o.Name, "version": "1"},
		metaPrefix + "clientCapabilities": s.c.capabilities(),
	}
	if k.tasks {
		can := s.c.capabilities()
		can["extensions"] = object{tasksExtension: object{}}
		meta[metaPrefix+"clientCapabilities"] = can
	}
	if level := s.c.level; level != "" || k.plan.Logs > 0 {
		if level == "" {
			level = "debug"
		}
		meta[metaPrefix+"logLevel"] = level
	}
	params := maps.Clone(k.params)
	if given, ok := params["_meta"].(object); ok {
		maps.Copy(meta, given)
	}
	params["_meta"] = meta
	return params
}

const metaPrefix = "io.modelcontextprotocol/"

// capabilities are all that the client's revision has, but for tasks and for what the client lacks.
func (c *Client) capabilities() object {
	all := c.ofRevision()
	maps.DeleteFunc(all, func(name string, _ any) bool { return c.o.Lacks(name) })
	return all
}

func (c *Client) ofRevision() object {
	switch {
	case c.modern:
		return object{"roots": object{}, "sampling": object{}, "elicitation": c.elicits()}
	case c.o.Revision >= "2025-11":
		return object{"roots": object{"listChanged": true}, "sampling": object{}, "elicitation": c.elicits()}
	case c.o.Revision >= "2025-06":
		return object{"roots": object{"listChanged": true}, "sampling": object{}, "elicitation": object{}}
	}
	return object{"roots": object{"listChanged": true}, "sampling": object{}}
}

// request sends k, with a fresh id if id is "".
func (s *clientSession) request(kind trace.Kind, k *call, id, text string) {
	s.send(s.register(kind, k, id, text), k)
}

// tell sends a notification, which may be about the call of a mark.
func (s *clientSession) tell(method, mark string, params any) {
	s.deliver(writeRequest(nil, method, params), trace.Event{Mark: mark, Method: method})
}

// deliver sends what is no request, and writes down if it was not accepted.
func (s *clientSession) deliver(raw []byte, e trace.Event) {
	if x := s.send(raw); x != nil {
		x.told = func(why string) {
			if why != "" {
				e.Kind, e.Text, e.Failed = trace.Note, "not accepted", why
				s.note(x, e)
			}
		}
	}
}

// send has a message on its way: that of the calls, or one that is no request if there are none.
func (s *clientSession) send(raw []byte, calls ...*call) *exchange {
	if s.c.o.Transport != "stdio" {
		return s.post(raw, calls)
	}
	if !s.c.box.send(append(raw[:len(raw):len(raw)], '\n')) {
		for _, k := range calls {
			k.refuse("ended: the pipe")
		}
	}
	return nil
}
