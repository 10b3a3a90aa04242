package proxy

import (
	"errors"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// skipped is err where it is about one message of the server, behind which the stream
// goes on, and nil otherwise.
func skipped(err error) *upstream.TooLargeError {
	if e, ok := errors.AsType[*upstream.TooLargeError](err); ok && e.Skipped {
		return e
	}
	return nil
}

// nextOf is the next event of st. An answer that was too large is an error for the
// request that it answers; other messages that were are left out. Where it is not known
// what such a message was, that is the error.
func nextOf(st upstream.Stream, k dropper) (sse.Event, error) {
	for {
		e, err := st.Next()
		large := skipped(err)
		if large == nil || !large.Asks && large.Answers == nil {
			return e, err
		}
		why, reason := mcp.Fail(mcp.UpstreamDown, large.Error()), "too_large"
		if large.NoRoom != nil {
			why, reason = mcp.Fail(mcp.NoRoom, large.Error()), "no_room"
		}
		if large.Asks {
			k.unwanted(reason)
			continue
		}
		why.Err = err
		k.unread(reason, why)
		return sse.Event{Data: why.About(large.Answers).Body()}, nil
	}
}

// dropper is told of messages that are left out, and of answers that were not read, with the
// failure of their calls.
type dropper interface {
	unwanted(reason string)
	unread(reason string, why *mcp.Failure)
}
