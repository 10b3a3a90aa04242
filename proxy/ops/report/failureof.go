package report

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The causes with which dragoman itself ends calls, streams and sessions, or refuses to begin them.
var (
	ErrShutdown         = errors.New("dragoman is shutting down")
	ErrTakenUp          = errors.New("another request has resumed the stream")
	ErrEraChanged       = errors.New("the server was replaced by one of the other era")
	ErrOthersState      = errors.New("dragoman has not made this requestState")
	ErrNoNewSession     = errors.New("the server refuses a new session")
	ErrHandshakeRefused = errors.New("the server refused the handshake")
)

// ErrIdle is why a session ends that was not used. It is an [ErrShutdown], too: neither the client nor the server has failed.
var ErrIdle error = idle{}

type idle struct{}

// Error implements error.
func (idle) Error() string {
	return "it was not used for session.idle_timeout, or its id has expired"
}

// Is reports that it is an [ErrShutdown], too.
func (idle) Is(err error) bool { return err == ErrShutdown }

// FailureOf returns the failure that the client gets for err: the code and the text of a JSON-RPC error, and the status and headers of
// an HTTP response. It is one table, from the errors of all packages and transports to the causes of package mcp, and leaves out
// dragoman's own addresses, and texts that a server did not mean for clients. The failure wraps err and belongs to the caller.
func FailureOf(err error) *mcp.Failure {
	var (
		f        *mcp.Failure
		envelope *wire.EnvelopeError
		rule     *translate.Error
		status   *upstream.StatusError
		exit     *upstream.ExitError
		again    *pipes.RestartError
		mute     *upstream.MuteError
		full     *large.NoRoomError
		lacks    *upstream.CredentialError
		told     interface{ ForClient() }
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
		f = &mcp.Failure{Code: envelope.Code, Status: http.StatusBadRequest, Text: envelope.Why, ID: envelope.ID}
	case errors.Is(err, requests.ErrTooMany):
		f = mcp.Fail(mcp.TooManyOpen, "")
	case errors.Is(err, processes.ErrFull):
		f = mcp.Fail(mcp.TooManyProcesses, "")
	case errors.Is(err, requests.ErrDuplicate):
		f = mcp.Fail(mcp.DuplicateID, "")
	case errors.As(err, &rule):
		f = mcp.Fail(mcp.Untranslatable, "")
		f.Text = rule.Error()
	case errors.As(err, &status):
		f = refusedWith(status, err)
	case errors.As(err, &lacks):
		f = mcp.Fail(mcp.NoCredential, "")
		if errors.As(lacks.Err, &told) {
			f.Text = lacks.Error()
		}
	case errors.As(err, &again):
		f = mcp.Fail(mcp.UpstreamRestarted, again.Err.Error())
		if errors.Is(again.Err, upstream.ErrLost) {
			f.Text = "upstream session ended and is begun again; the request was lost"
		}
	case errors.As(err, &exit):
		f = mcp.Fail(mcp.UpstreamLost, exit.Error())
	case errors.Is(err, upstream.ErrLost):
		f = mcp.Fail(mcp.UpstreamLost, "")
		f.Text = "upstream session ended"
	case errors.As(err, &full):
		f = mcp.Fail(mcp.NoRoom, full.Error())
	case errors.Is(err, ErrShutdown), errors.Is(err, downstream.ErrStopped):
		f = mcp.Fail(mcp.ShuttingDown, "")
	case errors.As(err, &mute):
		f = mcp.Fail(mcp.UpstreamTimeout, "")
		f.Text += mute.Printed()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f = mcp.Fail(mcp.UpstreamTimeout, "")
	case errors.Is(err, io.EOF):
		f = mcp.Fail(mcp.UpstreamSilent, "")
	default:
		f = mcp.Fail(mcp.UpstreamDown, unreached(err))
	}
	if f.Err == nil && error(f) != err {
		f.Err = err
	}
	return f
}

