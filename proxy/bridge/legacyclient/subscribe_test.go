package legacyclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// granting is a modern server that answers subscriptions with these messages, in which ID is the id of the request, and
// leaves their streams open.
type granting struct {
	progressing
	messages []string

	mu    sync.Mutex
	open  int
	asked []string // the URIs and tasks
}

func (s *granting) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	id := gjson.GetBytes(m.Body, "id").Raw
	if gjson.GetBytes(m.Body, "method").String() == "server/discover" {
		return &events{list: []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","supportedVersions":["` + translate.Modern() + `"],"capabilities":{"resources":{"subscribe":true}},"_meta":{}}}`}}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.asked = append(s.asked, gjson.GetBytes(m.Body, "params.notifications.resourceSubscriptions.0").String()+gjson.GetBytes(m.Body, "params.notifications.taskIds.0").String())
	st := &granted{of: s, ctx: ctx, closed: make(chan struct{})}
	for _, text := range s.messages {
		st.list = append(st.list, strings.ReplaceAll(text, "ID", id))
	}
	return st, nil
}

// granted is the stream of a subscription, which ends with its context or when it is closed.
type granted struct {
	events
	of     *granting
	ctx    context.Context
	once   sync.Once
	closed chan struct{}
}

func (s *granted) Events(yield func(sse.Event, error) bool) {
	for len(s.list) > 0 {
		e := sse.Event{Data: []byte(s.list[0])}
		if s.list = s.list[1:]; !yield(e, nil) {
			return
		}
	}
	select {
	case <-s.closed:
	case <-s.ctx.Done():
	}
	yield(sse.Event{}, upstream.ErrClosed)
}

func (s *granted) Close() error {
	s.once.Do(func() {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.of.open--
		close(s.closed)
	})
	return nil
}

// TestSubscriptionsToResources: what the server does not grant is an error for the client, and leaves no stream open; a session has a
// bounded number, and all end with it.
func TestSubscriptionsToResources(t *testing.T) {
	ack := func(uris string) string {
		return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"resourceSubscriptions":` + uris + `}}}`
	}
	for name, c := range map[string]struct {
		messages []string
		before   int    // subscriptions that there are
		want     string // the error; "" for none
	}{
		"granted":              {[]string{ack(`["a:x"]`)}, 0, ""},
		"after other messages": {[]string{"", "Listening", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`, ack(`["a:x"]`)}, 0, ""},
		"another resource":     {[]string{ack(`["a:y"]`)}, 0, "Subscription not accepted: a:x"},
		"not a list of texts":  {[]string{ack(`[{"uri":"a:x"}, 7]`)}, 0, "Subscription not accepted: a:x"},
		"nothing":              {[]string{ack(`null`)}, 0, "Subscription not accepted: a:x"},
		"refused":              {[]string{`{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such resource"}}`}, 0, "no such resource"},
		"too many":             {[]string{ack(`["a:x"]`)}, maxWatched, "too many subscriptions: end others with resources/unsubscribe first"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t)
				s := &granting{messages: c.messages}
				conn := b.New(s, ByOwnProcess, translate.Latest(), wire.Facts(0))
				for n := range c.before {
					conn.pretend(fmt.Sprint("b:", n))
				}
				for range 2 { // the second time there is one already
					if err := conn.subscribe(t.Context(), "a:x", nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v, want %q", err, c.want)
					}
				}
				synctest.Wait()
				want := 0
				if c.want == "" {
					want = 1
				}
				s.mu.Lock()
				if s.open != want || c.want == "" && len(s.asked) != 1 || c.before > 0 && len(s.asked) > 0 {
					t.Errorf("%d streams are open, of requests for %q", s.open, s.asked)
				}
				s.mu.Unlock()
				conn.Unwatch()
				synctest.Wait()
				if s.open != 0 || conn.Subscriptions() != "" {
					t.Errorf("%d streams are open, left: %q", s.open, conn.Subscriptions())
				}
				conn.end()
				b.host.Wait()
			})
		})
	}
}

