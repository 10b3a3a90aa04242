package proxy

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/repeats"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Errors go up to the edge as values. Where one becomes the answer to a client it passes
// report, which logs and counts it once.

// maxFailureKinds bounds the kinds of failures whose repeats are merged in the log.
const maxFailureKinds = 256

// failureLog writes the first failure of a kind at once, and then one line a minute.
type failureLog struct {
	log     *zap.Logger
	secrets func() []string // of the configuration
	counter *prometheus.CounterVec
	repeats *repeats.Set[failureKind, failureLine]
}

type failureKind struct {
	message string
	cause   failures.Cause
	server  string
}

// failureLine is what a line holds beside its kind. It owns its memory.
type failureLine struct {
	text   string // of the error for the client
	err    error  // behind it; nil for none
	status int    // of HTTP; 0 for none
	at     requestInfo

	restarts int64 // of the server's process so far
}

// requestInfo is what is known of a request. Each part may be missing.
type requestInfo struct {
	method         string
	client, server *translate.Revision
	session        string            // of the server
	header         []upstream.Header // that go along; they may be secrets
}

func newFailureLog(log *zap.Logger, counter *prometheus.CounterVec, secrets func() []string) *failureLog {
	l := &failureLog{log: log, counter: counter, secrets: secrets}
	l.repeats = repeats.New(maxFailureKinds, l.write, repeats.Last)
	return l
}

func (l *failureLog) add(kind failureKind, line failureLine) {
	if !l.log.Core().Enabled(kind.cause.Level()) {
		return
	}
	line.at.method = strings.Clone(line.at.method)
	line.at.header = slices.Clone(line.at.header)
	l.repeats.Add(kind, line)
}

func (l *failureLog) write(kind failureKind, line failureLine, repeated int) {
	entry := l.log.Check(kind.cause.Level(), kind.message)
	if entry == nil {
		return
	}
	quote := func(text string) string { return failures.Quote(text, l.secretsOf(line.at.header)) }
	var fields []zap.Field
	for _, part := range []struct{ name, is string }{
		{"server", kind.server},
		{"cause", string(kind.cause)},
		{"error", quote(line.said())},
		{"advice", kind.cause.Advice()},
		{"method", failures.Line(line.at.method)},
		{"client_rev", nameOf(line.at.client)},
		{"server_rev", nameOf(line.at.server)},
	} {
		if part.is != "" {
			fields = append(fields, zap.String(part.name, part.is))
		}
	}
	if line.status != 0 {
		fields = append(fields, zap.Int("status", line.status))
	}
	if exit, ok := errors.AsType[*upstream.ExitError](line.err); ok && len(exit.Tail) > 1 {
		fields = append(fields, zap.Strings("stderr", exit.Tail))
	}
	if kind.cause == failures.Unauthorized {
		fields = append(fields, line.loginFields(quote)...)
	}
	if line.restarts > 0 {
		fields = append(fields, zap.Int64("restarts", line.restarts))
	}
	if repeated > 0 {
		fields = append(fields, zap.Int("repeated", repeated))
	}
	entry.Write(append(fields, trace.Fields(line.at.header)...)...)
}

// secretsOf are the values that no line about a request with header may hold.
func (l *failureLog) secretsOf(header []upstream.Header) []string {
	secrets := slices.Clone(l.secrets())
	for _, h := range header {
		if !slices.Contains(trace.Headers[:], h.Name) {
			secrets = append(secrets, h.Value)
		}
	}
	return secrets
}

// said is all that is known of the failure. Of an HTTP refusal that is what the server sent.
func (l *failureLine) said() string {
	status, ok := errors.AsType[*upstream.StatusError](l.err)
	switch {
	case l.err == nil:
		return l.text
	case !ok && l.text == l.err.Error():
		return l.text
	case !ok:
		return l.text + ": " + l.err.Error()
	case status.Target != "":
		return status.Error() + "; the target is " + status.Target
	case len(status.Body) == 0:
		return status.Error()
	case gjson.GetBytes(status.Body, "error.message").Type == gjson.String:
		return status.Error() + ": " + gjson.GetBytes(status.Body, "error.message").String()
	}
	for _, h := range status.Header {
		if strings.EqualFold(h.Name, "Content-Type") && strings.HasPrefix(strings.ToLower(h.Value), "text/html") {
			return status.Error() + ": " + failures.PageText(status.Body)
		}
	}
	return status.Error() + ": " + string(status.Body)
}

func nameOf(r *translate.Revision) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// report logs and counts that a request failed, once: a failure that was reported before, and
// one that is the client's own, is only returned. The result is the caller's.
func (srv *Server) report(err error, at requestInfo) *mcp.Failure {
	return srv.reportAs("request failed", err, at)
}

