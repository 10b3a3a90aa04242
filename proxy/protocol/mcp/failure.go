package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Failure is an error that a client gets. Its slices belong to it.
type Failure struct {
	Cause  Cause
	Code   int
	Status int
	Text   string
	ID     []byte // raw; nil where the message had none that could be read
	Data   []byte // raw JSON; nil for none
	Header []Header
	Err    error // the underlying error, for the log

	Reported bool   // it was logged and counted
	Why      string // the cause that it was counted by, as metrics name it; "" for none

	Verbatim []byte // the JSON-RPC error as the server sent it; nil for one of ours
}

// Fail returns the failure of a cause with the code, status and text of its row in the table. detail follows the text; "" adds
// nothing.
func Fail(c Cause, detail string) *Failure {
	f := &Failure{Cause: c, Code: causes[c].Code, Status: causes[c].Status, Text: causes[c].Text}
	if detail != "" {
		f.Text += ": " + detail
	}
	return f
}

// Error returns the text for the client, and what the log needs besides.
func (f *Failure) Error() string {
	if f.Err == nil || strings.HasSuffix(f.Text, f.Err.Error()) {
		return f.Text
	}
	return f.Text + ": " + f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// About sets f.ID to a clone of id, the id of the request that failed, unless f has an id already. It returns f.
func (f *Failure) About(id []byte) *Failure {
	if f.ID == nil && id != nil {
		f.ID = bytes.Clone(id)
	}
	return f
}

// Body returns the JSON-RPC error.
func (f *Failure) Body() []byte {
	if f.Verbatim != nil {
		return f.Verbatim
	}
	return AppendError(nil, f.ID, f.Code, f.Text, f.Data)
}

// nullID is how an error begins that names no request.
const nullID = `{"jsonrpc":"2.0","id":null,`

// BodyTo returns the JSON-RPC error for a client of revision r, which is nil where it is not known. Revisions that allow it
// get no id instead of null, which some clients refuse.
func (f *Failure) BodyTo(r *translate.Revision) []byte {
	body := f.Body()
	if rest, ok := bytes.CutPrefix(body, []byte(nullID)); ok && f.Verbatim == nil && r != nil && r.ErrorWithoutID {
		return append([]byte(`{"jsonrpc":"2.0",`), rest...)
	}
	return body
}

// Late returns f for a client whose response has begun as an event stream before f was known: it names the request with this id,
// and says in its data what the head of the response could not say.
func (f *Failure) Late(id []byte) *Failure {
	if f.Status == http.StatusOK || f.Status == http.StatusAccepted && f.ID == nil {
		return f
	}
	own := *f
	if own.Status, own.Header = http.StatusOK, nil; own.ID == nil || string(own.ID) == "null" {
		own.ID, own.Verbatim = bytes.Clone(id), nil
	}
	said := fmt.Appendf(nil, `"status":%d`, f.Status)
	for _, h := range f.Header {
		switch {
		case strings.EqualFold(h.Name, "Retry-After"):
			said = wire.AppendQuoted(append(said, `,"retryAfter":`...), h.Value)
		case strings.EqualFold(h.Name, "WWW-Authenticate"):
			said = wire.AppendQuoted(append(said, `,"challenge":`...), h.Value)
		}
	}
	switch data := bytes.TrimSpace(f.Data); {
	case len(data) == 0 || string(data) == "{}":
		own.Data = append(append([]byte("{"), said...), '}')
	case data[0] == '{':
		own.Data = append(append(append([]byte("{"), said...), ','), data[1:]...)
	}
	return &own
}

// General returns the text of f without the part that comes from Err.
func (f *Failure) General() string {
	if is := causes[f.Cause].Text; f.Err != nil && strings.HasPrefix(f.Text, is) {
		return is
	}
	return f.Text
}

// WithoutID returns a copy of f that names no request.
func (f *Failure) WithoutID() *Failure {
	whole := *f
	whole.ID = nil
	return &whole
}

// WithID sets f.ID to a clone of id and returns f.
func (f *Failure) WithID(id []byte) *Failure {
	f.ID = bytes.Clone(id)
	return f
}

// WithinSession returns f for a client that is in a session over HTTP, where published SDKs end their session on a status
// of 5xx. In place of such a status, unless a limit is reached, the result is a copy with status 200; otherwise it is f
// itself. A copy without an id is about a notification or a response, whose answer cannot hold an error: its status is
// 202, and the failure is only in the log.
func (f *Failure) WithinSession() *Failure {
	if f.Status < http.StatusInternalServerError || f.LimitReached() {
		return f
	}
	own := *f
	own.Status = http.StatusOK
	if own.ID == nil {
		own.Status = http.StatusAccepted
	}
	return &own
}

// LimitReached reports whether f says that one of dragoman's own limits is reached.
func (f *Failure) LimitReached() bool {
	switch f.Cause {
	case TooManyOpen, TooManySessions, TooManyProcesses, TooManyParked, NoRoom:
		return true
	}
	return false
}

// SessionlessStatus returns the HTTP status of f for a client without a session.
func (f *Failure) SessionlessStatus() int {
	if f.Status == http.StatusOK {
		return StatusFor(int64(f.Code))
	}
	return f.Status
}

// StatusFor returns the HTTP status with which a client without a session gets an error of this JSON-RPC code, if the
// server's error came without an HTTP status. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#sending-messages-to-the-server.
func StatusFor(code int64) int {
	switch code {
	case CodeMethodNotFound:
		return 404
	case int64(causes[HeaderMismatch].Code), int64(causes[CapabilityMissing].Code), CodeUnsupportedVersion:
		return 400
	}
	return 200
}

// UnknownSession reports whether the server has no such session, or none any more.
func (f *Failure) UnknownSession() bool { return f.Cause == UpstreamRefused && f.Status == 404 }

// NoEndpoint turns f into the failure of an address where no MCP server is, and returns f.
func (f *Failure) NoEndpoint() *Failure {
	f.Status, f.Code, f.Text, f.Data = 502, -32603, "upstream endpoint not found", nil
	return f
}

// HandshakeNames returns the names of the revisions a client may initialize with, newest first.
func HandshakeNames() []string {
	var names []string
	for _, r := range translate.Handshake() {
		names = append(names, r.Name)
	}
	return names
}

// Uninitialized returns the failure of a client that did not initialize. It lists our revisions, which makes clients that
// support newer ones initialize.
func Uninitialized(c Cause) *Failure {
	f := Fail(c, "")
	f.Text = fmt.Sprintf("%s: send initialize first; supported: %s", causes[c].Text, strings.Join(HandshakeNames(), ", "))
	return f
}

// UnsupportedData returns the data of the error for a client that has requested this revision.
func UnsupportedData(requested string) []byte {
	data := append(wire.AppendStrings([]byte(`{"supported":`), HandshakeNames()), `,"requested":`...)
	return append(wire.AppendQuoted(data, requested), '}')
}
