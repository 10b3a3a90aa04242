package tests

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// hasty sets a very short limit for tools/call, and none for other methods.
func hasty(c *config.Config) {
	c.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: time.Millisecond, Silence: time.Millisecond}}
}

const timedOut = `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"upstream timed out"}}`
const givenUp = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"timed out"}}`
const callA = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}`

// toldOfTimeout waits until f has received the cancellation of the call.
func toldOfTimeout(t *testing.T, f *fakeServer) {
	t.Helper()
	eventually(t, "notifications/cancelled", func() bool {
		sent := f.sent()
		want := givenUp
		if f.piped { // with the id that the proxy made
			want = strings.Replace(want, `"requestId":"a"`, `"requestId":`+f.lastID(), 1)
		}
		return sent[len(sent)-1] == want
	})
}

func TestSilentChildIsSentACancellation(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		if gjson.Get(m, "method").String() == "ping" {
			return one(result(gjson.Get(m, "id").Raw, ""))
		}
		return nil, nil
	}))
	f.piped = true
	srv := front(t, f, hasty)
	s := srv.initialize("2025-06-18")
	r := srv.post(s, callA)
	if r.status != 200 {
		t.Errorf("%+v", r)
	}
	sameJSON(t, r.body, timedOut)
	toldOfTimeout(t, f)
	if r := srv.post(s, pingOne); r.status != 200 {
		t.Errorf("the next one: %+v", r)
	}
}

func TestSilenceAfterTheFirstEventEndsTheStream(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		if gjson.Get(m, "id").Exists() {
			return one(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}`)
		}
		return nil, nil
	}))
	f.piped = true
	srv := front(t, f, func(c *config.Config) {
		c.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: patience, Silence: time.Millisecond}}
	})
	r := srv.post(srv.initialize("2025-06-18"), callA)
	if len(r.events) != 2 {
		t.Fatalf("%+v", r)
	}
	sameJSON(t, r.events[1], timedOut)
	toldOfTimeout(t, f)
}

func TestTimeoutOverHTTPIsCancelledAtTheServer(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		return nil, context.DeadlineExceeded
	}))
	srv := front(t, f)
	if r := srv.post(srv.initialize("2025-06-18"), callA, "traceparent", "00-1"); r.status != 200 || !strings.Contains(r.body, "timed out") {
		t.Errorf("%+v", r)
	}
	toldOfTimeout(t, f)
	if h := f.Last().Header; len(h) != 1 || h.Get("Traceparent") != "00-1" {
		t.Errorf("headers %v", h)
	}
}

func TestPipeClientGetsAnErrorForASilentChild(t *testing.T) {
	f := newFake(initializing("2025-06-18", nil))
	f.piped = true
	srv := front(t, f, hasty)
	in, client := io.Pipe()
	out, ours := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- srv.ServePipe(context.Background(), in, ours) }()
	lines := downstream.NewStdio(downstream.StdioConfig{In: out, Out: client, MaxMessage: 1 << 20})
	got := make(chan string, 2)
	reading := make(chan error, 1)
	go func() {
		reading <- lines.Run(context.Background(), func(line []byte) { got <- string(line) })
	}()
	for _, m := range []string{initialize("2025-06-18", `{}`), callA} {
		if err := lines.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	<-got // initialize
	sameJSON(t, <-got, timedOut)
	toldOfTimeout(t, f)
	// A late response reaches no client.
	f.Unasked(`{"jsonrpc":"2.0","id":` + f.lastID() + `,"result":{}}`)
	f.Unasked(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"later"}}`)
	if m := <-got; gjson.Get(m, "params.data").String() != "later" {
		t.Errorf("got %s", m)
	}
	client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ours.Close()
	<-reading
}
