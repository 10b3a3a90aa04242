package pipes

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// pipe is a server that sends nothing by itself.
type pipe struct {
	closed chan struct{}
	once   sync.Once
}

func (p *pipe) Send(context.Context, *upstream.Outgoing) (upstream.Stream, error) { return nil, nil }
func (p *pipe) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (p *pipe) Close(context.Context) error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// said is the stream of its messages.
type said struct {
	upstream.Plain
	*pipe
}

func (s said) Close() error { return s.pipe.Close(context.Background()) }
func (s said) Events(yield func(sse.Event, error) bool) {
	<-s.closed
	yield(sse.Event{}, io.EOF)
}

// owner counts what is dropped.
type owner struct {
	testing.TB
	memory *large.Memory
	tasks  sync.WaitGroup

	mu      sync.Mutex
	dropped []string
}

func (o *owner) Spawn(task func()) { o.tasks.Go(task) }
func (o *owner) Dropped(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = append(o.dropped, reason)
}
func (o *owner) Quirk(q mcp.Quirk) { o.Dropped("quirk " + string(q)) }
func (o *owner) Unread(reason string, f *mcp.Failure) *mcp.Failure {
	o.Dropped(reason)
	return f
}
func (o *owner) Panicked(p any)        { o.Errorf("panic: %v", p) }
func (o *owner) Memory() *large.Memory { return o.memory }

// opened returns Streams on a pipe.
func opened(t *testing.T) *Streams {
	t.Helper()
	p := &pipe{closed: make(chan struct{})}
	o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
	t.Cleanup(o.tasks.Wait)
	return Open(p, said{pipe: p}, nil, config.Limits{Queue: 10, QueueBytes: 1 << 20, Batch: 10}, o)
}

func TestClosedStreamsSendNothing(t *testing.T) {
	l := opened(t)
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Send(context.Background(), &upstream.Outgoing{Body: []byte(ping), Request: true}); !errors.Is(err, upstream.ErrClosed) {
		t.Error(err)
	}
	if _, err := l.Listen(context.Background(), upstream.ListenOptions{}); !errors.Is(err, upstream.ErrClosed) {
		t.Error(err)
	}
	called := false
	l.WhenLost(func() { called = true })
	if !called {
		t.Error("WhenLost did not call its function")
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	l := opened(t)
	defer l.Close(context.Background())
	ctx, stop := context.WithCancelCause(context.Background())
	st, err := l.Listen(ctx, upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop(io.ErrClosedPipe)
	if _, err := upstream.First(st); err != io.ErrClosedPipe {
		t.Error(err)
	}
	st.Close()
}

// TestStreamEndsWithoutRoom checks that a large answer for which there is no room ends its
// call, and no other.
func TestStreamEndsWithoutRoom(t *testing.T) {
	l := opened(t)
	defer l.Close(context.Background())
	var streams []upstream.Stream
	for range 2 {
		st, err := l.Send(t.Context(), &upstream.Outgoing{Body: []byte(ping), Request: true})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	id, _ := l.Recall("1", "", nil) // the newest
	var m wire.Message
	if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`), idmap.Shape); err != nil {
		t.Fatal(err)
	}
	full := &large.NoRoomError{Bytes: 1 << 20}
	l.miss(&m, full)
	if _, err := upstream.First(streams[1]); err != full {
		t.Errorf("the call ended by %v", err)
	}
	if streams[0].(*Stream).Over() {
		t.Error("the other call ended, too")
	}
}

func TestQueueDropsTheOldestNotification(t *testing.T) {
	q := Queue{maxItems: 3, maxBytes: 20}
	dropped := 0
	for _, m := range []string{"n1", "R1", "n2", "n3", "n4", "R2", "R3", "R4"} {
		dropped += q.Put([]byte(m), m[0] == 'R')
	}
	dropped += q.Put([]byte(strings.Repeat("R", 30)), true)
	var got []string
	for m, ok := q.Pop(); ok; m, ok = q.Pop() {
		got = append(got, string(m[:2]))
	}
	if strings.Join(got, " ") != "R1 R2 R3 R4 RR" || dropped != 4 || q.bytes != 0 {
		t.Errorf("%v, dropped %d, %d bytes", got, dropped, q.bytes)
	}
}
