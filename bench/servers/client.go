package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxRounds = 8 // questions of one call of a client without a handshake
	maxPages  = 20
)

// A pace is how long a client waits.
type pace struct {
	start  time.Duration // for the answer to the first request
	answer time.Duration // for every other answer
	quiet  time.Duration // after it, nothing more comes that belongs to an earlier step
}

var usual = pace{start: 90 * time.Second, answer: 15 * time.Second, quiet: 250 * time.Millisecond}

var errNoAnswer = errors.New("no answer")

// A client plays one session of a revision, and notes what comes.
type client struct {
	ctx      context.Context
	wire     wire
	revision string
	modern   bool // of a revision without a handshake
	folder   folder
	pace     pace
	began    bool
	last     int // the last id
	silent   int // requests in a row that had no answer
	notes    transcript
}

// A transcript is what a client got: answers by step, and what came beside them, in order. All of it is JSON.
type transcript struct {
	answers       map[string]any
	notifications map[string]any // lists of parameters by method
	requests      map[string]any // what the server asked, by method
	broken        string         // why the session ended too early, "" if it did not
}

func newClient(ctx context.Context, w wire, revision string, f folder, p pace) *client {
	return &client{ctx: ctx, wire: w, revision: revision, modern: revision >= modernRevision, folder: f, pace: p,
		notes: transcript{map[string]any{}, map[string]any{}, map[string]any{}, ""}}
}

// The steps that no client makes: that a session ended too early, and that processes are left after its end.
const (
	sessionStep = "session"
	leftStep    = "processes left"
)

// json returns the transcript as one value to compare. Only progress is in order: what else a server sends beside its answers
// comes in another order each time.
func (t transcript) json() map[string]any {
	all := map[string]any{"notifications": t.notifications, "asked": t.requests}
	for method, list := range t.notifications {
		if list, ok := list.([]any); ok && method != "notifications/progress" {
			slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	for step, answer := range t.answers {
		all[step] = answer
	}
	if t.broken != "" {
		all[sessionStep] = t.broken
	}
	return all
}

// ask sends a request and notes its answer under the step's name. It returns the result, nil if there was none.
func (c *client) ask(step, method string, params map[string]any) map[string]any {
	if c.notes.broken != "" {
		return nil
	}
	answer := c.request(method, params)
	for round := 0; round < maxRounds && c.modern; round++ {
		result, _ := answer["result"].(map[string]any)
		if result["resultType"] != "input_required" {
			break
		}
		params["inputResponses"], params["requestState"] = c.respondTo(result), result["requestState"]
		if params["requestState"] == nil {
			delete(params, "requestState")
		}
		answer = c.request(method, params)
	}
	c.notes.answers[step] = any(answer)
	result, _ := answer["result"].(map[string]any)
	return result
}

// respondTo answers the questions of an InputRequiredResult.
func (c *client) respondTo(result map[string]any) map[string]any {
	responses := map[string]any{}
	questions, _ := result["inputRequests"].(map[string]any)
	for _, key := range sortedKeys(questions) {
		question, _ := questions[key].(map[string]any)
		method, _ := question["method"].(string)
		params, _ := question["params"].(map[string]any)
		c.noteRequest(method, params)
		if answer, ok := c.respond(method, params); ok {
			responses[key] = answer
		}
	}
	return responses
}

// request sends one request and returns its answer: an object with result, error or failed.
func (c *client) request(method string, params map[string]any) map[string]any {
	id := c.send(method, params, true)
	limit := c.pace.answer
	if !c.began {
		limit = c.pace.start
	}
	answer, err := c.await(id, limit)
	c.began = true
	switch {
	case errors.Is(err, errNoAnswer) && c.silent < 1:
		c.silent++
	case err != nil:
		c.notes.broken = err.Error()
	default:
		c.silent = 0
	}
	if err != nil {
		return map[string]any{"failed": err.Error()}
	}
	return answer
}

// send sends a request or a notification, and returns the request's id.
func (c *client) send(method string, params map[string]any, request bool) string {
	m := message{method: method}
	all := map[string]any{"jsonrpc": "2.0", "method": method}
	if request {
		c.last++
		m.id = fmt.Sprint(c.last)
		all["id"] = c.last
	}
	sent := map[string]any{}
	for name, value := range params {
		sent[name] = value
	}
	if c.modern && (request || method == "notifications/cancelled") {
		meta := map[string]any{
			"io.modelcontextprotocol/protocolVersion": c.revision, "io.modelcontextprotocol/clientInfo": clientInfo,
			"io.modelcontextprotocol/clientCapabilities": c.capabilities(), "io.modelcontextprotocol/logLevel": "debug",
		}
		if given, ok := sent["_meta"].(map[string]any); ok {
			for name, value := range given {
				meta[name] = value
			}
		}
		sent["_meta"] = meta
	}
	if len(sent) > 0 {
		all["params"] = sent
	}
	m.name, _ = params["name"].(string)
	if uri, ok := params["uri"].(string); ok && m.name == "" {
		m.name = uri
	}
	m.text, _ = json.Marshal(all) // cannot fail: it was made from JSON
	if err := c.wire.send(m); err != nil && c.notes.broken == "" {
		c.notes.broken = "the connection broke"
	}
	return m.id
}

var clientInfo = map[string]any{"name": "servers", "version": "1.0.0"}

// capabilities are all that the client's revision has.
func (c *client) capabilities() map[string]any {
	all := map[string]any{"roots": map[string]any{"listChanged": true}, "sampling": map[string]any{}}
	if c.modern {
		all["roots"] = map[string]any{}
	}
	switch {
	case c.revision >= "2025-11-25":
		all["elicitation"] = map[string]any{"form": map[string]any{}, "url": map[string]any{}}
	case c.revision >= "2025-06-18":
		all["elicitation"] = map[string]any{}
	}
	return all
}

// await reads messages until the answer to a request comes, and answers what the server asks meanwhile. With the id "" it
// reads until nothing comes for the limit.
func (c *client) await(id string, limit time.Duration) (map[string]any, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case text, ok := <-c.wire.received():
			if !ok {
				return nil, errors.New("the connection ended")
			}
			if answer := c.take(text, id); answer != nil {
				return answer, nil
			}
			if id == "" {
				timer.Reset(limit)
			}
		case <-timer.C:
			return nil, errNoAnswer
		case <-c.ctx.Done():
			return nil, errors.New("the time of the run was over")
		}
	}
}

