package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Error is a failure to reach a server, or to understand its answer. It reads "upstream
// 127.0.0.1:3000: connect: connection refused" and contains no header of either direction.
type Error struct {
	Op   string // connect, tls, "tls of the proxy", start, write or read
	Addr string // host:port of the server, or the name of its command
	Via  string // host:port of the web proxy on the way; "" for none
	Err  error

	Unanswered bool // nothing of a response was read
}

func (e *Error) Error() string {
	cause := e.Err
	if op, ok := errors.AsType[*net.OpError](cause); ok {
		cause = op.Err // without the addresses, one of which is dragoman's
	}
	addr := e.Addr
	if e.Via != "" {
		addr += " by proxy " + e.Via
	}
	if call, ok := errors.AsType[*os.SyscallError](cause); ok {
		return fmt.Sprintf("upstream %s: %v", addr, call) // the error names the operation itself
	}
	what := e.Op + ": "
	if strings.HasPrefix(cause.Error(), what) {
		what = "" // the error names the operation
	}
	return fmt.Sprintf("upstream %s: %s%v", addr, what, cause)
}

// AtProxy reports whether the web proxy on the way cannot be reached, or gives no tunnel to the server.
func (e *Error) AtProxy() bool { return e.Via != "" && e.Op == "connect" }

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit was exceeded.
func (e *Error) Timeout() bool {
	return isTimeout(e.Err)
}

// opWait is the operation of an Error for a request that was taken back, because a child was busy for too long.
const opWait = "wait"

// NeverSent reports whether a request failed before the server can have seen it.
func NeverSent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Op == "connect" || strings.HasPrefix(e.Op, "tls") || e.Op == "start" || e.Op == opWait)
}

// IsAlert reports whether the peer has ended TLS by an alert. In TLS 1.3 that comes behind the handshake if a server refuses the
// certificate of a client.
func IsAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" // the type of the alert is not exported
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool } // os.ErrDeadlineExceeded and context.DeadlineExceeded have it
	return errors.As(err, &t) && t.Timeout()
}

// silence is the error for a peer that sent nothing within the time limit.
type silence struct {
	what   string
	after  time.Duration
	midway bool // the peer had sent something before
}

func (e *silence) Error() string { return fmt.Sprintf("%s within %v", e.what, e.after) }
func (*silence) Timeout() bool   { return true }

// Is reports whether target is ErrSilence and the time ran out after the server had begun to answer.
func (e *silence) Is(target error) bool { return target == ErrSilence && e.midway }

// StatusError is a response with a status other than the expected one.
type StatusError struct {
	Code   int
	Header []mcp.Header // WWW-Authenticate, Retry-After and Content-Type, where present
	Passed []mcp.Header // those that [HTTPConfig].Pass names
	Target string       // of a redirect, without credentials and query; "" for none
	Body   []byte       // at most 64 KiB of it; it may contain a JSON-RPC error
}

func (e *StatusError) Error() string {
	s := "upstream answered " + Status(e.Code)
	if e.Target != "" {
		s += " to " + e.Target
	}
	return s
}

// Status returns an HTTP status with its text, if it has one: CDNs have statuses of their own.
func Status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// IsConflict reports whether err is the status 409, with which a server refuses a second stream where it has one already.
func IsConflict(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code == http.StatusConflict
}

// Challenges returns the values of the WWW-Authenticate headers.
func (e *StatusError) Challenges() (all []string) {
	for _, h := range e.Header {
		if strings.EqualFold(h.Name, "WWW-Authenticate") {
			all = append(all, h.Value)
		}
	}
	return all
}

// ContentTypeError is a successful response whose body has a type that carries no messages.
type ContentTypeError struct {
	Type   string // at most 100 bytes of it
	Stream bool   // only a stream was expected
}

func (e *ContentTypeError) Error() string {
	expected := "application/json or text/event-stream"
	if e.Stream {
		expected = "text/event-stream"
	}
	if e.Type == "" {
		return "response without a Content-Type, expected " + expected
	}
	return fmt.Sprintf("response of type %q, expected %s", e.Type, expected)
}

// TooLargeError is the error for a message that is larger than the limit, or for which
// limits.in_hand left no memory.
type TooLargeError struct {
	Limit   int
	NoRoom  error  // a *large.NoRoomError; nil if the message is larger than Limit
	Skipped bool   // the message was skipped and the stream goes on
	Answers []byte // raw id of the request that the message answers; nil if it is not known
	Asks    bool   // the message is a request or a notification
}

