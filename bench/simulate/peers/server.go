package peers

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// ServerOptions says what a server is.
type ServerOptions struct {
	Transport string // http (Streamable HTTP at /mcp), sse (at /sse), stdio
	Revision  string // the newest that it speaks; 2026-07-28 speaks no other, and "both" speaks all
	Tasks     bool   // it has tasks, as far as its revision has them
	Wants     string // what each request must have: see script.Server
	Trace     *trace.Trace
	Turn      func(what string)            // returns when it is the server's turn; nil: it always is
	Listen    func() (net.Listener, error) // http, sse
}

// Server is the server of a world: all its processes, one after another or at once, since what it counts is of the whole world.
//
// What its events say beyond package trace: Received.Text is the plan of a call and N how often its mark has been carried out by then.
// Failed of what it sends is "no stream" if nothing carries it, and "kept" if nothing does now and the client can ask for it later, by
// Last-Event-ID. Answers.Failed is also "closes", "cut", "429" where a plan has it so, and "503" where a step has it so: that request was
// not Received. Stopped has Failed "finished" for a request that is over, "unknown" for one that never came, and Text "connection" if the
// end of its stream stopped a call of 2026-07-28. Told has Failed "again" for a second answer to a question, "withdrawn" for one to a
// question that was withdrawn. Pings.Text is the name of the stream, with which the ids of its events begin.
type Server struct {
	o          ServerOptions
	mu         sync.Mutex // held for no longer than it takes to change something: what waits, waits without it
	listener   net.Listener
	conns      []*serverConn
	processes  []*serverProcess
	sessions   []*serverSession // that are open, also those of processes
	given      map[string]bool  // ids of sessions that there have been
	listens    []*serverListen
	carried    map[string]int // how often a mark was carried out
	versions   map[string]int // of resources
	extra      map[string]bool
	numbers    map[string]int // the last number of what is numbered: sessions, processes, connections, pings
	pages      map[string]*serverPage
	tasks      map[string]*serverTask
	status     int // what each POST gets until statusEnd
	statusEnd  time.Time
	deafEnd    time.Time
	refuses    string // how it refuses to begin a session until refusesEnd: a status, or error
	refusesEnd time.Time
	slow       time.Duration
	slowEnd    time.Time     // zero: no end
	onePerPage bool          // it lists one tool a page
	batches    bool          // in sessions of 2025-03-26, it puts what it says within a moment into one array
	hesitation time.Duration // before a standing stream begins
	streamLife time.Duration // how old a standing stream becomes; 0: it has no end
	refusedAny bool          // the last initialize was refused by a status: a client may try older transports
	closed     bool
	running    sync.WaitGroup
}

var serverRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", modernRevision}

const modernRevision = "2026-07-28"

// since says whether revision is that one or a newer one.
func since(revision, first string) bool { return revision >= first }

// NewServer returns a server that does not run yet.
func NewServer(o ServerOptions) *Server {
	return &Server{o: o, given: map[string]bool{}, carried: map[string]int{}, versions: map[string]int{}, extra: map[string]bool{},
		numbers: map[string]int{}, pages: map[string]*serverPage{}, tasks: map[string]*serverTask{}}
}

func (s *Server) modern() bool { return s.o.Revision == modernRevision || s.o.Revision == "both" }
func (s *Server) handshake() bool {
	return s.o.Revision != modernRevision
}

// speaks returns the revisions that begin with initialize, the newest last.
func (s *Server) speaks() []string {
	own := slices.Index(serverRevisions, s.o.Revision)
	if s.o.Revision == "both" {
		own = len(serverRevisions) - 2
	}
	if s.o.Revision == modernRevision {
		return nil
	}
	return serverRevisions[:own+1]
}

// supported is what discover and an error say, the newest first.
func (s *Server) supported() []string {
	all := slices.Clone(s.speaks())
	if s.modern() {
		all = append(all, modernRevision)
	}
	slices.Reverse(all)
	return all
}

func (s *Server) tell(e trace.Event) {
	if e.Who == "" {
		e.Who = "server"
	}
	s.o.Trace.Add(e)
}

func (s *Server) next(what string) int {
	s.numbers[what]++
	return s.numbers[what]
}

// sessionOf returns the open session of an id; nil for none.
func (s *Server) sessionOf(id string) *serverSession {
	for _, sess := range s.sessions {
		if sess.id == id {
			return sess
		}
	}
	return nil
}

