package tests

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// endsSoon waits for the end of a pipe, which must not take all of the drain time.
func (c *stdio) endsSoon() {
	c.t.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			c.t.Error(err)
		}
		c.ended = nil
	case <-time.After(patience):
		c.t.Error("it goes on")
	}
}

func aLongDrain(cfg *config.Config)  { cfg.Shutdown.Drain = 10 * patience }
func aShortDrain(cfg *config.Config) { cfg.Shutdown.Drain = 10 * time.Millisecond }
func noDrain(cfg *config.Config)     { cfg.Shutdown.Drain = 1 }

// TestAPipeEndsWithAQuestionThatCannotBeAnswered: the server gets an error for its question, and
// ends its call.
func TestAPipeEndsWithAQuestionThatCannotBeAnswered(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`
	const late = `{"jsonrpc":"2.0","id":"q2","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	const answer = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
	bothInBubbles(t, func(t *testing.T, piped bool) {
		told := make(chan string, 2)
		asked := "" // the id under which the server knows the call
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			switch {
			case gjson.Get(m, "method").String() == "tools/call":
				asked = gjson.Get(m, "id").Raw
				return one(question)
			case !gjson.Get(m, "error").Exists():
				return nil, nil
			}
			told <- m
			if gjson.Get(m, "id").String() == "q" {
				return one(late)
			}
			return one(strings.Replace(answer, `"id":7`, `"id":`+asked, 1))
		}))
		if f.piped = piped; !piped {
			f.on("", func(u *peertest.Turn) { told <- u.Text })
			f.on("tools/call", func(u *peertest.Turn) {
				u.Asks(question)
				u.Asks(late)
				u.Say(answer)
			})
		}
		c, _ := pipeClient(t, f, aLongDrain)
		c.initialize("2025-06-18", `{"elicitation":{},"sampling":{}}`)
		c.say(strings.Replace(echoCall, "echo", "ask", 1))
		if got := c.hear(); gjson.Get(got, "id").String() != "q" {
			t.Fatal(got)
		}
		c.in.Close()
		c.hears(answer)
		for range 2 {
			if m := <-told; gjson.Get(m, "error.message").String() != "the client has closed its side of the pipe" {
				t.Error(m)
			}
		}
		c.endsSoon()
	})
}

// TestAModernClientThatIsSilentIsNotAsked: nor does it get a question that came just before, since no answer to it is read.
func TestAModernClientThatIsSilentIsNotAsked(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		came, told := make(chan bool, 1), make(chan string, 1)
		f := legacyServer(`{"tools":{}}`, nil)
		f.piped, f.NoGet = piped, !piped
		f.on("tools/call", func(u *peertest.Turn) {
			u.Say(nameQuestion)
			came <- true
			if m := <-told; gjson.Get(m, "error.message").String() != "the client has closed its side of the pipe" {
				t.Error(m)
			}
			u.Say(result(u.ID, `"content":[{"type":"text","text":"done"}]`))
		})
		f.on("", func(u *peertest.Turn) { told <- u.Text })
		c, _ := pipeClient(t, f, aLongDrain, func(cfg *config.Config) { cfg.Bridge.Coalesce = time.Second })
		c.say(modernCall("7", ""))
		<-came
		c.in.Close()
		if got := c.hear(); gjson.Get(got, "result.content.0.text").String() != "done" {
			t.Error(got)
		}
		c.endsSoon()
	})
}

// TestACallThatOutlivesTheDrainIsAnsweredByAnError, after the client has closed its side and after
// dragoman was told to stop.
func TestACallThatOutlivesTheDrainIsAnsweredByAnError(t *testing.T) {
	for name, when := range map[string]struct {
		end   func(*stdio)
		drain func(*config.Config)
	}{
		"client": {func(c *stdio) { c.in.Close() }, aShortDrain},
		"told":   {func(c *stdio) { c.stop() }, aShortDrain},
		"told, and the time is over before the last message was taken": {func(c *stdio) { c.stop() }, noDrain},
	} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
				if gjson.Get(m, "method").String() == "tools/call" {
					return one(hang)
				}
				return nil, nil
			}))
			f.piped = piped
			c, _ := pipeClient(t, f, when.drain)
			c.initialize("2025-06-18", `{}`)
			c.say(echoCall)
			got(t, f, "tools/call")
			when.end(c)
			if m := c.hear(); gjson.Get(m, "id").Raw != "7" || gjson.Get(m, "error.message").String() != "dragoman is shutting down" {
				t.Errorf("%s: %s", name, m)
			}
			c.endsSoon()
		})
	}
}

