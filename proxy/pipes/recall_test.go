package pipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// slow is a server that takes a request when the test says so.
type slow struct {
	*pipe
	way  chan error // what becomes of a request
	sent []string
}

func (s *slow) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	body := string(m.Body)
	if m.Request {
		if err := <-s.way; err != nil {
			return nil, err
		}
	}
	s.sent = append(s.sent, body)
	return nil, nil
}

// recalling is a connection that replaces ids.
type recalling interface {
	upstream.Conn
	Recall(id, reason string, header []mcp.Header) (given string, on upstream.Conn)
}

// TestCancellationFollowsItsRequest: while a request is being sent, its cancellation waits. A request that was not sent gets
// none.
func TestCancellationFollowsItsRequest(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":"a","method":"tools/call"}`
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`
	both := []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}
	failed := errors.New("not sent")
	byMessage := func(conn recalling) {
		_, _ = conn.Send(context.Background(), &upstream.Outgoing{Body: []byte(cancelled)})
	}
	byRecall := func(conn recalling) {
		if _, on := conn.Recall(`"a"`, "", nil); on != nil {
			panic("the request is not sent yet")
		}
	}
	for name, over := range map[string]func(*slow, *owner) recalling{
		"streams": func(s *slow, o *owner) recalling {
			return Open(s, said{pipe: s.pipe}, nil, config.Limits{Queue: 10, Batch: 10}, o)
		},
		"renumbered": func(s *slow, o *owner) recalling {
			conn, _ := Renumber(s, said{pipe: s.pipe}, nil, config.Limits{Batch: 10}, o)
			return conn
		},
	} {
		for _, c := range []struct {
			name   string
			cancel func(recalling)
			stale  bool
			way    error
			want   []string
		}{
			{"cancelled, then sent", byMessage, false, nil, both},
			{"cancelled, and not sent", byMessage, false, failed, nil},
			{"recalled, then sent", byRecall, false, nil, both},
			{"recalled, and not sent", byRecall, false, failed, nil},
			{"not sent, then cancelled", func(recalling) {}, false, failed, nil},
			{"stale, then cancelled", func(recalling) {}, true, nil, nil},
			{"sent", func(recalling) {}, false, nil, both[:1]},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &slow{pipe: &pipe{closed: make(chan struct{})}, way: make(chan error, 1)}
					o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
					conn := over(s, o)
					ended := make(chan error, 1)
					go func() {
						st, err := conn.Send(context.Background(), &upstream.Outgoing{Body: []byte(request), Request: true, Stale: func() bool { return c.stale }})
						if st != nil {
							defer st.Close()
						}
						ended <- err
					}()
					synctest.Wait()
					c.cancel(conn)
					synctest.Wait()
					if len(s.sent) > 0 {
						t.Errorf("sent before the request: %q", s.sent)
					}
					s.way <- c.way
					want := c.way
					if c.stale {
						want = ErrRecalled
					}
					if err := <-ended; err != want {
						t.Errorf("the request ended with %v, want %v", err, want)
					}
					if want != nil { // the server does not have the request: there is nothing to cancel
						byMessage(conn)
					}
					synctest.Wait()
					if !slices.Equal(s.sent, c.want) {
						t.Errorf("\n sent %q\n want %q", s.sent, c.want)
					}
					_ = conn.Close(context.Background())
					s.pipe.Close(context.Background())
					o.tasks.Wait()
				})
			})
		}
	}
}

// TestRequestThatMayHaveArrivedIsCancelled: the server has not answered its POST in time.
func TestRequestThatMayHaveArrivedIsCancelled(t *testing.T) {
	for _, c := range []struct {
		op   string
		want []string
	}{
		{"read", []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}},
		{"connect", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{pipe: &pipe{closed: make(chan struct{})}, way: make(chan error, 1)}
			o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
			conn := Open(s, said{pipe: s.pipe}, nil, config.Limits{Queue: 10, Batch: 10}, o)
			s.way <- &upstream.Error{Op: c.op, Err: context.DeadlineExceeded}
			if _, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call"}`), Request: true}); err == nil {
				t.Error("sent")
			}
			_, _ = conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)})
			synctest.Wait()
			if !slices.Equal(s.sent, c.want) {
				t.Errorf("%s: sent %q", c.op, s.sent)
			}
			_ = conn.Close(context.Background())
			s.pipe.Close(context.Background())
			o.tasks.Wait()
		})
	}
}

// TestCancellationAfterTheStreamIsClosed: a client may leave a call first and cancel it then. The server gets the cancellation,
// once, while it has not answered.
func TestCancellationAfterTheStreamIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{pipe: &pipe{closed: make(chan struct{})}, way: make(chan error, 2*maxLeft)}
		o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
		l := Open(s, said{pipe: s.pipe}, nil, config.Limits{Queue: 10, Batch: 10}, o)
		const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`
		cancel := func(id int) (sent []string) {
			was := len(s.sent)
			_, _ = l.Send(t.Context(), &upstream.Outgoing{Body: fmt.Appendf(nil, cancelled, id)})
			return s.sent[was:]
		}
		for id := range maxLeft + 2 {
			s.way <- nil
			st, err := l.Send(t.Context(), &upstream.Outgoing{Body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call"}`, id), Request: true})
			if err != nil {
				t.Fatal(err)
			}
			_ = st.Close()
		}
		s.way <- nil
		old, err := l.Request(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"moved","method":"tools/call"}`), Request: true})
		if err != nil {
			t.Fatal(err)
		}
		moved := l.Move(t.Context(), old)
		_ = old.Close() // another one has its request
		defer moved.Close()
		if l.Requests() != 1 || len(l.left) != maxLeft || l.table.Len() != maxLeft+1 {
			t.Errorf("%d requests in flight, %d left, %d ids", l.Requests(), len(l.left), l.table.Len())
		}
		if got := cancel(1); len(got) > 0 {
			t.Errorf("of more than maxLeft requests, the oldest is known: %q", got)
		}
		if got, want := cancel(2), []string{fmt.Sprintf(cancelled, 3)}; !slices.Equal(got, want) { // the ids that the server has begin with 1
			t.Errorf("got %q, want %q", got, want)
		}
		if got := cancel(2); len(got) > 0 {
			t.Errorf("cancelled twice: %q", got)
		}
		if given, on := l.Recall("3", "", nil); given != "4" || on == nil {
			t.Errorf("recalled %s", given)
		}
		if len(l.left) != maxLeft-2 || l.table.Len() != maxLeft-1 {
			t.Errorf("%d left, %d ids", len(l.left), l.table.Len())
		}
		_ = l.Close(t.Context())
		s.pipe.Close(t.Context())
		o.tasks.Wait()
	})
}
