package pipes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Answer reads the stream of one of dragoman's own requests until its response, and closes the stream.
// The result is the caller's. The error is a *mcp.ServerError if the server answered with an error. If the server asks something on
// the stream, reply sends the response of [Unasked]; it is nil for a server that cannot ask. Other messages on the stream are skipped.
func Answer(ctx context.Context, st upstream.Stream, id []byte, reply func(response []byte)) ([]byte, error) {
	defer st.Close()
	var m wire.Message
	for e, err := range Before(ctx, st) {
		status := err
		if err != nil {
			if e, err = RefusalOf(err, id); err != nil {
				return nil, err
			}
		}
		switch {
		case len(e.Data) == 0, !isRead(&m, e.Data):
			continue
		case m.Kind == wire.Request && reply != nil:
			reply(Unasked(&m))
			continue
		case !m.Kind.Response(), !IsAnswer(m.ID(), id):
			continue
		}
		result, err := ResultOf(&m)
		if refused, ok := err.(*mcp.ServerError); ok {
			refused.Err = status
		}
		return result, err
	}
	return nil, io.EOF
}

// isRead scans a message of the server, without what [wire.Mend] takes out of it.
func isRead(m *wire.Message, text []byte) bool {
	text, _ = wire.TrimMark(text)
	return m.Scan(text, nil) == nil || wire.Mend(text) && m.Scan(text, nil) == nil
}

// Unasked returns the response to a request of a server that may not ask, or not here. The server may wait for it.
func Unasked(m *wire.Message) []byte {
	if m.Method == wire.Ping {
		return mcp.AppendResult(nil, m.ID(), "{}")
	}
	return mcp.AppendError(nil, m.ID(), mcp.MethodUnknown.Code(), mcp.MethodUnknown.Text(), nil)
}

// ResultOf returns a copy of the result in a response. If the response is an error, it returns a *mcp.ServerError.
func ResultOf(m *wire.Message) ([]byte, error) {
	if m.Kind == wire.Error {
		return nil, &mcp.ServerError{Raw: bytes.Clone(m.Error())}
	}
	return bytes.Clone(m.Result()), nil
}

// ResultIn is ResultOf for a response that was not scanned yet. If response is not a message, it returns the error of
// the scan.
func ResultIn(response []byte) ([]byte, error) {
	var m wire.Message
	if err := m.Scan(response, nil); err != nil {
		return nil, err
	}
	return ResultOf(&m)
}

// RefusalOf returns an error response to the request with this id if err is an HTTP status of 4xx with a
// JSON-RPC error in its body. Otherwise it returns err, as it does for 401, 403, 421 and 429, which are about the
// credential, the host's name or the number of requests.
func RefusalOf(err error, id []byte) (sse.Event, error) {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || status.Code < 400 || status.Code > 499 || slices.Contains([]int{401, 403, 421, 429}, status.Code) {
		return sse.Event{}, err
	}
	var m wire.Message
	if m.Scan(status.Body, nil) != nil || m.Kind != wire.Error {
		return sse.Event{}, err
	}
	return sse.Event{Data: mcp.AppendErrorAs(nil, id, m.Error())}, nil
}

// IsAbout reports whether a response has this id.
func IsAbout(m *wire.Message, id []byte) bool {
	return bytes.Equal(wire.AppendIDKey(nil, m.ID()), wire.AppendIDKey(nil, id))
}

// Before returns the events of st until ctx ends: then it closes st, and the last error is the cause.
func Before(ctx context.Context, st upstream.Stream) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		defer context.AfterFunc(ctx, func() { st.Close() })()
		if ctx.Err() == nil {
			for e, err := range st.Events {
				if err != nil && ctx.Err() != nil {
					break
				}
				if !yield(e, err) {
					return
				}
				if ctx.Err() != nil { // else a server that sends other messages without a pause would be read forever
					break
				}
			}
			if ctx.Err() == nil {
				return
			}
		}
		why := context.Cause(ctx)
		if mute := st.Close(); mute != nil && errors.Is(why, context.DeadlineExceeded) {
			why = mute
		}
		yield(sse.Event{}, why)
	}
}