// TestACallIsAnsweredWhileAPipeDrains: a call is still answered after dragoman was told to stop.
func TestACallIsAnsweredWhileAPipeDrains(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f, gate := newFake(initializing("2025-06-18", nil)), make(chan struct{})
		if f.piped = piped; !piped {
			f.on("tools/call", func(u *peertest.Turn) {
				if u.Until(gate) {
					u.Say(echoAnswer)
				}
			})
		}
		c, _ := pipeClient(t, f, aLongDrain)
		c.initialize("2025-06-18", `{}`)
		c.say(echoCall)
		call := got(t, f, "tools/call")
		c.stop()
		if piped {
			f.Unasked(strings.Replace(echoAnswer, `"id":7`, `"id":`+gjson.Get(call, "id").Raw, 1))
		} else {
			close(gate)
		}
		c.hears(echoAnswer)
		c.endsSoon()
	})
}

// TestHTTPCallsThatOutliveTheDrainAreAnsweredByAnError, also those whose response is a stream.
func TestHTTPCallsThatOutliveTheDrainAreAnsweredByAnError(t *testing.T) {
	begun := make(chan struct{}, 2)
	server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(200, result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
		case "tools/call":
			if gjson.Get(u.Text, "params.name").String() == "stream" {
				u.Say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}`)
			}
			begun <- struct{}{}
			<-u.Ctx.Done()
		}
	})
	server.NoGet = true
	server.At()
	cfg := config.Default()
	aShortDrain(&cfg)
	cfg.Upstream.URL = server.URL
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	url := "http://" + ln.Addr().String() + "/mcp"
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	post := func(session, body string) (string, string) {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		r, err := client.Do(req)
		if err != nil {
			return "", err.Error()
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.Header.Get("Mcp-Session-Id"), string(text)
	}
	session, _ := post("", initialize("2025-06-18", `{}`))
	answers := make(chan string, 2)
	for _, name := range []string{"plain", "stream"} {
		go func() {
			_, answer := post(session, strings.Replace(echoCall, "echo", name, 1))
			answers <- answer
		}()
	}
	<-begun
	<-begun
	stop()
	for range 2 {
		if got := <-answers; !strings.Contains(got, `"id":7`) || !strings.Contains(got, "shutting down") {
			t.Errorf("%q", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCallsThatWaitForTheirClientAreCancelledAtShutdown: a server over HTTP does not wait for the answer to its question in
// vain. One on a pipe ends.
func TestCallsThatWaitForTheirClientAreCancelledAtShutdown(t *testing.T) {
	s := (&staged{T: t}).legacy(`{"tools":{}}`, func(u *peertest.Turn) {
		if u.Method != "tools/call" {
			u.Answer(200, result(u.ID, `"tools":[]`))
			return
		}
		u.Say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}`)
		<-u.Ctx.Done()
	})
	cfg := config.Default()
	aShortDrain(&cfg) // the client does not come back
	behind(t, s.At(), &cfg)
	base, stop := startServing(t, newOf(t, cfg, zap.NewNop()))
	asked := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"}).Say(asCall("7", `{"elicitation":{}}`, "")).Next()
	if gjson.Get(asked, "result.resultType").String() != "input_required" {
		t.Fatal(asked)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	call := gjson.Get(s.Gets(1, "tools/call").Text, "id").Raw
	sameJSON(t, s.Gets(1, "notifications/cancelled").Text, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+call+`,"reason":"dragoman is shutting down"}}`)
}

// TestParkedCallIsCancelledBeforeItsPipeCloses: the server learns that its call is cancelled, even if the notification takes
// a moment, and only then its process is told to end.
func TestParkedCallIsCancelledBeforeItsPipeCloses(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := legacyServer(`{"tools":{}}`, func(string, string, string) ([]string, error) { return one(nameQuestion, hang) })
		f.piped, f.NoGet = piped, !piped
		f.First = func(u *peertest.Turn) {
			if u.Method != "notifications/cancelled" {
				return
			}
			if time.Sleep(time.Millisecond); f.ended() {
				u.Fail(upstream.ErrClosed)
			}
		}
		srv := front(t, f)
		if r := srv.modernly(modernCall("7", "")); gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Fatal(r.body)
		}
		srv.Close()
		if got := f.said("notifications/cancelled"); len(got) != 1 {
			t.Errorf("cancellations %q", got)
		}
	})
}

