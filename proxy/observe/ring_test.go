package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// plain is a Redactor that strikes out one word.
type plain struct{}

const secret = "hunter2"

func (plain) Payload(_, _ string, raw []byte) []byte {
	return []byte(strings.ReplaceAll(string(raw), secret, "…"))
}
func (plain) Header(name, value string) (string, bool) { return value, name != "Authorization" }
func (plain) Text(text string) string                  { return strings.ReplaceAll(text, secret, "…") }
func (plain) Cut(_, _ string, raw []byte) string {
	return strings.ReplaceAll(string(raw), secret, "…")
}

// observed returns a ring that has seen what do does.
func observed(t *testing.T, do func(*Observer)) *Ring {
	t.Helper()
	var o Observer
	r := NewRing(plain{})
	detach := o.Attach("ring", r)
	do(&o)
	detach()
	return r
}

// one carries a call through o, from its request to its end.
func one(o *Observer, p Peers, request, response string) *Call {
	c := o.Begin(&p, o.Keep([]byte(request)), false)
	c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(request))})
	c.Went(ServerEdge, ToServer, []byte(request))
	c.Came(Message{Edge: ServerEdge, Direction: ToClient, Method: c.Method, Copy: o.Keep([]byte(response))})
	c.Went(ClientEdge, ToClient, []byte(response))
	c.End("ok", "")
	return c
}

const pong = `{"jsonrpc":"2.0","id":1,"result":{}}`

// TestDetailExplainsATranslation translates a list of tools and asks why it changed.
func TestDetailExplainsATranslation(t *testing.T) {
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	down := table.Between(translate.Lookup("2025-11-25"), translate.Lookup("2024-11-05"))
	const request = `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`
	const list = `{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"t","title":"hunter2","inputSchema":{"type":"object"}}]}}`
	r := observed(t, func(o *Observer) {
		p := Peers{Session: "s", Client: "cursor 0.41", ClientRevision: "2024-11-05", ServerRevision: "2025-11-25", ClientTransport: "http", ServerTransport: "stdio"}
		c := o.Begin(&p, o.Keep([]byte(request)), false)
		c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(request)), Header: []mcp.Header{{Name: "Authorization", Value: secret}, {Name: "Mcp-Method", Value: "x"}}})
		c.Went(ServerEdge, ToServer, []byte(request))
		kept := o.Keep([]byte(list))
		m := wire.Message{}
		if err := m.Scan([]byte(list), down.Shape()); err != nil {
			t.Fatal(err)
		}
		m.Method = wire.ToolsList
		out, _, err := down.Rewrite(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Method: "tools/list", Copy: kept, Losses: m.Losses, Why: Why{down, translate.Known{Method: wire.ToolsList}}})
		out = []byte(strings.Replace(string(out), `"tools":[`, `"tools":[{"name":"ours"},`, 1))
		c.Note(Note{By: OwnTools, What: "added", Path: "result.tools", To: ToClient})
		c.Went(ClientEdge, ToClient, out)
		c.End("ok", "")
	})
	if s := r.Totals().Sessions; len(s) != 1 || fmt.Sprint(s[0].Rules) != "[C01]" {
		t.Errorf("before its call is opened: %+v", s)
	}
	d, ok := r.Detail(1)
	if !ok {
		t.Fatal("no such call")
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("a secret is shown: %s", text)
	}
	checkCompare(t, r, &d)
	got := gjson.ParseBytes(text)
	for path, want := range map[string]string{
		"messages.#":                  "4",
		"messages.0.headers":          `{"Mcp-Method":"x"}`,
		"messages.0.same":             "true",
		"messages.1.same":             "true",
		"messages.1.payload":          "",
		"messages.1.pair":             "1",
		"messages.2.pair":             "4",
		"messages.3.pair":             "3",
		"messages.2.rev":              "2025-11-25",
		"messages.3.rev":              "2024-11-05",
		"messages.2.kind":             "response",
		"messages.2.changes.#":        "2",
		"messages.2.changes.0.rule":   "C01",
		"messages.2.changes.0.before": "result.tools[0].title",
		"messages.2.changes.1.rule":   "own_tools",
		"messages.2.changes.1.change": "added",
		"messages.2.changes.1.after":  "result.tools[0]",
		"messages.2.unexplained":      "",
		"row.rules":                   `["C01"]`,
		"row.by":                      `["own_tools"]`,
		"row.losses":                  `[{"rule":"C01","what":"title","count":1}]`,
		"row.id":                      "a",
		"row.status":                  "ok",
	} {
		if g := got.Get(path); g.String() != want {
			t.Errorf("%s: %s, want %s", path, g, want)
		}
	}
	if !strings.HasPrefix(d.Golden, "# C01 · seen") || !strings.Contains(d.Golden, "\nfrom: 2025-11-25\nto: 2024-11-05\nkind: result\nmethod: tools/list\n-- in --\n{") {
		t.Errorf("golden case:\n%s", d.Golden)
	}
	if list := r.Losses(); len(list) != 1 || list[0].Example != 1 || list[0].Does == "" || list[0].Count != 1 || list[0].Changed != 0 {
		t.Errorf("%+v", list)
	}
	if s := r.Totals().Sessions; len(s) != 1 || s[0].Calls != 1 || s[0].Open != 0 || s[0].P95 <= 0 || fmt.Sprint(s[0].Rules) != "[C01]" {
		t.Errorf("%+v", s)
	}
}

