package tests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const elicits = `{"elicitation":{}}`

// callNamed returns a tool call of a modern client.
func callNamed(id int, tool, capabilities, more string) string {
	return modernRequestOf(fmt.Sprint(id), "tools/call", fmt.Sprintf(`"name":%q,"arguments":{},`, tool)+more+meta(capabilities, fmt.Sprintf(`"progressToken":"of %d"`, id)))
}

// corners runs a test for each transport of the client and of a handshake server.
func corners(t *testing.T, play func(c *staged)) {
	for _, client := range []bool{false, true} {
		for _, server := range []bool{false, true} {
			runTogether(t, transportName(client)+" to "+transportName(server), func(t *testing.T) {
				play(&staged{T: t, client: client, server: server})
			})
		}
	}
}

// answersOf returns the responses to requests that were sent at the same time, by id. It passes all
// other messages to note.
func answersOf(t *testing.T, all []*peertest.Reply, note func(m string)) map[int]string {
	t.Helper()
	answers := map[int]string{}
	if len(all) > 0 && all[0].Begun == nil { // one pipe for all
		for len(answers) < len(all) {
			if m := all[0].Next(); gjson.Get(m, "method").Exists() {
				note(m)
			} else {
				answers[int(gjson.Get(m, "id").Int())] = m
			}
		}
		return answers
	}
	for _, r := range all {
		m := r.Next()
		for ; gjson.Get(m, "method").Exists(); m = r.Next() {
			note(m)
		}
		answers[int(gjson.Get(m, "id").Int())] = m
	}
	return answers
}

// firstOf returns the next message for either of two requests, which may share a pipe. A request
// that has its message is not read again.
func firstOf(one, other *peertest.Reply) (m string) {
	one.T.Helper()
	select {
	case m = <-one.Events:
		one.Events = nil
	case m = <-other.Events:
		other.Events = nil
	case <-time.After(patience):
		one.T.Fatal("nothing comes")
	}
	return m
}

// callerOfMany returns a function that sends a request with this id and waits for the response. It
// is safe for concurrent use.
func callerOfMany(client *peertest.Client) func(id int, body string) string {
	if !client.Piped() {
		return func(_ int, body string) string {
			r := client.Say(body)
			m := r.Next()
			for ; gjson.Get(m, "method").Exists(); m = r.Next() {
			}
			return m
		}
	}
	var answers sync.Map
	to := func(id int) chan string {
		c, _ := answers.LoadOrStore(id, make(chan string, 100))
		return c.(chan string)
	}
	go func() {
		for m := range client.Lines {
			to(int(gjson.Get(m, "id").Int())) <- m
		}
	}()
	return func(id int, body string) string {
		client.Say(body)
		select {
		case m := <-to(id):
			return m
		case <-time.After(patience):
			return ""
		}
	}
}

// TestParallelCallsOfOneClientShareASession: a stateful server counts them, and they run at the
// same time, however many sessions are allowed.
func TestParallelCallsOfOneClientShareASession(t *testing.T) {
	corners(t, func(c *staged) {
		for _, n := range []int{8, 20} {
			var mu sync.Mutex
			count, all := 0, make(chan struct{})
			s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
				mu.Lock()
				count++
				mine := count
				if count == n {
					close(all)
				}
				mu.Unlock()
				select {
				case <-all:
				case <-u.Ctx.Done():
				}
				u.Answer(200, result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":"%d"}]`, mine)))
			})
			client, _ := c.stage(s, func(cfg *config.Config) { cfg.Bridge.MaxSessions = 1 })
			var calls []*peertest.Reply
			for id := range n {
				calls = append(calls, client.Say(callNamed(id+1, "count", `{"elicitation":{},"sampling":{},"roots":{}}`, "")))
			}
			var got []int
			for id, m := range answersOf(c.T, calls, func(string) {}) {
				if id < 1 || id > n {
					c.Errorf("answer %s", m)
				}
				got = append(got, int(gjson.Get(m, "result.content.0.text").Int()))
			}
			slices.Sort(got)
			for k := range n {
				if k >= len(got) || got[k] != k+1 {
					c.Fatalf("%d calls count %v", n, got)
				}
			}
			if sessions := s.Count("initialize"); sessions != 1 {
				c.Errorf("%d sessions for %d calls", sessions, n)
			}
		}
	})
}

