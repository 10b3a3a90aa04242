package replay

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// fakeCall counts how often it was ended.
type fakeCall struct {
	cancelled bool
	ended     int
}

func (c *fakeCall) Cancelled() bool { return c.cancelled }
func (c *fakeCall) End()            { c.ended++ }

func bounded(total *atomic.Int64) *Buffers[*fakeCall] {
	return New[*fakeCall](Limits{Events: 3, Bytes: 100, Age: time.Minute, Total: total, Most: 1 << 20})
}

func record(b *Buffer[*fakeCall], data ...string) {
	for _, d := range data {
		e := sse.Event{Data: []byte(d)}
		b.Record(&e, false)
	}
}

// TestBuffersAreBounded: a stream without a reader gives way to a new one, which ends its call, and one stream
// keeps only its last events.
func TestBuffersAreBounded(t *testing.T) {
	var total atomic.Int64
	bs := bounded(&total)
	calls := make([]*fakeCall, 2*MaxStreams)
	for i := range calls {
		calls[i] = new(fakeCall)
		b := bs.Begin(calls[i], func(error) {})
		record(b, "1", "22", "333", "4444")
		if !b.Detach(true) {
			t.Fatal("the call of a client that has left does not go on")
		}
	}
	ended := 0
	for _, c := range calls {
		ended += c.ended
	}
	if len(bs.all) != MaxStreams || ended != MaxStreams {
		t.Errorf("%d streams are kept, %d calls were ended", len(bs.all), ended)
	}
	if n := total.Load(); n != MaxStreams*int64(len("223334444")) {
		t.Errorf("%d bytes", n)
	}
	b := bs.Begin(new(fakeCall), func(error) {})
	record(b, "1", strings.Repeat("x", 101))
	if b.bytes != 0 {
		t.Error("an event before one that is not kept is still kept")
	}
	bs.Close()
	if total.Load() != 0 {
		t.Error("bytes are left")
	}
}

// TestNewReaderGetsWhatFollowed: a new reader ends the one before, and gets the events after the one that it
// names; it is told how many of them are lost.
func TestNewReaderGetsWhatFollowed(t *testing.T) {
	var total atomic.Int64
	bs := bounded(&total)
	var b *Buffer[*fakeCall]
	b = bs.Begin(new(fakeCall), func(error) { go b.Detach(true) })
	record(b, "1", "2", "3", "4")
	same, again, lost := bs.Find(t.Context(), "1-2", func(error) {})
	if same != b || len(again) != 2 || string(again[0].Data) != "3" || string(again[1].ID) != "1-4" || lost != 0 {
		t.Errorf("%+v, %d lost", again, lost)
	}
	b.Detach(true)
	if _, again, lost = bs.Find(t.Context(), "1-0", func(error) {}); len(again) != 3 || lost != 1 {
		t.Errorf("%+v, %d lost", again, lost)
	}
	if other, _, lost := bs.Find(t.Context(), "7-1", func(error) {}); other != nil || lost != -1 {
		t.Errorf("%d lost of an unknown stream", lost)
	}
}
