package observe

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestChunksAreUsedAgain, and what was taken out of the ring stays as it was.
func TestChunksAreUsedAgain(t *testing.T) {
	var o Observer
	r := NewRing(plain{})
	answer := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%q}`, strings.Repeat(fmt.Sprint(n%10), 10_000+n%50_000))
	}
	send := func(from, to int) {
		detach := o.Attach("ring", r)
		for n := from; n <= to; n++ {
			one(&o, Peers{Session: "s"}, ping, answer(n))
		}
		detach()
	}
	send(1, 100)
	kept, ok := r.Detail(100)
	var all []*Message
	r.Each(0, func(_ Row, m []*Message) bool { all = append(all, m...); return true })
	if !ok || len(all) < 200 {
		t.Fatalf("%d messages", len(all))
	}
	for n := 101; n < 3000; n += 50 { // each time until the queue is empty
		send(n, n+49)
	}
	if string(kept.Messages[2].Payload) != answer(100) {
		t.Error("the text of a call that was opened has changed")
	}
	for i, m := range all {
		if m.Direction == ToClient && string(m.Raw) != answer(int(m.Call.N)) || m.Direction == ToServer && string(m.Raw) != ping {
			t.Fatalf("message %d of call %d has changed", i, m.Call.N)
		}
	}
	chunks := map[*chunk]int{}
	for _, at := range r.rows {
		if at.packed.in != nil {
			chunks[at.packed.in]++
		}
		d := at.contents()
		if want := answer(int(at.n)); len(d.messages) != 4 || string(d.messages[3].Raw) != want || !bytes.Equal(d.messages[2].Raw, []byte(want)) {
			t.Fatalf("call %d has another text", at.n)
		}
	}
	for c, users := range chunks {
		if c.calls != users {
			t.Errorf("a chunk counts %d calls of %d", c.calls, users)
		}
	}
	if most := maxBytes/chunkBytes*3/2 + maxFree; len(chunks)+len(r.memory.free) > most || len(r.memory.free) > maxFree {
		t.Errorf("%d chunks, and %d free ones", len(chunks), len(r.memory.free))
	}
}

// TestReadingWhileTheRingForgets opens, exports and watches while other calls come.
func TestReadingWhileTheRingForgets(t *testing.T) {
	var o Observer
	r := NewRing(plain{})
	detach := o.Attach("ring", r)
	answer := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 60_000) + `"}`
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range []func(){
		func() { _, last := r.Bounds(); r.Detail(last - min(last, 90)) },
		func() { r.Each(0, func(Row, []*Message) bool { return true }) },
		func() { _, last := r.Bounds(); r.Play(last-min(last, 90), new(heard)) },
		func() { w := r.Watch(0); w.Next(200); w.Close() },
	} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					read()
				}
			}
		})
	}
	for range 2000 {
		one(&o, Peers{}, ping, answer)
	}
	close(stop)
	readers.Wait()
	detach()
}