// TestParallelCallsAreAllAskedAndAnswered: several concurrent questions that name no call all reach
// the user, and each gets its own answer.
func TestParallelCallsAreAllAskedAndAnswered(t *testing.T) {
	for _, apart := range []time.Duration{0, 100 * time.Millisecond} { // within and beyond the time in which questions are collected
		corners(t, func(c *staged) {
			const n = 4
			var mu sync.Mutex
			var waiting []*peertest.Turn
			var s *peertest.Server
			s = c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
				mu.Lock()
				waiting = append(waiting, u)
				last := len(waiting) == n
				mu.Unlock()
				if last {
					for _, each := range waiting {
						s.Unasked(`{"jsonrpc":"2.0","id":"q` + each.ID + `","method":"elicitation/create","params":{"message":"for ` + each.ID + `","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}`)
						time.Sleep(apart)
					}
				}
				answer := s.GetsResponse(`"q` + u.ID + `"`).Text
				u.Answer(200, result(u.ID, `"content":[{"type":"text","text":`+quote(u.ID+" got "+gjson.Get(answer, "result.content.n").String())+`}]`))
			})
			client, _ := c.stage(s)
			ask := callerOfMany(client)
			var calls sync.WaitGroup
			for k := range n {
				calls.Go(func() {
					more := ""
					for round := 1; round <= n+1; round++ {
						m := ask(100*round+k, callNamed(100*round+k, "ask", elicits, more))
						if gjson.Get(m, "result.resultType").String() != "input_required" {
							text := gjson.Get(m, "result.content.0.text").String()
							if who, got, _ := strings.Cut(text, " got "); who == "" || got != "for "+who {
								c.Errorf("%s", m)
							}
							return
						}
						var inputs []string
						gjson.Get(m, "result.inputRequests").ForEach(func(key, q gjson.Result) bool {
							inputs = append(inputs, fmt.Sprintf(`%s:{"action":"accept","content":{"n":%s}}`, key.Raw, q.Get("params.message").Raw))
							return true
						})
						more = `"inputResponses":{` + strings.Join(inputs, ",") + `},"requestState":` + gjson.Get(m, "result.requestState").Raw + `,`
					}
					c.Error("asked again and again")
				})
			}
			calls.Wait()
			if sessions := s.Count("initialize"); sessions != 1 {
				c.Errorf("%d sessions", sessions)
			}
		})
	}
}

// TestClientsThatDoNotShareASession: clients of two principals; and without a principal, clients
// with another clientInfo or address.
func TestClientsThatDoNotShareASession(t *testing.T) {
	c := &staged{T: t}
	s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) { u.Answer(200, result(u.ID, `"content":[]`)) })
	one, p := c.stage(s)
	call := callNamed(1, "t", elicits, "")
	ask := func(want int, what string, client *peertest.Client, body string, header ...string) {
		t.Helper()
		client.Say(body, header...).Next()
		if n := s.Count("initialize"); n != want {
			t.Errorf("%s: %d sessions, want %d", what, n, want)
		}
	}
	ask(1, "a client", one, call)
	ask(1, "the same", p.client(t, false), call)
	ask(2, "another name", one, strings.Replace(call, `"name":"c","version":"1"`, `"name":"d","version":"1"`, 1))
	ask(3, "a principal", one, call, "Authorization", "Bearer a")
	ask(4, "another principal", one, call, "Authorization", "Bearer b")
	ask(4, "the first principal", p.client(t, false), call, "Authorization", "Bearer a")
	elsewhere := p.client(t, false)
	dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if conn, err := dial.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(p.web.URL, "http://"), "/mcp")); err != nil {
		t.Logf("no second loopback address: %v", err)
		return
	} else {
		conn.Close()
	}
	elsewhere.HTTP = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		return dial.DialContext(ctx, network, at)
	}}}
	t.Cleanup(elsewhere.HTTP.CloseIdleConnections)
	ask(5, "another address", elsewhere, call)
	ask(5, "a principal from another address", elsewhere, call, "Authorization", "Bearer a")
}

// TestQuestionOfACallThatEndsIsAskedInAnother: the question was to be asked in the newest call,
// which ended before its client could be asked.
func TestQuestionOfACallThatEndsIsAskedInAnother(t *testing.T) {
	corners(t, func(c *staged) {
		var s *peertest.Server
		s = c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
			if gjson.Get(u.Text, "params.name").String() == "asks" {
				s.Gets(2, "tools/call")
				s.Unasked(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
				s.GetsResponse(`"q"`)
			} else {
				time.Sleep(20 * time.Millisecond) // within the time in which questions are collected, and beyond
			}
			u.Answer(200, result(u.ID, `"content":[]`))
		})
		client, _ := c.stage(s, func(cfg *config.Config) { cfg.Bridge.Coalesce = 200 * time.Millisecond })
		one := client.Say(callNamed(1, "asks", elicits, ""))
		s.Gets(1, "tools/call")
		other := client.Say(callNamed(2, "quick", elicits, ""))
		asked := false
		for range 2 {
			// On a slow machine the quick call asks the question, and the other call waits for
			// that.
			m := firstOf(one, other)
			if gjson.Get(m, "result.resultType").String() != "input_required" {
				continue
			}
			asked = true
			tool := map[int64]string{1: "asks", 2: "quick"}[gjson.Get(m, "id").Int()]
			r := client.Say(callNamed(9, tool, elicits, `"inputResponses":{"elicitation-1":{"action":"accept","content":{}}},"requestState":`+gjson.Get(m, "result.requestState").Raw+`,`))
			if m := r.Next(); gjson.Get(m, "result.resultType").String() != "complete" {
				c.Errorf("%s", m)
			}
		}
		if !asked {
			c.Error("no client was asked")
		}
	})
}

