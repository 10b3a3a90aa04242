// Package failures names the causes for which requests to a server fail: each with its label
// in metrics, its level in the log and the advice that the log gives.
package failures

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Cause is why a request failed, as metrics and log lines name it; "" if the failure is not
// one of the server.
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
	WebProxy         Cause = "web_proxy"
	Unauthorized     Cause = "unauthorized"
	Forbidden        Cause = "forbidden"
	HostRefused      Cause = "host_refused"
	NoCredential     Cause = "no_credential"
	NotFound         Cause = "not_found"
	SessionLost      Cause = "session_lost"
	HTTPStatus       Cause = "http_status"
	NotMCP           Cause = "not_mcp"
	Malformed        Cause = "malformed"
	UnknownID        Cause = "unknown_id"
	TimeoutFirstByte Cause = "timeout_first_byte"
	TimeoutSilence   Cause = "timeout_silence"
	StreamClosed     Cause = "stream_closed"
	ConnectionDead   Cause = "connection_dead"
	CommandNotFound  Cause = "command_not_found"
	CommandExit      Cause = "command_exit"
	CommandMute      Cause = "command_mute"
	CommandUnread    Cause = "command_unread"
	Revision         Cause = "revision"
	EraChanged       Cause = "era_changed"
	Untranslatable   Cause = "untranslatable"
	RateLimited      Cause = "rate_limited"
	Busy             Cause = "busy"
	ReplicaLost      Cause = "replica_lost"
	ClientLeft       Cause = "client_left"
	Cancelled        Cause = "cancelled"
	Panic            Cause = "panic"
)

// Causes of log lines that are not about a failed request.
const (
	Refusal    Cause = "initialize_refused"
	NoToken    Cause = "no_token"
	NotAllowed Cause = "not_allowed"
	SlowClient Cause = "slow_client"
	Dropped    Cause = "dropped"
)

// about has the level and the advice of each cause.
var about = map[Cause]struct {
	level  zapcore.Level
	advice string
}{
	DNS:              {zapcore.WarnLevel, "check the host in the server's URL (upstream.url), and the resolver of this machine"},
	Refused:          {zapcore.WarnLevel, "start the server, or correct its URL (upstream.url)"},
	ConnectTimeout:   {zapcore.WarnLevel, "nothing answers at this host and port: check the server's URL (upstream.url) and firewalls, and raise upstream.connect_timeout if the way is slow"},
	TLSUnknownCA:     {zapcore.WarnLevel, "name the file with the certificate of the authority that signed the server's: --ca FILE (upstream.ca_file)"},
	TLSName:          {zapcore.WarnLevel, "use a name in the URL (upstream.url) that the certificate is for, or renew the certificate for this one"},
	TLSExpired:       {zapcore.WarnLevel, "renew the server's certificate, or correct the clock of this machine"},
	TLSPlain:         {zapcore.WarnLevel, "one side speaks TLS and the other does not: change http:// to https:// in the URL (upstream.url), or https:// to http://"},
	TLSRefused:       {zapcore.WarnLevel, "the TLS handshake failed: check the server's TLS versions, and the client certificate (upstream.client_cert) if it requires one"},
	WebProxy:         {zapcore.WarnLevel, "the web proxy (HTTPS_PROXY, HTTP_PROXY) does not let the request through: with 407 it wants user and password in its URL, with 403 it must allow the server's host and port; NO_PROXY names servers that are reached without it"},
	Unauthorized:     {zapcore.WarnLevel, "give the server's token with --header 'Authorization: …' (upstream.headers), or let clients send theirs"},
	Forbidden:        {zapcore.WarnLevel, "the server refuses these credentials: check what they are allowed to do, or give others with --header 'Authorization: …'"},
	HostRefused:      {zapcore.WarnLevel, "the server takes requests for certain host names only: use one of them in the URL (upstream.url), or let the server allow this one"},
	NoCredential:     {zapcore.WarnLevel, "dragoman has no valid token for the server: the error says why and what to do; docs/authorization.md explains upstream.auth"},
	NotFound:         {zapcore.WarnLevel, "no MCP endpoint at this path: check the path of the server's URL (upstream.url), of which dragoman doctor tries the usual ones"},
	SessionLost:      {zapcore.InfoLevel, "was the server restarted? a new session is opened where possible"},
	HTTPStatus:       {zapcore.WarnLevel, "is this the URL of an MCP endpoint? check the server's URL (upstream.url); dragoman doctor says where a redirect leads; the server's own log says more"},
	NotMCP:           {zapcore.WarnLevel, "is a login page or another gateway in between? check the server's URL (upstream.url)"},
	Malformed:        {zapcore.WarnLevel, "is this an MCP server? its answer is not JSON-RPC, nested too deep or larger than limits.upstream_message"},
	UnknownID:        {zapcore.InfoLevel, "the server sent responses with unknown request ids: late, repeated or wrong"},
	TimeoutFirstByte: {zapcore.WarnLevel, "raise limits.time for this method (upstream.handshake_timeout for initialize) if the server needs longer"},
	TimeoutSilence:   {zapcore.WarnLevel, "raise limits.time for this method if the server needs longer between two messages"},
	StreamClosed:     {zapcore.WarnLevel, "the connection ended before the answer: idle timeout of a load balancer, or a crash of the server?"},
	ConnectionDead:   {zapcore.WarnLevel, "the network lost the connection without a word: did this machine sleep or change its network? does a NAT, VPN or firewall forget quiet connections?"},
	CommandNotFound:  {zapcore.ErrorLevel, "check the command (upstream.command): is it a program that this user may run? a script needs #! in its first line"},
	CommandExit:      {zapcore.WarnLevel, "the last lines of the server's standard error say why"},
	CommandMute:      {zapcore.WarnLevel, "is this command an MCP server on stdio? its stdout must hold JSON-RPC alone"},
	CommandUnread:    {zapcore.WarnLevel, "the command hangs, or the system has paused it: what it is doing tells more than its log; upstream.unread_timeout is how long it may read nothing"},
	Revision:         {zapcore.WarnLevel, "the server answered with a revision that dragoman does not know: set upstream.version, or update dragoman or the server"},
	EraChanged:       {zapcore.WarnLevel, "the server was replaced by one with other revisions: clients must initialize again"},
	Untranslatable:   {zapcore.WarnLevel, "the receiver's revision has no form for this message: update the older side, or see contract in the configuration"},
	RateLimited:      {zapcore.InfoLevel, "the server limits the rate of requests; clients get its Retry-After"},
	Busy:             {zapcore.WarnLevel, "the error names a limit of dragoman that is reached: raise it if it is a setting, or run more replicas"},
	ReplicaLost:      {zapcore.WarnLevel, "the replica with the session or the call does not answer: check it, and its store.advertise"},
	ClientLeft:       {zapcore.DebugLevel, ""},
	Cancelled:        {zapcore.DebugLevel, ""},
	Refusal:          {zapcore.WarnLevel, "the server refused initialize: the error says why"},
	Dropped:          {zapcore.DebugLevel, ""},
	NoToken:          {zapcore.InfoLevel, "the client needs one of auth.tokens; the server was not asked"},
	NotAllowed:       {zapcore.InfoLevel, "the request was not forwarded: if its Host or Origin is one of yours, add it to allowed_hosts or cors.origins"},
	SlowClient:       {zapcore.WarnLevel, "the client does not read its streams: the oldest waiting messages are dropped"},
	Panic:            {zapcore.ErrorLevel, "this is a defect of dragoman: report it with version and stack"},
}

