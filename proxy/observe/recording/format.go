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
	Note    Kind = "note"   // what was done to a call besides the translation
	End     Kind = "end"    // a call ended
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
	Call      uint64    `json:"call"`    // the number of the call that the message belongs to; of Open: that it began with
	Method    string    `json:"method"`  // of a response: that of the request
	Tool      string    `json:"tool"`    // the tool or prompt that the call names
	From      uint64    `json:"from"`    // the Seq of the message at the other edge that this one was made of
	// Payload is the message without secrets, and Size its length before that. Of a message that was cut there are only Text,
	// its beginning, and SHA256. Text is what is no JSON, and the line of Stderr, too.
	Payload json.RawMessage   `json:"payload"`
	Text    string            `json:"text"`
	Size    int               `json:"size"`
	SHA256  string            `json:"sha256"`
	Cut     bool              `json:"cut"` // it was cut to 4 KiB without a SHA256, because too much came at once
	Headers map[string]string `json:"headers"`
	HTTP    int               `json:"http_status"` // of a response
	// Changes are why the message differs from the one that it was made of, and Losses what the translation of this message
	// has removed; both are JSON.
	Changes json.RawMessage `json:"changes"`
	Losses  json.RawMessage `json:"losses"`
	Timing  *Timing         `json:"timing"`

	Peers *Peers `json:"peers"` // of Open

	Did    *Did   `json:"did"`    // of Note
	Status string `json:"status"` // of End
	Cause  string `json:"cause"`  // of End, and of Close

	Dropped       uint64 `json:"dropped"` // of Gap: how many events
	Format        int    `json:"format"`  // of Header, as are the next two
	Version       string `json:"version"` // of dragoman
	Configuration string `json:"configuration"`
}

// Peers says who talks in a session.
type Peers struct {
	Principal       string `json:"principal,omitempty"` // a fingerprint
	Client          string `json:"client,omitempty"`    // name and version
	ClientRev       string `json:"client_rev,omitempty"`
	ClientTransport string `json:"client_transport,omitempty"`
	Server          string `json:"server,omitempty"`
	ServerRev       string `json:"server_rev,omitempty"`
	ServerTransport string `json:"server_transport,omitempty"`
	Bridged         bool   `json:"bridged,omitempty"` // one side has a handshake and the other one has not
}

// Did says what was done to a call besides the translation.
type Did struct {
	By           string `json:"by"`
	What         string `json:"what,omitempty"`
	Path         string `json:"path,omitempty"`
	To           string `json:"to,omitempty"` // ClientToServer or ServerToClient: the messages that it was done to
	Detail       string `json:"detail,omitempty"`
	TokensBefore int    `json:"tokens_before,omitempty"`
	TokensAfter  int    `json:"tokens_after,omitempty"`
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
	object := func(name string, is bool, v any) {
		if is {
			raw(name, asJSON(v))
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
	number("from", l.From)
	number("dropped", l.Dropped)
	object("headers", len(l.Headers) > 0, l.Headers)
	number("http_status", uint64(l.HTTP))
	raw("payload", l.Payload)
	text("text", l.Text)
	number("size", uint64(l.Size))
	text("sha256", l.SHA256)
	if l.Cut {
		o = o.Raw("cut", []byte("true"))
	}
	raw("changes", l.Changes)
	raw("losses", l.Losses)
	object("peers", l.Peers != nil, l.Peers)
	object("did", l.Did != nil, l.Did)
	text("status", l.Status)
	text("cause", l.Cause)
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
	case Header, Message, Open, Close, Note, End, Stderr, Gap:
		return l, true
	}
	return Line{}, false
}

// asJSON returns v as JSON; nil if it has no form in it.
func asJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}
