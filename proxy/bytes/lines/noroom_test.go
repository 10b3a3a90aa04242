package lines

import (
	"errors"
	"strings"
	"testing"
)

// little has buffers of up to 1 MiB.
type little struct{ out int }

func (l *little) Take(n int) ([]byte, error) {
	if n > 1<<20 {
		return nil, errFull
	}
	l.out++
	return make([]byte, 0, n), nil
}
func (l *little) Put([]byte)    { l.out-- }
func (l *little) Forget([]byte) { l.out-- }

// TestLineWithoutMemoryIsSkipped checks also that the request that it answers is known.
func TestLineWithoutMemoryIsSkipped(t *testing.T) {
	memory := new(little)
	long := `{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("a", 3<<20) + `"}}`
	r := NewReaderIn(memory, strings.NewReader("before\n"+long+"\nbehind\n"), 4<<20)
	if line, err := r.Next(); string(line) != "before" {
		t.Fatalf("%q, %v", line, err)
	}
	_, err := r.Next()
	skipped, ok := errors.AsType[*TooLongError](err)
	if !ok || skipped.NoRoom != errFull || string(skipped.Message.ID()) != "7" {
		t.Fatalf("err = %v", err)
	}
	if line, err := r.Next(); string(line) != "behind" {
		t.Fatalf("%.100q, %v", line, err)
	}
	if _, err := r.Next(); err == nil || memory.out != 0 {
		t.Errorf("%v, %d buffers are out at the end", err, memory.out)
	}
}

// TestLineAsLargeAsMayBeTakesOneLargeBuffer checks that the buffer does not grow once
// more, whatever came before the line.
func TestLineAsLargeAsMayBeTakesOneLargeBuffer(t *testing.T) {
	const limit = 4 << 20
	memory := &counted{}
	long := strings.Repeat("a", limit)
	r := NewReaderIn(memory, strings.NewReader(long[:300<<10]+"\n"+long+"\r\n"+long), limit)
	for _, want := range []int{300 << 10, limit, limit} {
		if line, err := r.Next(); len(line) != want {
			t.Fatalf("%d bytes of %d, %v", len(line), want, err)
		}
	}
	if memory.largest > limit+keepBuffer {
		t.Errorf("a buffer of %d bytes for a line of %d", memory.largest, limit)
	}
}

// counted has buffers of any size.
type counted struct{ largest int }

func (c *counted) Take(n int) ([]byte, error) {
	c.largest = max(c.largest, n)
	return make([]byte, 0, n), nil
}
func (*counted) Put([]byte)    {}
func (*counted) Forget([]byte) {}
