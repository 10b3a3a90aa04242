package exchange

import (
	"unsafe"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// rewrite translates x's message, which is in raw and of class c, with t. A large message is rewritten in
// place if the capacity of raw leaves enough room; otherwise rewrite reserves memory for the copy.
func (x *Exchange) rewrite(t *translate.Translator, raw []byte, c large.Class) (out []byte, v wire.Verdict, err error) {
	m := &x.Msg
	lasts := x.Lasts && c == large.RequestCopy
	if lasts {
		m.Room = -1
	}
	if len(raw) <= large.Size || t.Identity() || m.Kind == wire.Notification {
		out, v, err = t.Rewrite(x.buf[:0], m)
		return x.own(out, raw), v, err
	}
	wait := large.AnswerWait
	if c == large.RequestCopy {
		wait = large.RequestWait
	}
	dst := x.buf[:0]
	if lasts {
		dst, x.Spare = x.Spare, nil
	} else {
		m.Room = cap(raw) - len(raw)
	}
	if cap(dst) < len(raw) && m.Room < large.Growth {
		if dst, err = x.Common.Host.Memory().Alloc(x.Ctx, wait, c, len(raw)); err != nil {
			return nil, wire.Drop, err
		}
	}
	out, v, err = t.Rewrite(dst, m)
	if err == nil && len(out) > 0 && !sameMemory(out, raw) && !sameMemory(out, dst) {
		err = x.Common.Host.Memory().Adopt(x.Ctx, wait, c, out)
	}
	return x.own(out, raw), v, err
}

// sameMemory reports whether two slices begin at the same byte.
func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && unsafe.SliceData(a[:1]) == unsafe.SliceData(b[:1])
}

// own keeps out's buffer for later messages, if it is not raw's. It also notes if buffers have
// become too large to keep.
func (x *Exchange) own(out, raw []byte) []byte {
	if len(out) > 0 && unsafe.SliceData(out) != unsafe.SliceData(raw) {
		x.buf = out[:0]
	}
	x.large = x.large || len(raw) > maxPooled || cap(x.buf) > maxPooled
	return out
}

// Keep returns a copy of a message.
func (x *Exchange) Keep(message []byte) ([]byte, error) {
	return x.Common.Host.Memory().Clone(x.Ctx, large.AnswerWait, large.Copy, message)
}
