package upstream

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// handOver sends a message that its sender does not wait for.
func handOver(t *testing.T, c *Child, w *Waiting, body []byte) *Handed {
	t.Helper()
	_, err := c.Send(t.Context(), &Outgoing{Body: body, Request: true, FirstByte: patience, Waits: w})
	h, is := err.(*Handed)
	if !is {
		t.Fatalf("sent with %v", err)
	}
	clear(body) // its memory is the sender's again
	return h
}

// becomes waits until it is known what becomes of a message.
func becomes(h *Handed) error {
	said := make(chan error, 1)
	h.Then(func(err error) { said <- err })
	return <-said
}

// TestMessagesHandedToABusyChild: their sender goes on, and they are written in order and to their end, except those that are taken
// back before any of them is written.
func TestMessagesHandedToABusyChild(t *testing.T) {
	const small, large = 5000, 200 << 10
	for _, c := range []struct {
		name    string
		size    int
		begun   bool // a part of it is written
		waits   bool // it waits behind another one
		taken   bool // it is taken back
		written bool
	}{
		{name: "next", size: small, written: true},
		{name: "next, large", size: large, written: true},
		{name: "next, taken back", size: small, taken: true},
		{name: "next, large, taken back", size: large, taken: true},
		{name: "waits", size: small, waits: true, written: true},
		{name: "waits, large", size: large, waits: true, written: true},
		{name: "waits, taken back", size: small, waits: true, taken: true},
		{name: "waits, large, taken back", size: large, waits: true, taken: true},
		{name: "begun", size: small, begun: true, written: true},
		{name: "begun, large", size: large, begun: true, written: true},
		{name: "begun, taken back", size: small, begun: true, taken: true, written: true},
		{name: "begun, large, taken back", size: large, begun: true, taken: true, written: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			child, r := fullChild(t)
			w, want := new(Waiting), ""
			if c.begun {
				if _, err := io.CopyN(io.Discard, r, 4096); err != nil { // what a pipe has room for again
					t.Fatal(err)
				}
			}
			var first *Handed
			if c.waits {
				first = handOver(t, child, w, []byte(strings.Repeat("1", small)))
				want = strings.Repeat("1", small) + "\n"
			}
			h := handOver(t, child, w, []byte(strings.Repeat("x", c.size)))
			behind := handOver(t, child, w, []byte(`{"behind":"it"}`))
			if c.taken {
				h.TakeBack()
				if !c.written {
					if err := becomes(h); err != ErrTakenBack {
						t.Errorf("taken back with %v", err)
					}
				}
			}
			if c.written {
				want += strings.Repeat("x", c.size) + "\n"
			}
			want += `{"behind":"it"}` + "\n"
			got := reads(t, child, r)
			if c.begun {
				got = strings.TrimPrefix(strings.TrimLeft(got, "f"), "\n")
			}
			if got != want {
				t.Errorf("the child got %s", describe(got))
			}
			if err := becomes(behind); err != nil {
				t.Errorf("the one behind it: %v", err)
			}
			if c.written {
				if err := becomes(h); err != nil {
					t.Error(err)
				}
			}
			if first != nil {
				if err := becomes(first); err != nil {
					t.Errorf("the first: %v", err)
				}
			}
			peertest.Eventually(t, "nothing is counted any more", func() bool { return w.bytes.Load() == 0 })
			h.TakeBack() // too late
		})
	}
}

// TestWhatIsHandedOverIsBounded: each client has its share, and a sender whose share is full waits.
func TestWhatIsHandedOverIsBounded(t *testing.T) {
	c, r := fullChild(t)
	w, other := new(Waiting), new(Waiting)
	want := ""
	for n := range 2 {
		text := strings.Repeat(fmt.Sprint(n), maxWaiting/2)
		want += text + "\n"
		handOver(t, c, w, []byte(text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*handTime)
	defer cancel()
	if _, err := c.Send(ctx, &Outgoing{Body: []byte(`{"too":"much"}`), Request: true, FirstByte: patience, Waits: w}); err != context.DeadlineExceeded {
		t.Errorf("sent with %v", err)
	}
	handOver(t, c, other, []byte(`{"of":"another"}`))
	handOver(t, c, new(Waiting), []byte(strings.Repeat("l", 2*maxWaiting)))
	want += `{"of":"another"}` + "\n" + strings.Repeat("l", 2*maxWaiting) + "\n"
	if got := reads(t, c, r); got != want {
		t.Errorf("the child got %s", describe(got))
	}
}

// TestMessagesHandedToAChildThatEnds: they fail with its end.
func TestMessagesHandedToAChildThatEnds(t *testing.T) {
	s := role("does not read")
	s.CloseGrace = 1
	c := start(t, s)
	w := new(Waiting)
	var all []*Handed
	for range 3 {
		all = append(all, handOver(t, c, w, []byte(`{"x":"`+strings.Repeat("x", 300<<10)+`"}`)))
	}
	go c.Close(context.Background())
	for _, h := range all {
		if err := becomes(h); err == nil || err == ErrTakenBack {
			t.Errorf("ended with %v", err)
		}
	}
	if n := w.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted", n)
	}
}
