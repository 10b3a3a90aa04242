package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestWhatIsKeptBetweenRounds: how far things have come, and the last log messages.
func TestWhatIsKeptBetweenRounds(t *testing.T) {
	var k meanwhile
	for n := range 3 * maxKept {
		k.put(letter{body: fmt.Appendf(nil, "log %d", n)}, wire.LogMessage)
		k.put(letter{body: fmt.Appendf(nil, "progress %d", n)}, wire.Progress)
	}
	list := k.take()
	if len(list) != maxKept+1 {
		t.Fatalf("%d are kept", len(list))
	}
	for n, l := range list[:maxKept] {
		if want := fmt.Sprintf("log %d", 2*maxKept+n); string(l.body) != want {
			t.Errorf("%q, want %q", l.body, want)
		}
	}
	if last := list[maxKept].body; string(last) != fmt.Sprintf("progress %d", 3*maxKept-1) {
		t.Errorf("%q", last)
	}
	if k.bytes != 0 || k.logs != 0 {
		t.Errorf("%+v is left", k)
	}
	big := letter{body: make([]byte, maxLetterBytes/2)}
	for range 10 {
		k.put(big, wire.LogMessage)
	}
	if k.bytes > maxLetterBytes {
		t.Errorf("%d bytes are kept", k.bytes)
	}
	k.put(letter{body: make([]byte, 2*maxLetterBytes)}, wire.LogMessage)
	if len(k.take()) != 1 {
		t.Error("the last word is always kept")
	}
}

func TestMailboxIsBounded(t *testing.T) {
	b := newMailbox()
	for n := range 2 * maxLetters {
		b.put(letter{body: fmt.Append(nil, n)})
	}
	b.put(letter{last: true})
	if len(b.queue) != maxLetters || !b.queue[maxLetters-1].last {
		t.Errorf("%d wait", len(b.queue))
	}
	for range 2 * maxLetters {
		if b.put(letter{}) {
			t.Fatal("put behind the last one")
		}
	}
	if !b.queue[len(b.queue)-1].last {
		t.Error("the last one has given way")
	}
	b = newMailbox()
	for range 8 {
		b.put(letter{body: make([]byte, maxLetterBytes/2)})
	}
	if b.bytes > maxLetterBytes {
		t.Errorf("%d bytes wait", b.bytes)
	}
	for range 3 {
		b.next(context.Background())
		b.put(letter{})
	}
	want := 0
	for _, l := range b.queue {
		want += len(l.body)
	}
	if b.bytes != want {
		t.Errorf("%d bytes are counted, %d are there", b.bytes, want)
	}
}

// TestNothingIsLostOnASlowClient: its server waits, whoever may be asked in the call.
func TestNothingIsLostOnASlowClient(t *testing.T) {
	const many = 20 * maxLetters
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			var events []string
			for n := range many {
				events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%s","progress":%d}}`, id, n))
			}
			return one(append(events, result(id, `"content":[]`))...)
		})
		f.noGet = true
		srv := front(t, f)
		r := srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(capabilities, `"progressToken":"tk"`)))
		if len(r.events) != many+1 {
			t.Fatalf("%d events of %d", len(r.events), many+1)
		}
		for n, e := range r.events[:many] {
			if gjson.Get(e, "params.progress").Int() != int64(n) {
				t.Fatalf("event %d is %s", n, e)
			}
		}
		if !strings.Contains(r.events[many], `"complete"`) {
			t.Error(r.events[many])
		}
	}
}

// TestCallIsGivenUpWhileItsServerWaits for a client that fetches nothing.
func TestCallIsGivenUpWhileItsServerWaits(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		var events []string
		for n := range 2 * maxLetters {
			events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%s","progress":%d}}`, id, n))
		}
		return one(append(events, hang)...)
	})
	f.noGet = true
	srv := front(t, f)
	body := modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{"elicitation":{}}`, `"progressToken":"tk"`))
	_, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		t.Fatal("no stream")
	}
	resp.Stream.Close()
	resp.Done()
	eventually(t, "the server is told", func() bool { return len(f.said("notifications/cancelled")) == 1 })
}
