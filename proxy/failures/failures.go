// Package failures names the ways in which requests to a server fail: the label that
// metrics count them by, how loud the log is about each, and what to do about it.
package failures

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Cause is what a failed request is counted and logged by; "" is no failure of the server.
type Cause string

// The causes.
const (
	DNS              Cause = "dns"
	Refused          Cause = "refused"
	ConnectTimeout   Cause = "connect_timeout"
	TLSUnknownCA     Cause = "tls_unknown_ca"
	TLSName          Cause = "tls_name"
	TLSExpired       Cause = "tls_expired"
	TLSPlain         Cause = "tls_plain"
	TLSRefused       Cause = "tls_refused"
	Unauthorized     Cause = "unauthorized"
	Forbidden        Cause = "forbidden"
	NotFound         Cause = "not_found"
	SessionLost      Cause = "session_lost"
	HTTPStatus       Cause = "http_status"
	NotMCP           Cause = "not_mcp"
	Malformed        Cause = "malformed"
	UnknownID        Cause = "unknown_id"
	TimeoutFirstByte Cause = "timeout_first_byte"
	TimeoutSilence   Cause = "timeout_silence"
	StreamClosed     Cause = "stream_closed"
	CommandNotFound  Cause = "command_not_found"
	CommandExit      Cause = "command_exit"
	CommandMute      Cause = "command_mute"
	Revision         Cause = "revision"
	EraChanged       Cause = "era_changed"
	Untranslatable   Cause = "untranslatable"
	RateLimited      Cause = "rate_limited"
	Busy             Cause = "busy"
	ReplicaLost      Cause = "replica_lost"
	ClientLeft       Cause = "client_left"
	Panic            Cause = "panic"
)

// about is the level and the advice of each cause.
var about = map[Cause]struct {
	level  zapcore.Level
	advice string
}{
	DNS:              {zapcore.WarnLevel, "check the host in upstream.url, and the resolver of this machine"},
	Refused:          {zapcore.WarnLevel, "is the server running at this host and port? check upstream.url"},
	ConnectTimeout:   {zapcore.WarnLevel, "nothing answers at this host and port: check upstream.url and firewalls"},
	TLSUnknownCA:     {zapcore.WarnLevel, "name the certificate of the server's authority in upstream.ca_file"},
	TLSName:          {zapcore.WarnLevel, "use one of the names that the certificate has in upstream.url"},
	TLSExpired:       {zapcore.WarnLevel, "renew the server's certificate, or correct the clock of this machine"},
	TLSPlain:         {zapcore.WarnLevel, "one side speaks TLS and the other does not: swap http:// and https:// in upstream.url"},
	TLSRefused:       {zapcore.WarnLevel, "the TLS handshake failed: check the server's TLS versions and whether it wants a client certificate"},
	Unauthorized:     {zapcore.WarnLevel, "give the server's token with --header 'Authorization: …', or let clients send theirs"},
	Forbidden:        {zapcore.WarnLevel, "the server does not allow this to these credentials: check their scope, or --header 'Authorization: …'"},
	NotFound:         {zapcore.WarnLevel, "no MCP endpoint at this path: check the path of upstream.url; /mcp and /sse are usual"},
	SessionLost:      {zapcore.InfoLevel, "was the server restarted? a new session is begun where that is possible"},
	HTTPStatus:       {zapcore.WarnLevel, "check upstream.url; of a redirect, name its target there; the server's own log says more"},
	NotMCP:           {zapcore.WarnLevel, "is a login page or another gateway in between? check upstream.url"},
	Malformed:        {zapcore.WarnLevel, "the server does not send JSON-RPC, or a message beyond limits.upstream_message"},
	UnknownID:        {zapcore.InfoLevel, "the server answers with other ids than it was asked with"},
	TimeoutFirstByte: {zapcore.WarnLevel, "raise limits.time for this method, if the server needs longer"},
	TimeoutSilence:   {zapcore.WarnLevel, "raise limits.time for this method, if the server needs longer between two messages"},
	StreamClosed:     {zapcore.WarnLevel, "the connection ended before the answer: idle timeout of a load balancer, or a crash of the server?"},
	CommandNotFound:  {zapcore.ErrorLevel, "check upstream.command and PATH"},
	CommandExit:      {zapcore.WarnLevel, "the server's own last lines say why; upstream.restart bounds how often it is started again"},
	CommandMute:      {zapcore.WarnLevel, "is this command an MCP server on stdio? its stdout must hold JSON-RPC alone"},
	Revision:         {zapcore.WarnLevel, "the server speaks no revision that is known here: see upstream.version"},
	EraChanged:       {zapcore.WarnLevel, "the server was replaced by one of other revisions: clients initialize again; see upstream.version"},
	Untranslatable:   {zapcore.WarnLevel, "the client's revision cannot say this: use a newer client, or see contract in the configuration"},
	RateLimited:      {zapcore.InfoLevel, "the server asks for fewer requests; clients get its Retry-After"},
	Busy:             {zapcore.WarnLevel, "a limit of ours is reached: raise the one named, or run more replicas"},
	ReplicaLost:      {zapcore.WarnLevel, "the replica that held the session or the call is gone or cannot be reached"},
	ClientLeft:       {zapcore.DebugLevel, ""},
	Panic:            {zapcore.ErrorLevel, "a defect of dragoman: report it, with its version and the stack"},
}

