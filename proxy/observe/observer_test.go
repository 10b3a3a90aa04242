package observe

import (
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// heard is a Reader that keeps what it gets. While gate is locked, it reads nothing.
type heard struct {
	gate     sync.Mutex
	mu       sync.Mutex
	messages []*Message
	ends     []*End
	notes    []*Note
	dropped  uint64
}

func (h *heard) add(f func()) {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *heard) Message(m *Message) { h.add(func() { h.messages = append(h.messages, m) }) }
func (h *heard) Note(n *Note)       { h.add(func() { h.notes = append(h.notes, n) }) }
func (h *heard) End(e *End)         { h.add(func() { h.ends = append(h.ends, e) }) }
func (h *heard) Session(*Session)   {}
func (h *heard) Stderr(*Stderr)     {}
func (h *heard) Gap(n uint64)       { h.add(func() { h.dropped += n }) }

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// TestNobodyWatchesNothingAllocated goes through every hook of a call without a reader.
func TestNobodyWatchesNothingAllocated(t *testing.T) {
	var o Observer
	raw := []byte(ping)
	if n := testing.AllocsPerRun(100, func() {
		kept := o.Keep(raw)
		if kept.Raw != nil {
			t.Fatal("copied")
		}
		var c *Call
		if o.Watched() {
			c = o.Begin(&Peers{}, kept, false)
		}
		if m := c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: kept}); m != nil {
			t.Fatal("observed")
		}
		c.Went(ServerEdge, ToServer, raw)
		c.Note(Note{By: Cache})
		c.End("ok", "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if o.Begin(&Peers{}, Copy{Raw: raw}, false) != nil {
		t.Error("a call without a reader")
	}
}

func TestReadersGetCallsInOrder(t *testing.T) {
	var o Observer
	var a, b heard
	detachA, detachB := o.Attach("a", &a), o.Attach("b", &b)
	raw := []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo"}}`)
	c := o.Begin(&Peers{ClientRevision: "2024-11-05", ServerRevision: "2025-11-25", ServerTransport: "stdio"}, o.Keep(raw), false)
	in := c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep(raw)})
	out := c.Went(ServerEdge, ToServer, raw)
	answer := c.Came(Message{Edge: ServerEdge, Direction: ToClient, Method: "tools/call", Copy: o.Keep([]byte(`{"jsonrpc":"2.0","id":"x","result":{}}`))})
	c.Note(Note{By: Cache})
	c.End("ok", "")
	c.End("failed", "")
	detachA()
	detachB()
	if o.Watched() {
		t.Error("watched after the last reader has left")
	}
	if c.Kind != wire.Request || c.Method != "tools/call" || c.Tool != "echo" || c.ID != `"x"` {
		t.Errorf("%+v", c)
	}
	for _, h := range []*heard{&a, &b} {
		if len(h.messages) != 3 || h.messages[0] != in || h.messages[1] != out || h.messages[2] != answer || len(h.notes) != 1 || len(h.ends) != 1 || h.ends[0].Status != "ok" {
			t.Errorf("%+v", h)
		}
	}
	if in.Seq >= out.Seq || out.Seq >= answer.Seq {
		t.Error("not in order")
	}
	if out.From != in || &out.Raw[0] != &in.Raw[0] {
		t.Error("equal bytes are stored twice")
	}
	if answer.Kind != wire.Result || answer.Revision() != "2025-11-25" || answer.Transport() != "stdio" || out.Method != "tools/call" {
		t.Errorf("%+v", answer)
	}
}

func TestSlowReaderLosesEventsAndIsTold(t *testing.T) {
	lost := 0
	o := Observer{Lost: func(reader string) {
		if reader != "slow" {
			t.Errorf("%s has lost an event", reader)
		}
		lost++
	}}
	var slow heard
	slow.gate.Lock()
	detach := o.Attach("slow", &slow)
	big := []byte(`{"jsonrpc":"2.0","method":"` + strings.Repeat("n", maxWhole-100) + `"}`)
	const sent = 3 * queueBytes / maxWhole
	for range sent { // never waits, although the reader does not read
		c := o.Begin(&Peers{}, o.Keep(big), true)
		c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: o.Keep(big)})
	}
	slow.gate.Unlock()
	detach()
	if lost == 0 || uint64(lost) != slow.dropped || len(slow.messages)+lost != sent {
		t.Errorf("%d sent, %d read, %d lost, told %d", sent, len(slow.messages), lost, slow.dropped)
	}
	if len(slow.messages) > queueBytes/maxWhole+1 {
		t.Errorf("%d messages waited", len(slow.messages))
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	var o Observer
	var h heard
	detach := o.Attach("h", &h)
	big := []byte(`{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", maxWhole) + `"}`)
	c := o.Begin(&Peers{}, o.Keep([]byte(ping)), false)
	in := c.Came(Message{Edge: ServerEdge, Direction: ToClient, Copy: o.Keep(big)})
	out := c.Went(ClientEdge, ToClient, big)
	detach()
	if !in.Cut || in.Size != len(big) || len(in.Raw) != maxCut || len(in.SHA256) != 64 || in.Kind != wire.Result || in.ID != "7" {
		t.Errorf("%d bytes kept of %d: %+v", len(in.Raw), in.Size, in.Kind)
	}
	if &out.Raw[0] != &in.Raw[0] {
		t.Error("equal bytes are stored twice")
	}
	if e, err := in.Explain(); err != nil || e.Changes != nil {
		t.Errorf("%v %v", e, err)
	}
}

// TestHeadKeepsNoReference to the message, whose memory another one uses next: also if there is only an id or only a tool.
func TestHeadKeepsNoReference(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"of a list","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"of a call","method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"acme/own"}`,
		`{"jsonrpc":"2.0","id":"of a result","result":{}}`,
	} {
		raw := []byte(text)
		var m wire.Message
		if err := m.Scan(raw, nil); err != nil {
			t.Fatal(err)
		}
		got := HeadOf(&m)
		want := Head{Kind: got.Kind, Method: strings.Clone(got.Method), Tool: strings.Clone(got.Tool), ID: strings.Clone(got.ID)}
		clear(raw)
		if got != want {
			t.Errorf("%s: %+q, and after the next message %+q", text, want, got)
		}
	}
}
