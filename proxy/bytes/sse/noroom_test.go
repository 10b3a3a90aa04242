package sse

import (
	"errors"
	"strings"
	"testing"
)

var errFull = errors.New("full")

// lender has buffers of up to most bytes.
type lender struct{ most, largest, out int }

func (l *lender) Take(n int) ([]byte, error) {
	if n > l.most {
		return nil, errFull
	}
	l.out++
	l.largest = max(l.largest, n)
	return make([]byte, 0, n), nil
}
func (l *lender) Put([]byte)    { l.out-- }
func (l *lender) Forget([]byte) { l.out-- }

// TestEventWithoutMemoryIsSkipped checks also that the request that it answers is known.
func TestEventWithoutMemoryIsSkipped(t *testing.T) {
	memory := &lender{most: 1 << 20}
	long := `{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("a", 3<<20) + `"}}`
	r := NewReaderIn(memory, strings.NewReader("data: before\n\nevent: message\ndata: "+long+"\n\ndata: behind\n\n"), 4<<20)
	if e, err := r.Next(); string(e.Data) != "before" {
		t.Fatalf("%q, %v", e.Data, err)
	}
	_, err := r.Next()
	skipped, ok := errors.AsType[*TooLargeError](err)
	if !ok || skipped.NoRoom != errFull || !skipped.Skipped || string(skipped.Message.ID()) != "7" {
		t.Fatalf("err = %v", err)
	}
	if e, err := r.Next(); string(e.Data) != "behind" {
		t.Fatalf("%.100q, %v", e.Data, err)
	}
	if r.Reset(nil); memory.out != 0 {
		t.Errorf("%d buffers are out at the end", memory.out)
	}
}

// TestEventAsLargeAsMayBeTakesOneLargeBuffer checks that the buffer does not grow once
// more, whatever came before the event.
func TestEventAsLargeAsMayBeTakesOneLargeBuffer(t *testing.T) {
	const limit = 4 << 20
	memory := &lender{most: 1 << 30}
	long := strings.Repeat("a", limit-len("data: "))
	r := NewReaderIn(memory, strings.NewReader("data: "+long[:300<<10]+"\n\ndata: "+long+"\n\ndata: "+long+"\n\n"), limit)
	for _, want := range []int{300 << 10, len(long), len(long)} {
		if e, err := r.Next(); len(e.Data) != want {
			t.Fatalf("%d bytes of %d, %v", len(e.Data), want, err)
		}
	}
	if memory.largest > limit+keepBuffer {
		t.Errorf("a buffer of %d bytes for an event of %d", memory.largest, limit)
	}
}
