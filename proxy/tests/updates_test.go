package tests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

const changingURI = "file:///a"

// changing is a server with a resource that changes. The changes have numbers.
type changing struct {
	*peertest.Server
	revision *translate.Revision
	changes  chan int     // those that the server tells of
	refuses  atomic.Int64 // how many further standing streams it refuses, as if it still had another one

	mu      sync.Mutex
	telling []chan struct{} // one for each stream on which it has told of changes, closed when that has ended
}

func newChanging(t *testing.T, over peertest.Over, revision string) *changing {
	s := &changing{revision: translate.Lookup(revision), changes: make(chan int)}
	s.Server = peertest.NewServer(t, over, func(u *peertest.Turn) { s.serve(u, over) })
	s.Sessions, s.Every = !s.revision.Modern || over != peertest.HTTP, true
	return s
}

func (s *changing) serve(u *peertest.Turn, over peertest.Over) {
	modern := s.revision.Modern
	switch {
	case u.Text == http.MethodGet && modern:
		u.Refuse(http.StatusMethodNotAllowed)
	case u.Text == http.MethodGet && s.refuses.Add(-1) >= 0:
		u.Refuse(http.StatusConflict)
	case u.Text == http.MethodGet:
		u.Say("")
		s.tell(u, "")
	case u.Text == http.MethodDelete, u.ID == "":
	case u.Method == "initialize" && !modern:
		if over == peertest.HTTP {
			u.Open()
		}
		u.Answer(200, result(u.ID, helloOf(s.revision.Name, `{"resources":{"subscribe":true}}`)))
	case u.Method == "server/discover" && modern:
		u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["`+s.revision.Name+`"],"capabilities":{"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private",`+identity))
	case u.Method == "resources/subscribe" && !modern:
		if u.Answer(200, result(u.ID, "")); over != peertest.HTTP {
			s.tell(u, "")
		}
	case u.Method == "subscriptions/listen" && modern:
		about := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + u.ID + `}`
		of := gjson.Get(u.Text, "params.notifications").Raw
		u.Say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + about + `,"notifications":` + of + `}}`)
		s.tell(u, ","+about)
	default:
		u.Answer(map[bool]int{false: 200, true: 404}[over == peertest.HTTP], rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
	}
}

// tell sends changes until the stream ends.
func (s *changing) tell(u *peertest.Turn, about string) {
	ended := make(chan struct{})
	defer close(ended)
	s.mu.Lock()
	s.telling = append(s.telling, ended)
	s.mu.Unlock()
	for {
		select {
		case n := <-s.changes:
			u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q,"n":%d%s}}`, changingURI, n, about))
		case <-u.Ctx.Done():
			return
		}
	}
}

// silence waits until none of the streams that were open when fault began has further changes.
func (s *changing) silence(fault func(*changing)) {
	s.mu.Lock()
	all := s.telling
	s.telling = nil
	s.mu.Unlock()
	fault(s)
	for _, ended := range all {
		<-ended
	}
}

// subscribe subscribes a client of a revision to the resource. It returns what the client hears when the subscription is confirmed.
func (s *changing) subscribe(t *testing.T, client *peertest.Client, revision string) *peertest.Reply {
	t.Helper()
	if translate.Lookup(revision).Modern {
		news := client.Say(modernRequestOf(`"L"`, "subscriptions/listen", fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]},`, changingURI)+meta(`{}`)))
		if m := news.Next(); !strings.Contains(m, "acknowledged") || !strings.Contains(m, changingURI) {
			t.Fatal(m)
		}
		return news
	}
	client.Initialize(revision, `{}`)
	client.Say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	news := client.Listen()
	if !client.Piped() {
		news.HasStatus(200)
	}
	answer := client.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":%q}}`, changingURI))
	sameJSON(t, answer.Next(), result("7", ""))
	return news
}