// serverSession is what the server knows of a client: a session of HTTP, or a process.
type serverSession struct {
	s         *Server
	id, who   string
	revision  string // of initialize; "" before
	can       map[string]json.RawMessage
	level     int
	uris      map[string]bool   // subscribed
	seen      map[string]string // what requests there were, by id
	calls     []*serverCall     // open
	questions map[string]*serverQuestion
	pings     map[string]int
	asked     int
	pipe      *serverStream   // all goes there: stdio, HTTP+SSE
	standing  []*serverStream // of Streamable HTTP, the newest last
	posts     []*serverStream // of Streamable HTTP, with events that can be asked for again
	process   *serverProcess
	over      bool
}

func (s *Server) newSession(who, id string) *serverSession {
	return &serverSession{s: s, id: id, who: who, uris: map[string]bool{}, seen: map[string]string{},
		questions: map[string]*serverQuestion{}, pings: map[string]int{}}
}

// end ends a session: its calls stop, and its streams end in order.
func (sess *serverSession) end() {
	if sess.over {
		return
	}
	sess.over = true
	s := sess.s
	s.sessions = slices.DeleteFunc(s.sessions, func(of *serverSession) bool { return of == sess })
	for _, c := range slices.Clone(sess.calls) {
		c.end()
	}
	s.dropTasks(sess)
	for _, st := range append(slices.Clone(sess.standing), sess.posts...) {
		st.end()
	}
	if sess.pipe != nil {
		sess.pipe.end()
	}
}

// away returns the stream for what belongs to no request.
func (sess *serverSession) away() *serverStream {
	if sess.pipe != nil {
		return sess.pipe
	}
	for _, st := range slices.Backward(sess.standing) {
		if st.x != nil {
			return st
		}
	}
	if n := len(sess.standing); n > 0 {
		return sess.standing[n-1] // until it is asked for again
	}
	return &serverStream{}
}

func (sess *serverSession) strange(text string, raw []byte) {
	sess.s.tell(trace.Event{Who: sess.who, Kind: trace.Strange, Session: sess.id, Text: text, Raw: raw})
}

// send tells e of a message and sends it.
func (sess *serverSession) send(st *serverStream, e trace.Event, raw []byte) {
	e.Who, e.Session, e.Raw, e.Conn, e.Failed = sess.who, sess.id, raw, st.connection(), st.failure()
	sess.s.tell(e)
	if sess.batches() {
		st.collect(sess.s, raw)
		return
	}
	st.send(raw)
}

// batches reports whether messages are sent in arrays.
func (sess *serverSession) batches() bool { return sess.s.batches && sess.revision == "2025-03-26" }

// Do does a step whose Who is "server". It does not wait for what comes of it. A step whose object is gone does nothing.
func (s *Server) Do(step script.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	word := step.Word(0)
	span, _ := time.ParseDuration(word)
	switch step.Verb {
	case "ping":
		for _, sess := range slices.Clone(s.sessions) {
			if sess.revision != "" {
				n := s.next("ping")
				id := json.RawMessage(strconv.Quote(fmt.Sprint("ping-", n)))
				if n%2 == 0 {
					id = json.RawMessage(strconv.Itoa(900_000 + n))
				}
				sess.pings[string(id)] = n
				st := sess.away()
				sess.send(st, trace.Event{Kind: trace.Pings, Method: "ping", ID: string(id), N: n, Text: st.name}, writeRequest(id, "ping", nil))
			}
		}
	case "log":
		n, _ := strconv.Atoi(word)
		for _, sess := range slices.Clone(s.sessions) {
			if sess.revision != "" && sess.level <= severity("info") {
				sess.send(sess.away(), trace.Event{Kind: trace.Logs, N: n}, logMessage(numbered("server", "log", n)))
			}
		}
	case "announce": // what no revision knows, and no message is like another
		n, _ := strconv.Atoi(word)
		for range n {
			s.announce(s.next("announcement"))
		}
	case "changed":
		s.extra[word] = !s.extra[word]
		method := "notifications/" + word + "/list_changed"
		s.notify(trace.Event{Kind: trace.Changes, Text: method}, method, object{}, func(*serverSession) bool { return true },
			func(f *serverFilter) bool {
				return word == "tools" && f.Tools || word == "prompts" && f.Prompts || word == "resources" && f.Resources
			})
	case "update":
		times, _ := strconv.Atoi(step.Word(1))
		size, _ := strconv.Atoi(step.Word(2))
		for range max(times, 1) {
			s.update(word, size)
		}
	case "withdraw":
		for _, sess := range s.sessions {
			for _, c := range slices.Clone(sess.calls) {
				if word == "" || c.mark == word {
					c.withdraw()
				}
			}
		}
	case "restart":
		s.die()
		s.run()
	case "die":
		s.die()
	case "up":
		s.run()
	case "lose":
		if s.o.Transport == "stdio" {
			return
		}
		s.tell(trace.Event{Kind: trace.Loses, Text: word})
		if word == "refusing" {
			span, _ = time.ParseDuration(step.Word(1))
			s.refuses, s.refusesEnd = step.Word(2), time.Now().Add(span)
		}
		for _, sess := range slices.Clone(s.sessions) {
			switch word {
			case "quietly": // their standing streams stay open
				sess.standing, sess.pipe = nil, nil
			case "refusing": // and those of their calls, on which nothing comes any more
				sess.standing, sess.posts = nil, nil
			}
			sess.end()
		}
	case "deaf":
		s.deafEnd = time.Now().Add(span)
	case "status":
		s.status, _ = strconv.Atoi(word)
		span, _ = time.ParseDuration(step.Word(1))
		s.statusEnd = time.Now().Add(span)
	case "slow":
		s.slow, s.slowEnd = span, time.Time{}
		if span, _ = time.ParseDuration(step.Word(1)); span > 0 {
			s.slowEnd = time.Now().Add(span)
		}
	case "pages":
		s.onePerPage = true
	case "batches":
		s.batches = true
	case "hesitate":
		s.hesitation = span
	case "streamlife":
		s.streamLife = span
	case "closestreams":
		for _, sess := range slices.Clone(s.sessions) {
			if s.o.Transport == "sse" {
				sess.end()
			}
			for _, st := range sess.standing {
				st.pause() // a client may go on with it
			}
		}
		for _, l := range slices.Clone(s.listens) {
			l.end()
		}
	}
}