// Level is how loud the log is about c.
func (c Cause) Level() zapcore.Level { return about[c].level }

// Advice is what to do about c.
func (c Cause) Advice() string { return about[c].advice }

// Of is the cause of an error of package upstream.
func Of(err error) Cause {
	var (
		dns    *net.DNSError
		at     *upstream.Error
		kind   *upstream.ContentTypeError
		coded  *upstream.EncodingError
		status *upstream.StatusError
		large  *upstream.TooLargeError
		noise  *upstream.NoiseError
		mute   *upstream.MuteError
		exit   *upstream.ExitError
		late   interface{ Timeout() bool }
		header *upstream.HeaderError
	)
	switch {
	case errors.As(err, &status):
		return ofStatus(status)
	case errors.As(err, &header):
		return ""
	case errors.As(err, &noise), errors.As(err, &mute):
		return CommandMute
	case errors.As(err, &exit):
		return CommandExit
	case errors.Is(err, upstream.ErrLost):
		return SessionLost
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrNotFound):
		return CommandNotFound
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &kind), errors.As(err, &coded):
		return NotMCP
	case errors.As(err, &large):
		return Malformed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return ofTimeout(err)
	case errors.As(err, &at) && strings.HasPrefix(at.Op, "tls"):
		return ofTLS(err)
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &at) && at.Op == "connect":
		return Refused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return StreamClosed
	}
	return Malformed
}

func ofStatus(e *upstream.StatusError) Cause {
	switch e.Code {
	case 401:
		return Unauthorized
	case 403:
		return Forbidden
	case 404:
		return NotFound
	case 429:
		return RateLimited
	case 400:
		if said := string(e.Body[:min(len(e.Body), 1024)]); strings.Contains(said, "HTTP request") && strings.Contains(said, "HTTPS") {
			return TLSPlain // as Go's servers and nginx say it
		}
	}
	return HTTPStatus
}

func ofTimeout(err error) Cause {
	var at *upstream.Error
	switch {
	case errors.As(err, &at) && (at.Op == "connect" || strings.HasPrefix(at.Op, "tls")):
		return ConnectTimeout
	case errors.Is(err, upstream.ErrSilence):
		return TimeoutSilence
	}
	return TimeoutFirstByte
}

func ofTLS(err error) Cause {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &record):
		return TLSPlain
	case errors.As(err, &name):
		return TLSName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return TLSExpired
	case errors.As(err, &authority), errors.As(err, &invalid):
		return TLSUnknownCA
	}
	return TLSRefused
}

// maxText is how much of a peer's text goes into an error or a log line, in bytes.
const maxText = 300

// Line is a peer's text on one line, cut, and without what a terminal would act on.
func Line(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 4*maxText)], "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r): // bidirectional marks are among these
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

var (
	userinfo    = regexp.MustCompile(`(://)[^\s/?#"']*@`)
	query       = regexp.MustCompile(`(://[^\s?"']*)\?[^\s"']*`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]{6,}`)
)

// minSecret is the length below which a header's value is too common to be struck out.
const minSecret = 6

// Redacted is text without these values of headers, and without what looks like credentials.
func Redacted(text string, secrets []string) string {
	for _, s := range secrets {
		if _, token, ok := strings.Cut(s, " "); ok && len(token) >= minSecret {
			text = strings.ReplaceAll(text, token, "[redacted]")
		}
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	text = userinfo.ReplaceAllString(text, "$1")
	text = query.ReplaceAllString(text, "$1?[redacted]")
	return credentials.ReplaceAllString(text, "$1 [redacted]")
}
