package pipes

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
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
	if _, err := Answer(ctx, c, []byte("1"), nil); !errors.Is(err, context.Canceled) || c.events != 100 {
		t.Errorf("%v after %d events", err, c.events)
	}
}

// asks is the stream of a request in which a server asks before it answers.
type asks struct{ chatter }

func (a *asks) Events(yield func(sse.Event, error) bool) {
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":8,"method":"roots/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`,
	} {
		if !yield(sse.Event{Data: []byte(m)}, nil) {
			return
		}
	}
}

// TestServerThatAsksInARequestOfDragomansOwn: servers end a session whose client does not answer their pings.
func TestServerThatAsksInARequestOfDragomansOwn(t *testing.T) {
	var replies []string
	result, err := Answer(t.Context(), new(asks), []byte("1"), func(m []byte) { replies = append(replies, string(m)) })
	if err != nil || string(result) != `{"tools":[]}` {
		t.Errorf("%s, %v", result, err)
	}
	want := []string{`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"Method not found"}}`}
	if !slices.Equal(replies, want) {
		t.Errorf("%q", replies)
	}
}
