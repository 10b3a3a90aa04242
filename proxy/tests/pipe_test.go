package tests

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/pipe"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// stdio is a client on a pipe.
type stdio struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Reader
	ended chan error
	stop  context.CancelFunc
}

// pipeClient serves a client on a pipe in front of f.
func pipeClient(t *testing.T, f *fakeServer, change ...func(*config.Config)) (*stdio, testServer) {
	t.Helper()
	srv := front(t, f, change...)
	return srv.pipe(), srv
}

// pipe serves a client on a pipe.
func (srv testServer) pipe() *stdio {
	t := srv.t
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &stdio{t: t, in: toServer, out: bufio.NewReader(fromServer), ended: make(chan error, 1), stop: stop}
	go func() {
		err := srv.ServePipe(ctx, in, out)
		out.Close()
		c.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		toServer.Close()
		go io.Copy(io.Discard, fromServer)
		if c.ended != nil {
			<-c.ended
		}
	})
	return c
}

func (c *stdio) say(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *stdio) hear() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c *stdio) hears(want ...string) {
	c.t.Helper()
	for _, w := range want {
		sameJSON(c.t, c.hear(), w)
	}
}

// end closes the client's side and returns the error of ServePipe.
func (c *stdio) end() error {
	c.t.Helper()
	c.in.Close()
	err := <-c.ended
	c.ended = nil
	return err
}

func (c *stdio) initialize(version, capabilities string) {
	c.t.Helper()
	c.say(initialize(version, capabilities))
	if got := c.hear(); gjson.Get(got, "result.protocolVersion").String() != version {
		c.t.Fatalf("initialize: %s", got)
	}
}

// bothInBubbles plays a test over HTTP and over a pipe, each in a bubble of testing/synctest.
func bothInBubbles(t *testing.T, do func(t *testing.T, piped bool)) {
	bothTransports(t, func(t *testing.T, piped bool) {
		bubble(t, func(t *testing.T) { do(t, piped) })
	})
}

// bothTransports plays a test over HTTP and over a pipe, without a bubble: for tests with sockets, processes or subtests.
func bothTransports(t *testing.T, do func(t *testing.T, piped bool)) {
	for name, piped := range map[string]bool{"http": false, "pipe": true} {
		t.Run(name, func(t *testing.T) { do(t, piped) })
	}
}

func TestPipeClient(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(initializing("2024-11-05", func(m string) ([]string, error) {
			switch gjson.Get(m, "method").String() {
			case "tools/call":
				return one(logLine, sampling, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
			case "":
				return nil, nil
			}
			return obliging(m)
		}))
		f.piped = piped
		c, srv := pipeClient(t, f)
		c.initialize("2025-11-25", `{"sampling":{}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, callOne)
		c.hears(logLine, sampling, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		c.say(`{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","model":"m","content":[{"type":"text","text":"hi"}]}}`, listTwo)
		c.hears(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
		sent := f.sent()
		sameList(t, "sent", sent[1:], []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, callOne,
			`{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}}`, listTwo})
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if srv.outcomes(metrics.Succeeded, "tools/list") != 1 || srv.outcomes(metrics.Succeeded, "tools/call") != 1 {
			t.Error("not counted")
		}
	})
}

func TestPipeClientBeforeInitialize(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	c, _ := pipeClient(t, f)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Not initialized: send initialize first; supported: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"}}`)
	c.say(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	c.hears(`{"jsonrpc":"2.0","id":"d","error":{"code":-32602,"message":"Missing or invalid _meta field: io.modelcontextprotocol/clientCapabilities"}}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `nonsense`)
	if got := c.hear(); gjson.Get(got, "error.code").Int() != -32700 {
		t.Error(got)
	}
	c.say(initInIt)
	c.hears(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"initialize must not be part of a batch"}}`)
	c.initialize("2025-06-18", `{}`)
	c.say(initialize("2025-06-18", `{}`))
	c.hears(`{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"Already initialized"}}`)
	c.say(modernRequestOf("1", "ping", meta(`{}`)))
	if got := c.hear(); gjson.Get(got, "error.code").Int() != -32601 {
		t.Error(got)
	}
	c.say(pingOne)
	c.hears(pingAnswer)
}

func TestPipeClientGetsOneLinePerBatch(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(nil)
		f.piped = piped
		f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
			e, err := obliging(m)
			if gjson.Get(m, "method").String() == "tools/list" {
				e = append([]string{logLine}, e...)
			}
			return e, err
		})
		c, _ := pipeClient(t, f)
		c.initialize("2025-03-26", `{}`)
		c.say(`[` + changed + `,1,` + pingOne + `,` + listTwo + `,` + pingOne + `]`)
		c.hears(logLine, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}},`+pingAnswer+
			`,{"jsonrpc":"2.0","id":2,"result":{"tools":[]}},{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Duplicate request id in batch"}}]`)
		c.say(`[`+changed+`]`, `[]`) // the first line has no response
		c.hears(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Empty batch"}}`)
	})
}

func TestPipeClientCancels(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(nil)
		f.piped = piped
		f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() == "tools/list" {
				return one(hang)
			}
			return obliging(m)
		})
		c, srv := pipeClient(t, f)
		c.initialize("2025-03-26", `{}`)
		c.say(listTwo, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, pingOne)
		c.hears(pingAnswer)
		c.say(`[`+listTwo+`,`+pingOne+`]`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		c.hears(`[` + pingAnswer + `]`)
		eventually(t, "two counted", func() bool { return srv.outcomes(metrics.Cancelled, "tools/list") == 2 })
	})
}

