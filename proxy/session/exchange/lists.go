package exchange

import (
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// listKey returns the key under which the translation of the answer to c is remembered, if it is a list. ok is false if it
// is not. c may be nil.
func (x *Exchange) listKey(c *session.Call, down *translate.Translator) (key memo.Key, ok bool) {
	if c == nil || x.OwnCall != nil || c.Note != nil {
		return key, false
	}
	if key, ok = memo.KeyOf(down, c.Method, x.Session.Facts); ok && x.Session.Direct == nil { // otherwise, messages get no stamp
		key.Stamp, ok = x.Crossing.ListStamp(x.Common.Now().Config.Bridge.TTL)
	}
	return key, ok
}

// again returns the known translation of raw, if raw is the known answer to x's own request. x.Msg then has only its kind
// and method, and what its translation knew.
func (x *Exchange) again(key memo.Key, raw []byte) (out []byte, ok bool) {
	k := x.Common.Lists.Find(key)
	if k == nil || !k.Is(raw, x.Call.ID) {
		return nil, false
	}
	if key.Method == wire.ToolsList {
		x.noteTools(raw)
	}
	x.id = append(x.id[:0], x.Call.ID...)
	if out, ok = x.fromMemory(k, raw); !ok {
		return nil, false
	}
	x.Msg.Kind, x.Msg.Method = wire.Result, key.Method
	x.Msg.Facts, x.Msg.Stamp, x.Msg.Note = x.Session.Facts, x.Crossing.ToClient(), nil
	x.answered, x.Final, x.Verdict = true, true, metrics.Succeeded
	x.Session.Open.End(x.Call)
	x.remembered(key, k)
	return out, true
}

// fromMemory returns the translation of raw, which is k, for the client. A large one is written over raw if that leaves enough
// room. ok is false if there is no memory for it: then, the translation of raw fails as any other.
func (x *Exchange) fromMemory(k *memo.Answer, raw []byte) (out []byte, ok bool) {
	id := x.Crossing.Rename(x.id)
	if k.Same() && sameMemory(id, x.id) {
		return raw, true
	}
	dst, size := x.buf[:0], k.Size()+len(id)
	switch {
	case size <= large.Size:
	case size <= cap(raw):
		dst = raw[:0]
	default:
		var err error
		if dst, err = x.Common.Host.Memory().Alloc(x.Ctx, large.AnswerWait, large.Copy, size); err != nil {
			return nil, false
		}
	}
	return x.own(k.AppendTranslation(dst, wire.View(id)), raw), true
}

// remembered counts what the known answer k loses.
func (x *Exchange) remembered(key memo.Key, k *memo.Answer) {
	if k.Updated {
		x.noteDialect()
	}
	x.answeredSpan(&x.Msg).Lost(k.Losses)
	x.noteLosses(key.By, key.Method, k.Losses)
	x.Clock.Lap(&x.Clock.Translate)
}
