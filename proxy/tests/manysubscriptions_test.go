package tests

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// newsroom is a modern server with any number of resources, which the test changes.
type newsroom struct {
	*peertest.Server
	most    int                              // resources that one request may name; the rest is not granted
	refuses func(uris []string) (why string) // refuses a request; nil for never

	mu        sync.Mutex
	said      int // updates
	listening map[*peertest.Turn][]string
	largest   int // of listening at one time

	conns, mostConns atomic.Int64
}

func newNewsroom(t *testing.T, over peertest.Over) *newsroom {
	s := &newsroom{most: 1 << 20, listening: map[*peertest.Turn][]string{}}
	s.Server = peertest.NewServer(t, over, s.serve)
	s.Server.NoGet = true
	s.Server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n := s.conns.Add(1)
			for was := s.mostConns.Load(); n > was && !s.mostConns.CompareAndSwap(was, n); was = s.mostConns.Load() {
			}
		case http.StateClosed:
			s.conns.Add(-1)
		}
	}
	return s
}

func (s *newsroom) serve(u *peertest.Turn) {
	switch u.Method {
	case "server/discover":
		u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"`))
	case "subscriptions/listen":
		s.listen(u)
	case "notifications/cancelled":
		s.mu.Lock()
		defer s.mu.Unlock()
		for l := range s.listening {
			if l.ID == gjson.Get(u.Text, "params.requestId").Raw {
				delete(s.listening, l)
			}
		}
	default:
		if u.ID != "" {
			u.Answer(200, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		}
	}
}

func (s *newsroom) listen(u *peertest.Turn) {
	var uris []string
	for _, uri := range gjson.Get(u.Text, "params.notifications.resourceSubscriptions").Array() {
		uris = append(uris, uri.String())
	}
	if s.refuses != nil {
		if why := s.refuses(uris); why != "" {
			u.Answer(200, rpcError(u.ID, `"code":-32602,"message":"`+why+`"`))
			return
		}
	}
	uris = uris[:min(len(uris), s.most)]
	granted := []byte("[")
	for i, uri := range uris {
		if i > 0 {
			granted = append(granted, ',')
		}
		granted = wire.AppendQuoted(granted, uri)
	}
	s.mu.Lock()
	u.Say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + u.ID + `},"notifications":{"resourceSubscriptions":` + string(granted) + `]}}}`)
	s.listening[u] = uris
	s.largest = max(s.largest, len(s.listening))
	s.mu.Unlock()
	<-u.Ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listening, u)
}

// update sends each subscriber the change of a resource, and returns the number of the update.
func (s *newsroom) update(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said++
	for u, uris := range s.listening {
		if slices.Contains(uris, uri) && u.Ctx.Err() == nil {
			u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q,"_meta":{"n":%d,"io.modelcontextprotocol/subscriptionId":%s}}}`, uri, s.said, u.ID))
		}
	}
	return s.said
}

// open returns how many requests are open, how many there were at one time, and how many resources they name.
func (s *newsroom) open() (now, most, names int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uris := range s.listening {
		names += len(uris)
	}
	return len(s.listening), s.largest, names
}

// follower is a handshake client that is subscribed to resources.
type follower struct {
	*peertest.Client
	nextID atomic.Int64

	mu   sync.Mutex
	seen map[int]int    // how often, by the number of the update
	told map[string]int // updates of dragoman's own: that the server has sent one, but not on each of two requests
}

func newFollower(t *testing.T, base string) *follower {
	c := &follower{Client: peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"}), seen: map[int]int{}, told: map[string]int{}}
	hello := c.Say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	<-hello.Events
	c.Session, c.Version = hello.Header.Get("Mcp-Session-Id"), "2025-11-25"
	news := c.Listen()
	<-news.Begun
	var reads sync.WaitGroup
	t.Cleanup(reads.Wait)
	t.Cleanup(news.Leave)
	reads.Go(func() {
		for m := range news.Events {
			n := gjson.Get(m, "params._meta.n")
			c.mu.Lock()
			if n.Exists() {
				c.seen[int(n.Int())]++
			} else {
				c.told[gjson.Get(m, "params.uri").String()]++
			}
			c.mu.Unlock()
		}
	})
	return c
}

// ask subscribes, or ends a subscription, and returns the answer.
func (c *follower) ask(method, uri string) string {
	r := c.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":%q}}`, c.nextID.Add(1), method, uri))
	return <-r.Events
}

// wasTold returns how often dragoman itself has told the client of a change, such as one that it knows from the newer of two requests alone.
func (c *follower) wasTold(uri string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[uri]
}

func (c *follower) saw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[n]
}