// checkCompare lays out the messages of that call beside each other.
func checkCompare(t *testing.T, r *Ring, d *Detail) {
	t.Helper()
	for i := range d.Messages {
		m := &d.Messages[i]
		c, ok := r.Compare(1, m.Seq)
		text := shows(c)
		switch response := m.Kind == "response"; {
		case !ok || strings.Contains(text, secret):
			t.Errorf("message %d: %v\n%s", i, ok, text)
		case response != c.Two, !response && c.Differences > 0:
			t.Errorf("message %d is beside another one: %v\n%s", i, c.Two, text)
		case response && (c.Unexplained != 0 || c.Differences != 2 || !strings.Contains(text, `title: "…" |  [C01]`) || !strings.Contains(text, `| { "name": "ours" } [own_tools]`)):
			t.Errorf("%d differences, %d without an explanation:\n%s", c.Differences, c.Unexplained, text)
		}
	}
	if _, ok := r.Compare(1, 4711); ok {
		t.Error("there is a message 4711")
	}
	if _, ok := r.Compare(2, d.Messages[0].Seq); ok {
		t.Error("there is a call 2")
	}
}

// TestPastKeepsSessions plays a session that has ended long ago, as from a recording.
func TestPastKeepsSessions(t *testing.T) {
	p := Peers{Session: "s", Client: "cursor 0.41", ServerRevision: "2025-11-25"}
	ended := &Session{Peers: p, At: time.Now().Add(-time.Hour), Ended: true}
	for _, c := range []struct {
		ring *Ring
		want int
	}{{NewRing(plain{}), 0}, {NewPast(plain{}), 2}} {
		var o Observer
		detach := o.Attach("ring", c.ring)
		one(&o, p, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, pong)
		detach()
		c.ring.sessions.of(&Peers{Client: "modern", ServerRevision: "2026-07-28"}, time.Now().Add(-time.Hour))
		c.ring.Session(&Session{Peers: Peers{Client: "cursor 0.41"}, At: time.Now().Add(-time.Hour)})
		c.ring.Session(ended)
		if got := c.ring.Totals().Sessions; len(got) != c.want {
			t.Errorf("%+v, want %d", got, c.want)
		}
	}
}

