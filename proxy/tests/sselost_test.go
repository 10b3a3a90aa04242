package tests

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// refusals reads one response for each of these ids, in any order and alone or in an array, and then the end of the stream. Each
// must be an error that contains why.
func refusals(t *testing.T, c *peertest.SSEClient, why string, ids ...string) {
	t.Helper()
	open := map[string]bool{}
	for _, id := range ids {
		open[id] = true
	}
	for len(open) > 0 {
		got := gjson.Parse(c.Next())
		for _, m := range append(got.Array(), gjson.Result{}) {
			id := m.Get("id").Raw
			switch {
			case !m.Exists():
			case !open[id] || !strings.Contains(m.Get("error.message").String(), why):
				t.Errorf("got %s", got)
			}
			delete(open, id)
		}
	}
	if rest, err := io.ReadAll(c.In); err != nil || strings.Contains(string(rest), "data:") {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

// TestMessagesThatWaitWhenTheSessionIsLostAreAnswered: they were accepted, and so each request among them gets an error.
func TestMessagesThatWaitWhenTheSessionIsLostAreAnswered(t *testing.T) {
	leavesNothing(t)
	kids, starting, again := newFamily(silentChild), make(chan struct{}), make(chan struct{})
	kids.refuse = func(nth int) error {
		if nth == 1 {
			return nil
		}
		close(starting)
		<-again
		return exited
	}
	cfg := config.Default()
	quickly(&cfg)
	cfg.Upstream.Restart.Max = 1
	srv, err := proxy.NewWith(cfg, zap.NewNop(), kids.origin())
	if err != nil {
		t.Fatal(err)
	}
	base, _ := startServing(t, srv)
	c := peertest.NewSSEClient(t, base)
	c.Post(initialize("2025-03-26", `{}`))
	c.Next()
	c.Post(initializedNotice)
	kids.child(t, 0).lose(exited)
	<-starting
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id)
	}
	c.Post(call(1)) // waits for the process
	c.Post(call(2))
	c.Post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	c.Post(call(3))
	c.Post(`[` + call(4) + `,{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},` + call(5) + `]`)
	close(again)
	refusals(t, c, "upstream", "1", "2", "3", "4", "5")
}

// TestCallsInFlightWhenTheSessionIsLostAreAnswered: the server over HTTP says for one call that it does not know the session, and
// refuses a new one.
func TestCallsInFlightWhenTheSessionIsLostAreAnswered(t *testing.T) {
	begun, lost := make(chan struct{}, 3), make(chan struct{})
	server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			select {
			case <-lost:
				u.Answer(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
			default:
				u.Answer(200, result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
			}
		case u.Method != "tools/call":
		case gjson.Get(u.Text, "params.name").String() == "lose":
			close(lost)
			u.Refuse(404)
		default:
			begun <- struct{}{}
			u.Until(nil)
		}
	})
	server.NoGet = true
	server.SessionID = "s"
	cfg := config.Default()
	behind(t, server.At(), &cfg)
	base, _ := startServing(t, newOf(t, cfg, zap.NewNop()))
	c := peertest.NewSSEClient(t, base)
	c.Post(initialize("2024-11-05", `{}`))
	c.Next()
	c.Post(initializedNotice)
	for id := range cap(begun) {
		c.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id))
	}
	for range cap(begun) {
		<-begun
	}
	c.Post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"lose"}}`)
	refusals(t, c, "ession", "0", "1", "2", "3")
}

// TestCallsThatOutliveTheDrainAreAnsweredOnHTTPWithSSE.
func TestCallsThatOutliveTheDrainAreAnsweredOnHTTPWithSSE(t *testing.T) {
	bothTransports(t, func(t *testing.T, piped bool) {
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() == "tools/call" {
				return one(hang)
			}
			return nil, nil
		}))
		if f.piped = piped; piped {
			f.Script = initializing("2025-06-18", nil)
		}
		base, stop := listening(t, f, aShortDrain)
		c := peertest.NewSSEClient(t, base)
		c.Post(initialize("2024-11-05", `{}`))
		c.Next()
		c.Post(initializedNotice)
		c.Post(echoCall)
		got(t, f, "tools/call")
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		refusals(t, c, "shutting down", "7")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
