package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// balancer is a load balancer in front of servers that share nothing, such as that of AWS: it sends a request without its cookie to the
// next server, and sets the cookie anew in each response.
type balancer struct {
	*httptest.Server
	behind []http.Handler

	mu     sync.Mutex
	next   int
	number int
	gone   map[int]bool
	asked  []string // "method server" of each request
	bare   int      // requests without a cookie
	values []string // of all cookies that were set
}

func newBalancer(t *testing.T, behind ...http.Handler) *balancer {
	b := &balancer{behind: behind, gone: map[int]bool{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

func (b *balancer) At() peertest.Endpoint { return peertest.Endpoint{URL: b.URL} }

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	to := -1
	if c, err := r.Cookie("AWSALB"); err == nil {
		at, _, _ := strings.Cut(strings.TrimPrefix(c.Value, "server-"), "-")
		if n, err := strconv.Atoi(at); err == nil && !b.gone[n] {
			to = n
		}
	} else {
		b.bare++
	}
	for to < 0 || b.gone[to] {
		to = b.next % len(b.behind)
		b.next++
	}
	b.number++
	value := fmt.Sprintf("server-%d-secret-%d", to, b.number)
	b.values = append(b.values, value)
	b.asked = append(b.asked, fmt.Sprint(r.Method, " ", to))
	b.mu.Unlock()
	w.Header().Add("Set-Cookie", "AWSALB="+value+"; Expires=Tue, 19 Jan 2038 03:14:07 GMT; Path=/")
	w.Header().Add("Set-Cookie", "JSESSIONID=login-"+value+"; Path=/")
	b.behind[to].ServeHTTP(w, r)
}

// servers returns which servers were asked since the last call, each once.
func (b *balancer) servers() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, a := range b.asked {
		_, to, _ := strings.Cut(a, " ")
		all = append(all, to)
	}
	b.asked = nil
	slices.Sort(all)
	return slices.Compact(all)
}

func (b *balancer) gotDelete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.asked, func(a string) bool { return strings.HasPrefix(a, http.MethodDelete) })
}

func (b *balancer) remove(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone[n] = true
}

func (b *balancer) withoutCookie() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bare
}

// forgetfuls are servers that share nothing.
type forgetfuls []*forgetful

func newForgetfuls(t *testing.T, n int, over peertest.Over) (all forgetfuls, handlers []http.Handler) {
	for range n {
		f := newForgetful(t, over, 404, notFound)
		all, handlers = append(all, f), append(handlers, f)
	}
	return all, handlers
}

func (all forgetfuls) begun() (n int) {
	for _, f := range all {
		n += len(f.Opened())
	}
	return n
}

func echoOf(id int) string { return strings.Replace(echoCall, `"id":7`, `"id":`+strconv.Itoa(id), 1) }

// TestSessionStaysAtItsServerBehindABalancer: what a session sends has the balancer's cookie, so that it reaches the server that knows
// the session: calls, notifications, the standing stream, and the end.
func TestSessionStaysAtItsServerBehindABalancer(t *testing.T) {
	for _, over := range []peertest.Over{peertest.HTTP, peertest.SSE} {
		for _, kept := range []string{config.CookiesOfBalancers, config.AllCookies} {
			t.Run(string(over)+" "+kept, func(t *testing.T) {
				all, handlers := newForgetfuls(t, 3, over)
				b := newBalancer(t, handlers...)
				srv := severalOf(t, b, 1, func(c *config.Config) { c.Upstream.Cookies, c.Upstream.Transport = kept, string(over) })[0]
				for range 3 {
					begun := all.begun()
					b.servers()
					session := settled(t, srv)
					ctx, leave := context.WithCancel(t.Context())
					req, resp := srv.begin(ctx, "GET", session, "")
					for id := range 5 {
						if r := srv.post(session, echoOf(id+7)); gjson.Get(r.body, "result.content.0.text").String() != "echo" {
							t.Errorf("%+v", r)
						}
					}
					leave()
					srv.read(req, resp)
					if r := srv.exchange(t.Context(), "DELETE", session, ""); r.status != 200 {
						t.Errorf("%+v", r)
					}
					if over == peertest.HTTP {
						eventually(t, "the server gets DELETE", b.gotDelete)
					}
					if at := b.servers(); len(at) != 1 {
						t.Errorf("one session at the servers %v", at)
					}
					if n := all.begun() - begun; n != 1 {
						t.Errorf("%d sessions begun", n)
					}
				}
			})
		}
	}
}

