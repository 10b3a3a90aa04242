package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// serverCall is a request that is not answered yet.
type serverCall struct {
	sess *serverSession
	m    *message
	out  *serverStream
	conn int

	params   serverParams
	modern   bool
	user     string // whose token came with it
	revision string
	can      map[string]json.RawMessage // capabilities of the client
	level    int                        // of logs; above all of them: none
	mark     string
	text     string // of plan
	plan     script.Plan
	pages    []int         // that must be opened before: it is not carried out
	stop     chan struct{} // closed when it must not go on
	over     bool
}

type serverParams struct {
	Name            string
	URI             string
	Level           string
	Cursor          *string
	ProtocolVersion string
	Capabilities    map[string]json.RawMessage
	Arguments       json.RawMessage
	InputResponses  map[string]json.RawMessage
	RequestState    string
	TaskID          string
	Task            json.RawMessage
	Notifications   serverFilter
	Meta            struct {
		ProgressToken json.RawMessage
		Version       *string                    `json:"io.modelcontextprotocol/protocolVersion"`
		Capabilities  map[string]json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		LogLevel      string                     `json:"io.modelcontextprotocol/logLevel"`
	} `json:"_meta"`
}

const (
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// serverFilter is what a subscriptions/listen wants to know.
type serverFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// newServerCall reads what the parameters of m say, and of a mark and a plan.
func newServerCall(sess *serverSession, m *message, out *serverStream, conn *serverConn) *serverCall {
	c := &serverCall{sess: sess, m: m, out: out, conn: conn.number(), stop: make(chan struct{})}
	_ = json.Unmarshal(m.Params, &c.params)
	if conn != nil && conn.x != nil {
		c.user = conn.x.user
	}
	var plan string
	switch c.m.Method {
	case "tools/call":
		if c.params.Name == "act" || c.params.Name == "run" {
			var a struct{ Mark, Plan string }
			_ = json.Unmarshal(c.params.Arguments, &a)
			c.mark, plan = a.Mark, a.Plan
		}
	case "resources/read":
		if u, err := url.Parse(c.params.URI); err == nil && u.Scheme == "mark" {
			c.mark, plan = u.Host, u.Query().Get("plan")
		}
	}
	c.text, c.plan = plan, script.ParsePlan(plan)
	return c
}

// meta returns the revision that _meta names; "" for none.
func (c *serverCall) meta() string {
	if c.params.Meta.Version == nil {
		return ""
	}
	return *c.params.Meta.Version
}

// refuseRevision answers a request of a revision that the server does not speak.
func (c *serverCall) refuseRevision(requested string) {
	s := c.sess.s
	s.tell(trace.Event{Who: c.sess.who, Kind: trace.Note, Method: c.m.Method, ID: c.m.id(), Session: c.sess.id, Conn: c.conn,
		Text: "of a revision that the server does not speak", Failed: "-32022"})
	c.out.answer(writeError(c.m.ID, -32022, "Unsupported protocol version",
		object{"supported": s.supported(), "requested": requested}), 400, true)
}

// request takes a request whose transport has nothing against it.
func (s *Server) request(c *serverCall) {
	sess := c.sess
	if c.modern {
		c.revision, c.can, c.level = modernRevision, c.params.Meta.Capabilities, len(severities)
		if c.params.Meta.LogLevel != "" {
			c.level = severity(c.params.Meta.LogLevel)
		}
	} else {
		c.revision, c.can, c.level = sess.revision, sess.can, sess.level
	}
	e := trace.Event{Who: sess.who, Kind: trace.Received, Mark: c.mark, Method: c.m.Method, ID: c.m.id(), Session: sess.id, Conn: c.conn, User: c.user, Raw: c.m.raw}
	if c.mark != "" {
		c.pages = c.unopened()
		if c.pages == nil && (c.params.RequestState == "" || !c.modern) {
			s.carried[c.mark]++
		}
		e.N, e.Text = s.carried[c.mark], c.text
	}
	s.tell(e)
	sess.see(c)
	if !c.modern && sess.revision == "" && c.m.Method != "initialize" && c.m.Method != "ping" && (c.meta() == "" || isHandshake(c.meta())) {
		sess.strange("a request before initialize: "+c.m.Method, c.m.raw)
	}
	sess.calls = append(sess.calls, c)
	if c.mark == "" && s.slowness() == 0 {
		c.reply()
		return
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		switch {
		case c.mark == "":
		case c.onlyTask():
			c.locked(func() { c.fail(-32601, "The tool run only runs as a task", nil) })
			return
		case c.wantsTask():
			c.locked(c.beginTask)
			return
		}
		if c.mark != "" && !c.carryOut() {
			return
		}
		if c.sleep(c.plan.Wait) && c.sleep(c.lateness()) {
			c.locked(c.reply)
		}
	}()
}

func (c *serverCall) lateness() time.Duration {
	c.sess.s.mu.Lock()
	defer c.sess.s.mu.Unlock()
	return c.sess.s.slowness()
}

// locked does what is of a call that goes on still; false if it does not.
func (c *serverCall) locked(do func()) bool {
	c.sess.s.mu.Lock()
	defer c.sess.s.mu.Unlock()
	if !c.over {
		do()
	}
	return !c.over
}

// sleep waits for d; false if the call was stopped.
func (c *serverCall) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		if turn := c.sess.s.o.Turn; turn != nil {
			turn(c.mark + " " + c.m.Method)
		}
		return true
	case <-c.stop:
		return false
	}
}

