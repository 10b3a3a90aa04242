package legacyclient

import (
	"context"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// answeredHere is the stream of a request that dragoman answers itself.
type answeredHere struct {
	upstream.Plain
	ctx    context.Context
	stop   context.CancelFunc
	answer func(ctx context.Context) ([]byte, error)
}

// answerHere returns a stream with the response that answer returns. Events calls it.
func answerHere(ctx context.Context, answer func(ctx context.Context) ([]byte, error)) *answeredHere {
	l := &answeredHere{answer: answer}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// Events gives the response, then io.EOF.
func (l *answeredHere) Events(yield func(sse.Event, error) bool) {
	if answer := l.answer; answer != nil {
		l.answer = nil
		if body, err := answer(l.ctx); !yield(sse.Event{Data: body}, err) || err != nil {
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
