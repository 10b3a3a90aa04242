package tests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/replay"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// reader is a client that reads a stream event by event, and may be disconnected.
type reader struct {
	t    testing.TB
	req  *downstream.Request
	resp *response
	stop context.CancelCauseFunc
}

func (srv testServer) open(method, session, body string, header ...string) *reader {
	srv.t.Helper()
	ctx, stop := context.WithCancelCause(context.Background())
	c := &reader{t: srv.t, stop: stop}
	c.req, c.resp = srv.begin(ctx, method, session, body, header...)
	if c.resp.Stream == nil {
		srv.t.Fatalf("no stream: %d %s", c.resp.Status, c.resp.Body)
	}
	return c
}

func (c *reader) next() sse.Event {
	c.t.Helper()
	e, err := c.resp.Stream.Next()
	if err != nil {
		c.t.Fatalf("stream ended: %v", err)
	}
	return sse.Event{ID: append([]byte(nil), e.ID...), HasID: e.HasID, Data: append([]byte(nil), e.Data...)}
}

// hears receives one event for each element of want, and returns the id of the last.
func (c *reader) hears(want ...string) (id string) {
	c.t.Helper()
	for _, w := range want {
		e := c.next()
		if string(e.Data) != w || !e.HasID {
			c.t.Fatalf("got %s %s, want %s", e.ID, e.Data, w)
		}
		id = string(e.ID)
	}
	return id
}

func (c *reader) ends() {
	c.t.Helper()
	if e, err := c.resp.Stream.Next(); err != io.EOF {
		c.t.Errorf("stream goes on: %s, %v", e.Data, err)
	}
	c.leaves()
}

// leaves does what the transport does when the client has disconnected, or at the end.
func (c *reader) leaves() {
	c.stop(downstream.ErrClientLeft)
	c.resp.Stream.Close()
	c.resp.Done()
}

// streaming begins a call, and receives a first message about it.
func (srv testServer) streaming(f *fakeServer, session, id string) (c *reader, last string) {
	srv.t.Helper()
	n := len(f.sent())
	go func() {
		eventually(srv.t, "call sent", func() bool { return len(f.sent()) > n })
		f.Unasked(progress(id))
	}()
	c = srv.open("POST", session, callTool(id, id))
	return c, c.hears(progress(id))
}

func (srv testServer) lanes(id string) *session.Lanes {
	return srv.Table.Held(id).Conn.(*session.Lanes)
}

func TestClientThatLostItsStreamGetsTheAnswerByGet(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2024-11-05")
	c, last := srv.streaming(f, s, `1`)
	c.leaves()
	f.Unasked(progress(`1`)) // while no stream is open
	f.Unasked(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":1}}}`)
	c = srv.open("GET", s, "", "Last-Event-ID", last)
	c.hears(progress(`1`))
	e := c.next() // translated for this client's revision, since the method is still known
	if got := string(e.Data); gjson.Get(got, "id").Raw != "1" || strings.Contains(got, "structuredContent") {
		t.Errorf("%s", got)
	}
	c.ends()
	c = srv.open("GET", s, "", "Last-Event-ID", last) // the response was lost in transit, too
	c.hears(progress(`1`))
	if again := c.next(); string(again.Data) != string(e.Data) || string(again.ID) != string(e.ID) {
		t.Errorf("%s %s", again.ID, again.Data)
	}
	c.ends()
	if n := srv.outcomes(metrics.Left, "tools/call") + srv.outcomes(metrics.Succeeded, "tools/call"); n != 1 {
		t.Errorf("the call was counted %d times", n)
	}
	if n := counted(t, srv.Metrics, "dragoman_messages_dropped_total"); n != 0 {
		t.Errorf("%d messages had no receiver", n)
	}
}

func TestClientGetsTheAnswerThatComesAfterItIsBack(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c, last := srv.streaming(f, s, `1`)
	c.leaves()
	c = srv.open("GET", s, "", "Last-Event-ID", last)
	f.Unasked(progress(`1`))
	last = c.hears(progress(`1`))
	c.leaves() // once more
	c = srv.open("GET", s, "", "Last-Event-ID", last)
	f.Unasked(answer(`1`))
	c.hears(answer(`1`))
	c.ends()
}

func TestStandingStreamIsResumed(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	note := func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
	}
	c := srv.open("GET", s, "")
	f.Unasked(note(1))
	first := c.hears(note(1))
	f.Unasked(note(2))
	c.hears(note(2)) // written, and lost in transit
	c.leaves()
	f.Unasked(note(3))
	c = srv.open("GET", s, "", "Last-Event-ID", first)
	c.hears(note(2), note(3))
	f.Unasked(note(4))
	c.hears(note(4))
	c.leaves()
}