// TestWithoutCookiesASessionIsLost, as the setting says.
func TestWithoutCookiesASessionIsLost(t *testing.T) {
	all, handlers := newForgetfuls(t, 2, peertest.HTTP)
	b := newBalancer(t, handlers...)
	srv := severalOf(t, b, 1, func(c *config.Config) { c.Upstream.Cookies = config.NoCookies })[0]
	session := srv.initialize("2025-06-18")
	srv.post(session, echoCall)
	if at := b.servers(); len(at) != 2 || all.begun() < 2 {
		t.Errorf("at %v", at)
	}
}

// TestLoginCookieIsSentOnlyIfAllAre kept.
func TestLoginCookieIsSentOnlyIfAllAre(t *testing.T) {
	for kept, want := range map[string]int{config.CookiesOfBalancers: 1, config.AllCookies: 2, config.NoCookies: 0} {
		f := newForgetful(t, peertest.HTTP, 404, notFound)
		b := newBalancer(t, f)
		srv := severalOf(t, b, 1, func(c *config.Config) { c.Upstream.Cookies = kept })[0]
		srv.post(srv.initialize("2025-06-18"), echoCall)
		if got := strings.Count(f.Gets(1, "tools/call").Header.Get("Cookie"), "="); got != want {
			t.Errorf("%s: %d cookies", kept, got)
		}
	}
}

// TestAnotherReplicaHasTheCookies: they are in the id of the session, which the first replica has given its client.
func TestAnotherReplicaHasTheCookies(t *testing.T) {
	for _, kept := range []string{config.CookiesOfBalancers, config.AllCookies} {
		t.Run(kept, func(t *testing.T) {
			all, handlers := newForgetfuls(t, 3, peertest.HTTP)
			b := newBalancer(t, handlers...)
			replicas := severalOf(t, b, 3, func(c *config.Config) { c.Upstream.Cookies = kept })
			for i := range 6 {
				b.servers()
				session := settled(t, replicas[i%3])
				for id := range 6 {
					if r := replicas[id%3].post(session, echoOf(id+7)); gjson.Get(r.body, "result.content.0.text").String() != "echo" {
						t.Errorf("%+v", r)
					}
				}
				if at := b.servers(); len(at) != 1 {
					t.Errorf("one session at the servers %v", at)
				}
			}
			if n := all.begun(); n != 6 || b.withoutCookie() != 6 {
				t.Errorf("%d sessions begun, %d requests without a cookie", n, b.withoutCookie())
			}
			if kept == config.AllCookies {
				for _, f := range all {
					if c := f.Gets(1, "tools/call").Header.Get("Cookie"); !strings.Contains(c, "JSESSIONID=login-") {
						t.Errorf("%q", c)
					}
				}
			}
		})
	}
}

// TestRenewedSessionHasItsServer: a session whose server is gone begins again at another one, and stays there.
func TestRenewedSessionHasItsServer(t *testing.T) {
	all, handlers := newForgetfuls(t, 3, peertest.HTTP)
	b := newBalancer(t, handlers...)
	srv := severalOf(t, b, 1)[0]
	session := settled(t, srv)
	for range 2 {
		at := b.servers()
		if len(at) != 1 {
			t.Fatalf("one session at the servers %v", at)
		}
		n, _ := strconv.Atoi(at[0])
		b.remove(n)
		begun := all.begun()
		srv.post(session, echoCall)
		b.servers()
		for id := range 4 {
			sameJSON(t, srv.post(session, echoOf(id+20)).body, strings.Replace(echoAnswer, "7", strconv.Itoa(id+20), 1))
		}
		if n := all.begun() - begun; n != 1 {
			t.Errorf("%d sessions begun", n)
		}
	}
}

