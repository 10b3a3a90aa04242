package report

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Dropped logs and counts a message that is dropped. reason is the label of the metric.
func (r *Reporter) Dropped(reason string) {
	r.metrics.Dropped.WithLabelValues(reason).Inc()
	switch reason {
	case "queue_full":
		r.add(kind{message: "client reads too slowly: its oldest notification was dropped", cause: failures.SlowClient}, line{})
	case "no_room":
		r.add(kind{"message of the server dropped", failures.Busy, r.now().Server}, line{text: "the memory for messages is full (limits.in_hand)"})
	case "malformed", "too_large":
		r.ServerFailed("message of the server dropped", failures.Malformed, errors.New(reason), nil)
	default:
		r.ServerFailed("message dropped", failures.Dropped, errors.New(reason), nil)
	}
}

// Untranslated logs and counts a notification that the other revision has no form for.
func (r *Reporter) Untranslated(err error, header []mcp.Header) {
	r.metrics.Dropped.WithLabelValues("untranslatable").Inc()
	r.ServerFailed("notification dropped", failures.Untranslatable, err, header)
}

// AnswerDropped is Dropped for an answer to a call, which fails with f. It returns the failure that the client gets.
func (r *Reporter) AnswerDropped(reason string, f *mcp.Failure) *mcp.Failure {
	r.metrics.Dropped.WithLabelValues(reason).Inc()
	return r.Failed(f, At{})
}

// Undelivered logs and counts that the server did not accept a notification or a response.
func (r *Reporter) Undelivered(err error, at At) {
	r.FailedAs("cannot send a message to the server", err, at)
}

// Malformed logs and counts a text from the server that is not a message. It returns the failure of
// the request, for the case that the server sends no other answer.
func (r *Reporter) Malformed(err error, raw []byte, header []mcp.Header) *mcp.Failure {
	r.metrics.Dropped.WithLabelValues("malformed").Inc()
	f := mcp.Fail(mcp.UpstreamGarbled, "")
	f.Err = fmt.Errorf("%w: %s", err, failures.Beginning(string(raw[:min(len(raw), 4*failures.MaxQuote)]), 2*failures.MaxQuote))
	r.ServerFailed("upstream sent something that is not JSON-RPC", failures.Malformed, f.Err, header)
	return f
}

// UnknownResponse counts a response to a request that is not open, which is dropped, and logs it if it is the first one
// of its session. m.Method is a guess.
func (r *Reporter) UnknownResponse(first bool, at At, m *wire.Message) {
	r.metrics.Dropped.WithLabelValues("unknown_id").Inc()
	r.UnknownPassedOn(first, at, m)
}

// UnknownPassedOn is UnknownResponse for one that the client gets all the same.
func (r *Reporter) UnknownPassedOn(first bool, at At, m *wire.Message) {
	if first {
		at.Method = m.Method.String()
		r.add(kind{"response with unknown request id", failures.UnknownID, r.now().Server}, line{at: at})
	}
}
