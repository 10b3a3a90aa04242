package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// silentPipe is a server on a pipe that answers initialize. It sends nothing else until the test
// writes to its standing stream.
func silentPipe() *fakeServer {
	f := newFake(initializing("2025-06-18", nil))
	f.piped = true
	return f
}

// calling is a POST whose response the test controls.
type calling struct {
	srv   testServer
	reply chan reply
	stop  context.CancelFunc
}

func (srv testServer) call(f *fakeServer, session, message string) calling {
	srv.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := calling{srv, make(chan reply, 1), stop}
	n := len(f.sent())
	go func() { c.reply <- srv.exchange(ctx, "POST", session, message) }()
	eventually(srv.t, "call sent", func() bool { return len(f.sent()) > n })
	srv.t.Cleanup(stop)
	return c
}

func progress(token string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token)
}

func answer(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
}

func callTool(id, token string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":%s}}}`, id, token)
}

func TestPipeIsSortedIntoLanes(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	a := srv.call(f, s, callTool(`1`, `"x"`))
	ida := f.lastID()
	b := srv.call(f, s, callTool(`"\u0031"`, `7.0`))
	idb := f.lastID()
	for _, m := range []string{progress(idb + `.0`), progress(ida), answer(idb + `e0`), progress(ida), answer(ida)} {
		f.Unasked(m)
	}
	sameList(t, "a", (<-a.reply).events, []string{progress(`"x"`), progress(`"x"`), answer(`1`)})
	sameList(t, "b", (<-b.reply).events, []string{progress(`7.0`), answer(`"\u0031"`)})
}

func TestRestOfThePipeGoesToTheOnlyCall(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c := srv.call(f, s, callOne)
	f.Unasked(logLine)
	f.Unasked(sampling)
	f.Unasked(answer(`1`))
	sameList(t, "events", (<-c.reply).events, []string{logLine, sampling, answer(`1`)})
}

func TestRestOfThePipeGoesToTheStandingStream(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	f.Unasked(logLine) // no stream is open yet: the message waits
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	req, resp := srv.begin(ctx, "GET", s, "")
	c := srv.call(f, s, callTool(`1`, `1`))
	f.Unasked(sampling)
	f.Unasked(progress(`99`)) // an unknown token
	f.Unasked(answer(`1`))
	if r := <-c.reply; r.body != answer(`1`) {
		t.Errorf("%+v", r)
	}
	var got []string
	for range 2 {
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Data))
	}
	sameList(t, "events", got, []string{logLine, sampling})
	if n := counted(t, srv.Metrics, "dragoman_messages_dropped_total", "reason=unattributed"); n != 1 {
		t.Errorf("%d counted", n)
	}
	stop()
	srv.read(req, resp)
}

func TestServersRequestDoesNotWaitForAStreamThatNeverComes(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	a := srv.call(f, s, callTool(`1`, `1`))
	b := srv.call(f, s, callTool(`2`, `2`))
	f.Unasked(sampling)
	f.Unasked(answer(`1`))
	f.Unasked(answer(`2`))
	if r := <-a.reply; r.body != answer(`1`) {
		t.Errorf("a: %+v", r)
	}
	sameList(t, "b", (<-b.reply).events, []string{sampling, answer(`2`)})
}

func TestNewStandingStreamTakesOver(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	oldReq, old := srv.begin(ctx, "GET", s, "")
	req, resp := srv.begin(ctx, "GET", s, "")
	if r := srv.read(oldReq, old); len(r.events) != 0 {
		t.Errorf("old: %+v", r)
	}
	f.Unasked(logLine)
	if e, err := resp.Stream.Next(); err != nil || string(e.Data) != logLine {
		t.Errorf("%q, %v", e.Data, err)
	}
	stop()
	srv.read(req, resp)
}

func TestUndeliveredMessagesWaitForTheNextStream(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	f.Unasked(logLine)
	eventually(t, "queued", func() bool { return srv.lanes(s).Waiting() == 1 })
	ctx, leave := context.WithCancelCause(context.Background())
	leave(downstream.ErrClientLeft) // the client disconnects before it can be sent anything
	_, resp := srv.begin(ctx, "GET", s, "")
	resp.Done()
	if srv.lanes(s).Waiting() != 1 {
		t.Error("lost")
	}
}

func TestFullQueueIsLoggedAndCounted(t *testing.T) {
	f := silentPipe()
	srv := front(t, f, func(c *config.Config) { c.Limits.Queue = 2 })
	srv.initialize("2025-06-18")
	for range 5 {
		f.Unasked(logLine)
	}
	eventually(t, "three were dropped", func() bool {
		return counted(t, srv.Metrics, "dragoman_messages_dropped_total", "reason=queue_full") == 3
	})
	if n := srv.logs.FilterMessageSnippet("oldest notification was dropped").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
}

func TestLateAnswerIsDropped(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c := srv.call(f, s, callOne)
	c.stop() // the client disconnects
	<-c.reply
	f.Unasked(answer(`1`))
	d := srv.call(f, s, callTool(`2`, `2`))
	f.Unasked(answer(`2`))
	if r := <-d.reply; r.body != answer(`2`) {
		t.Errorf("%+v", r)
	}
}

func TestLostChildAnswersEveryCall(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	a := srv.call(f, s, callTool(`1`, `1`))
	b := srv.call(f, s, callTool(`2`, `2`))
	f.lose(&upstream.ExitError{Command: "child", Status: "exit status 3", Stderr: "oh"})
	for id, c := range map[string]calling{"1": a, "2": b} {
		r := <-c.reply
		if r.status != 200 || gjson.Get(r.body, "id").Raw != id || gjson.Get(r.body, "error.code").Int() != -32603 ||
			!strings.Contains(r.body, "exit status 3") {
			t.Errorf("%+v", r)
		}
	}
	eventually(t, "session gone", func() bool { return srv.post(s, pingOne).status == 404 })
}

func TestLostChildEndsStreamsWithAnError(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	a := srv.call(f, s, callTool(`1`, `1`))
	b := srv.call(f, s, callTool(`2`, `2`))
	f.Unasked(progress(`1`))
	f.Unasked(progress(`2`))
	f.lose(&upstream.ExitError{Command: "child", Status: "exit status 3"})
	for id, c := range map[string]calling{"1": a, "2": b} {
		r := <-c.reply
		if len(r.events) != 2 || gjson.Get(r.events[1], "id").Raw != id || !strings.Contains(r.events[1], "exit status 3") {
			t.Errorf("%+v", r)
		}
	}
}

func TestNoiseOnThePipeIsPassedOver(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c := srv.call(f, s, callOne)
	f.Unasked(`{"jsonrpc":"1.0"}`)
	f.Unasked(`[{"jsonrpc":"2.0","id":1,"result":`)
	f.Unasked(answer(`1`))
	if r := <-c.reply; r.body != answer(`1`) {
		t.Errorf("%+v", r)
	}
}