// reportAs is report with another message.
func (srv *Server) reportAs(message string, err error, at requestInfo) *mcp.Failure {
	f := clienterror.Of(err)
	if f.Reported {
		return f
	}
	why := srv.causeOf(f, at)
	f.Reported, f.Why = true, string(why)
	switch why {
	case "":
		return f
	case failures.Unauthorized:
		if place := loginAt(f.Err, at.header); place != "" { // it begins like that
			srv.log.Debug("server asks the client to log in", zap.String("server", srv.now().server), zap.String("resource_metadata", failures.Quote(place, nil)))
			return f
		}
		srv.failures.counter.WithLabelValues(string(why)).Inc()
	case failures.ClientLeft:
	default:
		srv.failures.counter.WithLabelValues(string(why)).Inc()
	}
	line := failureLine{text: f.General(), err: f.Err, status: f.Status, at: at}
	switch {
	case why == failures.Busy:
		if is := srv.limitOf(f); is != nil {
			line.err = is
		}
	case why == failures.CommandExit:
		line.restarts = srv.restarts.Load()
	}
	srv.failures.add(failureKind{message, why, srv.now().server}, line)
	return f
}

// concluded logs and counts how the handshake ended, and returns the error for the client. s
// is nil where there is no session: then answer is the server's refusal, or err is set.
func (h *handshake) concluded(s *session, answer []byte, err error) error {
	switch {
	case err != nil:
		f := clienterror.Of(err)
		if f.UnknownSession() { // 404 before there is a session: there is no server at this path
			f.NoEndpoint()
		}
		f = h.srv.report(f, h.requestInfo())
		h.srv.metrics.Handshake(h.vc, nil, failureOutcome(f), failures.Cause(f.Why))
		return f
	case s == nil:
		why, said := failures.Refusal, gjson.GetBytes(answer, "error")
		if said.Get("code").Int() == mcp.CodeUnsupportedVersion || said.Get("data.supported").IsArray() {
			why = failures.Revision
		}
		h.srv.metrics.Handshake(h.vc, nil, metrics.Errored, why)
		h.srv.failing("server refused initialize", why, errors.New(said.Raw), h.header)
	}
	return nil
}

// failing logs something about the server that is no failed request, and does not count as
// one.
func (srv *Server) failing(message string, c failures.Cause, err error, header []upstream.Header) {
	srv.failures.add(failureKind{message, c, srv.now().server}, failureLine{text: err.Error(), at: requestInfo{header: header}})
}

// refusedByUs logs what the transport refused: a client without a token or with a host that
// is not allowed, and a request beyond a limit.
func (srv *Server) refusedByUs(status int, why string) {
	switch status {
	case 401:
		srv.failures.add(failureKind{message: "client refused", cause: failures.NoToken}, failureLine{text: why, status: status})
	case 403:
		srv.failures.add(failureKind{message: "client refused", cause: failures.NotAllowed}, failureLine{text: why, status: status})
	case 503:
		l := &srv.now().cfg.Limits
		limits := fmt.Errorf("%d messages at most are in hand at one time, of limits.in_hand bytes", l.Requests)
		srv.report(&mcp.Failure{Cause: mcp.NoRoom, Status: status, Text: why, Err: limits}, requestInfo{})
	}
}

// endedWithout logs, for debugging, that a request has ended without an answer, as its client
// has left or has cancelled it.
func (x *exchange) endedWithout(how metrics.Outcome) {
	c := failures.ClientLeft
	if how == metrics.Cancelled {
		c = failures.Cancelled
	}
	x.srv.failures.add(failureKind{"request ended without an answer", c, x.srv.now().server}, failureLine{at: x.requestInfo()})
}

// secretsOf are the credentials that a server gets from the configuration.
func secretsOf(u config.Upstream) []string {
	var secrets []string
	if len(u.Command) > 0 {
		secrets = failures.Secrets(childEnv(u, os.Environ()))
	}
	for _, v := range u.Headers {
		secrets = append(secrets, v)
	}
	return secrets
}

// serverName is the server's name in the log: without credentials, query and arguments.
func serverName(u config.Upstream) string {
	if len(u.Command) > 0 {
		return filepath.Base(u.Command[0])
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}

// requestInfo is what is known of x's message.
func (x *exchange) requestInfo() requestInfo {
	at := requestInfo{header: x.from}
	if x.call != nil {
		at.method = x.call.Method.String()
	}
	if x.s != nil {
		at.client, at.server, at.session = x.s.ClientRevision, x.s.ServerRevision, x.s.Named
	}
	return at
}

func (q *modernRequest) requestInfo(from []upstream.Header) requestInfo {
	return requestInfo{method: q.name, client: translate.Lookup(translate.Modern()), header: from}
}

func (h *handshake) requestInfo() requestInfo {
	return requestInfo{method: wire.Initialize.String(), client: h.vc, header: h.header}
}

// failed is the answer to a call that err ended.
func (b *bridgedCall) failed(err error) []byte {
	at := requestInfo{method: b.method.String(), client: b.c.up.From(), server: b.c.up.To(), header: b.from}
	b.lost.Store(true)
	return b.c.srv.report(err, at).WithID(b.id).Body()
}
