package peertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// Turn is a message that a server got, and the way to answer it.
type Turn struct {
	*Server
	Text, ID, Method string // the message; ID is raw JSON
	Header           http.Header
	Ctx              context.Context // ends when the client leaves or cancels

	// Web and Request are the HTTP request of a server over Streamable HTTP. What writes to Web itself sets Begun;
	// otherwise the response is 202.
	Web     http.ResponseWriter
	Request *http.Request
	Begun   bool
}

// Say sends messages about the request: events of its stream, or lines.
func (u *Turn) Say(messages ...string) {
	for _, m := range messages {
		if u.piped() {
			u.Line(m)
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
		u.Line(body)
		return
	}
	u.Begun = true
	u.Web.Header().Set("Content-Type", "application/json")
	u.Web.WriteHeader(status)
	_, _ = io.WriteString(u.Web, body)
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
func (u *Turn) Hears(id string) {
	for u.Ctx.Err() == nil {
		for _, m := range u.Heard() {
			if isResponse(m.Text, id) {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}
