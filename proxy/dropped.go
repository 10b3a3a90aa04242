package proxy

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// unwanted counts and logs a message that is dropped.
func (srv *Server) unwanted(reason string) {
	srv.metrics.Dropped.WithLabelValues(reason).Inc()
	switch reason {
	case "queue_full":
		srv.failures.add(failureKind{message: "client does not read; its oldest notification was dropped", cause: failures.SlowClient}, failureLine{})
	case "no_room":
		srv.failures.add(failureKind{"message of the server not read", failures.Busy, srv.now().server}, failureLine{text: "limits.in_hand is spent"})
	case "malformed", "too_large":
		srv.failing("message of the server dropped", failures.Malformed, errors.New(reason), nil)
	default:
		srv.failing("message dropped", failures.Dropped, errors.New(reason), nil)
	}
}

// untranslated counts and logs a notification that cannot be said in the other revision.
func (srv *Server) untranslated(err error, header []upstream.Header) {
	srv.metrics.Dropped.WithLabelValues("untranslatable").Inc()
	srv.failing("notification dropped", failures.Untranslatable, err, header)
}

// unread is unwanted for an answer, which fails its call.
func (srv *Server) unread(reason string, why *mcp.Failure) {
	srv.metrics.Dropped.WithLabelValues(reason).Inc()
	srv.report(why, requestInfo{})
}

// undelivered logs and counts that the server did not take a message that is no request.
func (srv *Server) undelivered(err error, at requestInfo) {
	srv.reportAs("cannot deliver message to the server", err, at)
}

// badUpstream logs and counts a text from the server that is no message. It returns the
// failure of the request if nothing better comes for that.
func (srv *Server) badUpstream(err error, raw []byte, header []upstream.Header) *mcp.Failure {
	srv.metrics.Dropped.WithLabelValues("malformed").Inc()
	f := mcp.Fail(mcp.UpstreamGarbled, "")
	f.Err = fmt.Errorf("%w: %s", err, raw[:min(len(raw), 2*failures.MaxQuote)])
	srv.failing("upstream sent something that is not JSON-RPC", failures.Malformed, f.Err, header)
	return f
}

// unknownAnswer counts a response to no open request, and logs it once per session.
func (srv *Server) unknownAnswer(s *session, at requestInfo, m *wire.Message) {
	srv.metrics.Dropped.WithLabelValues("unknown_id").Inc()
	if s == nil || s.unknown.CompareAndSwap(false, true) {
		at.method = m.Method.String() // a guess
		srv.failures.add(failureKind{"response with unknown request id", failures.UnknownID, srv.now().server}, failureLine{at: at})
	}
}
