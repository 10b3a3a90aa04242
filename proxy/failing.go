package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/repeats"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxFailureKinds bounds what the log sums up of failures.
const maxFailureKinds = 256

// failureLog writes the first failure of a kind at once, and then one line a minute.
type failureLog struct {
	log     *zap.Logger
	counter *prometheus.CounterVec
	repeats *repeats.Set[failureKind, failureLine]
}

type failureKind struct {
	message string
	cause   failures.Cause
	server  string
}

// failureLine is what a line has beside its kind.
type failureLine struct {
	text   string
	fields []zap.Field
}

func newFailureLog(log *zap.Logger, counter *prometheus.CounterVec) *failureLog {
	l := &failureLog{log: log, counter: counter}
	l.repeats = repeats.New(maxFailureKinds, l.write)
	return l
}

func (l *failureLog) write(kind failureKind, line failureLine, repeated int) {
	entry := l.log.Check(kind.cause.Level(), kind.message)
	if entry == nil {
		return
	}
	fields := append([]zap.Field{
		zap.String("server", kind.server),
		zap.String("cause", string(kind.cause)),
		zap.String("error", line.text),
		zap.String("advice", kind.cause.Advice()),
	}, line.fields...)
	if repeated > 0 {
		fields = append(fields, zap.Int("repeated", repeated))
	}
	entry.Write(fields...)
}

// occasion is what is known of a request that failed. Each part may be missing.
type occasion struct {
	method         string
	client, server *translate.Revision
	session        string            // of the server
	header         []upstream.Header // that went along; they may be secrets
}

// occasion is what failed where x's message did.
func (x *exchange) occasion() occasion {
	at := occasion{header: x.from}
	if x.call != nil {
		at.method = x.call.method.String()
	}
	if x.s != nil {
		at.client, at.server, at.session = x.s.vc, x.s.vu, x.s.named
	}
	return at
}

// occasion is what failed where q did.
func (q *modernRequest) occasion(from []upstream.Header) occasion {
	return occasion{method: q.name, client: translate.Lookup(translate.Modern()), header: from}
}

// report counts and logs that a request failed at its server, once: a failure that was
// reported already, and one that is the client's own, is only returned. The failure is the
// caller's.
func (srv *Server) report(err error, at occasion) *failure {
	f := asFailure(err)
	if f.reported {
		return f
	}
	f.reported = true
	c := srv.causeOf(f, at)
	if c == "" {
		return f
	}
	if c != failures.ClientLeft {
		srv.failures.counter.WithLabelValues(string(c)).Inc()
	}
	fields := make([]zap.Field, 0, 8)
	for _, part := range []struct{ name, is string }{
		{"method", failures.Line(at.method)}, {"client_rev", nameOf(at.client)}, {"server_rev", nameOf(at.server)},
	} {
		if part.is != "" {
			fields = append(fields, zap.String(part.name, part.is))
		}
	}
	fields = append(append(fields, zap.Int("status", f.status)), traced(at.header)...)
	srv.failures.repeats.Add(failureKind{"request failed", c, srv.serverName()},
		failureLine{srv.redacted(allOf(f), at.header), fields}, repeats.Last)
	return f
}

func nameOf(r *translate.Revision) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// allOf is all that f says. Of an HTTP refusal it is what the server sent, whole: a secret
// that was cut in two is not recognized any more.
func allOf(f *failure) string {
	var status *upstream.StatusError
	switch {
	case !errors.As(f.err, &status):
		return f.Error()
	case status.Target != "":
		return status.Error() + "; the target is " + status.Target
	case len(status.Body) == 0:
		return status.Error()
	case gjson.GetBytes(status.Body, "error.message").Type == gjson.String:
		return status.Error() + ": " + gjson.GetBytes(status.Body, "error.message").String()
	}
	return status.Error() + ": " + string(status.Body)
}

