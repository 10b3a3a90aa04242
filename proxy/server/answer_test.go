package server

import (
	"context"
	"errors"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// chatter is the stream of a server that sends notifications without a pause, and never the response.
type chatter struct {
	upstream.Plain
	cancel context.CancelFunc
	events int
}

func (c *chatter) Events(yield func(sse.Event, error) bool) {
	for more := true; more; {
		if c.events++; c.events == 100 {
			c.cancel()
		}
		more = yield(sse.Event{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)}, nil)
	}
}

func (c *chatter) Close() error { return nil }

func TestAnswerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &chatter{cancel: cancel}
	if _, err := Answer(ctx, c, []byte("1")); !errors.Is(err, context.Canceled) || c.events != 100 {
		t.Errorf("%v after %d events", err, c.events)
	}
}
