package observe

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// packable returns contents that have every member that can be packed.
func packable(t *testing.T) *contents {
	t.Helper()
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	up, down := table.Between(translate.Lookup("2024-11-05"), translate.Lookup("2025-11-25")), table.Between(translate.Lookup("2025-11-25"), translate.Lookup("2024-11-05"))
	at := func(n int64) time.Time { return time.Unix(0, 1_795_000_000_000_000_000+n) }
	c := &Call{N: 7, Began: at(0), Peers: &Peers{Client: "c"}, Head: Head{wire.Request, "tools/call", "tool", `"x"`, "file:///a"}}
	long := []byte(`{"jsonrpc":"2.0","id":"x","result":"` + strings.Repeat("y", packApart) + `"}`)
	in := &Message{
		Seq: 1, Call: c, At: at(1), Edge: ClientEdge, Direction: ToServer, Kind: wire.Request, Method: "tools/call", ID: `"x"`,
		Header: []mcp.Header{{Name: "Authorization", Value: "a"}, {Name: "", Value: ""}}, Copy: Copy{Raw: []byte(ping), Size: len(ping)},
		Why: Why{up, translate.Known{Method: wire.ToolsCall, Facts: 0xffff, Stamp: &wire.Stamp{ID: []byte("1"), ClientInfo: []byte{}, Task: []byte("{}"), TTL: -5}}},
	}
	same := &Message{Seq: 2, Call: c, At: at(2), Edge: ServerEdge, Direction: ToServer, Kind: wire.Request, From: in, Copy: in.Copy}
	answer := &Message{
		Seq: 300, Call: c, At: at(3), Edge: ServerEdge, Direction: ToClient, Kind: wire.Result, Copy: Copy{Raw: long, Size: 1 << 30, Cut: true, SHA256: "5a"}, Rev: "2025-11-25",
		Losses: []wire.Loss{{Rule: "C01", What: "title", Level: 1, Count: 3, Lost: 2, Standin: true}, {}},
		Why:    Why{down, translate.Known{Method: wire.ToolsCall, Note: []byte("note")}},
	}
	out := &Message{Seq: 301, Call: c, At: at(4), Edge: ClientEdge, Direction: ToClient, Kind: wire.Result, From: answer, Copy: Copy{Raw: []byte("{}"), Size: 2}, Status: 200, Timing: &Timing{1, 2, 3}}
	lost := &Message{Seq: 302, Call: c, At: at(5), Edge: ServerEdge, Direction: ToClient, Copy: Copy{Raw: append(long, ' '), Size: len(long) + 1}}
	empty := &Message{Seq: 303, Call: c, At: at(6), Edge: ServerEdge, Direction: ToClient, Copy: Copy{Raw: []byte{}}}
	none := &Message{Seq: 304, Call: c, At: at(6)}
	return &contents{
		call: c, messages: []*Message{in, same, answer, out, lost, empty, none},
		notes: []*Note{{Call: c, At: at(4), By: Bridge, What: "w", To: ToClient, Path: "p", Detail: "d", TokensBefore: 9, TokensAfter: 1}, {Call: c, At: at(5)}},
		end:   &End{Call: c, At: at(9), Status: "ok", Cause: "dns", Timing: Timing{0, 1, 2}},
	}
}

func TestAPackedCallIsTheSame(t *testing.T) {
	want := packable(t)
	p, ok := want.pack(new(chunks))
	if !ok {
		t.Fatal("not packed")
	}
	if len(p.long) != 2 {
		t.Errorf("%d texts are apart", len(p.long))
	}
	got := p.unpack(want.call.Peers)
	got.first = want.first
	if !reflect.DeepEqual(got, want) {
		for i, m := range got.messages {
			if !reflect.DeepEqual(m, want.messages[i]) {
				t.Errorf("message %d:\n%+v\n%+v", i, m, want.messages[i])
			}
		}
		t.Errorf("%+v\n%+v", got, want)
	}
	if !got.messages[1].Unchanged() || got.messages[3].Unchanged() {
		t.Error("which texts are the same is lost")
	}
}

// TestWhatCannotBePackedStays: changes that were read from a file, and more translators than a call usually has.
func TestWhatCannotBePackedStays(t *testing.T) {
	recorded := packable(t)
	recorded.messages[0].Recorded = []translate.Change{{Rule: "C01"}}
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	many := packable(t)
	many.messages[4].Why.Translator = table.Between(translate.Lookup("2025-06-18"), translate.Lookup("2025-06-18"))
	for name, has := range map[string]*contents{"recorded": recorded, "many translators": many} {
		if _, ok := has.pack(new(chunks)); ok {
			t.Errorf("%s: packed", name)
		}
		r := NewRing(plain{})
		for _, m := range has.messages {
			r.Message(m)
		}
		r.End(has.end)
		if d, ok := r.Detail(7); !ok || len(d.Messages) != len(has.messages) || d.Row.Status != "ok" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestMessagesAfterTheEndBelongToTheCall: a late message finds the one that it was made of.
func TestMessagesAfterTheEndBelongToTheCall(t *testing.T) {
	has := packable(t)
	r := NewRing(plain{})
	for _, m := range has.messages[:3] {
		r.Message(m)
	}
	r.End(has.end)
	if r.rows[7].live != nil {
		t.Error("a call that has ended is not packed")
	}
	r.Message(has.messages[3])
	r.Note(has.notes[0])
	d, ok := r.Detail(7)
	if !ok || len(d.Messages) != 4 || len(d.Notes) != 1 || d.Messages[2].Pair != 301 || d.Messages[3].Pair != 300 || d.Row.Status != "ok" {
		t.Errorf("%+v", d)
	}
	if r.rows[7].live != nil || r.bytes != r.rows[7].bytes || r.bytes < packApart {
		t.Errorf("%d bytes, %d of the row", r.bytes, r.rows[7].bytes)
	}
}
