// Package recording writes the messages that pass dragoman into a file, one event a line, and reads such files.
//
// Each line is a JSON object. The first one is the header. What a line shows of a message has passed package redact, so a
// recording can be passed on as far as redaction can be relied on.
package recording

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Format is the number of the format of the lines.
const Format = 1

// Kind says what a line is about.
type Kind string

// The kinds of lines.
const (
	Header  Kind = "header"
	Message Kind = "message"
	Open    Kind = "open"   // a session began
	Close   Kind = "close"  // a session ended
	Stderr  Kind = "stderr" // a line that the server's process wrote
	Gap     Kind = "gap"    // events that were dropped
)

// The values of a line's Edge and Direction.
const (
	ClientEdge     = "client"
	ServerEdge     = "server"
	ClientToServer = "client-to-server"
	ServerToClient = "server-to-client"
)

// Line is one line of a recording. Members that do not apply are zero.
type Line struct {
	Seq       uint64    `json:"seq"`
	TS        time.Time `json:"ts"`
	Edge      string    `json:"edge"`      // ClientEdge, or ServerEdge: the side of dragoman on which the message was seen
	Direction string    `json:"direction"` // ClientToServer or ServerToClient
	Transport string    `json:"transport"` // stdio, http or sse
	Kind      Kind      `json:"kind"`
	Rev       string    `json:"rev"`     // the revision of the edge
	Session   string    `json:"session"` // a fingerprint
	Call      uint64    `json:"call"`    // the number of the call that the message belongs to
	Method    string    `json:"method"`  // of a response: that of the request
	Tool      string    `json:"tool"`
	// Payload is the message without secrets. Of a message that was cut, Text is the beginning, and Size and SHA256 are those
	// of the whole message. Text is the line of Stderr, too.
	Payload json.RawMessage   `json:"payload"`
	Text    string            `json:"text"`
	Size    int               `json:"size"`
	SHA256  string            `json:"sha256"`
	Headers map[string]string `json:"headers"`
	// Changes are JSON: why the message differs from the one at the other edge. Notes are JSON, too: what other parts of
	// dragoman did.
	Changes json.RawMessage `json:"changes"`
	Notes   json.RawMessage `json:"notes"`
	Timing  *Timing         `json:"timing"`

	// Of Open: the names and versions of both sides, and the revision of the other edge.
	Client    string `json:"client"`
	ClientRev string `json:"client_rev"`
	Server    string `json:"server"`
	ServerRev string `json:"server_rev"`

	Dropped       uint64 `json:"dropped"` // of Gap: how many events
	Format        int    `json:"format"`  // of Header, as are the next two
	Version       string `json:"version"` // of dragoman
	Configuration string `json:"configuration"`
}

// Timing says where the time of a call went, in milliseconds: waiting for the client, dragoman's own work, and waiting for
// the server.
type Timing struct {
	Client float64 `json:"client"`
	Proxy  float64 `json:"proxy"`
	Server float64 `json:"server"`
}

const stamp = "2006-01-02T15:04:05.000Z07:00"

// Append appends the line, with its line break.
func (l *Line) Append(dst []byte) []byte {
	o := wire.Members(nil)
	number := func(name string, n uint64) {
		if n > 0 {
			o = o.Raw(name, strconv.AppendUint(nil, n, 10))
		}
	}
	text := func(name, s string) {
		if s != "" {
			o = o.Str(name, s)
		}
	}
	raw := func(name string, r json.RawMessage) {
		if len(r) > 0 {
			o = o.Raw(name, r)
		}
	}
	number("seq", l.Seq)
	o = o.Str("ts", l.TS.UTC().Format(stamp))
	text("edge", l.Edge)
	text("direction", l.Direction)
	text("transport", l.Transport)
	text("kind", string(l.Kind))
	number("format", uint64(l.Format))
	text("version", l.Version)
	text("configuration", l.Configuration)
	text("rev", l.Rev)
	text("session", l.Session)
	number("call", l.Call)
	text("method", l.Method)
	text("tool", l.Tool)
	text("client", l.Client)
	text("client_rev", l.ClientRev)
	text("server", l.Server)
	text("server_rev", l.ServerRev)
	number("dropped", l.Dropped)
	if len(l.Headers) > 0 {
		h, err := json.Marshal(l.Headers)
		if err == nil { // a map of strings has no other result
			raw("headers", h)
		}
	}
	raw("payload", l.Payload)
	text("text", l.Text)
	number("size", uint64(l.Size))
	text("sha256", l.SHA256)
	raw("changes", l.Changes)
	raw("notes", l.Notes)
	if l.Timing != nil {
		o = o.Raw("timing", fmt.Appendf(nil, `{"client":%.3f,"proxy":%.3f,"server":%.3f}`, l.Timing.Client, l.Timing.Proxy, l.Timing.Server))
	}
	return append(append(dst, o.End()...), '\n')
}

// Parse reads one line. ok is false if raw is no line of a recording, but for example a message.
func Parse(raw []byte) (l Line, ok bool) {
	if raw = wire.Trim(raw); len(raw) == 0 || raw[0] != '{' || !wire.Valid(raw) || wire.Member(raw, "jsonrpc") != nil {
		return l, false
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return Line{}, false
	}
	switch l.Kind {
	case Header, Message, Open, Close, Stderr, Gap:
		return l, true
	}
	return Line{}, false
}