// TestEachUpdateArrivesOnceOrItsLossIsTold: once its subscription is confirmed, a client of any revision gets each notification of a server of
// any revision once, in order. When the stream between dragoman and the server breaks off, or the server is started again and has
// forgotten everything, some are lost: then the client is told that the resource may have changed, without a number here, or its
// subscription ends.
func TestEachUpdateArrivesOnceOrItsLossIsTold(t *testing.T) {
	type peer struct {
		revision string
		over     peertest.Over
	}
	faults := map[string]func(s *changing){
		"connections end": func(s *changing) { s.Cut() },
		"server restarts": func(s *changing) { s.Crash() },
		"server notices the end late": func(s *changing) {
			s.refuses.Store(1)
			s.Cut()
		},
	}
	for _, to := range []peer{{"2024-11-05", peertest.SSE}, {"2024-11-05", peertest.Stdio}, {"2025-06-18", peertest.HTTP}, {"2025-11-25", peertest.Stdio}, {"2026-07-28", peertest.HTTP}, {"2026-07-28", peertest.Stdio}} {
		for _, from := range []peer{{"2024-11-05", peertest.HTTP}, {"2024-11-05", peertest.Stdio}, {"2025-11-25", peertest.HTTP}, {"2026-07-28", peertest.HTTP}, {"2026-07-28", peertest.Stdio}} {
			for fault, happens := range faults {
				switch {
				case fault != "server restarts" && to.over != peertest.HTTP: // that is its restart
					continue
				case fault == "server restarts" && to.over == peertest.HTTP && translate.Lookup(to.revision).Modern: // there is nothing to forget
					continue
				}
				inBubble(t, fmt.Sprintf("%s over %s at %s over %s, %s", from.revision, from.over, to.revision, to.over, fault), func(t *testing.T) {
					s := newChanging(t, to.over, to.revision)
					p := through(t, s.At(), func(cfg *config.Config) { cfg.Upstream.Restart.Wait = time.Millisecond })
					hears := s.subscribe(t, p.client(t, from.over == peertest.Stdio), from.revision)
					updatesAcross(t, s, hears, happens)
				})
			}
		}
	}
}

// TestClientWhoseStreamIsRefusedFirst hears nothing until the server grants a stream, and is told so.
func TestClientWhoseStreamIsRefusedFirst(t *testing.T) {
	for _, piped := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("piped %v", piped), func(t *testing.T) {
			s := newChanging(t, peertest.HTTP, "2025-06-18")
			s.refuses.Store(1 << 30)
			hears := s.subscribe(t, through(t, s.At()).client(t, piped), "2025-11-25")
			peertest.Eventually(t, "the stream is refused", func() bool { return s.refuses.Load() < 1<<30 })
			s.refuses.Store(0)
			told := make(chan struct{})
			go func() {
				defer close(told)
				select {
				case s.changes <- 5:
				case <-time.After(patience):
				}
			}()
			sameJSON(t, hears.Next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`)
			if m := hears.Next(); gjson.Get(m, "params.n").Int() != 5 {
				t.Error(m)
			}
			<-told
		})
	}
}

// updatesAcross makes changes, a fault, and further changes, and judges what the client hears.
func updatesAcross(t *testing.T, s *changing, hears *peertest.Reply, fault func(*changing)) {
	const before, away, after = 100, 5, 50
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	change := func(from, to int) {
		for n := from; n < to; n++ {
			select {
			case s.changes <- n:
			case <-stop:
				return
			}
		}
	}
	go change(0, before)
	last, told := -1, false
	// next notes the next update. It reports false if the subscription has ended.
	next := func() bool {
		var m string
		select {
		case m = <-hears.Events:
		case <-time.After(patience):
			t.Fatalf("nothing is heard after change %d", last)
		}
		switch n := gjson.Get(m, "params.n"); {
		case m == "" || gjson.Get(m, "id").Exists():
			return false
		case gjson.Get(m, "method").String() != "notifications/resources/updated":
		case !n.Exists():
			told = true
		case int(n.Int()) <= last:
			t.Fatalf("change %d comes after %d", n.Int(), last)
		case int(n.Int()) > last+1 && !told:
			t.Fatalf("after change %d comes %d, and the client is not told that it has missed something", last, n.Int())
		default:
			last, told = int(n.Int()), false
		}
		return true
	}
	for last < before-1 {
		if !next() || told {
			t.Fatalf("after change %d, without a reason: the client is told of a loss: %v", last, told)
		}
	}
	s.silence(fault)
	go change(before+away, before+away+2*after)
	for last < before+away+after {
		if !next() {
			return
		}
	}
}