// TestTaskIsWatchedOnceTheStreamIsOpen: a client on a pipe may call a tool before its standing stream is open. A task that is
// over by then is not watched.
func TestTaskIsWatchedOnceTheStreamIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		s := &granting{messages: []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"taskIds":["t1","t3"]}}}`}}
		conn := b.New(s, ByHTTP, translate.Latest(), wire.Facts(0))
		for n := range maxTaskWatch {
			conn.watchTask(runningTask{id: fmt.Sprint("old", n), until: time.Now().Add(time.Second)})
		}
		conn.watchTask(runningTask{id: "one too many", until: time.Now().Add(time.Hour)})
		time.Sleep(2 * time.Second)
		conn.watchTask(runningTask{id: "t1", until: time.Now().Add(time.Hour)})
		synctest.Wait()
		if len(s.asked) > 0 {
			t.Errorf("watched without a stream: %q", s.asked)
		}
		st, err := conn.Listen(t.Context(), upstream.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conn.watchTask(runningTask{id: "t3", until: time.Now().Add(time.Hour)})
		synctest.Wait()
		s.mu.Lock()
		slices.Sort(s.asked)
		if !slices.Equal(s.asked, []string{"t1", "t3"}) || s.open != 2 {
			t.Errorf("%d streams are open, of requests for %q", s.open, s.asked)
		}
		s.mu.Unlock()
		st.Close()
		conn.end()
		b.host.Wait()
	})
}

// TestNotificationsOutlastTheServersStream, whose memory the next message overwrites before the client reads the first one.
func TestNotificationsOutlastTheServersStream(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":1}`
	for name, text := range map[string]string{
		"unchanged":  `{"jsonrpc":"2.0","method":"notifications/acme","params":{"n":1}}`,
		"of a list":  `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + meta + `}}`,
		"translated": `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"u","ttlMs":1,` + meta + `}}`,
		"large":      `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 2*large.Size) + `",` + meta + `}}`,
	} {
		for _, r := range translate.All() {
			if r.Modern {
				continue
			}
			b := newBridge(t)
			conn := b.New(progressing{}, ByHTTP, r, wire.Facts(0))
			conn.enqueue([]byte(text), nil)
			want, there := conn.news.queue.Pop()
			raw := []byte(text)
			conn.enqueue(raw, nil)
			clear(raw)
			if got, _ := conn.news.queue.Pop(); string(got) != string(want) || there && !gjson.ValidBytes(want) {
				t.Errorf("%s, for %s: %.200q, want %.200q", name, r.Name, got, want)
			}
			conn.end()
		}
	}
}

// TestSubscriptionsOfOneClientLeaveRoom for those of others: each is a connection, and no client may have more than are left, whatever
// the number of its sessions.
func TestSubscriptionsOfOneClientLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		b.host.Config().Limits.Streams = 10
		s := &granting{messages: []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:x"]}}}`}}
		var conns []*Conn
		begin := func(client string) error {
			c := b.New(s, ByHTTP, translate.Latest(), wire.Facts(0))
			c.RunsFor(client)
			conns = append(conns, c)
			return c.subscribe(t.Context(), "a:x", nil)
		}
		for n := range 9 {
			if err := begin("greedy"); (err == nil) != (n < 6) || err != nil && !strings.Contains(err.Error(), "too many subscriptions of this client") {
				t.Errorf("%d: %v", n, err)
			}
		}
		for _, client := range []string{"modest", "another"} {
			if err := begin(client); err != nil {
				t.Errorf("%s: %v", client, err)
			}
		}
		for _, c := range conns {
			c.end()
		}
		b.host.Wait()
		if n := b.Subscriptions(); n != 0 {
			t.Errorf("%d are counted at the end", n)
		}
	})
}
