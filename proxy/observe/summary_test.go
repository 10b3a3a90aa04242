package observe

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// manyCalls makes calls through an observer whose reader wants one a second with its messages. The rows of those after the
// first five are summaries.
func manyCalls(t *testing.T, calls int, do func(o *Observer, n int)) *Ring {
	t.Helper()
	var o Observer
	r := NewRing(plain{})
	detach := o.AttachWithin(Bounds{Queue: queueBytes, Calls: 1}, "ring", r)
	for n := range calls {
		do(&o, n+1)
	}
	detach()
	return r
}

// TestASummarizedCallHasTheSameRow as one whose messages are kept.
func TestASummarizedCallHasTheSameRow(t *testing.T) {
	p := &Peers{Session: "s", Client: "c 1", ClientRevision: "2025-06-18", ServerRevision: "2025-11-25"}
	const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
	call := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tool"}}`, n)
	}
	for name, c := range map[string]struct {
		answer, got string // of the server, and as the client gets it
		status      string
		more        func(o *Observer, c *Call)
		messages    int // that are kept of a summarized call
	}{
		"result":      {`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text"}]}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "ok", nil, 0},
		"error":       {`{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no hunter2"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no hunter2"}}`, "error", nil, 1},
		"tool error":  {`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"too bad"}],"isError":true}}`, "tool_error", nil, 1},
		"long result": {`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 2*maxWhole) + `"}`, pong, "ok", nil, 0},
		"notes": {pong, pong, "ok", func(_ *Observer, c *Call) {
			c.Note(Note{By: Transform, TokensBefore: 9, TokensAfter: 2})
			c.Note(Note{By: Cache})
			c.Note(Note{By: Cache})
		}, 0},
		"progress": {pong, pong, "ok", func(o *Observer, c *Call) {
			raw := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
			c.Came(Message{Edge: ServerEdge, Direction: ToClient, Kind: wire.Notification, Copy: c.KeepAnswer(raw)})
			c.Went(ClientEdge, ToClient, raw)
		}, 0},
		"has been asked": {pong, pong, "ok", func(o *Observer, c *Call) {
			c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: c.KeepAnswer([]byte(question))})
			c.Went(ClientEdge, ToClient, []byte(question))
			c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(`{"jsonrpc":"2.0","id":"q","result":{}}`))})
			c.Went(ServerEdge, ToServer, []byte(`{"jsonrpc":"2.0","id":"q","result":{}}`))
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			losses := []wire.Loss{{Rule: "C01", What: "title", Level: wire.Warn, Count: 3, Lost: 2}}
			r := manyCalls(t, 10, func(o *Observer, n int) {
				raw := []byte(call(n))
				first := o.KeepFirst(raw)
				var m wire.Message
				if err := m.Scan(raw, nil); err != nil {
					t.Fatal(err)
				}
				k := o.BeginWith(p, first, HeadOf(&m), false)
				k.Came(Message{Edge: ClientEdge, Direction: ToServer, Kind: wire.Request, Method: k.Method, Copy: first})
				k.Went(ServerEdge, ToServer, raw)
				if c.more != nil {
					c.more(o, k)
				}
				kind := wire.Result
				if c.status == "error" {
					kind = wire.Error
				}
				k.Came(Message{Edge: ServerEdge, Direction: ToClient, Kind: kind, Copy: k.KeepAnswer([]byte(c.answer))})
				k.Went(ClientEdge, ToClient, []byte(c.got), losses...)
				k.End(c.status, "")
			})
			whole, ok := r.Detail(1)
			if !ok || whole.Short {
				t.Fatalf("%+v", whole)
			}
			short, ok := r.Detail(9)
			if !ok || !short.Short || len(short.Messages) != c.messages {
				t.Fatalf("%d messages, short %v", len(short.Messages), short.Short)
			}
			want, got := whole.Row, short.Row
			if got.N != 9 || got.ID != "9" || got.Method != "tools/call" || got.Tool != "tool" || got.MS == nil {
				t.Errorf("%+v", got)
			}
			got.N, got.ID, got.At, got.MS = want.N, want.ID, want.At, want.MS
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\n%+v\nwant\n%+v", got, want)
			}
			if lost := r.Losses(); len(lost) != 1 || lost[0].Count != 20 || lost[0].Changed != 10 {
				t.Errorf("%+v", lost)
			}
			if s := r.Totals().Sessions; len(s) != 1 || s[0].Calls != 10 || s[0].Open != 0 || s[0].Asking != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestASummarizedCallHasItsTimes lets time pass in every place.
func TestASummarizedCallHasItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := manyCalls(t, 7, func(o *Observer, n int) {
			first := o.KeepFirst([]byte(ping))
			c := o.BeginWith(&Peers{}, first, Head{Kind: wire.Request, Method: "ping"}, false)
			c.Came(Message{Edge: ClientEdge, Direction: ToServer, Kind: wire.Request, Copy: first})
			c.Went(ServerEdge, ToServer, []byte(ping))
			time.Sleep(3 * time.Millisecond)
			c.Came(Message{Edge: ServerEdge, Direction: ToClient, Kind: wire.Result, Copy: c.KeepAnswer([]byte(pong))})
			time.Sleep(time.Millisecond)
			c.Went(ClientEdge, ToClient, []byte(pong))
			c.End("ok", "")
		})
		d, _ := r.Detail(7)
		if !d.Short || *d.Row.MS != (RowMS{0, 1, 3}) {
			t.Errorf("%+v", d.Row.MS)
		}
	})
}

// TestAReaderOfAllGetsAll while another one can do with less.
func TestAReaderOfAllGetsAll(t *testing.T) {
	var o Observer
	var all heard
	detachLess, detachAll := o.AttachWithin(Bounds{Queue: queueBytes, Calls: 1, Long: 1}, "less", NewRing(plain{})), o.Attach("all", &all)
	long := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 2*longMessage) + `"}`)
	for range 20 {
		first := o.KeepFirst([]byte(ping))
		c := o.BeginWith(&Peers{}, first, Head{Kind: wire.Request}, false)
		c.Came(Message{Edge: ClientEdge, Direction: ToServer, Kind: wire.Request, Copy: first})
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Kind: wire.Result, Copy: c.KeepAnswer(long)})
	}
	detachAll()
	detachLess()
	if len(all.messages) != 40 || all.messages[39].Cut || len(all.messages[39].Raw) != len(long) {
		t.Errorf("%d messages", len(all.messages))
	}
}

// TestLongMessagesAreCutWhileManyCome: the first are whole, and so are short ones; what came later is whole again.
func TestLongMessagesAreCutWhileManyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Observer
		r := NewRing(plain{})
		detach := o.AttachWithin(Bounds{Queue: queueBytes, Long: 1 << 20}, "ring", r)
		long := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 64<<10) + `"}`)
		for range 10 {
			one(&o, Peers{}, ping, string(long))
		}
		time.Sleep(time.Second)
		one(&o, Peers{}, ping, string(long))
		detach()
		var whole, cut []uint64
		for n := range uint64(11) {
			d, ok := r.Detail(n + 1)
			if !ok || len(d.Messages) != 4 || d.Messages[0].Cut || d.Messages[2].Size != len(long) || d.Messages[3].Size != len(long) || d.Row.Bytes.Before != len(long) {
				t.Fatalf("%+v", d)
			}
			switch m := d.Messages[2]; {
			case m.Cut && m.SHA256 == "" && len(m.Text) == longMessage && !m.Same && m.Kind == "response" && m.Unexplained == 0:
				cut = append(cut, n+1)
			case !m.Cut && m.Same && m.Payload != nil:
				whole = append(whole, n+1)
			default:
				t.Errorf("%d: cut %v to %d bytes, same %v, %d unexplained", n, m.Cut, len(m.Text), m.Same, m.Unexplained)
			}
		}
		if fmt.Sprint(whole) != "[1 2 3 4 11]" || fmt.Sprint(cut) != "[5 6 7 8 9 10]" {
			t.Errorf("whole %v, cut %v", whole, cut)
		}
	})
}
