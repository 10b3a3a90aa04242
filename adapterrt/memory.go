package adapterrt

import (
	"context"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// write makes a text of a result its data.
func (rt *Runtime) write(ctx context.Context, r *Result) *failure.Failure {
	if r.plain == nil {
		return nil
	}
	room, err := rt.opt.Memory.Copy(ctx, wire.QuotedLen(r.plain))
	if err != nil {
		return httpcall.NoRoom(ctx, err)
	}
	r.Data, r.plain = wire.AppendQuoted(room, r.plain), nil
	return nil
}

// grow returns b with room for n more bytes.
func (rt *Runtime) grow(ctx context.Context, b []byte, n int) ([]byte, error) {
	if len(b)+n <= cap(b) {
		return b, nil
	}
	more, err := rt.opt.Memory.Copy(ctx, max(len(b)+n, 2*len(b)))
	return append(more, b...), err
}

// adopt counts data, unless it is in the memory of what it was made of.
func (rt *Runtime) adopt(ctx context.Context, data, of []byte) *failure.Failure {
	if wire.Within(data, of) {
		return nil
	}
	if err := rt.opt.Memory.Adopt(ctx, data); err != nil {
		return httpcall.NoRoom(ctx, err)
	}
	return nil
}
