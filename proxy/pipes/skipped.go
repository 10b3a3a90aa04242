package pipes

import (
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Skipped returns err if it is about one message of the server that was skipped, after
// which the stream goes on, and nil otherwise.
func Skipped(err error) *upstream.TooLargeError {
	if e, ok := errors.AsType[*upstream.TooLargeError](err); ok && e.Skipped {
		return e
	}
	return nil
}

// Replaced returns what a stream has given, e without a byte order mark and err, unless err is about a message that was too large, or printed over several
// lines: an answer becomes an error response to the request, and ok is false for other messages, which are dropped. If it is not known what such a
// message was, Replaced returns the error.
func Replaced(e sse.Event, err error, o Owner) (_ sse.Event, _ error, ok bool) {
	if spread, is := errors.AsType[*upstream.SpreadError](err); is {
		if spread.Asks {
			o.Dropped("malformed")
			return e, nil, false
		}
		why := mcp.Fail(mcp.UpstreamGarbled, spread.Error())
		why.Err = err
		why = o.Unread("malformed", why)
		return sse.Event{Data: why.About(spread.Answers).Body()}, nil, true
	}
	if err == nil {
		e.Data = unmarked(e.Data, o)
		return e, nil, true
	}
	large := Skipped(err)
	if large == nil || !large.Asks && large.Answers == nil {
		return e, err, true
	}
	why, reason := mcp.Fail(mcp.UpstreamDown, large.Error()), "too_large"
	if large.NoRoom != nil {
		why, reason = mcp.Fail(mcp.NoRoom, large.Error()), "no_room"
	}
	if large.Asks {
		o.Dropped(reason)
		return e, nil, false
	}
	why.Err = err
	why = o.Unread(reason, why)
	return sse.Event{Data: why.About(large.Answers).Body()}, nil, true
}
