package outbox

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestMessagesKeptBetweenRounds checks that these are the last progress and the last
// log messages.
func TestMessagesKeptBetweenRounds(t *testing.T) {
	var k Kept
	for n := range 3 * maxKept {
		k.Put(Message{Body: fmt.Appendf(nil, "log %d", n)}, wire.LogMessage)
		k.Put(Message{Body: fmt.Appendf(nil, "progress %d", n)}, wire.Progress)
	}
	list := k.Take()
	if len(list) != maxKept+1 {
		t.Fatalf("%d are kept", len(list))
	}
	for n, l := range list[:maxKept] {
		if want := fmt.Sprintf("log %d", 2*maxKept+n); string(l.Body) != want {
			t.Errorf("%q, want %q", l.Body, want)
		}
	}
	if last := list[maxKept].Body; string(last) != fmt.Sprintf("progress %d", 3*maxKept-1) {
		t.Errorf("%q", last)
	}
	if k.bytes != 0 || k.logs != 0 {
		t.Errorf("%+v is left", k)
	}
	big := Message{Body: make([]byte, maxBytes/2)}
	for range 10 {
		k.Put(big, wire.LogMessage)
	}
	if k.bytes > maxBytes {
		t.Errorf("%d bytes are kept", k.bytes)
	}
	k.Put(Message{Body: make([]byte, 2*maxBytes)}, wire.LogMessage)
	if len(k.Take()) != 1 {
		t.Error("the last word is always kept")
	}
}

// drops counts the messages that are dropped.
type drops int

func (d *drops) Dropped(string) { *d++ }

func TestOutboxIsBounded(t *testing.T) {
	b, dropped := New(), new(drops)
	b.CountBy(dropped)
	for n := range 2 * maxMessages {
		b.Put(Message{Body: fmt.Append(nil, n)})
	}
	b.Put(Message{Last: true})
	if len(b.queue) != maxMessages || !b.queue[maxMessages-1].Last {
		t.Errorf("%d wait", len(b.queue))
	}
	if *dropped != maxMessages+1 {
		t.Errorf("%d dropped messages are counted, want %d", *dropped, maxMessages+1)
	}
	for range 2 * maxMessages {
		if b.Put(Message{}) {
			t.Fatal("put behind the last one")
		}
	}
	if !b.queue[len(b.queue)-1].Last {
		t.Error("the last one has given way")
	}
	b = New()
	for range 8 {
		b.Put(Message{Body: make([]byte, maxBytes/2)})
	}
	if b.bytes > maxBytes {
		t.Errorf("%d bytes wait", b.bytes)
	}
	for range 3 {
		b.Take(context.Background())
		b.Put(Message{})
	}
	want := 0
	for _, l := range b.queue {
		want += len(l.Body)
	}
	if b.bytes != want {
		t.Errorf("%d bytes are counted, %d are there", b.bytes, want)
	}
}

// TestSenderWaitsForRoom until the client has fetched half of what is there, is not there any more, or the sender ends.
func TestSenderWaitsForRoom(t *testing.T) {
	for name, c := range map[string]struct {
		size  int // of each message
		frees func(b *Outbox, end context.CancelFunc)
	}{
		"fetched messages": {1, func(b *Outbox, _ context.CancelFunc) {
			for b.Crowded() {
				if _, _, err := b.Take(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}},
		"fetched bytes": {2 * maxBytes / maxMessages, func(b *Outbox, _ context.CancelFunc) {
			for b.Crowded() {
				if _, _, err := b.Take(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}},
		"client left":     {1, func(b *Outbox, _ context.CancelFunc) { b.Close() }},
		"the last came":   {1, func(b *Outbox, end context.CancelFunc) { b.Put(Message{Last: true}); end() }},
		"the sender ends": {1, func(_ *Outbox, end context.CancelFunc) { end() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				b := New()
				b.AwaitRoom(ctx) // an empty one has room
				for !b.Crowded() {
					b.Put(Message{Body: make([]byte, c.size)})
				}
				if n, most := len(b.queue), min(maxMessages/2, maxBytes/2/c.size)+1; n != most {
					t.Errorf("crowded by %d messages, want %d", n, most)
				}
				goes := make(chan struct{})
				go func() {
					defer close(goes)
					b.AwaitRoom(ctx)
				}()
				synctest.Wait()
				select {
				case <-goes:
					t.Error("the sender does not wait")
				default:
				}
				c.frees(b, end)
				<-goes
			})
		})
	}
}