// causeOf is what f is counted by; "" where the server has not failed.
func (srv *Server) causeOf(f *failure, at occasion) failures.Cause {
	var rule *translate.Error
	var status *upstream.StatusError
	switch f.cause {
	case upstreamDown, upstreamGarbled, upstreamSilent, upstreamLost, upstreamRestarted, upstreamStarting, upstreamTimeout:
		if isLeaving(f.err) {
			return failures.ClientLeft
		}
	}
	switch f.cause {
	case upstreamDown:
		return failures.Of(f.err)
	case upstreamTimeout:
		return srv.causeOfTimeout(f, at)
	case upstreamGarbled:
		return failures.Malformed
	case upstreamSilent:
		return failures.StreamClosed
	case upstreamLost, upstreamRestarted, upstreamStarting:
		if c := failures.Of(f.err); c == failures.CommandExit || c == failures.SessionLost || c == failures.CommandNotFound || c == failures.CommandMute {
			return c
		}
		if len(srv.now().cfg.Upstream.Command) > 0 {
			return failures.CommandExit
		}
		return failures.SessionLost
	case upstreamRefused:
		if !errors.As(f.err, &status) {
			return "" // it is a JSON-RPC error of the server
		}
		if status.Code == 404 && at.session != "" {
			return failures.SessionLost
		}
		if f.code == methodNotFound || at.server != nil && at.server.Modern && isModernAnswer(status) {
			return "" // it has answered
		}
		return failures.Of(status)
	case untranslatable:
		if errors.As(f.err, &rule) {
			return failures.Untranslatable
		}
	case upstreamVersion:
		return failures.Revision
	case upstreamModern, upstreamLegacy:
		return failures.EraChanged
	case peerLost:
		return failures.ReplicaLost
	}
	if f.full() {
		return failures.Busy
	}
	return ""
}

func (srv *Server) causeOfTimeout(f *failure, at occasion) failures.Cause {
	c := failures.Of(f.err)
	if c == failures.TimeoutFirstByte && at.method == wire.Initialize.String() && len(srv.now().cfg.Upstream.Command) > 0 {
		return failures.CommandMute
	}
	switch c {
	case failures.ConnectTimeout, failures.TimeoutSilence, failures.CommandMute:
		return c
	}
	return failures.TimeoutFirstByte
}

// isModernAnswer reports whether a status of 4xx is how the revisions without a handshake
// carry a JSON-RPC error.
func isModernAnswer(e *upstream.StatusError) bool {
	var m wire.Message
	return (e.Code == 400 || e.Code == 404) && m.Scan(bytes.Clone(e.Body), nil) == nil && m.Kind == wire.Error
}

// isLeaving reports whether err says that the client or we no longer want an answer.
func isLeaving(err error) bool {
	for _, why := range []error{downstream.ErrClientLeft, downstream.ErrOver, downstream.ErrStopped, errTakenUp, errShutdown, upstream.ErrClosed, context.Canceled} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// failing writes a line about the server that is not about one request. It is not counted
// as a failed one.
func (srv *Server) failing(message string, c failures.Cause, text string, header []upstream.Header) {
	srv.failures.repeats.Add(failureKind{message, c, srv.serverName()}, failureLine{srv.redacted(text, header), traced(header)}, repeats.Last)
}

// refusedByUs takes down what the transport refused: for want of a token, or by a limit.
func (srv *Server) refusedByUs(status int, why string) {
	switch status {
	case 401:
		srv.failures.log.Info("client refused", zap.Int("status", status), zap.String("error", why),
			zap.String("advice", "the client needs one of auth.tokens; the server was not asked"))
	case 503:
		srv.report(&failure{cause: tooManyOpen, status: status, text: why}, occasion{})
	}
}

// serverName is how the log names the server: without credentials, a query or arguments.
func (srv *Server) serverName() string {
	u := &srv.now().cfg.Upstream
	if len(u.Command) > 0 {
		return filepath.Base(u.Command[0])
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}

// redacted is text for a log line: bounded, on one line, and without the secrets of a request.
func (srv *Server) redacted(text string, header []upstream.Header) string {
	var secrets []string
	for _, h := range header {
		if !slices.Contains(traceHeaders[:], h.Name) {
			secrets = append(secrets, h.Value)
		}
	}
	for _, v := range srv.now().cfg.Upstream.Headers {
		secrets = append(secrets, v)
	}
	return failures.Line(failures.Redacted(text, secrets))
}

// occasion is what failed where h did.
func (h *handshake) occasion() occasion {
	return occasion{method: wire.Initialize.String(), client: h.vc, header: h.header}
}

// unfound is err, with which h ended; 404 without a session says that there is no server at
// this path.
func (h *handshake) unfound(err error) error {
	f := asFailure(err)
	if f.unknownSession() {
		f.nowhere()
	}
	return f
}

// failed is the answer to a call that err ended.
func (b *bridgedCall) failed(err error) []byte {
	at := occasion{method: b.method.String(), client: b.c.up.From(), server: b.c.up.To(), header: b.from}
	return b.c.srv.report(err, at).renamed(b.id).body()
}
