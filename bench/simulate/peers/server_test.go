package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// pipeListener listens without a network.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// serverTrial is a server and a client of it that speaks by hand.
type serverTrial struct {
	*testing.T
	s       *Server
	l       *pipeListener
	session string
	version string // MCP-Protocol-Version
	lines   *bufio.Reader
	in      *io.PipeWriter
	wait    func() error
	kill    func()
}

// tryServer runs do in a bubble, with a server.
func tryServer(t *testing.T, transport, revision string, do func(*serverTrial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &serverTrial{T: t}
		w.s = NewServer(ServerOptions{Transport: transport, Revision: revision, Trace: trace.New(), Listen: func() (net.Listener, error) {
			w.l = &pipeListener{make(chan net.Conn), make(chan struct{})}
			return w.l, nil
		}})
		if transport == "stdio" {
			w.begin()
		} else if err := w.s.Run(); err != nil {
			t.Fatal(err)
		}
		do(w)
		begun := time.Now()
		if w.s.Close(); time.Since(begun) > 0 {
			t.Error("the server took", time.Since(begun), "to close")
		}
		if t.Failed() {
			for _, e := range w.s.o.Trace.All() {
				t.Log(e)
			}
		}
	})
}

// begin begins a process.
func (w *serverTrial) begin() {
	in, mine := io.Pipe()
	read, out := io.Pipe()
	_, stderr := io.Pipe()
	w.in, w.lines = mine, bufio.NewReader(read)
	w.wait, w.kill = w.s.Process("p1", in, out, stderr)
}

func (w *serverTrial) do(line string) {
	step, err := script.ParseStep(line)
	if err != nil {
		w.Fatal(err)
	}
	w.s.Do(step)
	synctest.Wait()
}

// dial returns a connection; nil if the server does not listen.
func (w *serverTrial) dial() net.Conn {
	mine, theirs := net.Pipe()
	select {
	case w.l.conns <- theirs:
		return mine
	case <-w.l.done:
		return nil
	}
}

// trialStream is a response as it comes.
type trialStream struct {
	w    *serverTrial
	conn net.Conn
	res  *http.Response
	r    *bufio.Reader
	last string // the id of the last event
}

// send sends a request of HTTP on a new connection.
func (w *serverTrial) send(method, path, body string, fields ...string) *trialStream {
	w.Helper()
	conn := w.dial()
	all := []string{"Host", "x", "Accept", "application/json, text/event-stream", "Content-Type", "application/json",
		"Mcp-Session-Id", w.session, "MCP-Protocol-Version", w.version}
	conn.Write(appendBody(nil, method+" "+path+" HTTP/1.1", []byte(body), append(all, fields...)...))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.Fatal(err)
	}
	return &trialStream{w: w, conn: conn, res: res, r: bufio.NewReader(res.Body)}
}

// next returns the next message of a stream in short; "" at its end.
func (st *trialStream) next() string {
	for {
		e, err := readEvent(st.r)
		if err != nil {
			if err != io.EOF {
				return err.Error()
			}
			return ""
		}
		if e.HasID {
			st.last = e.ID
		}
		if e.Name == "endpoint" || e.Data != "" {
			return brief(e.Data)
		}
	}
}

// all returns what a response says in short, and closes its connection.
func (st *trialStream) all() string {
	defer st.conn.Close()
	var all []string
	if st.res.StatusCode != 200 {
		all = append(all, st.res.Status[:3])
	}
	if strings.HasPrefix(st.res.Header.Get("Content-Type"), "text/event-stream") {
		for m := st.next(); m != ""; m = st.next() {
			if all = append(all, m); strings.HasSuffix(m, "EOF") {
				break
			}
		}
	} else if data, err := readBody(st.res.Body); err != nil {
		all = append(all, err.Error())
	} else if len(data) > 0 {
		all = append(all, "body "+brief(string(data)))
	}
	return strings.Join(all, " | ")
}

