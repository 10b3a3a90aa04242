package server

import (
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Skipped returns err if it is about one message of the server that was skipped, after
// which the stream goes on, and nil otherwise.
func Skipped(err error) *upstream.TooLargeError {
	if e, ok := errors.AsType[*upstream.TooLargeError](err); ok && e.Skipped {
		return e
	}
	return nil
}

// Next returns the next event of st. For an answer that was too large it returns an
// error response to the request. It drops other messages that were too large. If it is
// not known what such a message was, Next returns the error.
func Next(st upstream.Stream, o Owner) (sse.Event, error) {
	for {
		e, err := st.Next()
		large := Skipped(err)
		if large == nil || !large.Asks && large.Answers == nil {
			return e, err
		}
		why, reason := mcp.Fail(mcp.UpstreamDown, large.Error()), "too_large"
		if large.NoRoom != nil {
			why, reason = mcp.Fail(mcp.NoRoom, large.Error()), "no_room"
		}
		if large.Asks {
			o.Dropped(reason)
			continue
		}
		why.Err = err
		o.Unread(reason, why)
		return sse.Event{Data: why.About(large.Answers).Body()}, nil
	}
}
