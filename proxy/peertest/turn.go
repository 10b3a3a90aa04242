package peertest

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/tidwall/gjson"
)

// Turn is a message that a server got, and the way to answer it.
type Turn struct {
	*Server
	Text, ID, Method string // the message; ID is raw JSON
	Header           http.Header
	Ctx              context.Context // ends when the client leaves or cancels
	Session          *Session        // of a server that knows its sessions; nil for none

	// Web and Request are the HTTP request of a server over Streamable HTTP. What writes to Web itself sets Begun;
	// otherwise the response is 202.
	Web     http.ResponseWriter
	Request *http.Request
	Begun   bool

	nth   int       // which message it is
	lines io.Writer // where the response goes, on a pipe
}

// Say sends messages about the request: events of its stream, or lines.
func (u *Turn) Say(messages ...string) {
	for _, m := range messages {
		if u.piped() {
			u.write(u.lines, m)
			continue
		}
		if !u.Begun {
			u.Begun = true
			u.Web.Header().Set("Content-Type", "text/event-stream")
			u.Web.WriteHeader(http.StatusOK)
		}
		_, _ = io.WriteString(u.Web, "data: "+m+"\n\n")
		u.Web.(http.Flusher).Flush()
	}
}

// Answer sends the response: an HTTP status and a body, or on a pipe the body.
func (u *Turn) Answer(status int, body string) {
	if u.piped() {
		u.write(u.lines, body)
		return
	}
	u.Begun = true
	u.Web.Header().Set("Content-Type", "application/json")
	u.Web.WriteHeader(status)
	_, _ = io.WriteString(u.Web, body)
}

// Open begins a session over HTTP. The response has its id.
func (u *Turn) Open() {
	u.Session = u.open()
	u.belongs(u.nth, u.Session.ID)
	u.Web.Header().Set("Mcp-Session-Id", u.Session.ID)
}

// unknown answers what belongs to no known session.
func (u *Turn) unknown() {
	if u.Unknown == nil {
		u.Answer(http.StatusNotFound, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
		return
	}
	u.Unknown(u)
}

// Refuse sends a status without a body, over HTTP.
func (u *Turn) Refuse(status int) {
	u.Begun = true
	u.Web.WriteHeader(status)
}

// Hijack returns the connection of the request, over HTTP. The caller closes it.
func (u *Turn) Hijack() *net.TCPConn {
	u.Begun = true
	conn, _, err := u.Web.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return conn.(*net.TCPConn)
}

// Hears waits until the client has answered a request of the server, or has left.
func (u *Turn) Hears(id string) { u.hears(0, func(m Message) bool { return isResponse(m.Text, id) }) }

// Asks sends the client a request about this one, and returns the response that comes in the same session. It returns ""
// if the client has left.
func (u *Turn) Asks(question string) (response string) {
	id, seen := gjson.Get(question, "id").Raw, len(u.Heard())
	u.Say(question)
	return u.hears(seen, func(m Message) bool { return m.Session == u.Session.name() && isResponse(m.Text, id) })
}

// hears waits for a message behind the first seen ones.
func (u *Turn) hears(seen int, is func(Message) bool) string {
	for {
		news, more := u.since(seen)
		for _, m := range news {
			if seen++; is(m) {
				return m.Text
			}
		}
		select {
		case <-more:
		case <-u.Ctx.Done():
			return ""
		}
	}
}
