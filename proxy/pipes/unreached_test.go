package pipes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// asker is a server on a pipe that says what it is told to, and keeps what it gets.
type asker struct {
	upstream.Plain
	says chan string
	got  chan string
	deaf chan struct{} // not nil: it reads nothing until this is closed
	once sync.Once
}

func (a *asker) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if a.deaf != nil {
		select {
		case <-a.deaf:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.got <- string(m.Body)
	return nil, nil
}

func (a *asker) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

type askerStream struct{ *asker }

func (a *asker) Close(context.Context) error { a.once.Do(func() { close(a.says) }); return nil }
func (a askerStream) Close() error           { return a.asker.Close(context.Background()) }
func (a askerStream) Events(yield func(sse.Event, error) bool) {
	for m := range a.says {
		if !yield(sse.Event{Data: []byte(m)}, nil) {
			return
		}
	}
	yield(sse.Event{}, io.EOF)
}

// asking returns Streams on an asker, whose queues hold this many messages.
func asking(t *testing.T, patience time.Duration, queue int) (*asker, *Streams) {
	t.Helper()
	a := &asker{says: make(chan string), got: make(chan string, 1000)}
	o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
	l := Open(a, askerStream{a}, nil, config.Limits{Queue: queue, QueueBytes: 1 << 20, Batch: 10}, o)
	l.mu.Lock()
	l.patience = patience
	l.mu.Unlock()
	t.Cleanup(func() {
		l.Close(context.Background())
		o.tasks.Wait()
	})
	return a, l
}

func (a *asker) asks(id int, method string) {
	a.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

// settle returns when what the server has said before is sorted: it says something that goes to no client.
func (a *asker) settle() {
	for range 2 {
		a.says <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99}}`
	}
}

// gets waits for the response to the request with this id.
func (a *asker) gets(t *testing.T, id int, member string) {
	t.Helper()
	select {
	case m := <-a.got:
		if gjson.Get(m, "id").Int() != int64(id) || !gjson.Get(m, member).Exists() {
			t.Errorf("the server got %s, not a response to %d with %s", m, id, member)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the server got no response to %d", id)
	}
}

// call sends a request of the client.
func call(t *testing.T, a *asker, l *Streams) *Stream {
	t.Helper()
	st, err := l.Request(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), Request: true})
	if err != nil {
		t.Fatal(err)
	}
	<-a.got
	return st
}

// methodOf returns the method of the next message of a stream.
func methodOf(t *testing.T, st upstream.Stream) string {
	t.Helper()
	e, err := upstream.First(st)
	if err != nil {
		t.Error(err)
	}
	return gjson.GetBytes(e.Data, "method").String()
}

// TestPingOfAServerWhoseClientCannotBeReached: dragoman answers it at once, however the client came to be away.
func TestPingOfAServerWhoseClientCannotBeReached(t *testing.T) {
	for name, away := range map[string]func(*testing.T, *asker, *Streams){
		"no stream yet": func(*testing.T, *asker, *Streams) {},
		"only a request of dragoman's own": func(t *testing.T, a *asker, l *Streams) {
			if _, err := l.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), Request: true, Ours: true}); err != nil {
				t.Fatal(err)
			}
			<-a.got
		},
		"a standing stream that was closed": func(t *testing.T, _ *asker, l *Streams) {
			st, err := l.Listen(t.Context(), upstream.ListenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			st.Close()
		},
		"a call whose client has left":      func(t *testing.T, a *asker, l *Streams) { call(t, a, l).Close() },
		"a call whose client may come back": func(t *testing.T, a *asker, l *Streams) { l.Rest(call(t, a, l)) },
		"a call whose client came back, and left": func(t *testing.T, a *asker, l *Streams) {
			st := call(t, a, l)
			l.Rest(st)
			l.Move(t.Context(), st).Close()
		},
		"a call that the server has answered since then": func(t *testing.T, a *asker, l *Streams) {
			st := call(t, a, l)
			a.says <- `{"jsonrpc":"2.0","id":` + st.Given() + `,"result":{}}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, l := asking(t, time.Minute, 10)
			away(t, a, l)
			a.asks(7, "ping")
			a.gets(t, 7, "result")
		})
	}
}