// end takes a call out of those that are open.
func (c *serverCall) end() {
	if c.over {
		return
	}
	c.over = true
	close(c.stop)
	c.sess.calls = slices.DeleteFunc(c.sess.calls, func(of *serverCall) bool { return of == c })
	c.sess.s.listens = slices.DeleteFunc(c.sess.s.listens, func(l *serverListen) bool { return l.call == c })
	for _, q := range c.sess.questions {
		if q.call == c {
			q.over = true
		}
	}
}

// cancel ends a call that gets no answer. Its questions are cancelled too.
func (c *serverCall) cancel() {
	c.withdraw()
	c.end()
	c.out.finish()
}

// withdraw cancels the questions of a call that are open; the call goes on.
func (c *serverCall) withdraw() {
	var open []*serverQuestion
	for _, q := range c.sess.questions {
		if q.call == c && !q.over {
			open = append(open, q)
		}
	}
	slices.SortFunc(open, func(a, b *serverQuestion) int { return a.n - b.n })
	for _, q := range open {
		q.withdrawn = true
		c.sess.send(c.out, trace.Event{Kind: trace.Withdraws, Mark: c.mark, Method: q.method, ID: string(q.id), N: q.n},
			writeRequest(nil, "notifications/cancelled", object{"requestId": q.id, "reason": "withdrawn"}))
		q.end()
	}
}

// carryOut does what comes before the answer; false if there is nothing more to do.
func (c *serverCall) carryOut() bool {
	if c.pages != nil {
		c.locked(func() { c.requires(c.pages) })
		return false
	}
	first := c.params.RequestState == "" || !c.modern
	for n := 1; first && n <= max(c.plan.Progress, c.plan.Logs); n++ {
		if n <= c.plan.Progress && c.params.Meta.ProgressToken != nil {
			if !c.locked(func() { c.progress(n) }) || !c.sleep(c.plan.Gap) {
				return false
			}
		}
		if n <= c.plan.Logs && c.level <= severity("info") {
			log := func() {
				c.sess.send(c.out, trace.Event{Kind: trace.Logs, Mark: c.mark, N: n}, logMessage(numbered(c.mark, "log", n)))
			}
			if !c.locked(log) || !c.sleep(c.plan.Gap) {
				return false
			}
		}
	}
	if c.modern {
		return c.askModern()
	}
	return c.askAll()
}

func (c *serverCall) progress(n int) {
	params := object{"progressToken": c.params.Meta.ProgressToken, "progress": n, "total": json.RawMessage(strconv.Itoa(c.plan.Progress) + ".0")}
	if since(c.revision, "2025-03-26") {
		params["message"] = numbered(c.mark, "progress", n)
	}
	c.sess.send(c.out, trace.Event{Kind: trace.Progresses, Mark: c.mark, N: n}, writeRequest(nil, "notifications/progress", params))
}

func (c *serverCall) streams() bool { return c.plan.How == script.SSE }

