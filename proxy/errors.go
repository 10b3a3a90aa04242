package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/processes"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// JSON-RPC's code for a method that does not exist
// (https://www.jsonrpc.org/specification#error_object).
const methodNotFound = -32601

// cause is why a client gets an error of ours instead of the server's answer.
type cause uint8

const (
	malformed cause = iota // with the code the scanner gave
	notInitialized
	modernRefused
	sessionUnknown
	notDeleted
	noStream
	versionUnknown
	initializedTwice
	initializeBroken
	batchRefused
	batchEmpty
	batchTooLong
	batchInitialize
	batchElement
	batchDuplicate
	tooLong
	duplicateID
	tooManyOpen
	tooManySessions
	tooManyProcesses
	untranslatable
	upstreamVersion
	upstreamModern
	upstreamLegacy
	toolClash
	peerLost
	upstreamDown
	upstreamTimeout
	upstreamRefused // with the status and, where it sent one, the error it answered
	upstreamSilent
	upstreamGarbled // it closed the stream, and had sent something that is no message
	upstreamLost
	upstreamRestarted
	upstreamStarting
	noRoom
	shuttingDown
	panicked

	metaInvalid // from here on: of clients without a handshake
	headerMismatch
	capabilityMissing
	revisionUnsupported
	methodUnknown
	stateInvalid
	inputsInvalid
	superseded
	tooManyParked
)

// A client sees these, and where HTTP itself is at fault those in
// downstream/refusals.go. Status is what an HTTP client gets; stdio clients get
// the JSON-RPC error alone. Towards clients that initialize, 404 means that
// the session is gone and nothing else, see
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management.
var causes = [...]struct {
	code   int
	status int
	text   string
}{
	malformed:         {-32600, 400, "Invalid Request"},
	notInitialized:    {-32600, 400, "Not initialized"},
	modernRefused:     {-32600, 400, "Not initialized"}, // on stdio -32601
	sessionUnknown:    {-32600, 404, "Session not found"},
	notDeleted:        {-32600, 405, "The server has no session to end"},
	noStream:          {-32600, 405, "The server offers no stream"},
	versionUnknown:    {-32600, 400, "Unsupported MCP-Protocol-Version"},
	initializedTwice:  {-32600, 400, "Already initialized"},
	initializeBroken:  {-32602, 400, "initialize needs an object of params"},
	batchRefused:      {-32600, 400, "JSON-RPC batching is not supported"},
	batchEmpty:        {-32600, 400, "Empty batch"},
	batchTooLong:      {-32600, 400, "Too many messages in batch"},
	batchInitialize:   {-32600, 400, "initialize must not be part of a batch"},
	batchElement:      {-32600, 400, "Invalid Request"},
	batchDuplicate:    {-32600, 400, "Duplicate request id in batch"},
	tooLong:           {-32600, 413, "Message too long"},
	duplicateID:       {-32600, 400, "Request id is already in use"},
	tooManyOpen:       {-32603, 503, "too many open requests"},
	tooManySessions:   {-32603, 503, "too many sessions"},
	tooManyProcesses:  {-32603, 503, "too many processes of the server; try again later"},
	untranslatable:    {-32603, 200, "translation failed"},
	upstreamVersion:   {-32602, 200, "Unsupported protocol version"},
	upstreamModern:    {-32603, 502, "upstream speaks only revisions without initialize"},
	upstreamLegacy:    {-32603, 502, "upstream requires initialize now"},
	toolClash:         {-32603, 502, "tools of the server have names of adapters'"},
	peerLost:          {-32603, 502, "the replica that served the request was lost"},
	upstreamDown:      {-32603, 502, "upstream request failed"},
	upstreamTimeout:   {-32603, 504, "upstream timed out"},
	upstreamRefused:   {-32603, 502, "upstream refused the request"},
	upstreamSilent:    {-32603, 502, "upstream closed the stream without answering"},
	upstreamGarbled:   {-32603, 502, "upstream sent something that is not JSON-RPC"},
	upstreamLost:      {-32603, 502, "upstream process ended"},
	upstreamRestarted: {-32603, 502, "upstream process ended and is started again; the request was lost"},
	upstreamStarting:  {-32603, 503, "upstream process is not ready yet"},
	noRoom:            {-32603, 503, "too many bytes of messages are in hand"},
	shuttingDown:      {-32603, 503, "shutting down"},
	panicked:          {-32603, 500, "internal error"},

	metaInvalid:         {-32602, 400, "Missing or invalid _meta field"},
	headerMismatch:      {-32020, 400, "Header does not match the body"},
	capabilityMissing:   {-32021, 400, "Missing required client capability"},
	revisionUnsupported: {-32022, 400, "Unsupported protocol version"},
	methodUnknown:       {-32601, 404, "Method not found"},
	stateInvalid:        {-32602, 200, "Invalid or expired requestState"},
	inputsInvalid:       {-32602, 200, "inputResponses must be an object of objects"},
	superseded:          {-32600, 200, "superseded by a newer retry"},
	tooManyParked:       {-32603, 503, "too many calls wait for answers of their clients"},
}

