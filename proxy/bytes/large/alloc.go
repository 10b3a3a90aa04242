package large

import (
	"context"
	"runtime"
	"time"
)

// Growth is the number of bytes that a large message should be able to grow by in its buffer: translation lets nearly
// every message grow by less. Alloc adds it to the requested size.
const Growth = 4 << 10

// Alloc returns an empty buffer with room for n bytes. It counts them against the budget
// until nothing refers to the buffer any more, because the copy of a message has no
// single owner that could give it back. It does not count buffers of up to 64 KiB. It
// waits for room as Hold does. A nil Memory counts nothing.
func (m *Memory) Alloc(ctx context.Context, wait time.Duration, c Class, n int) ([]byte, error) {
	if n <= Size || m == nil {
		return make([]byte, 0, n), nil
	}
	n += Growth
	if err := m.Hold(ctx, wait, c, n); err != nil {
		return nil, err
	}
	b := make([]byte, 0, n)
	m.refer(c, b)
	return b, nil
}

// Adopt counts b, which must be an allocation of its own, against the budget until
// nothing refers to b any more. It waits for room as Hold does.
func (m *Memory) Adopt(ctx context.Context, wait time.Duration, c Class, b []byte) error {
	if cap(b) <= Size || m == nil {
		return nil
	}
	if err := m.Hold(ctx, wait, c, cap(b)); err != nil {
		return err
	}
	m.refer(c, b)
	return nil
}

// Clone returns a copy of b in a buffer from Alloc.
func (m *Memory) Clone(ctx context.Context, wait time.Duration, c Class, b []byte) ([]byte, error) {
	to, err := m.Alloc(ctx, wait, c, len(b))
	if err != nil {
		return nil, err
	}
	return append(to, b...), nil
}

// counted describes the bytes of the budget that one buffer of Alloc or Adopt holds.
type counted struct {
	class Class
	bytes int64
}

// refer arranges that the bytes of b, which are held already, are given back when nothing
// refers to b any more.
func (m *Memory) refer(c Class, b []byte) {
	n := int64(cap(b))
	m.referred.Add(n)
	runtime.AddCleanup(&b[:1][0], m.freed, counted{c, n})
}

func (m *Memory) freed(c counted) {
	m.referred.Add(-c.bytes)
	m.Budget.Give(c.class, c.bytes)
}