// notify sends a notification to each session and each listen that wants it.
func (s *Server) notify(e trace.Event, method string, params object, session func(*serverSession) bool, listen func(*serverFilter) bool) {
	if e.N != 0 {
		params["_meta"] = object{"version": e.N}
	}
	e.Method = method
	for _, sess := range slices.Clone(s.sessions) {
		if sess.revision != "" && session(sess) {
			sess.send(sess.away(), e, writeRequest(nil, method, params))
		}
	}
	for _, l := range slices.Clone(s.listens) {
		if listen(&l.filter) {
			meta := object{metaSubscription: l.call.m.ID}
			if e.N != 0 {
				meta["version"] = e.N
			}
			params["_meta"] = meta
			e.ID = l.call.m.id()
			l.call.sess.send(l.call.out, e, writeRequest(nil, method, params))
		}
	}
}

// update sends an update of a resource, which says more of it if size is not 0.
func (s *Server) update(uri string, size int) {
	s.versions[uri]++
	params := object{"uri": uri}
	if size > 0 {
		params["text"] = filling(uri, size)
	}
	s.notify(trace.Event{Kind: trace.Updates, Text: uri, N: s.versions[uri]}, "notifications/resources/updated", params,
		func(sess *serverSession) bool { return sess.uris[uri] },
		func(f *serverFilter) bool { return slices.Contains(f.URIs, uri) })
}

// announced is a notification of no revision: it has nothing that dragoman changes.
const announced = "notifications/announced"

// announcement returns the text of the n-th one. No two that follow each other are as long.
func announcement(n int) string {
	return numbered("server", "announcement", n) + filling(" ", n*67%300)
}

func (s *Server) announce(n int) {
	e := trace.Event{Kind: trace.Changes, Method: announced, Text: announced, N: n}
	params := object{"n": n, "text": announcement(n)}
	for _, sess := range slices.Clone(s.sessions) {
		if sess.revision != "" {
			sess.send(sess.away(), e, writeRequest(nil, announced, params))
		}
	}
	for _, l := range slices.Clone(s.listens) {
		l.call.sess.send(l.call.out, e, writeRequest(nil, announced, params))
	}
}

// slowness returns by how much an answer is later.
func (s *Server) slowness() time.Duration {
	if !s.slowEnd.IsZero() && !time.Now().Before(s.slowEnd) {
		return 0
	}
	return s.slow
}

// die ends all processes, connections and sessions now.
func (s *Server) die() {
	for _, p := range slices.Clone(s.processes) {
		p.end(errKilled, true)
	}
	if s.listener == nil {
		return
	}
	s.listener.Close()
	s.listener = nil
	s.tell(trace.Event{Kind: trace.Died})
	s.dropTasks(nil)
	for _, c := range slices.Clone(s.conns) {
		c.end()
	}
	for _, sess := range slices.Clone(s.sessions) {
		sess.end()
	}
}