// failure is an error for a client.
type failure struct {
	cause  cause
	code   int
	status int
	text   string
	id     []byte // raw; nil where the message had none that could be read
	data   []byte // raw JSON; nil for none
	header []downstream.Header
	err    error // what was behind it, for the log

	reported bool           // it was logged and counted
	why      failures.Cause // that it was counted by; "" for none

	verbatim []byte // the JSON-RPC error as the server sent it; nil for one of ours
}

// fail is the failure of a cause; detail is put behind the table's text.
func fail(c cause, detail string) *failure {
	f := &failure{cause: c, code: causes[c].code, status: causes[c].status, text: causes[c].text}
	if detail != "" {
		f.text += ": " + detail
	}
	return f
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.text + ": " + f.err.Error()
	}
	return f.text
}

func (f *failure) Unwrap() error { return f.err }

// about gives the failure the id of the request that failed, where it has none.
func (f *failure) about(id []byte) *failure {
	if f.id == nil && id != nil {
		f.id = bytes.Clone(id)
	}
	return f
}

// body is the JSON-RPC error.
func (f *failure) body() []byte {
	if f.verbatim != nil {
		return f.verbatim
	}
	return appendError(nil, f.id, f.code, f.text, f.data)
}

// nullID is how an error begins that names no request.
const nullID = `{"jsonrpc":"2.0","id":null,`

// bodyTo is the JSON-RPC error for a client of this revision, nil where that is not
// known: revisions that allow it get no id in place of null, which some clients refuse.
func (f *failure) bodyTo(r *translate.Revision) []byte {
	body := f.body()
	if rest, ok := bytes.CutPrefix(body, []byte(nullID)); ok && f.verbatim == nil && r != nil && r.ErrorWithoutID {
		return append([]byte(`{"jsonrpc":"2.0",`), rest...)
	}
	return body
}

// asFailure finds out what a client is to be told about err. The failure is the
// caller's.
func asFailure(err error) *failure {
	var (
		f        *failure
		envelope *wire.EnvelopeError
		rule     *translate.Error
		status   *upstream.StatusError
		exit     *upstream.ExitError
		again    *restartError
		mute     *upstream.MuteError
		full     *large.NoRoomError
		timeout  interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &f):
		own := *f // several requests may fail by the same error
		if err == error(f) {
			return &own
		}
		f = &own
	case errors.As(err, &envelope):
		f = &failure{code: envelope.Code, status: http.StatusBadRequest, text: envelope.Why, id: envelope.ID}
	case errors.Is(err, errTooManyOpen):
		f = fail(tooManyOpen, "")
	case errors.Is(err, processes.ErrFull):
		f = fail(tooManyProcesses, "")
	case errors.Is(err, errDuplicateID):
		f = fail(duplicateID, "")
	case errors.As(err, &rule):
		f = fail(untranslatable, "")
		f.text = rule.Error()
	case errors.As(err, &status):
		f = refusedWith(status)
	case errors.As(err, &again):
		f = fail(upstreamRestarted, again.err.Error())
		if errors.Is(again.err, upstream.ErrLost) {
			f.text = "upstream session ended and is begun again; the request was lost"
		}
	case errors.As(err, &exit):
		f = fail(upstreamLost, exit.Error())
	case errors.Is(err, upstream.ErrLost):
		f = fail(upstreamLost, "")
		f.text = "upstream session ended"
	case errors.As(err, &full):
		f = fail(noRoom, full.Error())
	case errors.Is(err, errShutdown), errors.Is(err, downstream.ErrStopped):
		f = fail(shuttingDown, "")
	case errors.As(err, &mute):
		f = fail(upstreamTimeout, "")
		f.text += mute.Printed()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f = fail(upstreamTimeout, "")
	case errors.Is(err, io.EOF):
		f = fail(upstreamSilent, "")
	default:
		f = fail(upstreamDown, unreached(err))
	}
	if f.err == nil && error(f) != err {
		f.err = err
	}
	return f
}

