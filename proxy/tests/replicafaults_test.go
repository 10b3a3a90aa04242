package tests

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// patient is a server that asks for a name in each call, and counts the calls that it has not
// answered. A cancelled call ends; a call breaks off when broken is closed.
type patient struct {
	*peertest.Server
	open    atomic.Int64
	answers atomic.Int64
	broken  chan struct{} // closed when all calls are to break off

	mu    sync.Mutex
	calls map[string]chan string // by session and id: the answers for the call
}

func newPatient(t *testing.T) *patient {
	s := &patient{broken: make(chan struct{}), calls: map[string]chan string{}}
	s.Server = peertest.NewServer(t, peertest.HTTP, s.does)
	s.NoGet = true
	return s
}

func (s *patient) call(key string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[key] == nil {
		s.calls[key] = make(chan string, 4)
	}
	return s.calls[key]
}

func (s *patient) does(u *peertest.Turn) {
	session := u.Header.Get("Mcp-Session-Id")
	switch u.Method {
	case "initialize":
		u.Open()
		u.Answer(200, result(u.ID, helloOf("2025-11-25", `{"tools":{}}`)))
	case "notifications/cancelled":
		s.call(session + gjson.Get(u.Text, "params.requestId").Raw) <- ""
	case "":
		s.answers.Add(1)
		s.call(session + strings.TrimPrefix(gjson.Get(u.Text, "id").String(), "q")) <- gjson.Get(u.Text, "result.content.n").String()
	case "tools/call":
		s.open.Add(1)
		defer s.open.Add(-1)
		u.Say(strings.Replace(nameQuestion, `"s1"`, `"q`+u.ID+`"`, 1))
		select {
		case said := <-s.call(session + u.ID):
			if said != "" && said != "slow" {
				u.Say(result(u.ID, `"content":[{"type":"text","text":"`+said+`"}]`))
			}
			if said == "slow" {
				select {
				case <-s.call(session + u.ID):
				case <-u.Ctx.Done():
				}
			}
		case <-s.broken:
			panic(http.ErrAbortHandler)
		case <-u.Ctx.Done():
		}
	}
}

const slow = `{"elicitation-1":{"action":"accept","content":{"n":"slow"}}}`

// TestFaultsLeaveNothingBehind: each fault ends in the right error at each of three replicas.
// Afterwards no call is open, and no session is in use.
func TestFaultsLeaveNothingBehind(t *testing.T) {
	const calls = 9
	message := func(r reply) string { return gjson.Get(r.body, "error.message").String() }
	var oneByOne sync.Mutex
	const expired = "Invalid or expired requestState"
	for _, c := range []struct {
		what   string
		change func(*config.Config)
		answer int64 // the number of users' answers that reach the server
		fault  func(t *testing.T, s *patient, all []peerServer, at int, r reply)
	}{
		{"the upstream dies", nil, 0, func(t *testing.T, s *patient, all []peerServer, at int, r reply) {
			<-s.broken
			holder := all[at%3]
			eventually(t, "the end of the calls is known", func() bool {
				c := holder.Modern.Counts()
				return c.Answered == c.Parked
			})
			if got := all[(at+1)%3].modernly(retryOf("8", ada, r)); gjson.Get(got.body, "error.code").Int() != -32603 || got.status != 502 {
				t.Errorf("%+v", got)
			}
		}},
		{"the client never comes back", func(c *config.Config) { c.Bridge.ParkTimeout = 50 * time.Millisecond }, calls, func(t *testing.T, s *patient, all []peerServer, at int, r reply) {
			eventually(t, "its call is given up", func() bool { return all[at%3].Modern.Counts().Parked == 0 })
			for _, p := range all {
				if got := p.modernly(retryOf("8", ada, r)); message(got) != expired {
					t.Errorf("%+v", got)
				}
			}
		}},
		{"the client leaves the retry", nil, calls, func(t *testing.T, s *patient, all []peerServer, at int, r reply) {
			oneByOne.Lock() // one at a time, so that the next answer is this call's
			defer oneByOne.Unlock()
			ctx, leave := context.WithCancelCause(context.Background())
			body := retryOf("8", slow, r)
			before := s.answers.Load()
			left := make(chan struct{})
			go func() {
				defer close(left)
				all[(at+1)%3].exchange(ctx, "POST", "", body, modernHeader(body)...)
			}()
			eventually(t, "the answer is there", func() bool { return s.answers.Load() > before })
			leave(downstream.ErrClientLeft)
			<-left
		}},
		{"the retry comes tampered, by another, and then well, to all", nil, calls, func(t *testing.T, s *patient, all []peerServer, at int, r reply) {
			retry := retryOf("8", ada, r)
			for _, p := range all {
				if got := p.modernly(strings.Replace(retry, `requestState":"`, `requestState":"A`, 1)); message(got) != expired {
					t.Errorf("%+v", got)
				}
				if got := p.modernly(retry, "Authorization", "Bearer other"); message(got) != expired {
					t.Errorf("%+v", got)
				}
			}
			for n := range 3 {
				got := all[(at+1+n)%3].modernly(retry)
				if n == 0 && gjson.Get(got.body, "result.content.0.text").String() != "Ada" || n > 0 && message(got) != expired {
					t.Errorf("%d: %+v", n, got)
				}
			}
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newPatient(t)
			change := func(cfg *config.Config) {
				if c.change != nil {
					c.change(cfg)
				}
			}
			all := peersOf(t, 3, s, change)
			var wait sync.WaitGroup
			var asked sync.WaitGroup
			for at := range calls {
				asked.Add(1)
				wait.Go(func() {
					r := all[at%3].modernly(modernCall("7", ""))
					asked.Done()
					if gjson.Get(r.body, "result.resultType").String() != "input_required" {
						t.Errorf("%+v", r)
						return
					}
					c.fault(t, s, all, at, r)
				})
			}
			asked.Wait()
			if c.what == "the upstream dies" {
				close(s.broken)
			}
			wait.Wait()
			eventually(t, "no call is open at the server", func() bool { return s.open.Load() == 0 })
			for _, p := range all {
				eventually(t, "no session is in use", func() bool { return p.Modern.Counts().Parked == 0 && p.Modern.Counts().Uses == 0 })
			}
			if n := s.answers.Load(); n != c.answer {
				t.Errorf("the server got %d answers", n)
			}
		})
	}
}
