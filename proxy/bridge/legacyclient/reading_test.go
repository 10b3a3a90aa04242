package legacyclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func newBridge(t *testing.T) *Bridge {
	t.Helper()
	cfg := config.Default()
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none := func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(64<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg, Table: table} })
	return &Bridge{host: h, results: results.New(func() results.Bounds { return results.Bounds{} }), lists: new(memo.Memo), finished: newFinishedTasks()}
}

// events is a stream that cannot be interrupted.
type events struct {
	upstream.Plain
	list []string
}

func (s *events) Events(yield func(sse.Event, error) bool) {
	for len(s.list) > 0 {
		e := sse.Event{Data: []byte(s.list[0])}
		if s.list = s.list[1:]; !yield(e, nil) {
			return
		}
	}
	yield(sse.Event{}, io.EOF)
}

func (s *events) Close() error { return nil }

// progressing is a server that reports progress twice and then answers.
type progressing struct{}

func (progressing) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	return &events{list: []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, gjson.GetBytes(m.Body, "id").Raw),
	}}, nil
}

func (progressing) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (progressing) Close(context.Context) error { return nil }

// curious is a server that asks two questions and waits for their answers.
type curious struct{ progressing }

func (curious) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	const question = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	return &events{list: []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"a":%s,"b":%s}}}`,
		gjson.GetBytes(m.Body, "id").Raw, question, question)}}, nil
}

// TestAnAnswerThatHasComeOutlastsTheSession: the call has ended with an answer, behind which the client is to read what comes
// before. If the session ends meanwhile, the client gets both. A call that the client has cancelled has no answer.
func TestAnAnswerThatHasComeOutlastsTheSession(t *testing.T) {
	b := newBridge(t)
	for _, cancelled := range []bool{false, true} {
		for range 50 { // the end of the session and the answer are ready at the same time
			c := b.New(curious{}, ByOwnProcess, translate.Latest(), wire.ClientSampling)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			st, err := c.Send(ctx, &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n"}}`), Request: true})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var failed error
			for e, err := range st.Events {
				if err != nil {
					failed = err
					break
				}
				got = append(got, string(e.Data))
				switch len(got) {
				case 2:
					refusal := `{"jsonrpc":"2.0","id":` + gjson.Get(got[0], "id").Raw + `,"error":{"code":-1,"message":"no"}}`
					if _, err := c.Send(t.Context(), &upstream.Outgoing{Body: []byte(refusal)}); err != nil {
						t.Fatal(err)
					}
				case 3:
					if cancelled {
						end(requests.ErrCancelled)
					} else {
						end(errors.New("the session has ended"))
						c.end()
					}
				}
			}
			st.Close()
			c.end()
			switch last := got[len(got)-1]; {
			case !cancelled && (len(got) != 4 || gjson.Get(last, "id").Raw != "1"):
				t.Fatalf("%q, then %v", got, failed)
			case cancelled && (len(got) != 3 || failed != requests.ErrCancelled):
				t.Fatalf("the call was cancelled: %q, then %v", got, failed)
			}
		}
	}
	b.host.Wait()
}

type noReader struct{}

func (noReader) Message(*observe.Message) {}
func (noReader) Note(*observe.Note)       {}
func (noReader) End(*observe.End)         {}
func (noReader) Session(*observe.Session) {}
func (noReader) Stderr(*observe.Stderr)   {}
func (noReader) Gap(uint64)               {}

// TestObservedMessagesAreThoseThatWereRead: what a call's goroutine reads next must not be taken for what the client gets now.
func TestObservedMessagesAreThoseThatWereRead(t *testing.T) {
	b := newBridge(t)
	var o observe.Observer
	defer o.Attach("x", noReader{})()
	for range 50 {
		c := b.New(progressing{}, ByOwnProcess, translate.Latest(), wire.Facts(0))
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n"}}`)
		seen := o.Begin(&observe.Peers{}, o.Keep(body), false)
		st, err := c.Send(observe.With(t.Context(), seen), &upstream.Outgoing{Body: body, Request: true})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range st.Events {
			if err != nil {
				break
			}
			time.Sleep(100 * time.Microsecond) // so that the goroutine could read on
			m := seen.Went(observe.ClientEdge, observe.ToClient, e.Data)
			if m == nil || m.From == nil || gjson.GetBytes(m.From.Raw, "params.progress").Raw != gjson.GetBytes(e.Data, "params.progress").Raw {
				t.Fatalf("%s is said to be made of another message", e.Data)
			}
		}
		st.Close()
		c.end()
	}
	b.host.Wait()
}

