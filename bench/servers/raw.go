package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

const maxRounds = 8 // questions of one call of a client without a handshake

var errNoAnswer = errors.New(noAnswer)

// raw is the connection of a client that writes the messages of a revision itself.
type raw struct {
	ctx      context.Context
	wire     wire
	revision string
	modern   bool // the revision has no handshake
	folder   folder
	quiet    time.Duration
	last     int // the last id
	notes    *transcript
}

// begin is the handshake, or the question that clients without one begin with.
func (c *raw) begin(limit time.Duration) (map[string]any, bool) {
	if c.modern {
		return c.request("server/discover", map[string]any{}, limit), true
	}
	answer := c.request("initialize", map[string]any{
		"protocolVersion": c.revision, "capabilities": c.capabilities(), "clientInfo": clientInfo,
	}, limit)
	if result := resultOf(answer); result != nil {
		c.notify("notifications/initialized")
		if w, ok := c.wire.(*web); ok {
			agreed, _ := result["protocolVersion"].(string)
			w.greeted(agreed)
		}
	}
	return answer, false
}

// request sends a request, and again with answers to what an InputRequiredResult asks.
func (c *raw) request(method string, params map[string]any, limit time.Duration) map[string]any {
	answer := c.once(method, params, limit)
	for round := 0; round < maxRounds && c.modern; round++ {
		result := resultOf(answer)
		if result["resultType"] != "input_required" {
			break
		}
		params["inputResponses"], params["requestState"] = c.respondTo(result), result["requestState"]
		if params["requestState"] == nil {
			delete(params, "requestState")
		}
		answer = c.once(method, params, limit)
	}
	return answer
}

// respondTo answers the questions of an InputRequiredResult.
func (c *raw) respondTo(result map[string]any) map[string]any {
	responses := map[string]any{}
	questions, _ := result["inputRequests"].(map[string]any)
	for _, key := range sortedKeys(questions) {
		question, _ := questions[key].(map[string]any)
		method, _ := question["method"].(string)
		params, _ := question["params"].(map[string]any)
		c.notes.noteAsked(method, params)
		if answer, ok := c.respond(method, params); ok {
			responses[key] = answer
		}
	}
	return responses
}

func (c *raw) once(method string, params map[string]any, limit time.Duration) map[string]any {
	answer, err := c.await(c.send(method, params, true), limit)
	if err != nil {
		return map[string]any{"failed": err.Error()}
	}
	return answer
}

func (c *raw) notify(method string) { c.send(method, nil, false) }

func (c *raw) settle() { c.await("", c.quiet) }

func (c *raw) close() { c.wire.close() }

func (c *raw) listen(filter map[string]any) map[string]any {
	id := c.send("subscriptions/listen", map[string]any{"notifications": filter}, true)
	var answer map[string]any
	for end := 0; end < 8 && answer == nil && c.notes.notifications["notifications/subscriptions/acknowledged"] == nil; end++ {
		answer, _ = c.await(id, c.quiet)
	}
	if answer == nil {
		c.send("notifications/cancelled", map[string]any{"requestId": c.last}, false)
	}
	return answer
}

func (c *raw) cancel(params map[string]any) map[string]any {
	id := c.send("tools/call", params, true)
	answer, _ := c.await(id, c.quiet)
	c.send("notifications/cancelled", map[string]any{"requestId": c.last, "reason": "the test"}, false)
	if answer == nil {
		answer, _ = c.await(id, c.quiet)
	}
	if answer == nil {
		answer = map[string]any{"none": true}
	}
	return answer
}

// send sends a request or a notification, and returns the request's id.
func (c *raw) send(method string, params map[string]any, request bool) string {
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
func (c *raw) capabilities() map[string]any {
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
func (c *raw) await(id string, limit time.Duration) (map[string]any, error) {
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
func (c *raw) take(text []byte, id string) map[string]any {
	m, err := decode(c.folder.normal(text))
	if err != nil {
		return nil
	}
	method, _ := m["method"].(string)
	params, _ := m["params"].(map[string]any)
	switch given, hasID := m["id"]; {
	case method != "" && hasID:
		if method != "ping" {
			c.notes.noteAsked(method, params)
		}
		c.reply(given, method, params)
	case method != "":
		c.notes.noteTold(method, params)
	case hasID && fmt.Sprint(given) == id:
		delete(m, "id")
		delete(m, "jsonrpc")
		return m
	}
	return nil
}

func (c *raw) reply(id any, method string, params map[string]any) {
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
func (c *raw) respond(method string, params map[string]any) (map[string]any, bool) {
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

// otherChoice matches the field of a choice that is not the first of its list: for clients whose revision has no lists, each is a
// field (rule C19).
var otherChoice = regexp.MustCompile(`\.[1-9]\d*$`)

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
			content[name] = !otherChoice.MatchString(name)
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
