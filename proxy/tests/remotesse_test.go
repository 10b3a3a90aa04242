package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func beforeSSE(t *testing.T, change ...func(*config.Config)) (*forgetful, testServer) {
	t.Helper()
	leavesNothing(t)
	f := newForgetful(t, peertest.SSE, 0, "")
	cfg := config.Default()
	quickly(&cfg)
	cfg.Upstream.URL, cfg.Upstream.Transport, cfg.Upstream.HandshakeTimeout = f.At().URL, "sse", patience
	for _, do := range change {
		do(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return f, testServer{srv, t, logs}
}

// eitherClient is a client on HTTP or on a pipe.
type eitherClient struct {
	ask  func(m string) (answer string)
	tell func(m string)
}

// onEither runs the test with a client on HTTP and with one on a pipe.
func onEither(t *testing.T, do func(t *testing.T, f *forgetful, c eitherClient)) {
	t.Run("http", func(t *testing.T) {
		f, srv := beforeSSE(t)
		session := srv.post("", introduction).header["Mcp-Session-Id"]
		do(t, f, eitherClient{
			ask: func(m string) string {
				r := srv.post(session, m)
				return slices.Concat(r.events, []string{r.body})[max(len(r.events)-1, 0)] // after notifications
			},
			tell: func(m string) { srv.post(session, m) },
		})
	})
	t.Run("pipe", func(t *testing.T) {
		f, srv := beforeSSE(t)
		c := srv.pipe()
		c.say(introduction)
		c.hear()
		do(t, f, eitherClient{
			ask: func(m string) string {
				c.say(m)
				for {
					if answer := c.hear(); gjson.Get(answer, "id").Raw == gjson.Get(m, "id").Raw {
						return answer
					}
				}
			},
			tell: func(m string) { c.say(m) },
		})
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestALostSSESessionIsBegunAgain, whether its stream ends or a POST is refused.
func TestALostSSESessionIsBegunAgain(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetful, c eitherClient) {
		c.tell(initializedNotice)
		c.ask(debugLevel)
		c.ask(fmt.Sprintf(subscribeTo, 3, "file:///a"))
		for round, breaks := range []bool{false, true, false} {
			if breaks {
				f.Crash()
				eventually(t, "begun again", func() bool { return len(f.Opened()) == round+2 })
			} else {
				f.Forget()
			}
			sameJSON(t, c.ask(echoCall), echoAnswer)
			begun, ran := len(f.Opened()), f.ran("")
			if begun != round+2 || ran != round+1 {
				t.Errorf("round %d: %d sessions begun, the call ran %d times", round, begun, ran)
			}
			eventually(t, "restored", func() bool {
				s := f.last()
				return s.level == "debug" && slices.Equal(s.subscribed, []string{"file:///a"})
			})
			if got := gjson.Get(f.last().hello, "params.clientInfo.name").String(); got != "c" {
				t.Errorf("introduced as %q", got)
			}
		}
	})
}

// TestACallInFlightFailsWhenItsSSESessionIsLost, with a reason.
func TestACallInFlightFailsWhenItsSSESessionIsLost(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetful, c eitherClient) {
		c.tell(initializedNotice)
		hang := strings.NewReplacer(`"id":7`, `"id":9`, "echo", "hang").Replace(echoCall)
		f.Forget() // so that the call is sent in another session, which is lost as well
		if got := gjson.Get(c.ask(hang), "error.message").String(); !strings.Contains(got, "session ended") {
			t.Errorf("%q", got)
		}
		sameJSON(t, c.ask(echoCall), echoAnswer)
	})
}

// TestAnSSEServerThatIsAwayForAWhile: calls fail in the meantime, and the session continues.
func TestAnSSEServerThatIsAwayForAWhile(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetful, c eitherClient) {
		c.tell(initializedNotice)
		f.Away(503)
		f.Crash()
		for range 8 { // more often than a process is restarted
			if got := c.ask(echoCall); gjson.Get(got, "error").Raw == "" {
				t.Error(got)
			}
		}
		f.Away(0)
		got := ""
		eventually(t, "there again", func() bool {
			got = c.ask(echoCall)
			return gjson.Get(got, "result").Exists()
		})
		sameJSON(t, got, echoAnswer)
	})
}

// TestAnSSEServerThatRefusesAnotherSession: the client's session ends.
func TestAnSSEServerThatRefusesAnotherSession(t *testing.T) {
	f, srv := beforeSSE(t)
	session := srv.post("", introduction).header["Mcp-Session-Id"]
	f.refuses.Store(true)
	f.Crash()
	eventually(t, "over", func() bool { return srv.Table.Len() == 0 })
	if r := srv.post(session, echoCall); r.status != 404 {
		t.Errorf("%+v", r)
	}
}

// TestModernClientsOutlastALostSSESession: they share sessions, which are begun again as those of other clients are.
func TestModernClientsOutlastALostSSESession(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		f, srv := beforeSSE(t)
		for round, breaks := range []bool{false, true, false} {
			call := modernRequestOf("7", "tools/call", `"name":"echo","arguments":{},`+meta(capabilities))
			if r := srv.modernly(call); gjson.Get(r.body, "result.content.0.text").String() != "echo" {
				t.Errorf("round %d: %+v", round, r)
			}
			if breaks {
				f.Crash()
				eventually(t, "begun again", func() bool { return len(f.Opened()) == round+2 })
			} else {
				f.Forget()
			}
		}
		hang := modernRequestOf("9", "tools/call", `"name":"hang","arguments":{},`+meta(capabilities))
		if r := srv.modernly(hang); !strings.Contains(gjson.Get(r.body, "error.message").String(), "session ended") {
			t.Errorf("a call in flight: %+v", r)
		}
	}
}

// TestALostSSESessionThatIsNotBegunAgain: it ends at the first call that the server refuses, and the next client gets another one.
func TestALostSSESessionThatIsNotBegunAgain(t *testing.T) {
	never := func(c *config.Config) { c.Upstream.Restart.Max = 0 }
	for _, breaks := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern client, stream breaks %v", breaks), func(t *testing.T) {
			f, srv := beforeSSE(t, never)
			call := modernRequestOf("7", "tools/call", `"name":"echo","arguments":{},`+meta(`{}`))
			for round := range 3 {
				if r := srv.modernly(call); gjson.Get(r.body, "result.content.0.text").String() != "echo" {
					t.Errorf("round %d: %+v", round, r)
				}
				if breaks {
					f.Crash()
					eventually(t, "noticed", func() bool { return srv.Modern.Counts().Sessions == 0 })
					continue
				}
				f.Forget()
				r := srv.modernly(call)
				if got := gjson.Get(r.body, "error.message").String(); gjson.Get(r.body, "id").Raw != "7" || !strings.Contains(got, "session") {
					t.Errorf("round %d: a call in a lost session: %+v", round, r)
				}
			}
		})
		t.Run(fmt.Sprintf("handshake client, stream breaks %v", breaks), func(t *testing.T) {
			f, srv := beforeSSE(t, never)
			session := srv.post("", introduction).header["Mcp-Session-Id"]
			sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
			if breaks {
				f.Crash()
			} else {
				f.Forget()
				r := srv.post(session, echoCall)
				if got := gjson.Get(r.body, "error.message").String(); !strings.Contains(got, "session") {
					t.Errorf("%+v", r)
				}
			}
			eventually(t, "over", func() bool { return srv.Table.Len() == 0 })
			if r := srv.post(session, echoCall); r.status != 404 {
				t.Errorf("%+v", r)
			}
		})
	}
}
