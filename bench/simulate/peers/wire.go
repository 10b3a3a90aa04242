// Package peers has the hand-written clients and servers of a world. They share no code with dragoman: what one of them takes for the
// protocol, dragoman has to speak. Each writes down in a trace what it does and sees.
package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/bench/simulate/cut"
)

// The limits of what a peer reads. They are far above what a world sends: more is a fault.
const (
	maxLine = 64 << 20 // bytes of a line, of a data field, of a body
)

// message is a message of JSON-RPC. Its parts are as they came.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"` // "null" if it was null
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"` // nil also for "error":null

	raw []byte // the whole of it
}

// rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// String is "code message", as trace.Event.Failed has it.
func (e *rpcError) String() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

func (m *message) request() bool      { return m.Method != "" && m.ID != nil }
func (m *message) notification() bool { return m.Method != "" && m.ID == nil }
func (m *message) response() bool     { return m.Method == "" }

// id returns the id as text, which is the same for equal ids: 7, "a".
func (m *message) id() string { return string(m.ID) }

// readMessages reads a message, or a batch of them. It copies what it keeps of data.
func readMessages(data []byte) (all []*message, batch bool, err error) {
	data = bytes.TrimSpace(bytes.Clone(data))
	raws := []json.RawMessage{data}
	if len(data) > 0 && data[0] == '[' {
		if err := json.Unmarshal(data, &raws); err != nil {
			return nil, true, err
		}
		if batch = true; len(raws) == 0 {
			return nil, true, errors.New("an empty batch")
		}
	}
	for _, raw := range raws {
		m := &message{raw: raw}
		if !m.readPlain() {
			if err := json.Unmarshal(raw, m); err != nil {
				return all, batch, err
			}
		}
		if m.JSONRPC != "2.0" {
			return all, batch, fmt.Errorf("jsonrpc is %q", m.JSONRPC)
		}
		if m.Method == "" && m.Result == nil && m.Error == nil {
			return all, batch, errors.New("neither method, result nor error")
		}
		all = append(all, m)
	}
	return all, batch, nil
}

// readPlain reads m as encoding/json does, but looks at each value only once, if m has each of its members at most once, and none that
// encoding/json might take for another one.
func (m *message) readPlain() bool {
	if !json.Valid(m.raw) {
		return false
	}
	read := message{raw: m.raw}
	for name, value := range cut.Members(m.raw) {
		text := func(to *string) bool {
			if *to != "" || value[0] != '"' || bytes.ContainsFunc(value, func(c rune) bool { return c == '\\' || c > '~' }) {
				return false
			}
			*to = string(value[1 : len(value)-1])
			return true
		}
		part := func(to *json.RawMessage) bool {
			first := *to == nil
			*to = value
			return first
		}
		plain := false
		switch string(name) {
		case "jsonrpc":
			plain = text(&read.JSONRPC)
		case "id":
			plain = part(&read.ID)
		case "method":
			plain = text(&read.Method)
		case "params":
			plain = part(&read.Params)
		case "result":
			plain = part(&read.Result)
		case "error":
			plain = read.Error == nil && json.Unmarshal(value, &read.Error) == nil
		}
		if !plain {
			return false
		}
	}
	*m = read
	return m.JSONRPC != ""
}