// TestReplicasShareTheCookiesOfARenewedSession: what one replica has begun after the server was gone, the others use at its new server.
func TestReplicasShareTheCookiesOfARenewedSession(t *testing.T) {
	var all forgetfuls
	var b *balancer
	overEngines(t, func(t *testing.T) peer {
		var handlers []http.Handler
		all, handlers = newForgetfuls(t, 3, peertest.HTTP)
		b = newBalancer(t, handlers...)
		return b
	}, func(t *testing.T, c *cluster) {
		replicas := c.several(2)
		one, other := replicas[0], replicas[1]
		session := settled(t, one)
		sameJSON(t, other.post(session, echoCall).body, echoAnswer)
		n, _ := strconv.Atoi(b.servers()[0])
		b.remove(n)
		begun, bare := all.begun(), b.withoutCookie()
		sameJSON(t, one.post(session, echoCall).body, echoAnswer)
		sameJSON(t, other.post(session, echoCall).body, echoAnswer)
		b.servers()
		sameJSON(t, other.post(session, echoCall).body, echoAnswer)
		sameJSON(t, one.post(session, echoCall).body, echoAnswer)
		if at := b.servers(); len(at) != 1 || all.begun()-begun != 1 || b.withoutCookie() != bare {
			t.Errorf("at the servers %v, %d sessions begun", at, all.begun()-begun)
		}
	})
}

// TestCookiesAcrossTheEras: a handshake client at modern servers, also at another replica, and a modern client at either kind.
func TestCookiesAcrossTheEras(t *testing.T) {
	moderns := func(t *testing.T) (handlers []http.Handler) {
		for range 3 {
			handlers = append(handlers, newSessionless(t, nil))
		}
		return handlers
	}
	t.Run("handshake client, modern server", func(t *testing.T) {
		b := newBalancer(t, moderns(t)...)
		replicas := severalOf(t, b, 2)
		for range 4 {
			session := replicas[0].initialize("2025-06-18")
			b.servers()
			bare := b.withoutCookie()
			for id := range 4 {
				if r := replicas[id%2].post(session, `{"jsonrpc":"2.0","id":`+strconv.Itoa(id)+`,"method":"prompts/get","params":{"name":"p"}}`); r.status != 200 || !gjson.Get(r.body, "result").Exists() {
					t.Errorf("%+v", r)
				}
			}
			if at := b.servers(); len(at) != 1 || b.withoutCookie() != bare {
				t.Errorf("one session at the servers %v", at)
			}
		}
	})
	t.Run("modern client, modern server", func(t *testing.T) {
		b := newBalancer(t, moderns(t)...)
		srv := severalOf(t, b, 1)[0]
		ask := func(who string, id int) {
			r := srv.modernly(modernRequestOf(strconv.Itoa(id), "prompts/get", `"name":"p",`+meta(`{}`)), "Authorization", "Bearer "+who)
			if r.status != 200 || !gjson.Get(r.body, "result").Exists() {
				t.Errorf("%+v", r)
			}
		}
		var all []string
		for _, who := range []string{"a", "b", "c", "d"} {
			ask(who, 1)
			b.servers()
			bare := b.withoutCookie()
			for id := range 4 {
				ask(who, id+2)
			}
			at := b.servers()
			if all = append(all, at...); len(at) != 1 || b.withoutCookie() != bare {
				t.Errorf("%s at the servers %v", who, at)
			}
		}
		if slices.Sort(all); len(slices.Compact(all)) == 1 {
			t.Error("all principals have one cookie")
		}
	})
	t.Run("modern client, handshake server", func(t *testing.T) {
		all, handlers := newForgetfuls(t, 3, peertest.HTTP)
		b := newBalancer(t, handlers...)
		srv := severalOf(t, b, 1)[0]
		for i, who := range []string{"a", "b", "c"} {
			for id := range 4 {
				r := srv.modernly(modernCall(strconv.Itoa(id), ""), "Authorization", "Bearer "+who)
				if gjson.Get(r.body, "result.content.0.text").String() != "t" {
					t.Errorf("%+v", r)
				}
			}
			if n := all.begun(); n != i+1 {
				t.Errorf("%d sessions begun", n)
			}
		}
	})
}