// brief returns a message in short.
func brief(data string) string {
	all, _, err := readMessages([]byte(data))
	if err != nil {
		return data
	}
	m := all[0]
	var p struct {
		Progress int
		Data     string
		URI      string
		Meta     struct{ Version int } `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	switch {
	case m.Method == "notifications/progress":
		return fmt.Sprint("progress ", p.Progress)
	case m.Method == "notifications/message":
		return "log " + p.Data
	case m.Method == "notifications/resources/updated":
		return fmt.Sprint("updated ", p.URI, " ", p.Meta.Version)
	case m.request():
		return "asks " + m.id() + " " + questionText(m.Method, m.Params)
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return m.id() + " error " + m.Error.String()
	}
	var r struct{ ResultType string }
	_ = json.Unmarshal(m.Result, &r)
	if r.ResultType == "input_required" {
		return m.id() + " input_required"
	}
	text := contentText(m.Result)
	if strings.Contains(data, `"error":null`) {
		text += " null"
	}
	return strings.TrimSpace(m.id() + " " + text[:min(len(text), 30)])
}

const trialAll = `"capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"x","version":"1"}`

// initialize begins a session of HTTP.
func (w *serverTrial) initialize(revision string) {
	w.Helper()
	st := w.send("POST", "/mcp", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"`+revision+`",`+trialAll+`}}`)
	w.session = st.res.Header.Get("Mcp-Session-Id")
	var m struct {
		Result struct{ ProtocolVersion string }
	}
	data, _ := readBody(st.res.Body)
	st.conn.Close()
	if json.Unmarshal(data, &m); w.session == "" || m.Result.ProtocolVersion == "" {
		w.Fatalf("initialize: %s %s", st.res.Status, data)
	}
	if w.version = m.Result.ProtocolVersion; w.version < "2025-06-18" {
		w.version = ""
	}
	if got := w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); got != "202" {
		w.Fatal(got)
	}
}

func (w *serverTrial) post(body string) string {
	w.Helper()
	return w.send("POST", "/mcp", body).all()
}

func (w *serverTrial) open(body string) *trialStream { return w.send("POST", "/mcp", body) }

// trialCall returns a tools/call.
func trialCall(id, mark, plan string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"act","arguments":{"mark":%q,"plan":%q},"_meta":{"progressToken":%q}}}`,
		id, mark, plan, mark)
}

// line sends a line to a process.
func (w *serverTrial) line(text string) { io.WriteString(w.in, text+"\n") }

// read reads a line of a process in short.
func (w *serverTrial) read() string {
	line, err := readLine(w.lines)
	if err != nil {
		return fmt.Sprint(string(line), err)
	}
	return brief(string(line))
}

// seen returns the events of some kinds in short.
func (w *serverTrial) seen(kinds ...trace.Kind) string {
	synctest.Wait()
	var all []string
	for _, e := range w.s.o.Trace.All() {
		for _, k := range kinds {
			if e.Kind == k {
				all = append(all, strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Mark, " ", map[bool]any{true: e.N, false: ""}[e.N > 0], " ", e.Text, " ", e.Failed)), " "))
			}
		}
	}
	return strings.Join(all, "\n")
}