// TestEachSince reads only what has changed.
func TestEachSince(t *testing.T) {
	var o Observer
	r := NewRing(plain{})
	detach := o.Attach("ring", r)
	numbers := func(since uint64) (all []uint64, until uint64) {
		until = r.Each(since, func(row Row, _ []*Message) bool {
			all = append(all, row.N)
			return true
		})
		return all, until
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	one(&o, Peers{}, ping, pong)
	late := o.Begin(&Peers{}, o.Keep([]byte(ping)), false)
	late.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(ping))})
	detach()
	all, until := numbers(0)
	if fmt.Sprint(all) != "[1 2]" {
		t.Errorf("%v", all)
	}
	if all, again := numbers(until); all != nil || again != until {
		t.Errorf("%v, %d after %d", all, again, until)
	}
	r.End(&End{Call: late, At: time.Now(), Status: "ok"})
	if all, _ := numbers(until); fmt.Sprint(all) != "[2]" {
		t.Errorf("%v", all)
	}
}

// TestUnexplainedDifferences changes a message behind the translation's back.
func TestUnexplainedDifferences(t *testing.T) {
	r := observed(t, func(o *Observer) {
		c := o.Begin(&Peers{}, o.Keep([]byte(ping)), false)
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: o.Keep([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1,"b":[1,2],"c":{"d":1}}}`))})
		c.Went(ClientEdge, ToClient, []byte(`{"jsonrpc":"2.0","id":1,"result":{"b":[1,3,4],"c":{"d":1.0},"e":0}}`))
	})
	d, _ := r.Detail(1)
	if got := d.Messages[0].Unexplained; got != 4 { // a, b[1], b[2] and e
		t.Errorf("%d unexplained differences", got)
	}
}

func TestRowsSayHowACallEnds(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":9,"method":"roots/list"}`
	const answer = `{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}`
	const failed = `{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no hunter2"}}`
	for name, c := range map[string]struct {
		do     func(*Observer, *Call)
		status string
		more   func(Row) bool
	}{
		"open":   {func(*Observer, *Call) {}, "open", func(r Row) bool { return r.MS == nil }},
		"asking": {func(o *Observer, c *Call) { c.Went(ClientEdge, ToClient, []byte(question)) }, "asking", nil},
		"has been asked": {func(o *Observer, c *Call) {
			c.Went(ClientEdge, ToClient, []byte(question))
			c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(answer))})
		}, "open", nil},
		"error": {func(o *Observer, c *Call) {
			c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: o.Keep([]byte(failed))})
			c.Went(ClientEdge, ToClient, []byte(failed))
			c.End("error", "")
		}, "error", func(r Row) bool {
			return r.Code == -5 && r.Error == "no …" && *r.Bytes == RowSize{len(failed), len(failed)}
		}},
		"failed": {func(o *Observer, c *Call) { c.End("failed", "dns") }, "failed", func(r Row) bool { return r.Cause == "dns" && r.Error == "dns" }},
		"tokens": {func(o *Observer, c *Call) {
			c.Note(Note{By: Transform, What: "tokens", TokensBefore: 10, TokensAfter: 3})
		}, "open", func(r Row) bool { return *r.Tokens == RowSize{10, 3} && fmt.Sprint(r.By) == "[transform]" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := observed(t, func(o *Observer) {
				call := o.Begin(&Peers{}, o.Keep([]byte(ping)), false)
				call.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(ping))})
				c.do(o, call)
			})
			d, _ := r.Detail(1)
			if d.Row.Status != c.status || c.more != nil && !c.more(d.Row) {
				t.Errorf("%+v", d.Row)
			}
		})
	}
}

