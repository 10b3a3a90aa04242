package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// answers counts the answers of APIs as a server's messages are counted. It implements [httpcall.Memory].
type answers struct{ memory *large.Memory }

func (a answers) Body(ctx context.Context, n int) ([]byte, error) {
	class := large.Whole
	if n <= large.First {
		class = large.Partial
	}
	return a.alloc(ctx, class, n)
}

func (a answers) Copy(ctx context.Context, n int) ([]byte, error) { return a.alloc(ctx, large.Copy, n) }

func (a answers) alloc(ctx context.Context, c large.Class, n int) ([]byte, error) {
	began := time.Now()
	b, err := a.memory.Alloc(ctx, large.AnswerWait, c, n)
	return b, full(err, n, began)
}

func (a answers) Adopt(ctx context.Context, b []byte) error {
	began := time.Now()
	return full(a.memory.Adopt(ctx, large.AnswerWait, large.Copy, b), cap(b), began)
}

// full returns err, or that there was no room for n bytes: the time for a request to the API has ended while it waited for that.
func full(err error, n int, began time.Time) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &large.NoRoomError{Bytes: int64(n), Waited: time.Since(began)}
	}
	return err
}
