// Package report logs and counts what fails, each failure once.
//
// Errors go up to the edge as values. Where one becomes the answer to a client it passes
// [Reporter.Failed], which logs and counts it once and returns the failure that the client gets. Other
// methods are for what fails without a request: a message that is dropped, a server that is lost, a
// panic. The first line of a kind is written at once, and its repeats once a minute. No line holds a
// secret of the configuration or a credential of the client.
package report

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxKinds bounds the kinds of failures whose repeats are merged in the log.
const maxKinds = 256

// Reporter logs and counts failures. It is safe for concurrent use.
type Reporter struct {
	log      *zap.Logger
	metrics  *metrics.Metrics
	now      func() Setup
	version  string
	repeats  *repeats[kind, line]
	restarts atomic.Int64 // the number of restarts of the server's processes and sessions
	near     atomic.Bool  // clients are on this machine
	found    atomic.Pointer[finding]

	// Lost is called when a session cannot begin because there is no endpoint at the server's URL, before that is said; nil for nothing.
	// It must be set before the Reporter is used.
	Lost func()
}

// Found notes what to do about failures of this cause at the beginning of a session, as a look at the server has found it. It replaces
// what was noted; "" for nothing.
func (r *Reporter) Found(c failures.Cause, advice string) {
	if advice == "" {
		r.found.Store(nil)
		return
	}
	r.found.Store(&finding{c, advice})
}

// Setup is what a Reporter, and the other packages that serve one running proxy, need of the configuration in force. It is immutable: a
// reload makes a new one.
type Setup struct {
	Config  *config.Config
	Table   *translate.Table
	Server  string       // the server's name in the log
	Secrets secret.Known // which no line may hold
}

// kind is what repeated lines have in common.
type kind struct {
	message string
	cause   failures.Cause
	server  string
}

// line is what a log line holds beside its kind. It owns its memory.
type line struct {
	text   string // the text of the error for the client
	err    error  // the underlying error; nil for none
	status int    // the HTTP status; 0 for none
	at     At

	restarts int64 // the number of restarts of the server's process so far
}

// New returns a Reporter of a program of this version. now returns the setup in force.
func New(log *zap.Logger, m *metrics.Metrics, version string, now func() Setup) *Reporter {
	r := &Reporter{log: log, metrics: m, now: now, version: version}
	r.repeats = newRepeats(maxKinds, r.write, last)
	return r
}

// Near says that all clients are on this machine: what they get about a failure names the server's address or command too, as the log
// does. Others get the cause and the advice alone.
func (r *Reporter) Near() { r.near.Store(true) }

// Flush writes one line for each kind of failure that was repeated since the last Flush.
func (r *Reporter) Flush() { r.repeats.Flush() }

// Failed logs and counts that a request failed, once: a failure that was reported before, and
// one that is the client's own, is only returned. The result is the caller's.
func (r *Reporter) Failed(err error, at At) *mcp.Failure {
	return r.FailedAs("request failed", err, at)
}

// FailedAs is Failed with message as the text of the log line.
func (r *Reporter) FailedAs(message string, err error, at At) *mcp.Failure {
	f := FailureOf(err)
	if f.Reported {
		return f
	}
	setup := r.now()
	why := CauseOf(setup.Config, f, at)
	explained := f.Why != "" // it is what another request has failed with
	f.Reported, f.Why = true, string(why)
	strike(f, setup.Secrets.Sets())
	switch why {
	case "":
		return f
	case failures.Unauthorized:
		if place := loginAt(f.Err, at.Header); place != "" { // a login begins with this refusal
			r.log.Debug("server asks the client to log in", zap.String("server", setup.Server), zap.String("resource_metadata", failures.Quote(place, setup.Secrets.Sets()...)))
			return f
		}
		r.metrics.Failures.WithLabelValues(string(why)).Inc()
	case failures.ClientLeft:
	default:
		r.metrics.Failures.WithLabelValues(string(why)).Inc()
	}
	if why == failures.NotFound && at.Server == nil && r.Lost != nil {
		r.Lost()
	}
	l := line{text: f.General(), err: f.Err, status: f.Status, at: at}
	switch {
	case why == failures.Busy:
		if is := limitOf(setup.Config, f); is != nil {
			l.err = is
		}
	case why == failures.CommandExit:
		l.restarts = r.restarts.Load()
	}
	r.add(kind{message, why, setup.Server}, l)
	if !explained {
		explain(f, why, at, r.near.Load(), setup.Config, r.found.Load(), setup.Secrets.Sets())
	}
	return f
}

// strike removes secrets from what the client gets: a server may repeat what dragoman has sent. What the client itself has sent stays: it
// is no secret to it, and not all of it is one.
func strike(f *mcp.Failure, secrets []*secret.Set) {
	f.Text = secret.Strike(f.Text, secrets...)
	if secret.Has(string(f.Verbatim), secrets...) {
		f.Verbatim = nil
	}
	if secret.Has(string(f.Data), secrets...) {
		if f.Data = []byte(secret.Strike(string(f.Data), secrets...)); !wire.Valid(f.Data) {
			f.Data = wire.AppendQuoted(nil, secret.Struck)
		}
	}
	for i, h := range f.Header {
		if secret.Has(h.Value, secrets...) {
			f.Header = slices.Clone(f.Header) // other requests may have failed by the same error
			f.Header[i].Value = secret.Strike(h.Value, secrets...)
		}
	}
}