func TestRingIsBounded(t *testing.T) {
	t.Run("rows", func(t *testing.T) {
		r := NewRing(plain{})
		w := r.Watch(0)
		defer w.Close()
		p := Peers{}
		for n := range uint64(maxRows + 50) {
			c := &Call{N: n + 1, Peers: &p}
			r.Message(&Message{Call: c, Copy: Copy{Raw: []byte(ping), Size: len(ping)}, Edge: ClientEdge, Direction: ToServer})
			r.End(&End{Call: c}) // a call that has not ended takes more
		}
		first, last := r.Bounds()
		if first != 51 || last != maxRows+50 || r.Totals().Ring.Rows != maxRows {
			t.Errorf("%d to %d, %+v", first, last, r.Totals().Ring)
		}
		rows, missed := w.Next(200)
		if missed != 50 || len(rows) != 200 || rows[0].N != 51 {
			t.Errorf("%d missed, %d rows", missed, len(rows))
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := NewRing(plain{})
		for n := range uint64(100) {
			r.Message(&Message{Call: &Call{N: n + 1}, Copy: Copy{Raw: make([]byte, maxWhole), Size: maxWhole}, Edge: ClientEdge, Direction: ToServer})
		}
		if size := r.Totals().Ring; size.Bytes > maxBytes || size.Rows < 4 {
			t.Errorf("%+v", size)
		}
	})
	t.Run("changes of one row", func(t *testing.T) {
		r := NewRing(plain{})
		c := &Call{N: 1}
		for range 10 * maxRows {
			r.Message(&Message{Call: c, Edge: ClientEdge, Direction: ToServer})
		}
		if len(r.history) > 4*maxRows || len(r.rows[1].live.messages) != maxParts {
			t.Errorf("%d changes, %d messages", len(r.history), len(r.rows[1].live.messages))
		}
	})
}

func TestWatchReadsEachRowAgainWhenItChanges(t *testing.T) {
	r := NewRing(plain{})
	calls := []*Call{{N: 1}, {N: 2}, {N: 3}}
	message := func(c *Call) {
		r.Message(&Message{Call: c, Copy: Copy{Raw: []byte(ping), Size: len(ping)}, Edge: ClientEdge, Direction: ToServer})
	}
	numbers := func(w *Watch, max int) (all []uint64) {
		rows, _ := w.Next(max)
		for _, row := range rows {
			all = append(all, row.N)
		}
		return all
	}
	expect := func(w *Watch, max int, want ...uint64) {
		t.Helper()
		if got := numbers(w, max); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("rows %v, want %v", got, want)
		}
	}
	w := r.Watch(0)
	message(calls[0])
	message(calls[1])
	expect(w, 10, 1, 2)
	expect(w, 10)
	message(calls[0])
	message(calls[0])
	message(calls[2])
	expect(w, 1, 1)
	expect(w, 10, 3)
	expect(r.Watch(3), 10, 3)
	expect(r.Watch(2), 10, 2, 1, 3) // the first has changed since the second came
	expect(r.Watch(99), 10, 2, 1, 3)
	r.Gap(5)
	if _, missed := w.Next(10); missed != 5 {
		t.Errorf("%d missed", missed)
	}
	w.Close()
	if len(r.watches) != 3 {
		t.Error("a closed watch is kept")
	}
}

// TestTimesAreThoseOfTheWaits lets time pass in every place of a call in which the client is asked something.
func TestTimesAreThoseOfTheWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Observer
		var h heard
		detach := o.Attach("h", &h)
		work := func() { time.Sleep(time.Millisecond) }
		question, answer := []byte(`{"jsonrpc":"2.0","id":9,"method":"roots/list"}`), []byte(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		c := o.Begin(&Peers{}, o.Keep([]byte(ping)), false)
		c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(ping))})
		work()
		c.Went(ServerEdge, ToServer, []byte(ping))
		time.Sleep(time.Second)
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: o.Keep(question)})
		work()
		c.Went(ClientEdge, ToClient, question)
		time.Sleep(time.Minute)
		c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep(answer)})
		work()
		c.Went(ServerEdge, ToServer, answer)
		time.Sleep(time.Second)
		kept := o.Keep([]byte(pong))
		work() // the translation, before the message is added
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: kept})
		last := c.Went(ClientEdge, ToClient, []byte(pong))
		c.End("ok", "")
		detach()
		want := Timing{Client: time.Minute, Proxy: 4 * time.Millisecond, Server: 2 * time.Second}
		if *last.Timing != want || h.ends[0].Timing != want {
			t.Errorf("%+v and %+v, want %+v", *last.Timing, h.ends[0].Timing, want)
		}
	})
}