func (w *serverTrial) want(what, got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

func (w *serverTrial) nothingStrange() {
	w.Helper()
	w.want("strange", w.seen(trace.Strange), "")
}

var trialPlans = []struct{ plan, http, pipe string }{
	{"", "body 1 c1.1 done 1", "1 c1.1 done 1"},
	{"how=sse", "1 c1.1 done 1", "1 c1.1 done 1"},
	{"progress=2 logs=1 gap=1s wait=1s", "progress 1 | log c1.1 log 1 | progress 2 | 1 c1.1 done 1", "progress 1 | log c1.1 log 1 | progress 2 | 1 c1.1 done 1"},
	{"how=twice", "1 c1.1 done 1 | 1 c1.1 done 1", "1 c1.1 done 1 | 1 c1.1 done 1"},
	{"how=error", "body 1 error -32050 c1.1 failed 1", "1 error -32050 c1.1 failed 1"},
	{"how=error progress=1", "progress 1 | 1 error -32050 c1.1 failed 1", "progress 1 | 1 error -32050 c1.1 failed 1"},
	{"how=null", "body 1 c1.1 done 1 null", "1 c1.1 done 1 null"},
	{"how=garbage", "this is no JSON | 1 c1.1 done 1", "this is no JSON | 1 c1.1 done 1"},
	{"how=other", `"never-given" c1.1 done 1 | 1 c1.1 done 1`, `"never-given" c1.1 done 1 | 1 c1.1 done 1`},
	{"how=status", "500 | body this is 500", "1 error -32603 c1.1 failed 1"},
	{"how=busy", "429 | body this is 429", "1 error -32603 c1.1 failed 1"},
	{"how=closes", "", ""},
	{"how=cut progress=1", "progress 1 | unexpected EOF", ""},
	{"how=cut", "unexpected EOF", ""},
}

func TestServerCarriesOutPlans(t *testing.T) {
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "both"} {
		for _, c := range trialPlans {
			tryServer(t, "http", revision, func(w *serverTrial) {
				w.initialize("2025-11-25")
				w.want(revision+" "+c.plan, w.post(trialCall("1", "c1.1", c.plan)), c.http)
				w.nothingStrange()
			})
		}
	}
	for _, c := range trialPlans {
		tryServer(t, "stdio", "2025-06-18", func(w *serverTrial) {
			w.line(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18",` + trialAll + `}}`)
			w.read()
			w.line(trialCall("1", "c1.1", c.plan))
			if c.pipe != "" {
				for _, want := range strings.Split(c.pipe, " | ") {
					w.want(c.plan, w.read(), want)
				}
			}
			w.nothingStrange()
		})
	}
}

func TestServerCountsWhatItCarriesOut(t *testing.T) {
	tryServer(t, "http", "2025-11-25", func(w *serverTrial) {
		w.initialize("2025-11-25")
		w.want("first", w.post(trialCall("1", "c1.1", "")), "body 1 c1.1 done 1")
		w.do("server restart")
		w.want("after a restart", w.post(trialCall("2", "c1.1", "")), "404 | body null error -32001 Session not found")
		w.session, w.version = "", ""
		w.initialize("2025-11-25")
		w.want("in another session", w.post(trialCall("1", "c1.1", "size=5")), "body 1 c1.1 done 2 lines")
		w.want("a resource", w.post(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"mark://c1.2?plan=progress%3D1+wait%3D1s"}}`), "body 3 c1.2 done 1")
		w.want("answers", w.seen(trace.Answers), "answers\nanswers c1.1 c1.1 done 1\nanswers c1.1 404\nanswers\nanswers c1.1 c1.1 done 2 lines\nanswers c1.2 c1.2 done 1")
		w.nothingStrange()
	})
}

func TestServerAsks(t *testing.T) {
	reply := map[string]string{
		"elicit": `{"action":"accept","content":{"answer":"a"}}`, "sample": `{"role":"assistant","model":"m","content":{"type":"text","text":"b"}}`,
		"roots": `{"roots":[{"uri":"file:///c","name":"c"}]}`,
	}
	tryServer(t, "http", "2025-11-25", func(w *serverTrial) {
		w.initialize("2025-11-25")
		st := w.open(trialCall("1", "c1.1", "ask=elicit,sample,roots"))
		for i, what := range []string{"elicit", "sample", "roots"} {
			id := []string{"1", `"question-2"`, "3"}[i]
			w.want("question", st.next(), fmt.Sprintf("asks %s c1.1 question %d", id, i+1))
			w.want("reply", w.post(`{"jsonrpc":"2.0","id":`+id+`,"result":`+reply[what]+`}`), "202")
		}
		w.want("answer", st.all(), "1 c1.1 done 1")
		st = w.open(trialCall("2", "c1.2", "ask=elicit,roots together=yes"))
		w.want("first", st.next(), `asks "question-4" c1.2 question 1`)
		w.want("second", st.next(), `asks 5 c1.2 question 2`)
		w.post(`{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"no"}}`)
		w.post(`{"jsonrpc":"2.0","id":5,"result":{}}`)
		w.do("server withdraw c1.2")
		w.want("withdrawn", st.all(), "notifications/cancelled | 2 c1.2 done 1")
		w.want("told", w.seen(trace.Told, trace.Withdraws), "told c1.1 1 accept a\ntold c1.1 2 b\ntold c1.1 3 c\ntold c1.2 2 error -1\ntold c1.2 2 again\nwithdraws c1.2 1")
		w.nothingStrange()
		w.post(`{"jsonrpc":"2.0","id":77,"result":{}}`)
		w.want("strange", w.seen(trace.Strange), "strange an answer to a question that was not asked: 77")
	})
	tryServer(t, "http", "2025-11-25", func(w *serverTrial) { // a client of a revision that has no elicitation
		w.initialize("2025-03-26")
		w.want("none", w.post(trialCall("1", "c1.1", "ask=elicit")), "body 1 c1.1 done 1")
	})
}

func TestServerIsCancelled(t *testing.T) {
	tryServer(t, "http", "2025-06-18", func(w *serverTrial) {
		w.initialize("2025-06-18")
		st := w.open(trialCall("1", "c1.1", "progress=1 how=never"))
		w.want("progress", st.next(), "progress 1")
		cancel := func(id string) string {
			return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
		}
		w.post(cancel("1"))
		w.want("the end", st.all(), "")
		st = w.open(trialCall("2", "c1.2", "ask=roots"))
		w.want("question", st.next(), "asks 1 c1.2 question 1")
		w.post(cancel("2"))
		w.want("the end", st.all(), "notifications/cancelled")
		w.post(cancel("2"))
		w.post(cancel("3"))
		w.want("stopped", w.seen(trace.Stopped), "stopped c1.1\nstopped c1.2\nstopped c1.2 finished\nstopped unknown")
		w.nothingStrange()
	})
}

func TestServerStreamsAreResumed(t *testing.T) {
	tryServer(t, "http", "2025-11-25", func(w *serverTrial) {
		w.initialize("2025-11-25")
		st := w.open(trialCall("1", "c1.1", "progress=1 how=cut"))
		w.want("cut", st.all(), "progress 1 | unexpected EOF")
		w.want("the rest", w.send("GET", "/mcp", "", "Last-Event-Id", st.last).all(), "1 c1.1 done 1")

		st = w.open(trialCall("2", "c1.2", "progress=2 gap=1s wait=1s"))
		w.want("progress", st.next(), "progress 1")
		st.conn.Close()
		time.Sleep(1500 * time.Millisecond)
		w.want("the rest", w.send("GET", "/mcp", "", "Last-Event-Id", st.last).all(), "progress 2 | 2 c1.2 done 1")

		st = w.send("GET", "/mcp", "")
		w.do("server log 1")
		w.want("log", st.next(), "log server log 1")
		st.conn.Close()
		w.do("server log 2")
		st = w.send("GET", "/mcp", "", "Last-Event-Id", st.last)
		w.do("server log 3")
		w.want("missed", st.next(), "log server log 2")
		w.want("log", st.next(), "log server log 3")
		w.do("server closestreams")
		w.want("end", st.all(), "")
		st = w.send("GET", "/mcp", "", "Last-Event-Id", st.last)
		w.do("server log 4")
		w.want("log", st.next(), "log server log 4")
		w.nothingStrange()
	})
}

func TestServerTellsChanges(t *testing.T) {
	tryServer(t, "http", "2025-06-18", func(w *serverTrial) {
		w.initialize("2025-06-18")
		w.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://3"}}`)
		w.do("server update note://3")
		st := w.send("GET", "/mcp", "")
		w.do("server update note://4")
		w.do("server update note://3")
		w.want("updated", st.next(), "updated note://3 2")
		w.want("read", w.post(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"note://3"}}`), "body 2 note://3 v2")
		w.do("server changed tools")
		w.want("changed", st.next(), "notifications/tools/list_changed")
		w.want("extra", w.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"extra"}}`), `body 3 {"ok":true}`)
		w.do("server ping")
		w.want("ping", st.next(), `asks "ping-1"`+" ")
		w.post(`{"jsonrpc":"2.0","id":"ping-1","result":{}}`)
		w.want("events", w.seen(trace.Updates, trace.Changes, trace.Pings, trace.Ponged),
			"updates 1 note://3 no stream\nupdates 2 note://3\nchanges notifications/tools/list_changed\npings 1 session-1.2\nponged 1")
		w.want("level", w.post(`{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"error"}}`), "body 4")
		w.want("no logs", w.post(trialCall("5", "c1.5", "logs=1")), "body 5 c1.5 done 1")
		w.nothingStrange()
	})
}