func TestPipeClientMayNotReuseAnOpenID(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(nil)
		f.piped = piped
		f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() == "tools/call" {
				return one(hang)
			}
			return obliging(m)
		})
		c, _ := pipeClient(t, f, func(c *config.Config) { c.Shutdown.Drain = 0 })
		c.initialize("2025-06-18", `{}`)
		c.say(callOne, `{"jsonrpc":"2.0","id":1e0,"method":"ping"}`)
		c.hears(`{"jsonrpc":"2.0","id":1e0,"error":{"code":-32600,"message":"Request id is already in use"}}`)
	})
}

func TestLostChildEndsThePipe(t *testing.T) {
	f := silentPipe()
	c, _ := pipeClient(t, f)
	c.initialize("2025-06-18", `{}`)
	c.say(callOne, listTwo)
	eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
	f.lose(&upstream.ExitError{Command: "child", Status: "exit status 3"})
	ids := map[string]bool{}
	for range 2 {
		got := c.hear()
		ids[gjson.Get(got, "id").Raw] = true
		if gjson.Get(got, "error.code").Int() != -32603 || !strings.Contains(got, "exit status 3") {
			t.Error(got)
		}
	}
	if !ids["1"] || !ids["2"] {
		t.Error(ids)
	}
	err := <-c.ended
	c.ended = nil
	var exit *upstream.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("ended with %v", err)
	}
}

func TestEveryCallIsAnsweredOnceWhenSendingFindsTheChildLost(t *testing.T) {
	exit := &upstream.ExitError{Command: "child", Status: "exit status 3"}
	f := silentPipe()
	f.First = failing(func(m string) error {
		if gjson.Get(m, "method").String() == "ping" {
			return exit
		}
		return nil
	})
	c, _ := pipeClient(t, f)
	c.initialize("2025-03-26", `{}`)
	c.say(callOne, `[`+listTwo+`,{"jsonrpc":"2.0","id":"late","method":"ping"}]`)
	eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
	f.lose(exit)
	ids := map[string]int{}
	for range 2 {
		got := gjson.Parse(c.hear())
		if !got.IsArray() {
			got = gjson.Parse("[" + got.Raw + "]")
		}
		for _, m := range got.Array() {
			ids[m.Get("id").Raw]++
			if !strings.Contains(m.Get("error.message").String(), "exit status 3") {
				t.Error(m.Raw)
			}
		}
	}
	if len(ids) != 3 || ids["1"] != 1 || ids["2"] != 1 || ids[`"late"`] != 1 {
		t.Error(ids)
	}
	if err := <-c.ended; !errors.As(err, new(*upstream.ExitError)) {
		t.Errorf("ended with %v", err)
	}
	c.ended = nil
}

func TestLostSessionEndsThePipe(t *testing.T) {
	for range 20 { // what ends a call must not depend on which goroutine is first
		t.Run("", lostSessionEndsThePipe)
	}
}

func lostSessionEndsThePipe(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		if gjson.Get(m, "id").Int() == 2 {
			return one(hang)
		}
		return nil, &upstream.StatusError{Code: 404}
	}))
	f.SessionID = "theirs"
	c, _ := pipeClient(t, f)
	c.initialize("2025-06-18", `{}`)
	c.say(listTwo, pingOne)
	for _, id := range []string{"1", "2"} {
		c.hears(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"upstream answered 404 Not Found"}}`)
	}
	err := <-c.ended
	c.ended = nil
	if !errors.Is(err, pipe.ErrUpstreamGone) {
		t.Errorf("ended with %v", err)
	}
}

func TestCallsAreAnsweredAfterTheClientsLastMessage(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f, gate := newFake(initializing("2025-06-18", nil)), make(chan struct{})
		if f.piped = piped; !piped {
			f.on("ping", func(u *peertest.Turn) {
				if u.Until(gate) {
					u.Say(pingAnswer)
				}
			})
		}
		c, _ := pipeClient(t, f)
		c.initialize("2025-06-18", `{}`)
		c.say(pingOne)
		eventually(t, "sent", func() bool { return len(f.sent()) == 2 })
		c.in.Close()
		close(gate)
		if piped {
			f.Unasked(pingAnswer)
		}
		c.hears(pingAnswer)
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestStandingStreamIsOpenedOnceInitialized(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	c, _ := pipeClient(t, f)
	c.initialize("2025-06-18", `{}`)
	c.say(pingOne)
	c.hears(pingAnswer)
	if len(f.listens()) != 0 {
		t.Error("opened before notifications/initialized")
	}
	f.Unasked("id:1 " + logLine)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.hears(logLine)
}

func TestStoppedPipeEndsWithoutAnError(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(initializing("2025-06-18", func(string) ([]string, error) { return one(hang) }))
		f.piped = piped
		c, _ := pipeClient(t, f, func(c *config.Config) { c.Shutdown.Drain = 100 * time.Millisecond })
		c.initialize("2025-06-18", `{}`)
		c.say(callOne)
		eventually(t, "sent", func() bool { return len(f.sent()) == 2 })
		go io.Copy(io.Discard, c.out)
		c.stop()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		c.ended = nil
		if f.ends() == 0 {
			t.Error("upstream was not closed")
		}
	})
}

func TestLongLineIsRefusedAndTheNextOneServed(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	c, _ := pipeClient(t, f, func(c *config.Config) { c.Limits.ClientMessage = 300 })
	c.initialize("2025-06-18", `{}`)
	c.say(strings.Repeat("x", 400))
	if got := c.hear(); gjson.Get(got, "error.code").Int() != -32600 || gjson.Get(got, "id").Raw != "null" || !strings.Contains(got, "the limit of 300 (limits.client_message)") {
		t.Error(got)
	}
	c.say(pingOne)
	c.hears(pingAnswer)
}