// Reason returns the text of the innermost error, as "connection refused" without the addresses around
// it. If a program or file is missing or may not be used, it returns the whole text, which includes
// the name.
func Reason(err error) string {
	if failures.NotStartable(err) { // the name of the program is in the error around it
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

// MayBeDone ends the text of a failure after which a request may have been carried out.
const MayBeDone = "; the server may have done what was asked"

// unreached returns the text for clients about a server that cannot be reached, without dragoman's own
// addresses.
func unreached(err error) string {
	switch failures.Of(err) {
	case failures.DNS:
		if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsNotFound {
			return "server name cannot be looked up now"
		}
		return "server name not found"
	case failures.TLSUnknownCA:
		return "server certificate not trusted: its authority is not known"
	case failures.TLSName:
		return "server certificate not trusted: it is for another name"
	case failures.TLSExpired:
		return "server certificate not trusted: it has expired, or is not valid yet"
	case failures.TLSPlain:
		return "the server speaks no TLS"
	case failures.WebProxy:
		if _, answered := errors.AsType[*upstream.ProxyError](err); !answered {
			return "the web proxy on the way cannot be used: " + Reason(err)
		}
	case failures.CommandNotFound:
		if path := failures.MissingProgram(err); path != "" {
			return "the command cannot be started: no such file: " + path
		}
		return "the command cannot be started: " + Reason(startError(err))
	case failures.ConnectionDead:
		return Reason(err) + MayBeDone
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && !upstream.NeverSent(err) {
		return "the connection ended before the answer was complete" + MayBeDone
	}
	return Reason(err)
}

// startError returns the reason why a command cannot be started, without the steps that led there.
func startError(err error) error {
	if at, ok := errors.AsType[*upstream.Error](err); ok && at.Op == "start" {
		return at.Err
	}
	return err
}

// refusedWith returns the failure for a response with a status other than success, in err. It keeps the
// server's own JSON-RPC error if there is one.
func refusedWith(e *upstream.StatusError, err error) *mcp.Failure {
	f := mcp.Fail(mcp.UpstreamRefused, "")
	f.Status = e.Code
	f.Text = "upstream answered " + upstream.Status(e.Code)
	if e.Code < 400 || e.Code > 599 {
		f.Status = http.StatusBadGateway
	}
	for _, h := range e.Header {
		if strings.EqualFold(h.Name, "WWW-Authenticate") || strings.EqualFold(h.Name, "Retry-After") {
			f.Header = append(f.Header, h)
		}
	}
	f.Header = append(f.Header, e.Passed...)
	var m wire.Message
	if m.Scan(e.Body, nil) != nil || m.Kind != wire.Error {
		said := PlainWords(e)
		switch {
		case e.Code == http.StatusBadRequest && strings.HasPrefix(said, notHandled) && strings.HasSuffix(said, " unsupported"):
			f.Code, f.Text, f.Status = mcp.CodeMethodNotFound, "Method not found: "+said, http.StatusOK
		case said != "":
			f.Text += ": " + said
		}
		if both, ok := errors.AsType[*upstream.TransportError](err); ok {
			if _, refused := errors.AsType[*upstream.StatusError](both.Get); !refused { // a refusal is what other transports get
				f.Text += "; and its stream (GET) is not one of HTTP+SSE: " + Reason(both.Get)
			}
		}
		return f
	}
	said := gjson.GetManyBytes(m.Error(), "code", "message", "data")
	if said[0].Type == gjson.Number && said[1].Type == gjson.String {
		f.Code, f.Text = int(said[0].Int()), said[1].String()
		if said[2].Exists() {
			f.Data = []byte(said[2].Raw)
		}
	}
	return f
}

// notHandled begins the plain text that servers on the Go SDK before 1.8 return, with status 400, for
// a method that they do not know.
const notHandled = "JSON RPC not handled: "

// PlainWords returns the body of a refusal if its type is text/plain, shortened, on one line and without
// terminal control sequences. It returns "" for another type.
func PlainWords(e *upstream.StatusError) string {
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

// Unreachable reports whether err says that the server cannot be reached, or that it gave no complete and
// readable answer.
func Unreachable(err error) bool {
	f := FailureOf(err)
	switch f.Cause {
	case mcp.UpstreamDown, mcp.UpstreamTimeout, mcp.UpstreamLost, mcp.UpstreamSilent, mcp.UpstreamGarbled:
		return true
	case mcp.UpstreamRefused:
		return f.Status == 502 || f.Status == 503 || f.Status == 504 // a gateway before the server says so
	}
	return false
}