// take notes a message of the server, and returns the answer in it if it is to the request with this id.
func (c *client) take(text []byte, id string) map[string]any {
	m, err := decode(c.normal(text))
	if err != nil {
		return nil
	}
	method, _ := m["method"].(string)
	params, _ := m["params"].(map[string]any)
	switch given, hasID := m["id"]; {
	case method != "" && hasID:
		if method != "ping" {
			c.noteRequest(method, params)
		}
		c.reply(given, method, params)
	case method != "":
		list, _ := c.notes.notifications[method].([]any)
		if len(list) < 1000 {
			c.notes.notifications[method] = append(list, withoutIDs(params))
		}
	case hasID && fmt.Sprint(given) == id:
		delete(m, "id")
		delete(m, "jsonrpc")
		return m
	}
	return nil
}

func (c *client) noteRequest(method string, params map[string]any) {
	list, _ := c.notes.requests[method].([]any)
	if len(list) < 100 {
		c.notes.requests[method] = append(list, withoutIDs(params))
	}
}

// withoutIDs returns the parameters without what names a message of this connection only.
func withoutIDs(params map[string]any) any {
	if params == nil {
		return map[string]any{}
	}
	delete(params, "requestId")
	return params
}

func (c *client) reply(id any, method string, params map[string]any) {
	m := map[string]any{"jsonrpc": "2.0", "id": id}
	if result, ok := c.respond(method, params); ok {
		m["result"] = result
	} else {
		m["error"] = map[string]any{"code": -32601, "message": "Method not found"}
	}
	text, _ := json.Marshal(m) // cannot fail: it was made from JSON
	c.wire.send(message{text: text})
}

// respond makes the same answer to the same question in each run.
func (c *client) respond(method string, params map[string]any) (map[string]any, bool) {
	switch method {
	case "ping":
		return map[string]any{}, true
	case "roots/list":
		return map[string]any{"roots": []any{map[string]any{"uri": "file://" + c.folder.work(), "name": "work"}}}, true
	case "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "none", "stopReason": "endTurn",
			"content": map[string]any{"type": "text", "text": "a sampled answer"}}, true
	case "elicitation/create":
		if params["mode"] == "url" {
			return map[string]any{"action": "accept"}, true
		}
		schema, _ := params["requestedSchema"].(map[string]any)
		return map[string]any{"action": "accept", "content": fillForm(schema)}, true
	}
	return nil, false
}

// fillForm fills in all fields of a form, those with choices with the first one.
func fillForm(schema map[string]any) map[string]any {
	content := map[string]any{}
	fields, _ := schema["properties"].(map[string]any)
	for _, name := range sortedKeys(fields) {
		field, _ := fields[name].(map[string]any)
		switch kind, choice := field["type"], firstChoice(field); {
		case choice != nil:
			content[name] = choice
		case kind == "boolean":
			content[name] = true
		case kind == "number" || kind == "integer":
			if content[name] = field["minimum"]; content[name] == nil {
				content[name] = 1
			}
		case kind == "array":
			items, _ := field["items"].(map[string]any)
			content[name] = []any{firstChoice(items)}
		case field["format"] == "email":
			content[name] = "a@example.com"
		case field["format"] == "uri":
			content[name] = "https://example.com/"
		case field["format"] == "date":
			content[name] = "2026-01-02"
		case field["format"] == "date-time":
			content[name] = "2026-01-02T03:04:05Z"
		default:
			content[name] = "an answer"
		}
	}
	return content
}

// firstChoice returns the first of the values that a schema lists, nil if it lists none.
func firstChoice(schema map[string]any) any {
	if values, _ := schema["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if titled, _ := schema[key].([]any); len(titled) > 0 {
			first, _ := titled[0].(map[string]any)
			return first["const"]
		}
	}
	return nil
}

func decode(text []byte) (map[string]any, error) {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return m, nil
}

// What differs between two runs of the same server, wherever it occurs.
var (
	times = regexp.MustCompile(`\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)
	uuids = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	ports = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):\d+`)
	took  = regexp.MustCompile(`\b\d+(\.\d+)?( ?ms| seconds)\b`)
)

func (c *client) normal(text []byte) []byte {
	s := strings.ReplaceAll(string(text), c.folder.root, "{root}")
	s = times.ReplaceAllString(s, "{time}")
	s = uuids.ReplaceAllString(s, "{uuid}")
	s = ports.ReplaceAllString(s, "$1:{port}")
	return []byte(took.ReplaceAllString(s, "{time}"))
}