// ServerFailed logs a failure of the server that is not about a request. It is not counted as a failed request.
func (r *Reporter) ServerFailed(message string, c failures.Cause, err error, header []mcp.Header) {
	r.add(kind{message, c, r.now().Server}, line{text: err.Error(), at: At{Header: header}})
}

// Restarted counts an attempt to start the server's process, or a session with the server, again.
func (r *Reporter) Restarted() {
	r.metrics.Restarts.Inc()
	r.restarts.Add(1)
}

// Refused logs a request that the transport refused with this HTTP status: its client has no token or
// a host that is not allowed, or a limit is reached.
func (r *Reporter) Refused(status int, why string) {
	switch status {
	case 401:
		r.add(kind{message: "client refused", cause: failures.NoToken}, line{text: why, status: status})
	case 403:
		r.add(kind{message: "client refused", cause: failures.NotAllowed}, line{text: why, status: status})
	case 503:
		limits := fmt.Errorf("at most %d messages, of limits.in_hand bytes together, may be in memory", r.now().Config.Limits.Requests)
		r.Failed(&mcp.Failure{Cause: mcp.NoRoom, Status: status, Text: why, Err: limits}, At{})
	}
}

// Unanswered logs, for debugging, that a request has ended without an answer, as its client has left
// or has cancelled it.
func (r *Reporter) Unanswered(how metrics.Outcome, at At) {
	c := failures.ClientLeft
	if how == metrics.Cancelled {
		c = failures.Cancelled
	}
	r.add(kind{"request ended without an answer", c, r.now().Server}, line{at: at})
}

// Panicked logs and counts a panic that was recovered.
func (r *Reporter) Panicked(p any) {
	r.metrics.Failures.WithLabelValues(string(failures.Panic)).Inc()
	r.log.Error("panic", zap.String("cause", string(failures.Panic)), zap.String("advice", failures.Panic.Advice()),
		zap.String("version", r.version), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

// Contained runs a task and reports whether it returned: a panic is logged, and goes no further.
func (r *Reporter) Contained(task func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			r.Panicked(p)
		}
	}()
	task()
	return true
}

func (r *Reporter) add(k kind, l line) {
	if !r.log.Core().Enabled(k.cause.Level()) {
		return
	}
	l.at.Method = strings.Clone(l.at.Method)
	l.at.Header = slices.Clone(l.at.Header)
	r.repeats.Add(k, l)
}

func (r *Reporter) write(k kind, l line, repeated int) {
	entry := r.log.Check(k.cause.Level(), k.message)
	if entry == nil {
		return
	}
	secrets := r.secretsOf(l.at.Header)
	quote := func(text string) string { return failures.Quote(text, secrets...) }
	var fields []zap.Field
	for _, part := range []struct{ name, is string }{
		{"server", k.server},
		{"cause", string(k.cause)},
		{"error", quote(l.said())},
		{"advice", adviceOn(k.cause, l.err, l.at, r.now().Config, r.found.Load())},
		{"method", failures.Line(l.at.Method)},
		{"client_rev", nameOf(l.at.Client)},
		{"server_rev", nameOf(l.at.Server)},
	} {
		if part.is != "" {
			fields = append(fields, zap.String(part.name, part.is))
		}
	}
	if l.status != 0 {
		fields = append(fields, zap.Int("status", l.status))
	}
	if exit, ok := errors.AsType[*upstream.ExitError](l.err); ok && len(exit.Tail) > 1 {
		fields = append(fields, zap.Strings("stderr", exit.Tail))
	}
	if k.cause == failures.Unauthorized {
		fields = append(fields, l.loginFields(quote)...)
	}
	if l.restarts > 0 {
		fields = append(fields, zap.Int64("restarts", l.restarts))
	}
	if repeated > 0 {
		fields = append(fields, zap.Int("repeated", repeated))
	}
	entry.Write(append(fields, trace.Fields(l.at.Header)...)...)
}

// secretsOf returns the values that no line about a request with these headers may hold.
func (r *Reporter) secretsOf(header []mcp.Header) []*secret.Set {
	var passed []string
	for _, h := range header {
		if !slices.Contains(trace.Headers[:], h.Name) {
			passed = append(passed, h.Value)
		}
	}
	return r.now().Secrets.Sets(secret.NewSet(passed...))
}

// said returns all that is known of the failure. For a status of HTTP that is what the server sent.
func (l *line) said() string {
	status, ok := errors.AsType[*upstream.StatusError](l.err)
	switch {
	case l.err == nil:
		return l.text
	case !ok && l.text == l.err.Error():
		return l.text
	case !ok:
		return l.text + ": " + l.err.Error()
	case status.Target != "", len(status.Body) == 0:
		return status.Error()
	}
	return status.Error() + ": " + failures.Reason(status)
}

func nameOf(r *translate.Revision) string {
	if r == nil {
		return ""
	}
	return r.Name
}
