package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// manner says what a server does with a call. It is the name of the tool.
type manner string

const (
	echo   manner = "echo"   // answers
	events manner = "events" // answers in an SSE stream, after other events
	hang   manner = "hang"   // never answers
	cut    manner = "cut"    // closes the connection in the middle of the answer
	lie    manner = "lie"    // sends an invalid answer
	late   manner = "late"   // answers after a while, sometimes after the timeout
)

// maxCall is how many bytes of one call a server reads at most.
const maxCall = 1 << 20

// request has the parts of a request that the servers need.
type request struct {
	method, id, tool, text string // text and id are JSON
}

func read(body []byte) request {
	f := gjson.GetManyBytes(body, "method", "id", "params.name", "params.arguments.text")
	return request{f[0].Str, f[1].Raw, f[2].Str, f[3].Raw}
}

func (r request) hello() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"soak","version":"1"}}}`,
		r.id, translate.Handshake()[1].Name)
}

func (r request) answer() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"structuredContent":{"text":%s}}}`, r.id, r.text, r.text)
}

const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still here"}}`

// httpServer is a server on HTTP that misbehaves.
type httpServer struct {
	url    string
	server *http.Server
	done   chan struct{}
}

func startServer(h http.Handler) (*httpServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &httpServer{"http://" + ln.Addr().String() + "/mcp", &http.Server{Handler: h}, make(chan struct{})}
	go func() {
		defer close(s.done)
		s.server.Serve(ln)
	}()
	return s, nil
}

func (s *httpServer) close() {
	s.server.Close()
	<-s.done
}

func serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	call := read(body)
	switch {
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", note)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodDelete:
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case call.method == "initialize":
		w.Header().Set("Mcp-Session-Id", "77")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, call.hello())
	default:
		behave(w, r, call)
	}
}

func behave(w http.ResponseWriter, r *http.Request, call request) {
	w.Header().Set("Content-Type", "application/json")
	switch manner(call.tool) {
	case events:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", note, call.answer())
	case late:
		select {
		case <-r.Context().Done():
		case <-time.After(delay()):
			io.WriteString(w, call.answer())
		}
	case hang:
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	case cut:
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, call.answer()[:20])
		panic(http.ErrAbortHandler)
	case lie:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>502 Bad Gateway")
	default:
		io.WriteString(w, call.answer())
	}
}

// delay returns how long a late answer takes. It may be longer than the client waits, and is sometimes
// longer than the proxy waits.
func delay() time.Duration {
	if rand.IntN(20) == 0 {
		return silence + time.Duration(rand.IntN(500))*time.Millisecond
	}
	return time.Duration(rand.IntN(60)) * time.Millisecond
}

// pipeServer is a server on stdin and stdout. Late answers, and answers of calls that ask the user
// something, come in any order.
type pipeServer struct {
	mu    sync.Mutex
	out   io.Writer
	last  int
	asked map[string]request // calls that wait for their user, by the id of the question
}

// servePipe serves until in ends, or until a call of the tool cut.
func servePipe(in io.Reader, out io.Writer) error {
	s := &pipeServer{out: out, asked: map[string]request{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCall)
	for lines.Scan() {
		call := read(lines.Bytes())
		switch {
		case call.id == "":
			continue
		case call.method == "":
			s.answered(call.id, gjson.GetBytes(lines.Bytes(), "result.content.city").Str)
			continue
		}
		say := call.answer()
		switch tool := manner(call.tool); {
		case call.method == "initialize":
			say = call.hello()
		case call.method == "ping":
			say = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, call.id)
		case call.method != "tools/call":
			say = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, call.id)
		case tool == hang:
			continue
		case tool == late:
			time.AfterFunc(delay(), func() { s.write(say + "\n") })
			continue
		case tool == ask:
			say = s.question(call)
		case tool == cut:
			return s.write(say[:20])
		case tool == lie:
			say = "noise\n" + `{"jsonrpc":"2.0","id":"nobody's","result":{}}` + "\n" + `{"jsonrpc":"2.0","id":` + call.id + `}`
		case tool == events:
			say = note + "\n" + say
		case tool == mutter:
			for range 200 {
				fmt.Fprintln(os.Stderr, "about", call.text, strings.Repeat("and so on ", 20))
			}
		}
		if err := s.write(say + "\n"); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *pipeServer) write(line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.out, line)
	return err
}

// question returns the elicitation/create for a call, and registers the call.
func (s *pipeServer) question(call request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := strconv.Quote("q-" + strconv.Itoa(s.last))
	s.asked[id] = call
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`, id, question(call.plain()))
}

// answered answers the call to which the question with this id belongs.
func (s *pipeServer) answered(id, city string) {
	s.mu.Lock()
	call, ok := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if ok {
		s.write(call.saying(call.plain()+" in "+city, "") + "\n")
	}
}