// TestLoginCookiesOfUnknownClientsAreNotShared: where nothing says on whose behalf a request comes, the address and the clientInfo do.
func TestLoginCookiesOfUnknownClientsAreNotShared(t *testing.T) {
	for kept, shared := range map[string]bool{config.AllCookies: false, config.CookiesOfBalancers: true} {
		s := newSessionless(t, nil)
		srv := severalOf(t, newBalancer(t, s), 1, func(c *config.Config) { c.Upstream.Cookies = kept })[0]
		get := modernRequestOf("1", "prompts/get", `"name":"p",`+meta(`{}`))
		srv.modernly(get, "peer", "192.0.2.1")
		for n, at := range []string{"192.0.2.2", "192.0.2.1"} {
			if r := srv.modernly(get, "peer", at); r.status != 200 {
				t.Errorf("%+v", r)
			}
			cookies := s.Gets(n+2, "prompts/get").Header.Get("Cookie")
			if got := cookies != ""; got != (shared || n == 1) {
				t.Errorf("%s: a request from %s has %q", kept, at, cookies)
			}
		}
	}
}

// TestCookiesAreInNothingThatIsShown, also if the server says what a request has carried.
func TestCookiesAreInNothingThatIsShown(t *testing.T) {
	for _, kept := range []string{config.CookiesOfBalancers, config.AllCookies} {
		var sent []string
		s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
			said := "you sent " + strings.NewReplacer("=", " is ", "-", "%2D").Replace(u.Header.Get("Cookie"))
			for _, c := range u.Request.Cookies() {
				sent = append(sent, c.Value)
			}
			switch {
			case u.Method == "initialize":
				u.Open()
				u.Answer(200, result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
			case u.ID == "":
			case gjson.Get(u.Text, "params.name").String() == "refused":
				http.Error(u.Web, said, http.StatusInternalServerError)
				u.Begun = true
			case gjson.Get(u.Text, "params.name").String() == "failed":
				u.Answer(200, rpcError(u.ID, `"code":-32603,"message":"`+said+`"`))
			default:
				u.Answer(200, result(u.ID, `"content":[{"type":"text","text":"`+said+`"}]`))
			}
		})
		s.Sessions, s.NoGet = true, true
		file := filepath.Join(t.TempDir(), "r.jsonl")
		srv := severalOf(t, newBalancer(t, s), 1, func(c *config.Config) { c.Upstream.Cookies, c.Record.File = kept, file })[0]
		if err := srv.Record(); err != nil {
			t.Fatal(err)
		}
		session := srv.initialize("2025-06-18")
		for _, tool := range []string{"ok", "failed", "refused"} {
			srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`)
		}
		srv.EndRecording()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]string{"the recording": string(text)}
		for _, line := range srv.logs.All() {
			fields, _ := json.Marshal(line.ContextMap())
			shown["the log"] += line.Message + string(fields) + "\n"
		}
		if len(sent) < 3 || !strings.Contains(shown["the recording"], "you sent") || !strings.Contains(shown["the log"], "you sent") {
			t.Errorf("%d cookies were sent; %v", len(sent), shown)
		}
		for where, text := range shown {
			for _, c := range sent {
				for _, spelling := range []string{c, strings.ReplaceAll(c, "-", "%2D")} {
					if strings.Contains(text, spelling) {
						t.Errorf("%s: %q is in %s: %s", kept, spelling, where, text)
					}
				}
			}
		}
	}
}

// TestReplicaThatGoesOnWithATaskHasTheCookies of the session that the task belongs to.
func TestReplicaThatGoesOnWithATaskHasTheCookies(t *testing.T) {
	var servers []*taskingServer
	var b *balancer
	overEngines(t, func(t *testing.T) peer {
		servers = nil
		var handlers []http.Handler
		for range 2 {
			s := newTaskingServer(t)
			s.Sessions = true
			servers, handlers = append(servers, s), append(handlers, s)
		}
		b = newBalancer(t, handlers...)
		return b
	}, func(t *testing.T, c *cluster) {
		for range 2 { // whichever server is the next one
			first, _, stop := c.start()
			if r := first.modernly(callAsTask("4", "slow")); gjson.Get(r.body, "result.taskId").String() != "t1" {
				t.Fatalf("%+v", r)
			}
			stop()
			second, _, stop := c.start()
			second.modernly(modernRequestOf("4", "tools/list", meta(`{}`))) // finds out what the server is
			bare := b.withoutCookie()
			get := ofTaskModern("5", "tasks/get", "t1", "")
			sameJSON(t, second.onTask(get).body, result("5", `"status":"working",`+stateOfT1))
			stop()
			if n := b.withoutCookie() - bare; n != 0 {
				t.Errorf("%d requests without a cookie", n)
			}
		}
	})
}
