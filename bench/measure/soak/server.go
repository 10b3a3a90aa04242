package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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

// What a server does with a call, by the name of the tool.
const (
	echo   = "echo"   // answers
	events = "events" // answers in an event stream, after other events
	hang   = "hang"   // never answers
	cut    = "cut"    // closes the connection in the middle of the answer
	lie    = "lie"    // sends an invalid answer
	ask    = "ask"    // asks the user for a city, and answers with it
	mutter = "mutter" // a command writes much to its standard error, then answers
)

const (
	maxCall = 1 << 20 // bytes of a call that a server reads at most
	maxHang = 30 * time.Second
	changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
)

// request has the parts of a request that the servers need.
type request struct{ method, id, tool, text string }

func read(body []byte) request {
	f := gjson.GetManyBytes(body, "method", "id", "params.name", "params.arguments.text")
	return request{f[0].Str, f[1].Raw, f[2].Str, f[3].Str}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return string(quoted)
}

// question returns the params of an elicitation/create that asks for the city of a call.
func (r request) question() string {
	return fmt.Sprintf(`{"mode":"form","message":%s,"requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}`, quote("Which city for "+r.text+"?"))
}

// server is a server of one era. Its answers are lines for the transport to send.
type server struct {
	modern bool // it has no sessions, and keeps no state

	mu    sync.Mutex
	last  int
	asked map[string]chan string // questions that wait for their answers, by their ids
}

func (s *server) number() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return strconv.Itoa(s.last)
}

// await registers a question. The caller must call forget.
func (s *server) await() (id string, answer chan string, forget func()) {
	id, answer = quote("q-"+s.number()), make(chan string, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]chan string{}
	}
	s.asked[id] = answer
	return id, answer, func() { s.answered(id, "") }
}

// answered passes the answer of a question to the call that waits for it. A second answer is ignored.
func (s *server) answered(id, city string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.asked[id]; c != nil {
		delete(s.asked, id)
		c <- city
	}
}

func (s *server) result(r request, members string) string {
	if s.modern {
		members = `"resultType":"complete","ttlMs":0,"cacheScope":"private",` + members
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, r.id, members)
}

func (s *server) saying(r request, text string) string {
	return s.result(r, `"content":[{"type":"text","text":`+quote(text)+`}]`)
}

// answer returns the whole answer to a request.
func (s *server) answer(r request, body []byte) string {
	switch {
	case r.method == "initialize" && !s.modern:
		return s.result(r, fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"soak","version":"1"}`, translate.Handshake()[1].Name))
	case r.method == "server/discover" && s.modern:
		return s.result(r, fmt.Sprintf(`"supportedVersions":[%q],"capabilities":{"tools":{"listChanged":true}}`, translate.Modern()))
	case r.method == "ping":
		return s.result(r, "")
	case r.method == "tools/list":
		return s.result(r, `"tools":[{"name":"ask","inputSchema":{"type":"object"}}]`)
	case r.method != "tools/call":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, r.id)
	case r.tool == ask && s.modern:
		state, city := gjson.GetBytes(body, "params.requestState"), gjson.GetBytes(body, "params.inputResponses.where.content.city")
		if state.Str != r.text {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"where":{"method":"elicitation/create","params":%s}},"requestState":%s}}`,
				r.id, r.question(), quote(r.text))
		}
		return s.saying(r, r.text+" in "+city.Str)
	}
	return s.saying(r, r.text)
}

// start serves on HTTP. The caller must call stop.
func (s *server) start() (url string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: s}
	var served sync.WaitGroup
	served.Go(func() { web.Serve(ln) })
	return "http://" + ln.Addr().String() + "/mcp", func() { web.Close(); served.Wait() }, nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	call := read(body)
	event := func(message string) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", message)
		return http.NewResponseController(w).Flush() == nil
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodGet && s.modern:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		for event(changed) && !over(r, 200*time.Millisecond) {
		}
	case call.method == "": // a response
		s.answered(call.id, gjson.GetBytes(body, "result.content.city").Str)
		w.WriteHeader(http.StatusAccepted)
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case call.method == "subscriptions/listen":
		about := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, call.id)
		event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{%s,"notifications":{"toolsListChanged":true}}}`, about))
		for event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+about+`}}`) && !over(r, 200*time.Millisecond) {
		}
	case call.tool == events:
		event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still here"}}`)
		event(s.answer(call, body))
	case call.tool == hang:
		over(r, maxHang)
	case call.tool == cut:
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, s.answer(call, body)[:20])
		panic(http.ErrAbortHandler)
	case call.tool == lie:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>502 Bad Gateway")
	case call.tool == ask && !s.modern:
		id, answer, forget := s.await()
		defer forget()
		event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`, id, call.question()))
		select {
		case city := <-answer:
			event(s.saying(call, call.text+" in "+city))
		case <-r.Context().Done():
		case <-time.After(maxHang):
		}
	default:
		if call.method == "initialize" && !s.modern {
			w.Header().Set("Mcp-Session-Id", "s-"+s.number())
		} else if call.method == "initialize" || call.method == "server/discover" && !s.modern {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, s.answer(call, body))
	}
}

// over waits, and reports whether the client left meanwhile.
func over(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return true
	case <-time.After(d):
		return false
	}
}

// ServePipe serves a session on stdin and stdout until in ends, or until a call of the tool cut.
func ServePipe(in io.Reader, out io.Writer) error {
	s := &server{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCall)
	for lines.Scan() {
		call := read(lines.Bytes())
		say := s.answer(call, lines.Bytes())
		switch {
		case call.id == "", call.tool == hang:
			continue
		case call.tool == cut:
			_, err := io.WriteString(out, say[:20])
			return err
		case call.tool == lie:
			say = "noise\n" + `{"jsonrpc":"2.0","id":"nobody's","result":{}}` + "\n" + `{"jsonrpc":"2.0","id":` + call.id + `}`
		case call.tool == events:
			say = changed + "\n" + say
		case call.tool == mutter:
			for range 200 {
				fmt.Fprintln(os.Stderr, "about", call.text, strings.Repeat("and so on ", 20))
			}
		}
		if _, err := io.WriteString(out, say+"\n"); err != nil {
			return err
		}
	}
	return lines.Err()
}