// TestPingThatNoClientHasRead: the client leaves between the ping and the moment in which it would have read it.
func TestPingThatNoClientHasRead(t *testing.T) {
	for name, leave := range map[string]func(l *Streams, st *Stream){
		"for good":        func(_ *Streams, st *Stream) { st.Close() },
		"for the present": func(l *Streams, st *Stream) { l.Rest(st) },
	} {
		t.Run(name, func(t *testing.T) {
			a, l := asking(t, time.Minute, 10)
			st := call(t, a, l)
			a.asks(7, "ping")
			a.settle()
			leave(l, st)
			a.gets(t, 7, "result")
		})
	}
}

// TestQuestionOfAServerWaitsALittle: what is no ping waits for a stream of the client, and is refused if there is none.
func TestQuestionOfAServerWaitsALittle(t *testing.T) {
	a, l := asking(t, 20*time.Millisecond, 10)
	a.asks(1, "roots/list")
	a.asks(2, "sampling/createMessage")
	a.gets(t, 1, "error")
	a.gets(t, 2, "error")
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d messages wait still", n)
	}

	l.mu.Lock()
	l.patience = time.Minute
	l.mu.Unlock()
	a.asks(3, "roots/list")
	a.asks(4, "ping")
	a.gets(t, 4, "result") // so 3 waits now
	st, err := l.Listen(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := methodOf(t, st); got != "roots/list" {
		t.Errorf("the client got %s", got)
	}
	a.asks(5, "ping")
	if got := methodOf(t, st); got != "ping" {
		t.Errorf("the client, which can be reached, got %s", got)
	}
	st.Close()
	if len(a.got) > 0 {
		t.Errorf("the server got %s", <-a.got)
	}
}

// TestQuestionOfAServerIsHandedOn: a client that leaves a call leaves what it was asked in it to its other streams.
func TestQuestionOfAServerIsHandedOn(t *testing.T) {
	a, l := asking(t, time.Minute, 10)
	first, second := call(t, a, l), call(t, a, l)
	a.asks(1, "roots/list")
	a.settle()
	second.Close()
	if got := methodOf(t, first); got != "roots/list" {
		t.Errorf("the other call got %s", got)
	}
	l.Rest(first)
	a.asks(2, "roots/list") // waits for the client to resume the stream
	a.asks(3, "ping")
	a.gets(t, 3, "result")
	if got := methodOf(t, l.Move(t.Context(), first)); got != "roots/list" {
		t.Errorf("the resumed stream got %s", got)
	}
}