func TestEventsOfAStreamComeOnNoOther(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	standing := srv.open("GET", s, "")
	f.Unasked(logLine)
	lastStanding := standing.hears(logLine)
	a, lastA := srv.streaming(f, s, `1`)
	b, lastB := srv.streaming(f, s, `2`)
	if lastA == lastB || lastA == lastStanding || lastB == lastStanding {
		t.Errorf("ids are not unique: %s %s %s", lastA, lastB, lastStanding)
	}
	f.Unasked(answer(`1`))
	a.hears(answer(`1`))
	a.ends()
	b.leaves()
	f.Unasked(answer(`2`))
	b = srv.open("GET", s, "", "Last-Event-ID", lastB)
	b.hears(answer(`2`))
	b.ends()
	f.Unasked(logLine)
	standing.hears(logLine)
	standing.leaves()
}

func TestOlderEventsThanAreKeptAreLostAndCounted(t *testing.T) {
	f := silentPipe()
	srv := front(t, f, func(c *config.Config) { c.Limits.Replay = 3 })
	s := srv.initialize("2025-06-18")
	c, last := srv.streaming(f, s, `1`)
	for range 5 {
		f.Unasked(progress(`1`))
		c.hears(progress(`1`))
	}
	c.leaves()
	f.Unasked(answer(`1`))
	c = srv.open("GET", s, "", "Last-Event-ID", last)
	c.hears(progress(`1`), progress(`1`), progress(`1`), answer(`1`)) // the response matters most
	c.ends()
	srv.lost(2)
}

// lost expects one log line about lost events since the last call.
func (srv testServer) lost(n int64) {
	srv.t.Helper()
	lines := srv.logs.TakeAll()
	lines = slices.DeleteFunc(lines, func(e observer.LoggedEntry) bool { return !strings.Contains(e.Message, "lost on a resumed stream") })
	if len(lines) != 1 || lines[0].Level.String() != "info" || lines[0].ContextMap()["lost"] != n {
		srv.t.Errorf("%v", lines)
	}
}

func TestForgottenStreamIsAFreshOne(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c, last := srv.streaming(f, s, `1`)
	f.Unasked(progress(`1`))
	c.hears(progress(`1`))
	c.leaves()
	l := srv.lanes(s)
	l.Trails.Sweep(time.Now())
	if srv.Kept.Load() == 0 {
		t.Fatal("forgotten too soon")
	}
	l.Trails.Sweep(time.Now().Add(5 * time.Minute))
	if n := srv.Kept.Load(); n != 0 || l.Requests() != 0 || len(srv.Table.Held(s).Open.List()) != 0 {
		t.Errorf("%d bytes, %d lanes, %d calls are left", n, l.Requests(), len(srv.Table.Held(s).Open.List()))
	}
	for id, n := range map[string]int64{last: 1, "1-9": -1, "77-1": -1, "x": -1, "-": -1, "1-": -1, "-1--1": -1, "99999999999999999999-1": -1} {
		c = srv.open("GET", s, "", "Last-Event-ID", id)
		f.Unasked(logLine)
		c.hears(logLine)
		c.leaves()
		srv.lost(n)
	}
}

func TestStreamIsResumedWhileItsReaderIsConnected(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	old, last := srv.streaming(f, s, `1`)
	gone := make(chan error, 1)
	go func() {
		_, err := old.resp.Stream.Next()
		old.leaves()
		gone <- err
	}()
	c := srv.open("GET", s, "", "Last-Event-ID", last)
	if err := <-gone; err != io.EOF {
		t.Errorf("the old reader: %v", err)
	}
	f.Unasked(answer(`1`))
	c.hears(answer(`1`))
	c.ends()
}

func TestCancelledCallIsNotWaitedFor(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c, last := srv.streaming(f, s, `1`)
	c.leaves()
	srv.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	srv.open("GET", s, "", "Last-Event-ID", last).ends()
	if l := srv.lanes(s); l.Requests() != 0 {
		t.Errorf("%d lanes are left", l.Requests())
	}
}

func TestErrorInThePlaceOfTheAnswerIsReplayed(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initialize("2025-06-18")
	f := kids.child(t, 0)
	c, last := srv.streaming(f, s, `1`)
	c.leaves()
	f.lose(exited)
	kids.child(t, 1)
	c = srv.open("GET", s, "", "Last-Event-ID", last)
	if e := c.next(); !strings.Contains(string(e.Data), "being restarted") || gjson.GetBytes(e.Data, "id").Raw != "1" {
		t.Errorf("%s", e.Data)
	}
	c.ends()
}