// All returns the causes that have a level and an advice.
func All() []Cause { return slices.Sorted(maps.Keys(about)) }

// Level returns the level of log lines about c.
func (c Cause) Level() zapcore.Level { return about[c].level }

// Advice returns what an operator can do about c.
func (c Cause) Advice() string { return about[c].advice }

// Of returns the cause of an error of package upstream.
func Of(err error) Cause {
	var (
		dns    *net.DNSError
		at     *upstream.Error
		kind   *upstream.ContentTypeError
		coded  *unpack.UnknownError
		status *upstream.StatusError
		large  *upstream.TooLargeError
		noise  *upstream.NoiseError
		mute   *upstream.MuteError
		spread *upstream.SpreadError
		exit   *upstream.ExitError
		unread *upstream.UnreadError
		late   interface{ Timeout() bool }
		header *upstream.HeaderError
		lacks  *upstream.CredentialError
		hop    *upstream.ProxyError
	)
	switch {
	case errors.As(err, &lacks):
		return NoCredential
	case errors.As(err, &status):
		return ofStatus(status)
	case errors.As(err, &header):
		return ""
	case errors.As(err, &noise), errors.As(err, &mute), errors.As(err, &spread):
		return CommandMute
	case errors.As(err, &unread):
		return CommandUnread
	case errors.As(err, &exit):
		return CommandExit
	case errors.Is(err, upstream.ErrLost):
		return SessionLost
	case dial.IsDead(err):
		return ConnectionDead
	case errors.As(err, &at) && at.AtProxy():
		return WebProxy
	case errors.As(err, &at) && at.Op == "connect" && NotStartable(err): // of a unix socket
		return Refused
	case NotStartable(err):
		return CommandNotFound
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &kind), errors.As(err, &coded):
		return NotMCP
	case errors.As(err, &large):
		return Malformed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return ofTimeout(err)
	case errors.As(err, &hop):
		return WebProxy
	case errors.As(err, &at) && strings.HasPrefix(at.Op, "tls"), upstream.IsAlert(err):
		return ofTLS(err)
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &at) && at.Op == "connect":
		return Refused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return StreamClosed
	}
	return Malformed
}

// NotStartable reports whether there is no program that the system can start.
func NotStartable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, syscall.ENOEXEC)
}

// hostWords match what servers and frameworks say that check the Host header, such as against DNS rebinding.
var hostWords = pattern.Later(`(?i)\b(invalid|disallowed|unknown|untrusted|blocked) (http_)?host(s|name)?\b|\bhost( header| ?name)?( \S+)?( is)? not (allowed|permitted)|` +
	`\baccess is only allowed at |dns rebinding`)

// refusesHost reports whether a refusal is about the Host header, which has a status of its own since HTTP/2. With 400 only texts and
// pages of web servers are read: an MCP server's error may be about the host that a tool is to call.
func refusesHost(e *upstream.StatusError) bool {
	said := e.Body[:min(len(e.Body), 1024)]
	switch e.Code {
	case 421:
		return true
	case 400:
		return !bytes.HasPrefix(said, []byte("{")) && hostWords().Match(said)
	}
	return e.Code == 403 && hostWords().Match(said)
}

func ofStatus(e *upstream.StatusError) Cause {
	if refusesHost(e) {
		return HostRefused
	}
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
			return TLSPlain // the text of Go's servers and of nginx
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