// tooLarge returns the error for a message of which m has seen what was read.
func tooLarge(limit int, skipped bool, m *envelope.Finder, noRoom error) *TooLargeError {
	e := &TooLargeError{Limit: limit, NoRoom: noRoom, Skipped: skipped, Asks: m.Method()}
	if !e.Asks {
		e.Answers = m.ID()
	}
	return e
}

func (e *TooLargeError) Unwrap() error { return e.NoRoom }

func (e *TooLargeError) Error() string {
	if e.NoRoom != nil {
		return e.NoRoom.Error()
	}
	return fmt.Sprintf("message is larger than the limit of %d bytes", e.Limit)
}

// SpreadError says that a child has printed a message over several lines of its standard output, after which others may follow.
type SpreadError struct {
	From, To int    // numbers of its first and its last line, without empty ones
	Begins   string // its beginning, as Stdio.Quote returns it
	Answers  []byte // raw id of the request that the message answers; nil for none
	Asks     bool   // the message is a request or a notification
}

func (e *SpreadError) Error() string {
	return fmt.Sprintf("it has printed a message over the lines %d to %d of its standard output, where each must be on one line, without indentation: %s", e.From, e.To, e.Begins)
}

// HeaderError is a header that cannot be sent.
type HeaderError struct {
	Name   string
	Reason string
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("header %.100q: %s", e.Name, e.Reason)
}

// ExitError says that the child process has ended. Its end after Close is not an error.
type ExitError struct {
	Command string        // the first word of its command line
	Status  string        // "exit status 1", "signal: killed", as the system reports it
	Lived   time.Duration // from its start to its end
	Stderr  string        // what [Telling] finds in the end of its standard error, as Stdio.Quote returns it
	Tail    []string      // the last 20 lines of its standard error, oldest first
	Err     error         // why it was stopped; nil if it ended by itself
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("upstream %q ended (%s)", e.Command, e.Status)
	if e.Err != nil {
		s = fmt.Sprintf("upstream %q was stopped: %v (%s)", e.Command, e.Err, e.Status)
	}
	if e.Stderr != "" {
		s += fmt.Sprintf("; standard error: %q", e.Stderr)
	}
	return s
}

func (e *ExitError) Unwrap() error { return e.Err }

// MuteError says that a child has written no message yet.
type MuteError struct {
	Command string        // the first word of its command line
	Waited  time.Duration // since its start
	Lines   int           // number of lines on its standard output that are not messages
	Said    []string      // the first of these lines, as Stdio.Quote returns them
	Stderr  string        // what [Telling] finds in the end of its standard error, as Stdio.Quote returns it
}

func (e *MuteError) Error() string {
	return fmt.Sprintf("upstream %q has sent no message for %v", e.Command, e.Waited.Round(time.Second/10)) + e.Printed()
}

// Printed quotes what the child wrote instead of messages, to be appended to a text. It returns ""
// if the child wrote nothing.
func (e *MuteError) Printed() (s string) {
	if e.Lines > 0 {
		s = fmt.Sprintf("; its standard output is not JSON: %q", e.Said)
	}
	if more := e.Lines - len(e.Said); more > 0 {
		s += fmt.Sprintf(" and %d more lines", more)
	}
	if e.Stderr != "" {
		s += fmt.Sprintf("; standard error: %q", e.Stderr)
	}
	return s
}

// Timeout returns true: the wait for a message has ended.
func (e *MuteError) Timeout() bool { return true }

// NoiseError says that a child wrote too many lines other than messages to its standard output
// before its first message.
type NoiseError struct {
	Lines int    // number of these lines
	First string // the first of them, as Stdio.Quote returns it
}

func (e *NoiseError) Error() string {
	return fmt.Sprintf("it has written %d lines to its standard output that are not JSON-RPC, beginning with %q", e.Lines, e.First)
}

// cut returns at most n bytes of s as a string of its own, with a mark where it is longer: what was cut may be a secret.
func cut[T ~string | ~[]byte](s T, n int) string {
	if len(s) <= n {
		return string(s)
	}
	return string(s[:n]) + ellipsis
}

const ellipsis = "…"

// skipped reports whether err is about one message, after which the stream goes on.
func skipped(err error) bool {
	large, ok := errors.AsType[*TooLargeError](err)
	_, printed := errors.AsType[*SpreadError](err)
	return ok && large.Skipped || printed
}

var errHead = errors.New("malformed HTTP response")