// TestManySubscriptionsAreAHandfulOfConnections: a session subscribes to 300 resources, one after the other and many at once, and
// ends its subscriptions in any order, while the server changes the resources at random. Each update comes exactly once to a client that
// is subscribed, and none to one that is not.
func TestManySubscriptionsAreAHandfulOfConnections(t *testing.T) {
	for _, size := range []struct{ all, most int }{{300, 1 << 20}, {280, 256}} { // 256 is what dragoman itself grants
		inBubble(t, fmt.Sprint("at most ", size.most), func(t *testing.T) {
			const atOnce = 20
			all, most := size.all, size.most
			server := newNewsroom(t, peertest.HTTP)
			server.most = most
			server.At()
			proxy := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Version = server.URL, "2026-07-28" })
			client := newFollower(t, proxy.base)

			var mu sync.Mutex
			is := make([]string, all) // "" while that changes
			owed, late := map[int]string{}, map[int]string{}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for r := rand.New(rand.NewPCG(1, 2)); ; time.Sleep(300 * effort * time.Microsecond) {
					select {
					case <-stop:
						return
					default:
					}
					at := r.IntN(all)
					uri := fmt.Sprintf("a:%03d", at)
					mu.Lock() // the state does not change before the update is out
					n := server.update(uri)
					switch is[at] {
					case "in":
						owed[n] = uri
					case "out":
						late[n] = uri
					}
					mu.Unlock()
					if n%100 == 0 { // the client keeps pace, as no more than 256 may wait for it
						for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
							missing := 0
							client.mu.Lock()
							for n := range owed {
								if client.seen[n] == 0 {
									missing++
								}
							}
							client.mu.Unlock()
							if missing < 100 || time.Now().After(end) {
								break
							}
						}
					}
				}
			}()
			change := func(at int, method, to string) {
				mu.Lock()
				is[at] = ""
				for _, updates := range []map[int]string{owed, late} { // one that is on its way may come too late, or in time
					for n, uri := range updates {
						if uri == fmt.Sprintf("a:%03d", at) && client.saw(n) == 0 {
							delete(updates, n)
						}
					}
				}
				mu.Unlock()
				if answer := client.ask(method, fmt.Sprintf("a:%03d", at)); !gjson.Get(answer, "result").Exists() {
					t.Errorf("%s %d: %s", method, at, answer)
				}
				mu.Lock()
				is[at] = to
				mu.Unlock()
			}
			together := func(list []int, do func(at int)) {
				work := make(chan int)
				var workers sync.WaitGroup
				for range atOnce {
					workers.Go(func() {
						for at := range work {
							do(at)
						}
					})
				}
				for _, at := range list {
					work <- at
				}
				close(work)
				workers.Wait()
			}
			order := rand.New(rand.NewPCG(3, 4)).Perm(all)
			for _, at := range order[:50] {
				change(at, "subscribe", "in")
			}
			together(order[50:], func(at int) { change(at, "subscribe", "in") })
			if most > all {
				eventually(t, "one request names most resources", func() bool { open, _, _ := server.open(); return open <= 2 })
			}
			together(order[:all/3], func(at int) { change(at, "unsubscribe", "out") })
			together(order[:50], func(at int) { change(at, "subscribe", "in") })
			slices.Reverse(order)
			together(order, func(at int) { change(at, "unsubscribe", "out") })
			eventually(t, "the server hears of the end of all", func() bool { now, _, _ := server.open(); return now == 0 })
			close(stop)
			<-stopped
			for end := time.Now().Add(patience / 10); slices.ContainsFunc(slices.Collect(maps.Keys(owed)), func(n int) bool { return client.saw(n) == 0 }) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			for n, uri := range owed {
				seen := client.saw(n)
				if seen == 0 && client.told[uri] > 0 {
					client.told[uri]--
					continue
				}
				if seen != 1 {
					t.Errorf("update %d of %s came %d times", n, uri, seen)
				}
			}
			for n, uri := range late {
				if seen := client.saw(n); seen > 0 {
					t.Errorf("update %d of %s came after the end of the subscription", n, uri)
				}
			}
			for uri, n := range client.told {
				if n > 0 {
					t.Errorf("%d more updates of %s came than there were", n, uri)
				}
			}
			_, largest, _ := server.open()
			t.Logf("%d updates, %d requests at one time, %d connections", len(owed), largest, server.mostConns.Load())
			if largest > 10 || server.mostConns.Load() > 12 {
				t.Errorf("%d requests at one time, %d connections", largest, server.mostConns.Load())
			}
		})
	}
}

// TestOneRefusedResourceHarmsNoOther: a server that refuses a whole request because of one resource in it.
func TestOneRefusedResourceHarmsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newNewsroom(t, peertest.HTTP)
		var gone atomic.Bool
		server.refuses = func(uris []string) string {
			for _, uri := range uris {
				if strings.HasPrefix(uri, "bad:") || gone.Load() && uri == "a:3" {
					return "no such resource: " + uri
				}
			}
			return ""
		}
		server.At()
		proxy := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Version = server.URL, "2026-07-28" })
		client := newFollower(t, proxy.base)
		var all sync.WaitGroup
		for n := range 40 {
			uri := fmt.Sprint("a:", n)
			if n%7 == 0 {
				uri = fmt.Sprint("bad:", n)
			}
			all.Go(func() {
				if answer := client.ask("subscribe", uri); gjson.Get(answer, "result").Exists() != (n%7 != 0) || cmp.Or(gjson.Get(answer, "error.message").String(), uri) != uri && !strings.Contains(answer, "no such resource: "+uri) {
					t.Errorf("%s: %s", uri, answer)
				}
			})
		}
		all.Wait()
		arrives := func() {
			t.Helper()
			for n := range 40 {
				if n%7 == 0 || gone.Load() && n == 3 {
					continue
				}
				uri := fmt.Sprint("a:", n)
				told := client.wasTold(uri)
				number := server.update(uri)
				eventually(t, fmt.Sprint("the update of ", n), func() bool { return client.saw(number) == 1 || client.wasTold(uri) > told })
			}
		}
		arrives()
		gone.Store(true) // the server forgets one resource, and breaks all streams
		server.Cut()
		eventually(t, "all others are subscribed again", func() bool { _, _, names := server.open(); return names == 33 })
		arrives()
		if _, largest, _ := server.open(); largest > 10 {
			t.Errorf("%d requests at one time", largest)
		}
	})
}