// TestClientsOfWaitingCallsComeBackWhileDragomanDrains: a call that waits for its client's answers is one in flight. Until it is
// answered, connections are accepted and requests are served, but no sessions begin.
func TestClientsOfWaitingCallsComeBackWhileDragomanDrains(t *testing.T) {
	s := (&staged{T: t}).legacy(`{"tools":{}}`, func(u *peertest.Turn) {
		if u.Method != "tools/call" {
			u.Answer(200, result(u.ID, `"tools":[]`))
			return
		}
		u.Asks(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}`)
		u.Say(result(u.ID, `"content":[]`))
	})
	cfg := config.Default()
	aLongDrain(&cfg)
	behind(t, s.At(), &cfg)
	srv := newOf(t, cfg, zap.NewNop())
	base, stop := startServing(t, srv)
	client := func() *peertest.Client { return peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"}) }
	asked := client().Say(asCall("7", `{"elicitation":{}}`, "")).Next()
	if gjson.Get(asked, "result.resultType").String() != "input_required" {
		t.Fatal(asked)
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	<-srv.Host.Draining.Done()

	for path, want := range map[string]int{"/readyz": 503, "/livez": 200, "/sse": 503} {
		res, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || !res.Close {
			t.Errorf("%s: %d, want %d; the connection is closed: %v", path, res.StatusCode, want, res.Close)
		}
	}
	req, _ := http.NewRequest("POST", base+"/mcp", strings.NewReader(initialize("2025-06-18", `{}`)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !res.Close || !strings.Contains(string(body), "shutting down") {
		t.Errorf("initialize: %d %v %s", res.StatusCode, res.Header, body)
	}
	if list := client().Say(modernRequestOf("8", "tools/list", meta(`{}`))).Next(); !gjson.Get(list, "result.tools").Exists() {
		t.Errorf("another request: %s", list)
	}
	select {
	case err := <-ended:
		t.Fatalf("it has ended: %v", err)
	default:
	}

	state := gjson.Get(asked, "result.requestState").Raw
	again := asCall("9", `{"elicitation":{}}`, `"requestState":`+state+`,"inputResponses":{"elicitation-1":{"action":"accept","content":{"n":"x"}}},`)
	if got := client().Say(again).Next(); !gjson.Get(got, "result.content").Exists() {
		t.Errorf("the answer is %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// unstoppable is a stdout whose writing neither a deadline nor closing it ends, as that of most processes.
type unstoppable struct{ io.Writer }

// TestAPipeEndsThoughItsClientReadsNothing when it is told to: neither an answer of the server nor one of dragoman's own keeps it from ending.
func TestAPipeEndsThoughItsClientReadsNothing(t *testing.T) {
	const refused = `{"jsonrpc":"2.0"}`
	ways := map[string]func(in io.Closer, stop func()){
		"told":        func(_ io.Closer, stop func()) { stop() },
		"one by one":  func(in io.Closer, stop func()) { in.Close(); time.Sleep(time.Second); stop() },
		"both at one": func(in io.Closer, stop func()) { stop(); in.Close() },
	}
	for name, end := range ways {
		for _, line := range []string{echoCall, refused, echoCall + "\n" + refused} {
			for _, stops := range []bool{true, false} {
				bothInBubbles(t, func(t *testing.T, piped bool) {
					f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
						if gjson.Get(m, "method").String() == "tools/call" {
							return one(strings.Replace(echoAnswer, `"id":7`, `"id":`+gjson.Get(m, "id").Raw, 1))
						}
						return nil, nil
					}))
					f.piped = piped
					srv := front(t, f)
					in, toServer := io.Pipe()
					fromServer, pipe := io.Pipe()
					out := io.Writer(pipe)
					if !stops {
						out = unstoppable{pipe}
					}
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					ended := make(chan error, 1)
					go func() { ended <- srv.ServePipe(ctx, in, out) }()
					io.WriteString(toServer, initialize("2025-06-18", `{}`)+"\n")
					if _, err := bufio.NewReader(fromServer).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
					go io.WriteString(toServer, line+"\n")
					synctest.Wait()
					end(toServer, stop)
					select {
					case err := <-ended:
						if err != nil {
							t.Errorf("%s, %s: %v", name, line, err)
						}
					case <-time.After(time.Minute):
						t.Errorf("%s, %s: it goes on for a minute", name, line)
					}
					fromServer.Close() // what may still be written ends
					toServer.Close()
				})
			}
		}
	}
}