// readMembers reads values of an object into what to has for their names.
func readMembers(of []byte, to map[string]any) error {
	if of[0] != '{' && string(of) != "null" {
		return errors.New("no object")
	}
	for name, value := range cut.Members(of) {
		if at := to[string(name)]; at != nil {
			if err := json.Unmarshal(value, at); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// object is what is written as a JSON object.
type object = map[string]any

// odd is JSON as no encoder writes it: what passes byte for byte keeps it as it is.
var odd = json.RawMessage(`{"z":1.0,"a":"\u00e9\/","n":[1E2,-0,12345678901234567890],"n":null}`)

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the peers write only what can be written
	}
	return data
}

// writeRequest returns a request, or a notification if id is nil. params may be nil.
func writeRequest(id json.RawMessage, method string, params any) []byte {
	data := beginMessage(id)
	data = append(append(data, `,"method":`...), encode(method)...)
	if params != nil {
		data = append(append(data, `,"params":`...), encode(params)...)
	}
	return append(data, '}')
}

// writeResult returns the answer to the request of id.
func writeResult(id json.RawMessage, result any) []byte {
	return append(append(append(beginMessage(id), `,"result":`...), encode(result)...), '}')
}

// writeError returns the error that answers the request of id; id may be "null".
func writeError(id json.RawMessage, code int, text string, data any) []byte {
	e := rpcError{Code: code, Message: text}
	if data != nil {
		e.Data = encode(data)
	}
	return append(append(append(beginMessage(id), `,"error":`...), encode(e)...), '}')
}

// beginMessage begins a message; an id of nil is left out.
func beginMessage(id json.RawMessage) []byte {
	data := append(make([]byte, 0, 256), `{"jsonrpc":"2.0"`...)
	if id != nil {
		data = append(append(data, `,"id":`...), id...)
	}
	return data
}

// What both peers write into texts, so that each can tell whose and which it is: "c1.7 question 2".

// numbered returns the text of the n-th of something.
func numbered(mark, what string, n int) string { return mark + " " + what + " " + strconv.Itoa(n) }

// readNumbered takes such a text apart; mark is "" if it is none. More may follow after a space.
func readNumbered(text, what string) (mark string, n int) {
	mark, rest, ok := strings.Cut(text, " "+what+" ")
	if !ok || strings.Contains(mark, " ") {
		return "", 0
	}
	rest, _, _ = strings.Cut(rest, " ")
	n, err := strconv.Atoi(rest)
	if err != nil {
		return "", 0
	}
	return mark, n
}

// questionText returns the text by which a question says whose it is: the message of an elicitation, the text of the first message of a
// sampling, _meta.question of roots/list. readNumbered(text, "question") takes it apart.
func questionText(method string, params json.RawMessage) string {
	var p struct {
		Message  string
		Messages []struct{ Content struct{ Text string } }
		Meta     struct{ Question string } `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p)
	switch method {
	case "elicitation/create":
		return p.Message
	case "sampling/createMessage":
		if len(p.Messages) > 0 {
			return p.Messages[0].Content.Text
		}
	case "roots/list":
		return p.Meta.Question
	}
	return ""
}

// replyText returns what the answer to a question says, as trace.Replies and trace.Told have it: "accept TEXT" with content.answer of an
// elicitation, "decline"; the text of a sampling; the name of the first root; "error CODE" for an error.
func replyText(method string, result json.RawMessage, failed *rpcError) string {
	if failed != nil {
		return fmt.Sprintf("error %d", failed.Code)
	}
	switch method {
	case "elicitation/create":
		var r struct {
			Action  string
			Content struct{ Answer string }
		}
		_ = json.Unmarshal(result, &r)
		return strings.TrimSpace(r.Action + " " + r.Content.Answer)
	case "sampling/createMessage":
		var r struct{ Content struct{ Text string } }
		_ = json.Unmarshal(result, &r)
		return r.Content.Text
	case "roots/list":
		var r struct{ Roots []struct{ Name string } }
		_ = json.Unmarshal(result, &r)
		if len(r.Roots) > 0 {
			return r.Roots[0].Name
		}
	}
	return ""
}

// contentText returns the text of a result: of content of a tool call, of contents of resources/read, or of what there is without content
// (script.Bare), which may have become a text.
func contentText(result json.RawMessage) string {
	type text struct{ Text string }
	var r struct {
		Content, Contents       []text
		StructuredContent, Only text
	}
	_ = json.Unmarshal(result, &r)
	if bare := r.StructuredContent.Text + r.Only.Text; bare != "" {
		return bare
	}
	if len(r.Content) == 1 && strings.HasPrefix(r.Content[0].Text, "{") {
		var bare text
		if json.Unmarshal([]byte(r.Content[0].Text), &bare) == nil && bare.Text != "" {
			return bare.Text
		}
	}
	for _, c := range append(r.Content, r.Contents...) {
		if c.Text != "" {
			return c.Text
		}
	}
	return ""
}

// Server-sent events.

// event is one of them. A comment has no field set but comment.
type event struct {
	ID, Name, Data string
	HasID          bool
	comment        string
}

// appendEvent appends an event to dst; an empty id or name is left out.
func appendEvent(dst []byte, id, name string, data []byte) []byte {
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n')
}

// readEvent reads the next event that has an id, a name or data, or the next comment. io.EOF is the end between two events,
// io.ErrUnexpectedEOF an end within one.
func readEvent(r *bufio.Reader) (event, error) {
	var e event
	var data []string
	some := false
	for {
		line, err := readLine(r)
		if err != nil {
			if err == io.EOF && (some || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			if some {
				e.Data = strings.Join(data, "\n")
				return e, nil
			}
			continue
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if !some {
				return event{comment: value}, nil
			}
		case "id":
			e.ID, e.HasID, some = value, true, true
		case "event":
			e.Name, some = value, true
		case "data":
			data, some = append(data, value), true
		case "retry":
		default:
			return e, fmt.Errorf("a field of an event is %.40q", name)
		}
	}
}

// readLine reads up to the next line feed and returns the line without it. With an error it returns what there was of the line; it is
// valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	all := bytes.Clone(line)
	for err == bufio.ErrBufferFull {
		if len(all) > maxLine {
			return all, errors.New("a line without end")
		}
		line, err = r.ReadSlice('\n')
		all = append(all, line...)
	}
	if err != nil {
		return all, err
	}
	return all[:len(all)-1], nil
}

// HTTP.

// appendHead appends the head of a message of HTTP to dst: its first line and its fields, name and value in turn; a field whose value is
// empty is left out.
func appendHead(dst []byte, first string, fields ...string) []byte {
	dst = append(append(dst, first...), "\r\n"...)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != "" {
			dst = append(append(append(append(dst, fields[i]...), ": "...), fields[i+1]...), "\r\n"...)
		}
	}
	return append(dst, "\r\n"...)
}

// appendBody appends a whole message of HTTP with a body, which may be empty.
func appendBody(dst []byte, first string, body []byte, fields ...string) []byte {
	fields = append(fields[:len(fields):len(fields)], "Content-Length", strconv.Itoa(len(body)))
	return append(appendHead(dst, first, fields...), body...)
}

// statusLine is the first line of a response.
func statusLine(status int) string {
	return fmt.Sprintf("HTTP/1.1 %d %s", status, http.StatusText(status))
}

// appendChunk appends a chunk of a chunked body; one of no bytes would end it.
func appendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	return append(append(append(dst, "\r\n"...), data...), "\r\n"...)
}

// lastChunk ends a chunked body.
const lastChunk = "0\r\n\r\n"

// readBody reads a body to its end.
func readBody(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxLine+1))
	if err == nil && len(data) > maxLine {
		err = errors.New("a body without end")
	}
	return data, err
}

// outbox writes to a connection or a pipe from a goroutine of its own, so that what is sent in order is written in order, and no sender
// waits for a reader. It has no bound: a world does.
type outbox struct {
	mu    sync.Mutex
	more  sync.Cond
	queue [][]byte
	shut  bool // nothing more is taken
	ended chan struct{}
}

// newOutbox begins one that writes to w. When all is written after close, or a write has failed, it calls end, with the error.
func newOutbox(w io.Writer, end func(error)) *outbox {
	o := &outbox{ended: make(chan struct{})}
	o.more.L = &o.mu
	go func() {
		defer close(o.ended)
		err := o.write(w)
		o.mu.Lock()
		o.shut, o.queue = true, nil
		o.mu.Unlock()
		if end != nil {
			end(err)
		}
	}()
	return o
}

func (o *outbox) write(w io.Writer) error {
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.shut {
			o.more.Wait()
		}
		data := o.queue
		o.queue = nil
		o.mu.Unlock()
		if len(data) == 0 {
			return nil
		}
		for _, d := range data {
			if _, err := w.Write(d); err != nil {
				return err
			}
		}
	}
}

// send has data written after all that was sent before; false if it is shut. It owns data from then on.
func (o *outbox) send(data []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		return false
	}
	o.queue = append(o.queue, data)
	o.more.Signal()
	return true
}

// close takes no more. What was sent is written still; wait for ended, or close the connection.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = true
	o.more.Signal()
}
