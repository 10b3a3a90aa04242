package legacyclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// moody is a modern server whose answers to subscriptions the test chooses.
type moody struct {
	progressing
	open granting

	mu      sync.Mutex
	asked   []string // the URIs; "" for a subscription to lists
	answers func(n int, uri string) (messages []string, err error)
	streams []*granted
}

func (s *moody) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	id := gjson.GetBytes(m.Body, "id").Raw
	if gjson.GetBytes(m.Body, "method").String() == "server/discover" {
		return &events{list: []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","supportedVersions":["` + translate.Modern() + `"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"_meta":{}}}`}}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := gjson.GetBytes(m.Body, "params.notifications.resourceSubscriptions")
	uri := uris.Get("0").String()
	s.asked = append(s.asked, uri)
	messages, err := s.answers(len(s.asked), uri)
	for i := range messages {
		messages[i] = strings.ReplaceAll(messages[i], "URIS", uris.Raw)
	}
	if err != nil {
		return nil, err
	}
	st := &granted{of: &s.open, ctx: ctx, closed: make(chan struct{})}
	for _, text := range messages {
		st.list = append(st.list, strings.ReplaceAll(text, "ID", id))
	}
	s.streams = append(s.streams, st)
	return st, nil
}

// cut ends all streams.
func (s *moody) cut() {
	s.mu.Lock()
	all := s.streams
	s.streams = nil
	s.mu.Unlock()
	for _, st := range all {
		st.Close()
	}
}

func acknowledged(what string) string {
	return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{` + what + `}}}`
}

// pretend makes c subscribed to a resource without a server. c.mu must be held, if others use c.
func (c *Conn) pretend(uri string) {
	w := c.newWatch([]string{uri})
	w.names = map[string]bool{uri: true}
	c.subs.watched[uri] = w
}

// heard returns the notifications that wait on a standing stream, by method and URI.
func heard(c *Conn) (all []string) {
	c.news.mu.Lock()
	defer c.news.mu.Unlock()
	for {
		m, ok := c.news.next()
		if !ok {
			return all
		}
		all = append(all, strings.TrimPrefix(gjson.GetBytes(m, "method").String(), "notifications/")+" "+gjson.GetBytes(m, "params.uri").String())
	}
}

// TestClientIsToldOfAGap: while a subscription's stream is away, the server cannot send what happens. Then the client is told that
// something may have.
func TestClientIsToldOfAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		s := &moody{answers: func(n int, uri string) ([]string, error) {
			switch {
			case n == 4 || n == 5:
				return nil, errors.New("not now")
			case uri == "":
				return []string{acknowledged(`"toolsListChanged":true`)}, nil
			}
			return []string{acknowledged(`"resourceSubscriptions":URIS`)}, nil
		}}
		c := b.New(s, ByHTTP, translate.Oldest(), wire.Facts(0))
		st, err := c.Listen(t.Context(), upstream.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"a:x", `a:"y"`} {
			if err := c.subscribe(t.Context(), uri, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if got := heard(c); got != nil {
			t.Errorf("nothing was missed, and the client was told %q", got)
		}
		s.cut() // two of the three are refused once
		time.Sleep(time.Hour)
		got := heard(c)
		slices.Sort(got)
		if want := []string{`resources/updated a:"y"`, "resources/updated a:x", "tools/list_changed "}; !slices.Equal(got, want) {
			t.Errorf("the client was told %q, want %q", got, want)
		}
		st.Close()
		c.end()
		b.host.Wait()
	})
}

// flaky is an engine that is down for a while.
type flaky struct {
	*store.Memory
	mu    sync.Mutex
	until time.Time
}

func (e *flaky) down() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().Before(e.until) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (e *flaky) Get(ctx context.Context, key string) ([]byte, error) {
	if err := e.down(); err != nil {
		return nil, err
	}
	return e.Memory.Get(ctx, key)
}

// TestSubscriptionsMoveToTheReplicaOfTheStream although the store is away when the stream opens, and then the server; and although the
// client sends nothing, but listens. Another change of the session in the meantime does not end them.
func TestSubscriptionsMoveToTheReplicaOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &flaky{Memory: store.NewMemory(store.Bounds{})}
		of := func() *store.Store {
			s := store.New(engine, store.Options{Keys: storetest.Keys(1)})
			t.Cleanup(func() { s.Close() })
			return s
		}
		session := aSession()
		first := replica(t, of()).Resume(session, nil)
		first.Named(&session)
		for _, uri := range []string{"a:gone", "a:x"} {
			first.pretend(uri)
		}
		first.save(t.Context())
		first.End() // its process dies

		engine.until = time.Now().Add(time.Minute)
		b := replica(t, of())
		b.results = results.New(func() results.Bounds { return results.Bounds{} })
		s := &moody{}
		c := b.Resume(session, s)
		c.Resumed(&session)
		ups := 0
		s.answers = func(_ int, uri string) ([]string, error) {
			if uri == "" {
				return []string{acknowledged(`"toolsListChanged":true`)}, nil
			}
			if ups++; ups < 3 {
				go func() { // another request of the session
					c.mu.Lock()
					c.level = []byte(`"error"`)
					c.mu.Unlock()
					c.save(t.Context())
				}()
				return nil, errors.New("not now")
			}
			return []string{acknowledged(`"resourceSubscriptions":["a:x"]`)}, nil
		}
		st, err := c.Listen(t.Context(), upstream.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got := c.Subscriptions(); got != "a:x" {
			t.Errorf("subscribed to %q", got)
		}
		if got, want := heard(c), []string{"resources/updated a:x"}; !slices.Equal(got, want) {
			t.Errorf("the client was told %q, want %q", got, want)
		}
		if value, err := b.host.Store.Get(t.Context(), c.shared.key); err != nil || !strings.Contains(string(value), `"a:x"`) || !strings.Contains(string(value), "error") {
			t.Errorf("%v: other replicas read %s", err, value)
		}
		s.mu.Lock()
		if len(s.asked) != 5 { // for lists, for both twice in vain, for both, and for the one that was not granted then
			t.Errorf("the server was asked for %q", s.asked)
		}
		s.mu.Unlock()
		st.Close()
		c.end()
		b.host.Wait()
	})
}

// TestClientIsNotToldOfWhatItDoesNotWant any more: it has ended a subscription while that was being restored.
func TestClientIsNotToldOfWhatItDoesNotWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		s := &moody{}
		c := b.New(s, ByHTTP, translate.Oldest(), wire.Facts(0))
		s.answers = func(_ int, uri string) ([]string, error) {
			if uri == "" {
				return []string{acknowledged(`"toolsListChanged":true`)}, nil
			}
			c.unsubscribe(uri)
			return []string{acknowledged(`"resourceSubscriptions":["a:x"]`)}, nil
		}
		c.shared.wanted = []string{"a:x"}
		st, err := c.Listen(t.Context(), upstream.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := heard(c); got != nil || c.Subscriptions() != "" {
			t.Errorf("subscribed to %q, and told %q", c.Subscriptions(), got)
		}
		st.Close()
		c.end()
		b.host.Wait()
	})
}

// TestClientIsToldOfAllGapsOnce, however many subscriptions it has, and however often their streams end before it listens.
func TestClientIsToldOfAllGapsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		s := &moody{answers: func(_ int, uri string) ([]string, error) {
			return []string{acknowledged(`"resourceSubscriptions":URIS`)}, nil
		}}
		c := b.New(s, ByHTTP, translate.Oldest(), wire.Facts(0))
		for n := range maxWatched {
			if err := c.subscribe(t.Context(), fmt.Sprint("a:", n), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			s.cut()
			time.Sleep(time.Hour)
		}
		if got := heard(c); len(got) != maxWatched || len(slices.Compact(slices.Sorted(slices.Values(got)))) != maxWatched {
			t.Errorf("the client was told %d times, of %d subscriptions", len(got), maxWatched)
		}
		c.end()
		b.host.Wait()
	})
}
