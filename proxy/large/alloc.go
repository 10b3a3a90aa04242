package large

import (
	"context"
	"runtime"
	"time"
)

// growth is how much more room an Alloc has than was asked for, so that a message in it
// can grow a little where it stands.
const growth = 4 << 10

// Alloc returns an empty buffer with room for n bytes, which are counted until nothing
// refers to it any more: the copy of a message has no single owner that could give it
// back. Up to 64 KiB are not counted. It waits for room as Hold does. A nil Memory counts
// nothing.
func (m *Memory) Alloc(ctx context.Context, wait time.Duration, c Class, n int) ([]byte, error) {
	if n <= Size || m == nil {
		return make([]byte, 0, n), nil
	}
	n += growth
	if err := m.Hold(ctx, wait, c, n); err != nil {
		return nil, err
	}
	b := make([]byte, 0, n)
	m.refer(c, b)
	return b, nil
}

// Adopt counts b, which is an allocation of its own, until nothing refers to it any more.
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

// Clone is a copy of b in an Alloc.
func (m *Memory) Clone(ctx context.Context, wait time.Duration, c Class, b []byte) ([]byte, error) {
	to, err := m.Alloc(ctx, wait, c, len(b))
	if err != nil {
		return nil, err
	}
	return append(to, b...), nil
}

// counted is what an Alloc has taken of the budget.
type counted struct {
	class Class
	bytes int64
}

// refer has the bytes of b, which are held, given back when nothing refers to it.
func (m *Memory) refer(c Class, b []byte) {
	n := int64(cap(b))
	m.referred.Add(n)
	runtime.AddCleanup(&b[:1][0], m.freed, counted{c, n})
}

func (m *Memory) freed(c counted) {
	m.referred.Add(-c.bytes)
	m.Budget.Give(c.class, c.bytes)
}