// TestWithdrawalOfAQuestion: a client without a standing stream is told of it where it is asked, however many calls are open.
func TestWithdrawalOfAQuestion(t *testing.T) {
	a, l := asking(t, time.Minute, 10)
	call(t, a, l)
	second := call(t, a, l)
	a.asks(1, "roots/list")
	a.says <- `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	a.settle()
	for _, want := range []string{"roots/list", "notifications/cancelled"} {
		if got := methodOf(t, second); got != want {
			t.Errorf("the call got %s, not %s", got, want)
		}
	}
	if n := l.Waiting(); n > 0 {
		t.Errorf("%d messages wait for a standing stream", n)
	}
}

// TestServerThatAsksTooMuch: a full queue neither grows nor blocks the pipe, whether the client reads it or not.
func TestServerThatAsksTooMuch(t *testing.T) {
	const most, all = 4, 20
	for name, open := range map[string]func(*testing.T, *asker, *Streams){
		"no stream":               func(*testing.T, *asker, *Streams) {},
		"a stream that is unread": func(t *testing.T, _ *asker, l *Streams) { _, _ = l.Listen(t.Context(), upstream.ListenOptions{}) },
		"a call that is unread":   func(t *testing.T, a *asker, l *Streams) { call(t, a, l) },
	} {
		t.Run(name, func(t *testing.T) {
			a, l := asking(t, time.Minute, most)
			open(t, a, l)
			for i := range all {
				a.asks(i, "roots/list")
			}
			for i := most; i < all; i++ {
				a.gets(t, i, "error")
			}
			a.asks(all, "ping")
			a.gets(t, all, "result")
		})
	}
}

// TestServerThatDoesNotReadItsAnswers: the pipe is read on.
func TestServerThatDoesNotReadItsAnswers(t *testing.T) {
	a, l := asking(t, time.Minute, 10)
	a.deaf = make(chan struct{})
	for i := range 100 {
		a.asks(i, "ping")
	}
	a.says <- `{"jsonrpc":"2.0","method":"notifications/message"}`
	st, err := l.Listen(t.Context(), upstream.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := methodOf(t, st); got != "notifications/message" {
		t.Errorf("the client got %s", got)
	}
	close(a.deaf)
	for i := range 100 {
		a.gets(t, i, "result")
	}
}

// TestRepliesAreBounded counts what waits for a server that does not read.
func TestRepliesAreBounded(t *testing.T) {
	a := &asker{got: make(chan string, 1000), deaf: make(chan struct{})}
	o := &owner{TB: t, memory: large.NewMemory(1 << 20)}
	var r Replies
	big, taken := make([]byte, maxReplies/4), 0
	for range 10 {
		if r.Put(o, a, big, nil) {
			taken++
		}
	}
	close(a.deaf)
	o.tasks.Wait()
	if taken != 4 || len(a.got) != 4 {
		t.Errorf("%d taken, %d sent", taken, len(a.got))
	}
	if !r.Put(o, a, big, nil) {
		t.Error("not taken although nothing waits")
	}
	o.tasks.Wait()
}

// TestQuestionsOfALostProcessAreForgotten: the next process may use their ids.
func TestQuestionsOfALostProcessAreForgotten(t *testing.T) {
	a, l := asking(t, 10*time.Millisecond, 10)
	l.mu.Lock()
	l.patience = time.Minute
	l.mu.Unlock()
	a.asks(1, "roots/list")
	a.asks(2, "ping")
	a.gets(t, 2, "result")
	l.lose(&RestartError{Err: io.EOF})
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// TestQuestionsOfALostProcessAreNotHandedOn: the client of a call has left, so that nothing reads what it was asked. The call ends with
// the process, or was answered before.
func TestQuestionsOfALostProcessAreNotHandedOn(t *testing.T) {
	for _, answered := range []bool{false, true} {
		lost := func() (*Streams, *Stream) {
			a, l := asking(t, time.Minute, 10)
			s := call(t, a, l)
			l.Rest(s)
			a.asks(1, "roots/list")
			if answered {
				a.says <- `{"jsonrpc":"2.0","id":` + s.Given() + `,"result":{}}`
			}
			a.settle()
			l.lose(&RestartError{Err: io.EOF})
			return l, s
		}
		l, s := lost()
		s.Close()
		if n := l.Waiting(); n != 0 {
			t.Errorf("answered: %t: %d wait after the client has left", answered, n)
		}
		l, s = lost()
		e, err := upstream.First(l.Move(t.Context(), s))
		if asked := gjson.GetBytes(e.Data, "method").Exists(); asked || Restarts(err) == answered {
			t.Errorf("answered: %t: the resumed stream gives %s, %v", answered, e.Data, err)
		}
	}
}

func TestQueueOfQuestions(t *testing.T) {
	q := Queue{maxItems: 3, maxBytes: 10}
	var r [5][]byte
	for i := range r {
		r[i] = []byte(fmt.Sprint("Q", i))
	}
	var taken []bool
	for _, m := range r {
		_, ok := q.offer(m)
		taken = append(taken, ok)
	}
	if !slices.Equal(taken, []bool{true, true, true, false, false}) {
		t.Error(taken)
	}
	if !q.remove(r[1]) || q.remove(r[1]) || q.remove(r[4]) {
		t.Error("remove")
	}
	q.Put([]byte("A"), true)
	if all := q.questions(); len(all) != 2 || string(all[1]) != "Q2" {
		t.Errorf("%q", all)
	}
	if m, ok := q.Pop(); !ok || string(m) != "A" || q.bytes != 0 || q.asked != 0 || q.heavy != 0 {
		t.Errorf("%q, %+v", m, q)
	}
	if _, ok := q.offer(make([]byte, 100)); !ok {
		t.Error("one alone is taken, however large")
	}
}