// TestNotificationsOfParallelCalls: progress goes to its call, a cancellation ends one call, and the others
// continue.
func TestNotificationsOfParallelCalls(t *testing.T) {
	corners(t, func(c *staged) {
		const n = 5
		var s *peertest.Server
		s = c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
			s.Gets(n, "tools/call")
			token := gjson.Get(u.Text, "params._meta.progressToken").Raw
			u.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1,"message":` + quote(gjson.Get(u.Text, "params.name").String()) + `}}`)
			if gjson.Get(u.Text, "params.name").String() == "tool 3" {
				<-u.Ctx.Done()
				return
			}
			s.Gets(1, "notifications/cancelled")
			u.Say(result(u.ID, `"content":[]`))
		})
		client, _ := c.stage(s)
		var calls []*peertest.Reply
		for id := 1; id <= n; id++ {
			calls = append(calls, client.Say(callNamed(id, fmt.Sprintf("tool %d", id), elicits, "")))
		}
		third := ""
		s.Gets(n, "tools/call")
		for _, m := range s.Heard() {
			if gjson.Get(m.Text, "params.name").String() == "tool 3" {
				third = gjson.Get(m.Text, "id").Raw
			}
		}
		if c.client {
			client.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		} else {
			calls[2].Leave()
		}
		if got := gjson.Get(s.Gets(1, "notifications/cancelled").Text, "params.requestId").Raw; got != third {
			c.Errorf("cancelled is %s, want %s", got, third)
		}
		calls = slices.Delete(calls, 2, 3)
		note := func(m string) {
			if said, of := gjson.Get(m, "params.message").String(), gjson.Get(m, "params.progressToken").String(); strings.TrimPrefix(said, "tool ") != strings.TrimPrefix(of, "of ") {
				c.Errorf("%s", m)
			}
		}
		for id, m := range answersOf(c.T, calls, note) {
			if id == 3 || !gjson.Get(m, "result").Exists() {
				c.Errorf("%s", m)
			}
		}
		if n := s.Count("notifications/cancelled"); n != 1 {
			c.Errorf("%d cancellations", n)
		}
	})
}

// TestServerIsNotSilentWhileAnotherCallCarriesItsQuestion: a call does not time out while the
// server waits for the answer to a question that another call asks.
func TestServerIsNotSilentWhileAnotherCallCarriesItsQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := legacyServer(`{"tools":{}}`, nil)
		f.piped = true
		var calls []*peertest.Turn
		f.on("tools/call", func(u *peertest.Turn) {
			if calls = append(calls, u); len(calls) == 2 {
				f.Unasked(strings.Replace(nameQuestion, `,"_meta":{"progressToken":4}`, "", 1))
			}
		})
		f.on("", func(*peertest.Turn) { // the answer to the question
			for _, u := range calls {
				u.Say(result(u.ID, `"content":[]`))
			}
		})
		const limit = 200 * time.Millisecond
		srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.SilenceTimeout = limit })
		first := make(chan reply)
		go func() { first <- srv.modernly(callNamed(1, "asks", elicits, "")) }()
		synctest.Wait()
		m := srv.modernly(callNamed(2, "carries", elicits, ""))
		if len(calls) != 2 || gjson.Get(m.body, "result.resultType").String() != "input_required" {
			t.Errorf("%d calls, %+v", len(calls), m)
		}
		time.Sleep(3 * limit) // the user thinks
		r := srv.modernly(callNamed(3, "carries", elicits, `"inputResponses":`+ada+`,"requestState":`+gjson.Get(m.body, "result.requestState").Raw+`,`))
		for _, r := range []reply{<-first, r} {
			if !strings.Contains(r.body+fmt.Sprint(r.events), `"result":`) {
				t.Errorf("%+v", r)
			}
		}
	})
}
