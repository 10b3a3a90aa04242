package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Explain says what keeps clients from using the server at upstream.url of cfg, and what to do, given the error of a request that
// begins no session: [upstream.Error], [upstream.StatusError] or another one of that package. The request was one to o. It looks at the usual paths beside the URL if nothing is there, until ctx ends, but opens no stream. The Mark is Fail; Warn for a server
// that is slow at least, or may be one of HTTP+SSE; Info where only clients lack a credential, which they may bring; and OK where the error need not be one of initialize.
func Explain(ctx context.Context, cfg config.Config, o *origin.Origin, err error, within time.Duration) (Line, failures.Cause) {
	e := newExam(Options{CheckTime: within})
	defer e.close()
	at, bad := url.Parse(cfg.Upstream.URL)
	if bad != nil {
		return Line{Mark: OK}, "" // Validate has refused it
	}
	e.cfg, e.sent, e.world, e.posts = cfg, &o.Credentials.Sent, o.World, true
	e.secrets = append(cfg.Secrets(), origin.Secrets(&cfg)...)
	mark := Fail
	if status, is := errors.AsType[*upstream.StatusError](err); is {
		mark = e.weigh(status)
	} else if kind, is := errors.AsType[*upstream.ContentTypeError](err); is && kind.Type == "" { // of an empty answer
		mark = OK
	}
	if mark == OK {
		return Line{Mark: OK}, ""
	}
	where := config.SafeURL(cfg.Upstream.URL)
	switch {
	case errors.Is(err, context.DeadlineExceeded), failures.Of(err) == failures.TimeoutFirstByte:
		e.warn(fmt.Sprintf("no answer within %v", within), where, whenSlow)
		return e.lines[0], failures.TimeoutFirstByte
	case err == io.EOF: //nolint:errorlint // not one of a connection, which has more to say
		e.fail(errNoAnswer.Error(), where, failures.StreamClosed.Advice())
	default:
		e.unanswered(ctx, err, at, where)
	}
	l := e.lines[0]
	if l.Mark = mark; mark == Fail && upstream.TakesNoPost(err) && !l.NamesEndpoint() {
		l.Mark, l.Do = Warn, l.Do+"; for a server of HTTP+SSE, --upstream-transport sse (upstream.transport)"
	}
	return l, cmp.Or(e.why, failures.Of(err))
}

// weigh says what the refusal of a request without a session means for initialize. Servers answer what comes before a session with
// many statuses, and not all in JSON-RPC.
func (e *exam) weigh(s *upstream.StatusError) Mark {
	why := failures.Of(s)
	switch {
	case why == failures.HostRefused, why == failures.TLSPlain:
		return Fail
	case wantsSession(s) && !challenges(s): // there are servers that answer an unknown session with 401
		return OK
	case s.Code == http.StatusUnauthorized, s.Code == http.StatusForbidden:
		if e.lent() == "" {
			return Info
		}
		return Fail
	}
	switch s.Code {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusProxyAuthRequired, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Fail
	}
	if s.Code >= 300 && s.Code < 400 { // a redirect
		return Fail
	}
	return OK
}

// challenges reports whether a refusal says how to log in.
func challenges(s *upstream.StatusError) bool {
	return slices.ContainsFunc(s.Header, func(h mcp.Header) bool { return strings.EqualFold(h.Name, "WWW-Authenticate") })
}
