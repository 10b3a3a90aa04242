package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// What the servers that send elicitation/create do with calls, besides the manners in server.go.
const (
	ask    manner = "ask"    // asks the user for a city, and answers with it
	askDie manner = "askdie" // asks, and closes the connection before the user can answer
)

const (
	changed   = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	forgetful = 300 // one in so many calls finds that the server has forgotten its session
	maxHang   = 30 * time.Second
)

// question returns the params of an elicitation/create that asks for the city of a call with this text.
func question(text string) string {
	message, _ := json.Marshal("Which city for " + text + "?") // cannot fail for a string
	return fmt.Sprintf(`{"mode":"form","message":%s,"requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}`, message)
}

// saying returns a result with this text. more is put in front of its other members.
func (r request) saying(text, more string) string {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s"content":[{"type":"text","text":%s}]}}`, r.id, more, quoted)
}

// plain returns the text of a call, unquoted.
func (r request) plain() string { return gjson.Parse(r.text).Str }

// curious is a server with sessions that sends elicitation/create during calls.
type curious struct {
	mu       sync.Mutex
	last     int
	sessions map[string]map[string]chan string // questions without an answer, by their ids
	served   map[string]bool                   // sessions in which forgets was called
}

func newCurious() *curious {
	return &curious{sessions: map[string]map[string]chan string{}, served: map[string]bool{}}
}

// forgets reports whether the server answers this call as if it had forgotten the session. It never does so at
// the first call of a session, so that a client does not lose two sessions in a row.
func (s *curious) forgets(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := s.served[session]
	s.served[session] = true
	return served && rand.IntN(forgetful) == 0
}

func (s *curious) open() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := "c-" + strconv.Itoa(s.last)
	s.sessions[id] = map[string]chan string{}
	return id
}

// question registers a question. ok is false if there is no such session.
func (s *curious) question(session string) (id string, answer chan string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.sessions[session]
	if open == nil {
		return "", nil, false
	}
	s.last++
	id, answer = "q-"+strconv.Itoa(s.last), make(chan string, 1)
	open[id] = answer
	return id, answer, true
}

// answered removes a question, and passes its answer to the call that waits for it.
func (s *curious) answered(session, id, city string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.sessions[session][id]; c != nil {
		delete(s.sessions[session], id)
		c <- city
	}
}

func (s *curious) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	call, session := read(body), r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[session] != nil
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && call.method == "initialize":
		w.Header().Set("Mcp-Session-Id", s.open())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"soak","version":"1"}}}`,
			call.id, translate.Handshake()[1].Name)
	case call.method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		listen(w, r, changed)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, session)
		delete(s.served, session)
		s.mu.Unlock()
	case call.method == "": // a response
		s.answered(session, gjson.Parse(call.id).Str, gjson.GetBytes(body, "result.content.city").Str)
		w.WriteHeader(http.StatusAccepted)
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case manner(call.tool) == echo && s.forgets(session):
		w.WriteHeader(http.StatusNotFound)
	case manner(call.tool) == ask || manner(call.tool) == askDie:
		s.ask(w, r, session, call)
	default:
		behave(w, r, call)
	}
}

// listen serves a stream that repeats a message at intervals.
func listen(w http.ResponseWriter, r *http.Request, message string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		fmt.Fprintf(w, "data: %s\n\n", message)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *curious) ask(w http.ResponseWriter, r *http.Request, session string, call request) {
	id, answer, ok := s.question(session)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	defer s.answered(session, id, "") // if the client has not answered
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":%s}`+"\n\n", id, question(call.plain()))
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	if manner(call.tool) == askDie {
		time.Sleep(time.Duration(30+rand.IntN(60)) * time.Millisecond)
		panic(http.ErrAbortHandler)
	}
	select {
	case city := <-answer:
		fmt.Fprintf(w, "data: %s\n\n", call.saying(call.plain()+" in "+city, ""))
	case <-r.Context().Done():
	case <-time.After(maxHang):
	}
}

// modernServer is a server without sessions that asks the same question. It keeps no state.
func modernServer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	const complete = `"resultType":"complete",`
	call := read(body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case call.method == "server/discover":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s"supportedVersions":[%q],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}}`,
			call.id, complete, translate.Modern())
	case call.method == "subscriptions/listen":
		about := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, call.id)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{%s,"notifications":{"toolsListChanged":true}}}`+"\n\n", about)
		listen(w, r, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+about+`}}`)
	case call.method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s"ttlMs":0,"cacheScope":"private","tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}`, call.id, complete)
	case call.method != "tools/call":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, call.id)
	case manner(call.tool) == ask:
		params := gjson.GetBytes(body, "params")
		state, answer := params.Get("requestState"), params.Get("inputResponses.where")
		if state.Str == call.plain() && answer.Exists() {
			io.WriteString(w, call.saying(call.plain()+" in "+answer.Get("content.city").Str, complete))
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"where":{"method":"elicitation/create","params":%s}},"requestState":%s}}`,
			call.id, question(call.plain()), call.text)
	case manner(call.tool) == echo:
		io.WriteString(w, call.saying(call.plain(), complete))
	default:
		behave(w, r, call)
	}
}
