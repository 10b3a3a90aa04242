package legacyclient

import (
	"context"
	"errors"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// answeredHere is the stream of a request that dragoman answers itself.
type answeredHere struct {
	upstream.Plain
	ctx    context.Context
	stop   context.CancelFunc
	id     []byte
	answer func(ctx context.Context) ([]byte, error)
}

// answerHere returns a stream with the response to the request with this id, which answer returns. Events calls it. If its
// error is a *mcp.Failure, that is the response.
func answerHere(ctx context.Context, id []byte, answer func(ctx context.Context) ([]byte, error)) *answeredHere {
	l := &answeredHere{id: id, answer: answer}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// Events gives the response, then io.EOF.
func (l *answeredHere) Events(yield func(sse.Event, error) bool) {
	if answer := l.answer; answer != nil {
		l.answer = nil
		body, err := answer(l.ctx)
		if f, ok := errors.AsType[*mcp.Failure](err); ok {
			body, err = f.About(l.id).Body(), nil
		}
		if !yield(sse.Event{Data: body}, err) || err != nil {
			return
		}
	}
	yield(sse.Event{}, io.EOF)
}

// Close ends the context of a call of answer that is under way.
func (l *answeredHere) Close() error {
	l.stop()
	return nil
}
