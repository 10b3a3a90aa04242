package httpcall

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
)

// Memory bounds what all answers have in memory together, from the connection to the API until the caller has its result. Each
// of its methods waits for room. The bytes count until nothing refers to them any more.
type Memory interface {
	// Body returns an empty buffer for n bytes of a body.
	Body(ctx context.Context, n int) ([]byte, error)
	// Copy returns an empty buffer for n bytes of what becomes of a body.
	Copy(ctx context.Context, n int) ([]byte, error)
	// Adopt counts b, an allocation of its own, as Copy counts what it returns.
	Adopt(ctx context.Context, b []byte) error
}

// Uncounted is a Memory without bounds.
type Uncounted struct{}

func (Uncounted) Body(_ context.Context, n int) ([]byte, error) { return make([]byte, 0, n), nil }
func (Uncounted) Copy(_ context.Context, n int) ([]byte, error) { return make([]byte, 0, n), nil }
func (Uncounted) Adopt(context.Context, []byte) error           { return nil }

// noRoom is the error of a Memory.
type noRoom struct{ error }

func (e noRoom) Unwrap() error { return e.error }

// NoRoom returns the failure for an error of a [Memory].
func NoRoom(ctx context.Context, err error) *failure.Failure {
	if ctx.Err() != nil {
		return failure.Cancelled()
	}
	return failure.NoRoom(err)
}

const (
	small    = 64 << 10 // up to this size a body of unknown size grows step by step
	moderate = 1 << 20  // the next size; the one after it has room for any body, so that bodies do not wait for each other
)

// readBody reads a body into memory. It reads up to one byte more than limit, so that the
// caller can see that the body is too large. size is the announced size in bytes, -1 if it is
// unknown. limit is in bytes and applies to the decompressed body. Of an error of memory, the first wait is that of ctx.
func readBody(ctx context.Context, memory Memory, r io.Reader, size int64, limit int) ([]byte, error) {
	r = io.LimitReader(r, int64(limit)+1)
	var buf []byte
	grow := func(n int) error {
		next, err := memory.Body(ctx, n)
		if err != nil {
			return noRoom{err}
		}
		buf = append(next, buf...)
		return nil
	}
	first := 4096
	if size >= 0 {
		first = int(size) + 1 // one more byte, to read the end without growing
	}
	if err := grow(first); err != nil {
		return nil, err
	}
	for {
		if n := len(buf); n == cap(buf) {
			var err error
			switch {
			case 2*n <= small:
				buf = slices.Grow(buf, n)
			case n < moderate:
				err = grow(min(moderate, limit+1))
			default:
				err = grow(limit + 1)
			}
			if err != nil {
				return nil, err
			}
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// isNoRoom returns the failure for an error of readBody that came from its Memory, or nil.
func isNoRoom(err error) *failure.Failure {
	if full, is := errors.AsType[noRoom](err); is {
		return failure.NoRoom(full.error)
	}
	return nil
}