func TestServerFails(t *testing.T) {
	call := trialCall("1", "c1.1", "")
	tryServer(t, "http", "2025-11-25", func(w *serverTrial) {
		w.initialize("2025-11-25")
		w.do("server status 503 10s")
		w.want("status", w.post(call), "503 | body this is 503")
		time.Sleep(10 * time.Second)
		w.want("no status", w.post(call), "body 1 c1.1 done 1")
		w.do("server slow 3s 10s")
		begun := time.Now()
		w.want("slow", w.post(trialCall("2", "c1.2", "wait=1s")), "body 2 c1.2 done 1")
		w.want("by", time.Since(begun).String(), "4s")
		w.do("server slow 1h")
		go func() { // its client waits for a session until the server dies
			conn := w.dial()
			conn.Write(appendBody(nil, "POST /mcp HTTP/1.1", []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), "Host", "x",
				"Accept", "application/json, text/event-stream", "Content-Type", "application/json"))
		}()
		synctest.Wait()
		w.do("server slow 0s")
		w.do("server deaf 1m")
		begun = time.Now()
		conn := w.dial()
		go func() { // nothing takes what it writes
			conn.Write(appendBody(nil, "DELETE /mcp HTTP/1.1", nil, "Host", "x", "Mcp-Session-Id", w.session, "MCP-Protocol-Version", w.version))
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 || time.Since(begun) != time.Minute {
			w.Error(res, err, time.Since(begun))
		}
		w.want("deleted", w.post(call), "404 | body null error -32001 Session not found")
		w.session, w.version = "", ""
		w.initialize("2025-11-25")
		st := w.open(trialCall("3", "c1.3", "progress=1 how=never"))
		w.do("server lose")
		w.want("lost", st.all(), "progress 1")
		w.want("lost", w.post(call), "404 | body null error -32001 Session not found")
		st = w.send("GET", "/mcp", "")
		w.want("lost", st.all(), "404 | body null error -32001 Session not found")
		w.do("server die")
		if w.dial() != nil {
			w.Error("it listens")
		}
		w.do("server up")
		w.session, w.version = "", ""
		w.initialize("2025-11-25")
		w.want("events", w.seen(trace.Started, trace.Died, trace.Gone, trace.Loses), "started\ngone\nloses\ndied\nstarted")
		w.nothingStrange()
	})
}