// reason is the innermost part of a network error: "connection refused" rather
// than the addresses around it. Of a program that cannot be started its name is
// the half of the story.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound) {
		return err.Error()
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// unreached is what clients are told of a server that cannot be reached, without addresses
// of ours.
func unreached(err error) string {
	switch failures.Of(err) {
	case failures.DNS:
		return "server name not found"
	case failures.TLSUnknownCA, failures.TLSName, failures.TLSExpired:
		return "server certificate not trusted"
	}
	return reason(err)
}

// refusedWith passes on what the server said with a status other than success.
// Its own JSON-RPC error is kept where there is one.
func refusedWith(e *upstream.StatusError) *failure {
	f := fail(upstreamRefused, "")
	f.status = e.Code
	f.text = "upstream answered " + strconv.Itoa(e.Code) + " " + http.StatusText(e.Code)
	if e.Code < 400 || e.Code > 599 {
		f.status = http.StatusBadGateway
	}
	for _, h := range e.Header {
		if strings.EqualFold(h.Name, "WWW-Authenticate") || strings.EqualFold(h.Name, "Retry-After") {
			f.header = append(f.header, downstream.Header{Name: h.Name, Value: h.Value})
		}
	}
	var m wire.Message
	if m.Scan(e.Body, nil) != nil || m.Kind != wire.Error {
		said := plainWords(e)
		switch {
		case e.Code == http.StatusBadRequest && strings.HasPrefix(said, notHandled) && strings.HasSuffix(said, " unsupported"):
			f.code, f.text, f.status = methodNotFound, "Method not found: "+said, http.StatusOK
		case said != "":
			f.text += ": " + said
		}
		return f
	}
	said := gjson.GetMany(view(m.Error()), "code", "message", "data")
	if said[0].Type == gjson.Number && said[1].Type == gjson.String {
		f.code, f.text = int(said[0].Int()), said[1].String()
		if said[2].Exists() {
			f.data = []byte(said[2].Raw)
		}
	}
	return f
}

// sessionless is f's status for a client without a session.
func (f *failure) sessionless() int {
	if f.status == http.StatusOK {
		return statusFor(int64(f.code))
	}
	return f.status
}

// notHandled is how servers on the Go SDK before 1.8 begin what they say, in plain text
// and with 400, to a request for a method that they do not know.
const notHandled = "JSON RPC not handled: "

// plainWords is the plain text that a refusal came with, on one line and without
// what a terminal would act on; "" for any other type.
func plainWords(e *upstream.StatusError) string {
	plain := false
	for _, h := range e.Header {
		mediaType, _, err := mime.ParseMediaType(h.Value)
		plain = plain || err == nil && mediaType == "text/plain" && strings.EqualFold(h.Name, "Content-Type")
	}
	if !plain {
		return ""
	}
	return failures.Line(string(e.Body))
}

// appendError appends a JSON-RPC error. A nil id is written as null, as
// JSON-RPC wants it where the id could not be read.
func appendError(dst, id []byte, code int, text string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, text)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, data...)
	}
	return append(dst, `}}`...)
}

// appendResult appends a JSON-RPC result.
func appendResult(dst, id []byte, result string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

func appendID(dst, id []byte) []byte {
	if len(id) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // "->" should read as it is
	if err := enc.Encode(s); err != nil {
		return append(dst, `""`...)
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// handshakeNames are the revisions a client may initialize with, newest first.
func handshakeNames() []string {
	var names []string
	for _, r := range translate.Handshake() {
		names = append(names, r.Name)
	}
	return names
}

// refuseUninitialized is the answer to whoever did not initialize. It lists
// our revisions, which sends clients that also know newer ways to initialize.
func refuseUninitialized(c cause) *failure {
	f := fail(c, "")
	f.text = fmt.Sprintf("%s; supported: %s", causes[c].text, strings.Join(handshakeNames(), ", "))
	return f
}