// reply answers a call.
func (c *serverCall) reply() {
	result, failed := c.result()
	if c.over || result == nil && failed == nil { // it is answered later
		return
	}
	if failed != nil {
		c.fail(failed.Code, failed.Message, failed.Data)
		return
	}
	if c.modern {
		result["resultType"] = "complete"
		meta, _ := result["_meta"].(object)
		if meta == nil {
			meta = object{}
		}
		meta[metaServer] = serverInfo(c.revision)
		result["_meta"] = meta
		if cacheable(c.m.Method) {
			result["ttlMs"], result["cacheScope"] = 0, "private"
		}
	}
	raw := writeResult(c.m.ID, result)
	e := trace.Event{Text: serverText(result), Raw: raw}
	switch c.plan.How {
	case script.Error:
		c.fail(-32050, numbered(c.mark, "failed", c.sess.s.carried[c.mark]), nil)
	case script.Status, script.Busy:
		status := map[string]int{script.Status: 500, script.Busy: 429}[c.plan.How]
		c.out.flush()
		if x := c.out.x; x != nil && !x.begun && c.sess.pipe == nil {
			e.Failed = strconv.Itoa(status)
			c.done(e)
			x.respond(status, []byte("this is "+e.Failed), "Content-Type", "text/plain", "Retry-After", "1")
			return
		}
		c.fail(-32603, numbered(c.mark, "failed", c.sess.s.carried[c.mark]), nil)
	case script.Broken:
		if c.sess.pipe == nil {
			c.fail(-32050, numbered(c.mark, "failed", c.sess.s.carried[c.mark]), nil)
			break
		}
		e.Failed, e.Raw = "broken", nil
		c.done(e)
		c.out.flush() // it would break those of its array
		c.out.send(append(raw[:len(raw)-1:len(raw)-1], `,"broken":NaN}`...))
		c.out.finish()
	case script.Behind, script.Lines:
		if x := c.out.x; c.plan.How == script.Lines && x != nil && c.out.event == "" && !x.begun {
			var lines bytes.Buffer
			_ = json.Indent(&lines, raw, "", " ")
			raw = lines.Bytes()
			e.Raw = raw
		}
		c.done(e)
		c.out.body(raw, c.plan.How)
	case script.Stray:
		c.out.send(writeRequest(nil, "notifications/progress", object{"progressToken": true, "progress": 1}))
		c.done(e)
		c.out.answer(raw, 200, false)
	case script.Nameless:
		if !c.modern {
			c.fail(-32050, numbered(c.mark, "failed", c.sess.s.carried[c.mark]), nil)
			break
		}
		raw = writeResult(c.m.ID, object{"resultType": "input_required", "inputRequests": object{questionKey(1): object{"params": object{}}}})
		c.done(trace.Event{Failed: "nameless", Raw: raw})
		c.out.answer(raw, 200, !c.streams())
	case script.Never:
	case script.Closes:
		if c.sess.pipe == nil {
			e.Failed, e.Text, e.Raw = "closes", "", nil
			c.done(e)
			c.out.finish()
		}
	case script.Cut:
		e.Failed = "cut"
		c.done(e)
		c.out.cut(raw)
	case script.Twice:
		c.done(e)
		c.out.send(raw)
		c.out.answer(raw, 200, false)
	case script.Null:
		e.Raw = append(raw[:len(raw)-1:len(raw)-1], `,"error":null}`...)
		c.done(e)
		c.out.answer(e.Raw, 200, !c.streams())
	case script.Garbage:
		c.done(e)
		c.out.garbage()
		c.out.answer(raw, 200, false)
	case script.Other:
		c.done(e)
		c.out.send(writeResult(json.RawMessage(`"never-given"`), result))
		c.out.answer(raw, 200, false)
	default:
		c.done(e)
		c.out.answer(raw, 200, !c.streams())
	}
}

// fail answers a call with an error.
func (c *serverCall) fail(code int, text string, data any) {
	c.failWith(200, code, text, data)
}

func (c *serverCall) failWith(status, code int, text string, data any) {
	if raw, ok := data.(json.RawMessage); ok && raw == nil {
		data = nil
	}
	raw := writeError(c.m.ID, code, text, data)
	if c.modern && code == -32601 {
		status = 404
	}
	c.done(trace.Event{Failed: fmt.Sprintf("%d %s", code, text), Raw: raw})
	c.out.answer(raw, status, !c.streams())
}

// done tells e, the answer, and ends the call.
func (c *serverCall) done(e trace.Event) {
	e.Who, e.Kind, e.Mark, e.Method, e.ID, e.Session, e.Conn = c.sess.who, trace.Answers, c.mark, c.m.Method, c.m.id(), c.sess.id, c.out.connection()
	if e.Conn == 0 {
		e.Conn = c.conn
	}
	if e.Failed == "" {
		e.Failed = c.out.failure()
	}
	c.sess.s.tell(e)
	c.end()
}

// serverText returns the text of a result, up to 200 bytes.
func serverText(result object) string {
	for _, name := range []string{"structuredContent", "only"} { // script.Bare
		if bare, ok := result[name].(object); ok && result["content"] == nil {
			text, _ := bare["text"].(string)
			return text[:min(len(text), 200)]
		}
	}
	for _, name := range []string{"content", "contents"} {
		if list, ok := result[name].([]any); ok && len(list) > 0 {
			text, _ := list[0].(object)["text"].(string)
			return text[:min(len(text), 200)]
		}
	}
	return ""
}

// serverListen is a subscriptions/listen that is open.
type serverListen struct {
	call   *serverCall
	filter serverFilter
}

func (s *Server) listen(c *serverCall) {
	l := &serverListen{call: c, filter: c.params.Notifications}
	s.listens = append(s.listens, l)
	s.tell(trace.Event{Who: c.sess.who, Kind: trace.Standing, Method: c.m.Method, ID: c.m.id(), Session: c.sess.id, Conn: c.conn, Text: string(encode(l.filter))})
	c.out.send(writeRequest(nil, "notifications/subscriptions/acknowledged",
		object{"_meta": object{metaSubscription: c.m.ID}, "notifications": l.filter}))
}

// end ends a listen in order.
func (l *serverListen) end() {
	l.call.done(trace.Event{})
	l.call.out.answer(writeResult(l.call.m.ID, object{"resultType": "complete", "_meta": object{metaSubscription: l.call.m.ID}}), 200, false)
}