func TestServerSaysWhatIsStrange(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, c := range []struct {
		name string
		do   func(*serverTrial)
		want string
	}{
		{"no session", func(w *serverTrial) { w.session = ""; w.post(list) }, "strange POST without Mcp-Session-Id"},
		{"another session", func(w *serverTrial) { w.session = "x"; w.post(list) }, "strange a session that there never was: x"},
		{"no version", func(w *serverTrial) { w.version = ""; w.post(list) }, `strange POST of 2025-06-18 has MCP-Protocol-Version ""`},
		{"another version", func(w *serverTrial) { w.version = "2025-03-26"; w.post(list) }, `strange POST of 2025-06-18 has MCP-Protocol-Version "2025-03-26"`},
		{"no JSON", func(w *serverTrial) { w.post("{") }, "strange this is no message: unexpected end of JSON input"},
		{"a batch", func(w *serverTrial) { w.post("[" + list + "]") }, "strange a batch"},
		{"a path", func(w *serverTrial) { w.send("POST", "/x", list).all() }, "strange a request for POST /x"},
		{"twice", func(w *serverTrial) { w.post(list); w.post(list) }, `strange the id 1 comes again, before for "tools/list"`},
		{"another call of the id", func(w *serverTrial) { w.post(trialCall("1", "c1.1", "")); w.post(trialCall("1", "c1.2", "")) }, ""},
		{"no HTTP", func(w *serverTrial) { w.dial().Write([]byte("hello\r\n\r\n")) }, `strange this is no HTTP: malformed HTTP request "hello"`},
		{"half HTTP", func(w *serverTrial) { c := w.dial(); c.Write([]byte("POST /mcp HT")); c.Close() }, ""},
		{"unknown method", func(w *serverTrial) { w.post(`{"jsonrpc":"2.0","id":1,"method":"x"}`) }, ""},
		{"a probe", func(w *serverTrial) {
			w.session, w.version = "", "2026-07-28"
			w.post(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
		}, ""},
	} {
		tryServer(t, "http", "2025-06-18", func(w *serverTrial) {
			w.initialize("2025-06-18")
			c.do(w)
			w.want(c.name, w.seen(trace.Strange), c.want)
		})
	}
	for _, c := range []struct{ name, lines, want string }{
		{"no initialize", list, "strange a request before initialize: tools/list"},
		{"a probe", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, ""},
		{"no JSON", "{", "strange a line that is not one message: unexpected end of JSON input"},
		{"cancels nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "strange a request is cancelled that never came: 5"},
		{"twice", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `strange the id 1 comes again, before for "ping"`},
	} {
		tryServer(t, "stdio", "2025-11-25", func(w *serverTrial) {
			go io.Copy(io.Discard, w.lines)
			w.line(c.lines)
			w.want(c.name, w.seen(trace.Strange), c.want)
		})
	}
}

func TestServerProcessEnds(t *testing.T) {
	tryServer(t, "stdio", "2025-11-25", func(w *serverTrial) {
		w.in.Close()
		w.want("end of input", fmt.Sprint(w.read(), w.wait()), "EOF<nil>")
		w.begin()
		w.kill()
		w.kill()
		w.want("killed", fmt.Sprint(w.read(), w.wait()), "EOFsignal: killed")
		w.begin()
		w.do("server die")
		w.want("died", fmt.Sprint(w.read(), w.wait()), "EOFsignal: killed")
		w.begin()
		w.line(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` + trialAll + `}}`)
		w.read()
		w.line(trialCall("1", "c1.1", "how=cut"))
		if got := w.read(); !strings.HasPrefix(got, `{"jsonrpc"`) || !strings.HasSuffix(got, "EOF") {
			w.Error(got)
		}
		w.want("cut", fmt.Sprint(w.wait()), "exit status 1")
		w.begin()
		go io.WriteString(w.in, strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 3)) // nothing reads what it answers
		w.do("server restart")
		w.want("events", w.seen(trace.Started, trace.Died, trace.Gone), "started\ngone\ndied\nstarted\ndied signal: killed\nstarted\ndied signal: killed\n"+
			"started\ndied exit status 1\nstarted\ndied signal: killed")
	})
}