// run begins to listen.
func (s *Server) run() error {
	if s.o.Transport == "stdio" || s.listener != nil || s.closed {
		return nil
	}
	l, err := s.o.Listen()
	if err != nil {
		s.tell(trace.Event{Kind: trace.Note, Text: "cannot listen", Failed: err.Error()})
		return err
	}
	s.listener = l
	s.tell(trace.Event{Kind: trace.Started})
	s.running.Add(1)
	go s.accept(l)
	return nil
}

// Run begins to listen, over http and sse.
func (s *Server) Run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run()
}

// Close ends all. When it returns, each goroutine of the server has ended.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.die()
	s.mu.Unlock()
	s.running.Wait()
}

// Messages of which all transports think alike.

// message takes a message of sess; what answers it goes to out.
func (s *Server) message(sess *serverSession, m *message, out *serverStream, c *serverConn) {
	switch {
	case m.response():
		sess.answered(m, c)
	case m.notification():
		sess.noted(m, c)
	default:
		s.request(newServerCall(sess, m, out, c))
	}
}

// answered takes the answer to a question or a ping.
func (sess *serverSession) answered(m *message, c *serverConn) {
	e := trace.Event{Who: sess.who, Session: sess.id, ID: m.id(), Conn: c.number(), Raw: m.raw}
	if n, ok := sess.pings[m.id()]; ok {
		e.Kind, e.N = trace.Ponged, n
		if m.Error != nil {
			e.Failed = m.Error.String()
		}
		sess.s.tell(e)
		return
	}
	q := sess.questions[m.id()]
	if q == nil {
		sess.strange("an answer to a question that was not asked: "+m.id(), m.raw)
		return
	}
	e.Kind, e.Mark, e.Method, e.N, e.Text = trace.Told, q.call.mark, q.method, q.n, replyText(q.method, m.Result, m.Error)
	switch {
	case q.withdrawn:
		e.Failed = "withdrawn"
	case q.over:
		e.Failed = "again"
	}
	sess.s.tell(e)
	if !q.over {
		q.refused, q.accepted = m.Error != nil, e.Text == "accept"
	}
	q.end()
}

// noted takes a notification.
func (sess *serverSession) noted(m *message, conn *serverConn) {
	e := trace.Event{Who: sess.who, Session: sess.id, Method: m.Method, Conn: conn.number(), Raw: m.raw}
	switch m.Method {
	case "notifications/initialized":
		e.Kind = trace.Initialized
		sess.s.tell(e)
		if sess.revision == "" {
			sess.strange("initialized before initialize", m.raw)
		}
		if sess.pipe != nil && sess.batches() {
			sess.pipe.joins = sess.s
		}
	case "notifications/cancelled":
		var p struct{ RequestID json.RawMessage }
		_ = json.Unmarshal(m.Params, &p)
		e.Kind, e.ID = trace.Stopped, string(p.RequestID)
		for _, c := range sess.calls {
			if c.m.id() == e.ID {
				e.Mark = c.mark
				sess.s.tell(e)
				if c.m.Method == "initialize" {
					sess.strange("initialize is cancelled", m.raw)
				}
				c.cancel()
				return
			}
		}
		what, known := sess.seen[e.ID]
		e.Failed, e.Mark = "finished", markOf(what)
		if !known {
			if e.Failed = "unknown"; sess.process != nil {
				sess.strange("a request is cancelled that never came: "+e.ID, m.raw)
			}
		}
		sess.s.tell(e)
	case "notifications/roots/list_changed", "notifications/progress":
		e.Kind, e.Text = trace.Note, m.Method
		sess.s.tell(e)
	default:
		e.Kind, e.Text = trace.Note, "a notification: "+m.Method
		sess.s.tell(e)
	}
}

// see remembers a request, and says what is strange about its id. On Streamable HTTP, where the client's own ids come through, an id may
// come again for another call.
func (sess *serverSession) see(c *serverCall) {
	what := c.mark + " " + c.m.Method
	before, again := sess.seen[c.m.id()]
	if again && (sess.pipe != nil || before == what) {
		sess.strange(fmt.Sprintf("the id %s comes again, before for %q", c.m.id(), strings.TrimSpace(before)), c.m.raw)
	}
	sess.seen[c.m.id()] = what
	if id := c.m.id(); id == "null" || id[0] == '{' || id[0] == '[' || id == "true" || id == "false" {
		sess.strange("an id that is none: "+id, c.m.raw)
	}
}

func markOf(what string) string {
	mark, _, _ := strings.Cut(what, " ")
	return mark
}

var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// severity returns the number of a level of logs; -1 if there is no such level.
func severity(level string) int { return slices.Index(severities, level) }

func logMessage(text string) []byte {
	return writeRequest(nil, "notifications/message", object{"level": "info", "logger": "server", "data": text})
}
