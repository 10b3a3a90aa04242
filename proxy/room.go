package proxy

import (
	"bytes"
	"unsafe"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// smallGrowth is how many bytes nearly every message grows by at most in translation.
const smallGrowth = 4 << 10

// rewrite is what t makes of x's message, which is of class c. A large one is rewritten
// where it stands, if there is room: it has the capacity of raw for itself.
func (x *exchange) rewrite(t *translate.Translator, raw []byte, c large.Class) (out []byte, v wire.Verdict, err error) {
	m := &x.msg
	if len(raw) <= large.Size || t.Identity() || m.Kind == wire.Notification {
		out, v, err = t.Rewrite(x.buf[:0], m)
		return x.own(out, raw), v, err
	}
	wait := large.AnswerWait
	if c == large.RequestCopy {
		wait = large.RequestWait
	}
	dst := x.buf[:0]
	if m.Room = cap(raw) - len(raw); m.Room < smallGrowth {
		if dst, err = x.srv.memory.Alloc(x.ctx, wait, c, len(raw)); err != nil {
			return nil, wire.Drop, err
		}
	}
	out, v, err = t.Rewrite(dst, m)
	if err == nil && len(out) > 0 && !sameMemory(out, raw) && !sameMemory(out, dst) {
		err = x.srv.memory.Adopt(x.ctx, wait, c, out)
	}
	return x.own(out, raw), v, err
}

// sameMemory reports whether two slices begin at the same byte.
func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && unsafe.SliceData(a[:1]) == unsafe.SliceData(b[:1])
}

// moved is the part of from that stands at the same place in to, a copy of from. What is
// no part of it is cloned.
func moved(part, from, to []byte) []byte {
	if len(part) == 0 || len(from) == 0 {
		return bytes.Clone(part)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(from)))
	if at > uintptr(len(from)) || at+uintptr(len(part)) > uintptr(len(from)) {
		return bytes.Clone(part)
	}
	end := int(at) + len(part)
	return to[at:end:end]
}