// refusing is a modern process that ends a subscription, and refuses all others.
type refusing struct {
	upstream.Plain
	out chan string

	mu     sync.Mutex
	listen int
}

func (p *refusing) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	r := gjson.ParseBytes(m.Body)
	if r.Get("method").String() != "subscriptions/listen" {
		return nil, nil
	}
	id := r.Get("id").Raw
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listen++; p.listen > 1 {
		p.out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not now"}}`, id)
		return nil, nil
	}
	p.out <- `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":{}}}`
	p.out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, id)
	return nil, nil
}

func (p *refusing) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, nil
}

func (p *refusing) Close(context.Context) error { return nil }

// said is the standing stream of a process.
type said struct {
	upstream.Plain
	out chan string
}

func (s said) Events(yield func(sse.Event, error) bool) {
	for m := range s.out {
		if !yield(sse.Event{Data: []byte(m)}, nil) {
			return
		}
	}
	yield(sse.Event{}, upstream.ErrClosed)
}

func (s said) Close() error { return nil }

// TestARefusedSubscriptionIsTriedAgain, also on a pipe, whose stream does not end with the refusal.
func TestARefusedSubscriptionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		p := &refusing{out: make(chan string, 100)}
		c := b.New(pipes.Open(p, said{out: p.out}, nil, b.host.Config().Limits, b.host), ByOwnProcess, translate.Latest(), wire.Facts(0))
		ctx, end := context.WithCancel(t.Context())
		l := &listenRequest{c: c, ctx: ctx, what: `"notifications":{"toolsListChanged":true}`}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.run()
		}()
		time.Sleep(10 * time.Minute)
		end()
		<-done
		p.mu.Lock()
		if p.listen < 5 {
			t.Errorf("%d requests in 10 minutes", p.listen)
		}
		p.mu.Unlock()
		close(p.out)
		b.host.Wait()
		c.end()
	})
}

// prompt is a server that answers at once, on a stream that can be interrupted.
type prompt struct{ progressing }

func (prompt) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	return interruptible{upstream.Answered(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","resources":[]}}`, gjson.GetBytes(m.Body, "id").Raw))}, nil
}

type interruptible struct{ upstream.Stream }

func (interruptible) CanInterrupt() bool { return true }

// TestMemoryOfACallIsUsedAgain after Close, if nothing else can know the call: it has no goroutine, and its caller said so.
func TestMemoryOfACallIsUsedAgain(t *testing.T) {
	b := newBridge(t)
	pass := func(c *Conn, m *upstream.Outgoing) (upstream.Stream, error) {
		st, _, err := c.Pass(t.Context(), m)
		return st, err
	}
	send := func(c *Conn, m *upstream.Outgoing) (upstream.Stream, error) { return c.Send(t.Context(), m) }
	for _, row := range []struct {
		what  string
		conn  upstream.Conn
		reach Reach
		begin func(*Conn, *upstream.Outgoing) (upstream.Stream, error)
		read  bool
		again bool
	}{
		{"answered", prompt{}, ByHTTP, pass, true, true},
		{"not read", prompt{}, ByHTTP, pass, false, false},
		{"by Send", prompt{}, ByHTTP, send, true, false},
		{"on a pipe", prompt{}, ByOwnProcess, pass, true, false},
		{"with a goroutine", progressing{}, ByHTTP, pass, true, false},
	} {
		c := b.New(row.conn, row.reach, translate.Latest(), 0)
		st, err := row.begin(c, &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`), Request: true})
		if err != nil {
			t.Fatal(err)
		}
		for row.read {
			st.Events(func(e sse.Event, err error) bool {
				if row.read = gjson.GetBytes(e.Data, "id").Raw != "1"; err != nil {
					t.Fatalf("%s: %v", row.what, err)
				}
				return false
			})
		}
		st.Close()
		r := st.(*reading)
		r.mu.Lock()
		if again := r.c == nil; again != row.again {
			t.Errorf("%s: used again: %v", row.what, again)
		}
		r.mu.Unlock()
		c.End()
	}
}