func TestReplaysAreBounded(t *testing.T) {
	f := silentPipe()
	srv := front(t, f, func(c *config.Config) { c.Limits.ReplayBytes = 100 })
	s := srv.initialize("2025-06-18")
	l := srv.lanes(s)
	for i := range 2 * replay.MaxStreams {
		c, _ := srv.streaming(f, s, fmt.Sprint(i+1))
		c.leaves()
	}
	if l.Requests() != replay.MaxStreams {
		t.Errorf("%d lanes", l.Requests())
	}
	if n := srv.Kept.Load(); n == 0 || n > 100*replay.MaxStreams {
		t.Errorf("%d bytes are kept", n)
	}
	srv.exchange(context.Background(), "DELETE", s, "")
	eventually(t, "nothing is kept of a session that has ended", func() bool { return srv.Kept.Load() == 0 })
}

func TestWithoutReplayEventsHaveNoIDs(t *testing.T) {
	f := silentPipe()
	srv := front(t, f, func(c *config.Config) { c.Limits.Replay = 0 })
	s := srv.initialize("2025-06-18")
	c := srv.call(f, s, callTool(`1`, `1`))
	f.Unasked(progress(`1`))
	f.Unasked(answer(`1`))
	if r := <-c.reply; len(r.events) != 2 || r.ids[0] != "" {
		t.Errorf("%+v", r)
	}
}

// TestCutStreamsLoseNothing: wherever a stream is cut, and however much is in transit then, a
// client that resumes it gets every event once, in order.
func TestCutStreamsLoseNothing(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	nth := 0
	rapid.Check(t, func(rt *rapid.T) {
		nth++
		id := fmt.Sprint(nth)
		said := rapid.IntRange(0, 10).Draw(rt, "events")
		c, last := srv.streaming(f, s, id)
		var got []string
		note := func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, id, i)
		}
		sent, unseen, have := 0, 0, 0 // unseen: read from the stream, but lost in transit
		for len(got) < said+1 {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				if sent <= said {
					m := note(sent)
					if sent == said {
						m = answer(id)
					}
					f.Unasked(m)
					sent++
				}
			case 2:
				if have+unseen < sent {
					e := c.next()
					if rapid.Bool().Draw(rt, "arrives") && unseen == 0 {
						got, last, have = append(got, string(e.Data)), string(e.ID), have+1
					} else {
						unseen++
					}
				}
			case 3:
				c.leaves()
				c, unseen = srv.open("GET", s, "", "Last-Event-ID", last), 0
			}
		}
		c.ends()
		for i, m := range got {
			if want := note(i); i < said && m != want || i == said && m != answer(id) {
				rt.Fatalf("event %d is %s", i, m)
			}
		}
	})
}

// TestStreamIsResumedOverTheWire: the whole exchange, over a socket.
func TestStreamIsResumedOverTheWire(t *testing.T) {
	f := silentPipe()
	base, stop := listening(t, f)
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	do := func(method, body string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, base+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	event := func(r *bufio.Reader) (id, data string) {
		t.Helper()
		named := false
		for data == "" {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			named = named || line == "event: message\n"
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = strings.TrimSpace(v)
			}
		}
		if !named {
			t.Errorf("event without a name: %s %s", id, data)
		}
		return id, data
	}
	hello := do("POST", initialize("2025-06-18", `{}`))
	hello.Body.Close()
	session := hello.Header.Get("Mcp-Session-Id")
	go func() {
		got(t, f, "tools/call")
		f.Unasked(progress(`1`))
	}()
	res := do("POST", callTool(`1`, `1`), "Mcp-Session-Id", session)
	id, data := event(bufio.NewReader(res.Body))
	if id == "" || data != progress(`1`) {
		t.Errorf("%q %q", id, data)
	}
	res.Body.Close() // the connection breaks
	f.Unasked(answer(`1`))
	res = do("GET", "", "Mcp-Session-Id", session, "Last-Event-ID", id)
	if _, data := event(bufio.NewReader(res.Body)); data != answer(`1`) {
		t.Errorf("%q", data)
	}
	res.Body.Close()
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestPingWhileTheClientOfACallIsAway: dragoman answers it, and the client, which comes back, gets what else it was asked.
func TestPingWhileTheClientOfACallIsAway(t *testing.T) {
	f := silentPipe()
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	c, last := srv.streaming(f, s, `1`)
	id := f.lastID()
	c.leaves()
	f.Unasked(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	eventually(t, "answered", func() bool { return slices.Contains(f.sent(), `{"jsonrpc":"2.0","id":"p","result":{}}`) })
	f.Unasked(sampling)
	back := srv.open("GET", s, "", "Last-Event-ID", last)
	back.hears(sampling)
	f.Unasked(answer(id))
	back.hears(answer(`1`))
	back.ends()
}
